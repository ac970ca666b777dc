/* Reading a grammar. Repetitions become rules that recur on the left, which is what costs least to follow. */
#include "base/grow.h"
#include "text/grammar_internal.h"

#include "base/utf8.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Nesting of groups; symbols in all; and of {m,n}, so many. */
enum { GRAMMAR_DEPTH = 100, GRAMMAR_SYMBOLS = 1 << 14, GRAMMAR_TIMES = 1000, GRAMMAR_TOP = 0x10ffff };

typedef struct grammar_reader {
    pco_grammar *grammar;
    const char *at, *end, *name;
    uint32_t line, depth;
    pco_status status;
    pco_error *err;
} grammar_reader;

static void reader_fail(grammar_reader *r, const char *what)
{
    if (!r->status) r->status = pco_fail(r->err, PCO_ERROR_FORMAT, "%s, line %u: %s", r->name, r->line, what);
}

/* Room for one more element of a list; NULL after a failure. */
static void *reader_grow(grammar_reader *r, void *list, uint32_t count, size_t *room, size_t size)
{
    if (count >= GRAMMAR_SYMBOLS) {
        reader_fail(r, "the grammar is too large");
        return NULL;
    }
    void *grown = pco_grow(list, count, room, size);
    if (!grown && !r->status)
        r->status = pco_fail(r->err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a grammar");
    return grown;
}

#define READER_APPEND(r, list, element) \
    do { \
        pco_grammar *all = (r)->grammar; \
        void *grown = reader_grow((r), all->list, all->n_##list, &all->list##_room, sizeof *all->list); \
        if (!grown) break; \
        all->list = grown; \
        all->list[all->n_##list++] = (element); \
    } while (0)

static uint32_t reader_new_rule(grammar_reader *r, const char *name, size_t length)
{
    grammar_rule rule = {.line = r->line};
    if (name && !(rule.name = strndup(name, length))) {
        r->status = pco_fail(r->err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a grammar");
        return 0;
    }
    const uint32_t before = r->grammar->n_rules;
    READER_APPEND(r, rules, rule);
    if (r->grammar->n_rules == before) free(rule.name);
    return before;
}

static uint32_t reader_rule(grammar_reader *r, const char *name, size_t length)
{
    for (uint32_t i = 0; i < r->grammar->n_rules; i++) {
        const char *known = r->grammar->rules[i].name;
        if (known && strlen(known) == length && memcmp(known, name, length) == 0) return i;
    }
    return reader_new_rule(r, name, length);
}

/* A production of a rule, of symbols[count]. */
static void reader_produce(grammar_reader *r, uint32_t rule, const grammar_symbol *symbols, uint32_t count)
{
    pco_grammar *g = r->grammar;
    if (r->status) return;
    if (g->n_productions == 0) READER_APPEND(r, productions, ((grammar_production){0, 0, 0}));
    const grammar_production production = {rule, g->n_symbols, g->rules[rule].productions};
    READER_APPEND(r, productions, production);
    for (uint32_t i = 0; i < count && !r->status; i++) READER_APPEND(r, symbols, symbols[i]);
    if (!r->status) READER_APPEND(r, symbols, ((grammar_symbol){GRAMMAR_END, rule}));
    if (r->status) return;
    g->rules[rule].productions = g->n_productions - 1;
    g->rules[rule].defined = 1;
}

/* ---- characters ---- */

static void reader_space(grammar_reader *r, int lines)
{
    while (r->at < r->end) {
        if (*r->at == '#')
            while (r->at < r->end && *r->at != '\n' && *r->at != '\r') r->at++;
        else if (*r->at == ' ' || *r->at == '\t')
            r->at++;
        else if (lines && (*r->at == '\n' || *r->at == '\r'))
            r->line += *r->at++ == '\n';
        else
            break;
    }
}

static int reader_word_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static uint32_t reader_hex(grammar_reader *r, int digits)
{
    uint32_t value = 0;
    for (; digits > 0; digits--, r->at++) {
        const char c = r->at < r->end ? *r->at : 0;
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0) {
            reader_fail(r, "an escape lacks hexadecimal digits");
            return 0;
        }
        value = value * 16 + (uint32_t)digit;
    }
    if (value > GRAMMAR_TOP) reader_fail(r, "an escape is beyond U+10FFFF");
    return value;
}

/* One character of a literal or a class. */
static uint32_t reader_character(grammar_reader *r)
{
    uint32_t code = 0;
    if (r->at >= r->end || *r->at == '\n' || *r->at == '\r') {
        reader_fail(r, "a literal or class does not end on its line");
        return 0;
    }
    if (*r->at != '\\') {
        const size_t length = pco_utf8_decode(r->at, (size_t)(r->end - r->at), &code);
        if (!length) reader_fail(r, "this is no UTF-8");
        r->at += length;
        return code;
    }
    r->at++;
    const char c = r->at < r->end ? *r->at++ : 0;
    switch (c) {
    case 'x': return reader_hex(r, 2);
    case 'u': return reader_hex(r, 4);
    case 'U': return reader_hex(r, 8);
    case 't': return '\t';
    case 'r': return '\r';
    case 'n': return '\n';
    case '\\':
    case '"':
    case '[':
    case ']':
    case '-':
    case '^': return (unsigned char)c;
    default: reader_fail(r, "an escape is none of \\n \\r \\t \\\\ \\\" \\[ \\] \\xHH \\uHHHH \\UHHHHHHHH"); return 0;
    }
}

static grammar_symbol reader_class_of(grammar_reader *r, uint32_t first_range, int negated)
{
    pco_grammar *g = r->grammar;
    const grammar_class made = {first_range, g->n_ranges - first_range, negated};
    READER_APPEND(r, classes, made);
    return (grammar_symbol){GRAMMAR_CLASS, g->n_classes - 1};
}

static grammar_symbol reader_class(grammar_reader *r)
{
    const uint32_t first = r->grammar->n_ranges;
    const int negated = r->at < r->end && *r->at == '^';
    r->at += negated;
    while (!r->status && (r->at >= r->end || *r->at != ']')) {
        grammar_range range = {.first = reader_character(r)};
        range.last = range.first;
        if (!r->status && r->end - r->at > 1 && r->at[0] == '-' && r->at[1] != ']') {
            r->at++;
            range.last = reader_character(r);
            if (!r->status && range.last < range.first) reader_fail(r, "a range ends before it begins");
        }
        if (!r->status) READER_APPEND(r, ranges, range);
    }
    if (!r->status) r->at++;
    return reader_class_of(r, first, negated);
}

/* ---- rules ---- */

static void reader_alternatives(grammar_reader *r, uint32_t rule, int nested);

/* A list of symbols that grows. */
typedef struct reader_list {
    grammar_symbol *symbols;
    uint32_t count;
    size_t room;
} reader_list;

static void list_append(grammar_reader *r, reader_list *list, grammar_symbol symbol)
{
    grammar_symbol *grown = reader_grow(r, list->symbols, list->count, &list->room, sizeof *list->symbols);
    if (!grown) return;
    list->symbols = grown;
    grown[list->count++] = symbol;
}

/* symbols[count] as one symbol: the one, or a rule of them. */
static grammar_symbol reader_as_one(grammar_reader *r, const grammar_symbol *symbols, uint32_t count)
{
    if (count == 1) return symbols[0];
    const uint32_t rule = reader_new_rule(r, NULL, 0);
    reader_produce(r, rule, symbols, count);
    return (grammar_symbol){GRAMMAR_RULE, rule};
}

static uint64_t reader_number(grammar_reader *r)
{
    uint64_t value = 0;
    if (r->at >= r->end || *r->at < '0' || *r->at > '9') reader_fail(r, "a repetition lacks a number");
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9' && value <= GRAMMAR_TIMES)
        value = value * 10 + (uint64_t)(*r->at++ - '0');
    if (value > GRAMMAR_TIMES) reader_fail(r, "a repetition of more than 1000 times");
    return value;
}

/* What stands behind an item: how often it comes. `most` UINT64_MAX: any number of times. 0 where there is nothing. */
static int reader_times(grammar_reader *r, uint64_t *least, uint64_t *most)
{
    const char c = r->at < r->end ? *r->at : 0;
    *least = c == '+';
    *most = c == '?' ? 1 : UINT64_MAX;
    if (c != '*' && c != '+' && c != '?' && c != '{') return 0;
    r->at++;
    if (c != '{') return 1;
    reader_space(r, 0);
    *least = *most = reader_number(r);
    reader_space(r, 0);
    if (!r->status && r->at < r->end && *r->at == ',') {
        r->at++;
        reader_space(r, 0);
        *most = r->at < r->end && *r->at == '}' ? UINT64_MAX : reader_number(r);
        reader_space(r, 0);
    }
    if (!r->status && (r->at >= r->end || *r->at != '}')) reader_fail(r, "a repetition lacks its '}'");
    if (!r->status && *most < *least) reader_fail(r, "a repetition has less at most than at least");
    r->at++;
    return 1;
}

/* The symbols of `list` from `from` on, so many times. */
static void reader_repeat(grammar_reader *r, reader_list *list, uint32_t from, uint64_t least, uint64_t most)
{
    if (list->count == from) return; /* an empty literal, as often as one likes */
    const grammar_symbol item = reader_as_one(r, list->symbols + from, list->count - from);
    list->count = from;
    for (uint64_t i = 0; i < least && !r->status; i++) list_append(r, list, item);
    if (r->status || most == least) return;
    const grammar_symbol rest = {GRAMMAR_RULE, reader_new_rule(r, NULL, 0)};
    if (most == UINT64_MAX) { /* rest ::= | rest item */
        reader_produce(r, rest.index, NULL, 0);
        reader_produce(r, rest.index, (grammar_symbol[]){rest, item}, 2);
        list_append(r, list, rest);
        return;
    }
    reader_produce(r, rest.index, NULL, 0); /* rest ::= | item, so many times */
    reader_produce(r, rest.index, &item, 1);
    for (uint64_t i = least; i < most && !r->status; i++) list_append(r, list, rest);
}

static void reader_literal(grammar_reader *r, reader_list *list)
{
    while (!r->status && (r->at >= r->end || *r->at != '"')) {
        const uint32_t first = r->grammar->n_ranges, code = reader_character(r);
        if (r->status) return;
        READER_APPEND(r, ranges, ((grammar_range){code, code}));
        list_append(r, list, reader_class_of(r, first, 0));
    }
    if (!r->status) r->at++;
}

static void reader_group(grammar_reader *r, reader_list *list)
{
    if (++r->depth > GRAMMAR_DEPTH) reader_fail(r, "groups are nested too deeply");
    const uint32_t rule = reader_new_rule(r, NULL, 0);
    reader_space(r, 1);
    if (!r->status) reader_alternatives(r, rule, 1);
    if (!r->status && (r->at >= r->end || *r->at != ')')) reader_fail(r, "a group lacks its ')'");
    if (!r->status) r->at++;
    r->depth--;
    list_append(r, list, (grammar_symbol){GRAMMAR_RULE, rule});
}

/* An item, and what repeats it. 0 where none begins. */
static int reader_item(grammar_reader *r, reader_list *list)
{
    const uint32_t from = list->count, ranges = r->grammar->n_ranges;
    const char c = r->at < r->end ? *r->at : 0;
    uint64_t least, most;
    if (c == '"' || c == '[' || c == '(' || c == '.') r->at++;
    if (c == '"') {
        reader_literal(r, list);
    } else if (c == '[') {
        list_append(r, list, reader_class(r));
    } else if (c == '.') {
        READER_APPEND(r, ranges, ((grammar_range){0, GRAMMAR_TOP}));
        list_append(r, list, reader_class_of(r, ranges, 0));
    } else if (c == '(') {
        reader_group(r, list);
    } else if (reader_word_byte(c)) {
        const char *name = r->at;
        while (r->at < r->end && reader_word_byte(*r->at)) r->at++;
        list_append(r, list, (grammar_symbol){GRAMMAR_RULE, reader_rule(r, name, (size_t)(r->at - name))});
    } else {
        return 0;
    }
    reader_space(r, r->depth > 0);
    while (!r->status && reader_times(r, &least, &most)) {
        if (!r->status) reader_repeat(r, list, from, least, most);
        reader_space(r, r->depth > 0);
    }
    return 1;
}

/* Up to what ends them: a line, or a group's ')'. */
static void reader_alternatives(grammar_reader *r, uint32_t rule, int nested)
{
    int more = 1;
    while (more && !r->status) {
        reader_list list = {0};
        while (!r->status && reader_item(r, &list)) continue;
        reader_produce(r, rule, list.symbols, list.count);
        free(list.symbols);
        more = r->at < r->end && *r->at == '|';
        if (!more) break;
        r->at++;
        reader_space(r, 1);
    }
    if (r->status || nested || r->at >= r->end || *r->at == '\n' || *r->at == '\r') return;
    reader_fail(r, "this is no literal, class, name, group or '|'");
}

static void reader_definition(grammar_reader *r)
{
    const char *name = r->at;
    while (r->at < r->end && reader_word_byte(*r->at)) r->at++;
    const size_t length = (size_t)(r->at - name);
    reader_space(r, 0);
    if (!length || r->end - r->at < 3 || memcmp(r->at, "::=", 3) != 0) {
        reader_fail(r, "a rule is 'name ::= ...'");
        return;
    }
    r->at += 3;
    const uint32_t rule = reader_rule(r, name, length);
    if (!r->status && r->grammar->rules[rule].defined) reader_fail(r, "this rule was defined before");
    reader_space(r, 1);
    if (!r->status) reader_alternatives(r, rule, 0);
}

/* ---- the whole ---- */

/* Which rules may be empty: until nothing changes. */
static void reader_nullable(pco_grammar *g)
{
    for (int changed = 1; changed;) {
        changed = 0;
        for (uint32_t p = 1; p < g->n_productions; p++) {
            const grammar_symbol *s = g->symbols + g->productions[p].symbol;
            while (s->kind == GRAMMAR_RULE && g->rules[s->index].nullable) s++;
            if (s->kind != GRAMMAR_END || g->rules[s->index].nullable) continue;
            g->rules[s->index].nullable = changed = 1;
        }
    }
}

static void reader_check(grammar_reader *r)
{
    pco_grammar *g = r->grammar;
    uint32_t root = g->n_rules;
    for (uint32_t i = 0; i < g->n_rules; i++) {
        if (g->rules[i].name && strcmp(g->rules[i].name, "root") == 0) root = i;
        if (g->rules[i].defined) continue;
        r->status = pco_fail(r->err, PCO_ERROR_FORMAT, "%s, line %u: the rule '%.64s' is not defined", r->name,
                             g->rules[i].line, g->rules[i].name ? g->rules[i].name : "");
        return;
    }
    g->root = root;
    if (root == g->n_rules) r->status = pco_fail(r->err, PCO_ERROR_FORMAT, "%s has no rule 'root'", r->name);
}

pco_status pco_grammar_parse(const char *text, size_t size, const char *name, pco_grammar **grammar, pco_error *err)
{
    *grammar = NULL;
    grammar_reader r = {.at = text, .end = text + size, .name = name, .line = 1, .err = err};
    r.grammar = calloc(1, sizeof *r.grammar);
    if (!r.grammar) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a grammar");
    reader_space(&r, 1);
    while (!r.status && r.at < r.end) {
        reader_definition(&r);
        reader_space(&r, 1);
    }
    if (!r.status) reader_check(&r);
    if (r.status) {
        pco_grammar_destroy(r.grammar);
        return r.status;
    }
    reader_nullable(r.grammar);
    *grammar = r.grammar;
    return PCO_OK;
}

void pco_grammar_destroy(pco_grammar *g)
{
    if (!g) return;
    for (uint32_t i = 0; i < g->n_rules; i++) free(g->rules[i].name);
    free(g->rules);
    free(g->classes);
    free(g->ranges);
    free(g->productions);
    free(g->symbols);
    free(g);
}
