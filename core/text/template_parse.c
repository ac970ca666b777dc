/* Expressions of a template: from tokens to nodes. Precedence as in Jinja, from low to high: if, or, and, not,
 * comparisons, + -, ~, * / // %, **, signs, filters and tests. */
#include "text/template_parts.h"

#include <stdarg.h>
#include <stdio.h>

pco_status tpl_error(tpl_parser *parser, pco_status status, const char *format, ...)
{
    char what[300];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return pco_fail(parser->err, status, "%s: chat template, line %u: %s", parser->made->label, parser->at->line, what);
}

/* NULL when the host has no memory: the parser ends there. */
tpl_node *tpl_new(tpl_parser *parser, tpl_node_kind kind)
{
    tpl_node *node = pco_arena_allocate(&parser->made->arena, sizeof *node);
    if (!node) {
        pco_fail(parser->err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a template");
        return NULL;
    }
    node->kind = kind;
    node->line = parser->at->line;
    return node;
}

#define PARSE_NEW(node, parser, kind) \
    do { \
        if (!((node) = tpl_new(parser, kind))) return PCO_ERROR_OUT_OF_HOST_MEMORY; \
    } while (0)

const tpl_token *tpl_advance(tpl_parser *parser)
{
    const tpl_token *taken = parser->at;
    parser->at = taken->next;
    return taken;
}

int tpl_at_name(const tpl_parser *parser, const char *name)
{
    return parser->at->kind == TPL_TOKEN_NAME && tpl_is(parser->at->text, name);
}

int tpl_at_operator(const tpl_parser *parser, const char *sign)
{
    return parser->at->kind == TPL_TOKEN_OPERATOR && tpl_is(parser->at->text, sign);
}

int tpl_skip_name(tpl_parser *parser, const char *name)
{
    if (!tpl_at_name(parser, name)) return 0;
    tpl_advance(parser);
    return 1;
}

int tpl_skip_operator(tpl_parser *parser, const char *sign)
{
    if (!tpl_at_operator(parser, sign)) return 0;
    tpl_advance(parser);
    return 1;
}

static pco_status parse_unexpected(tpl_parser *parser, const char *wanted)
{
    static const char *const ends[] = {
        [TPL_TOKEN_BLOCK_END] = "%}", [TPL_TOKEN_VARIABLE_END] = "}}", [TPL_TOKEN_END] = "the end of the template"};
    const tpl_token *at = parser->at;
    if (at->kind == TPL_TOKEN_BLOCK_END || at->kind == TPL_TOKEN_VARIABLE_END || at->kind == TPL_TOKEN_END)
        return tpl_error(parser, PCO_ERROR_FORMAT, "expected %s, found %s", wanted, ends[at->kind]);
    return tpl_error(parser, PCO_ERROR_FORMAT, "expected %s, found '%.*s'", wanted, TPL_SHOW(at->text));
}

pco_status tpl_expect(tpl_parser *parser, const char *sign)
{
    char wanted[16];
    if (tpl_skip_operator(parser, sign)) return PCO_OK;
    snprintf(wanted, sizeof wanted, "'%s'", sign);
    return parse_unexpected(parser, wanted);
}

pco_status tpl_expect_name(tpl_parser *parser, tpl_text *name)
{
    if (parser->at->kind != TPL_TOKEN_NAME) return parse_unexpected(parser, "a name");
    *name = tpl_advance(parser)->text;
    return PCO_OK;
}

pco_status tpl_enter(tpl_parser *parser)
{
    if (parser->nesting++ < TPL_NESTING) return PCO_OK;
    return tpl_error(parser, PCO_ERROR_UNSUPPORTED, "it is nested more than %d deep", TPL_NESTING);
}

void tpl_leave(tpl_parser *parser) { parser->nesting--; }

/* Of operators and subscripts in a row, which make a tree as deep as they are many. */
static pco_status parse_link(tpl_parser *parser, unsigned *links)
{
    if (++*links < TPL_CHAIN) return PCO_OK;
    return tpl_error(parser, PCO_ERROR_UNSUPPORTED, "an expression has more than %d operators in a row", TPL_CHAIN);
}

/* ---- primaries ---- */

static pco_status parse_strings(tpl_parser *parser, tpl_node *node)
{
    const tpl_token *first = parser->at;
    size_t size = 0;
    while (parser->at->kind == TPL_TOKEN_STRING) size += tpl_advance(parser)->text.size;
    node->value = tpl_string(first->text);
    if (parser->at == first->next) return PCO_OK;
    char *joined = pco_arena_allocate(&parser->made->arena, size + 1);
    if (!joined) return pco_fail(parser->err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a template");
    node->value.text = (tpl_text){joined, size};
    for (const tpl_token *at = first; at != parser->at; at = at->next) {
        memcpy(joined, at->text.data, at->text.size);
        joined += at->text.size;
    }
    return PCO_OK;
}

static void parse_name(tpl_parser *parser, tpl_node *node)
{
    const tpl_text name = tpl_advance(parser)->text;
    if (tpl_is(name, "true") || tpl_is(name, "True"))
        node->value = tpl_bool(1);
    else if (tpl_is(name, "false") || tpl_is(name, "False"))
        node->value = tpl_bool(0);
    else if (tpl_is(name, "none") || tpl_is(name, "None"))
        node->value = tpl_none();
    else {
        node->kind = TPL_NAME;
        node->name = name;
    }
}

/* [a, b], up to `end`. */
static pco_status parse_list(tpl_parser *parser, tpl_node *node)
{
    tpl_node **next = &node->items;
    node->kind = TPL_ITEMS;
    node->value.kind = TPL_LIST;
    for (tpl_advance(parser); !tpl_skip_operator(parser, "]"); next = &(*next)->next) {
        pco_status status = node->items ? tpl_expect(parser, ",") : PCO_OK;
        if (!status && node->items && tpl_skip_operator(parser, "]")) break;
        if (!status) status = tpl_parse_expression(parser, next);
        if (status) return status;
    }
    return PCO_OK;
}

static pco_status parse_dict(tpl_parser *parser, tpl_node *node)
{
    tpl_node **next = &node->items;
    node->kind = TPL_PAIRS;
    for (tpl_advance(parser); !tpl_skip_operator(parser, "}");) {
        pco_status status = node->items ? tpl_expect(parser, ",") : PCO_OK;
        if (!status && node->items && tpl_skip_operator(parser, "}")) break;
        if (!status) status = tpl_parse_expression(parser, next);
        if (!status) status = tpl_expect(parser, ":");
        if (!status) status = tpl_parse_expression(parser, &(*next)->next);
        if (status) return status;
        next = &(*next)->next->next;
    }
    return PCO_OK;
}

static pco_status parse_parentheses(tpl_parser *parser, tpl_node **made)
{
    tpl_advance(parser);
    if (tpl_skip_operator(parser, ")")) {
        PARSE_NEW(*made, parser, TPL_ITEMS);
        (*made)->value.kind = TPL_TUPLE;
        return PCO_OK;
    }
    pco_status status = tpl_parse_tuple(parser, 1, made);
    return status ? status : tpl_expect(parser, ")");
}

static pco_status parse_primary(tpl_parser *parser, tpl_node **made)
{
    const tpl_token *at = parser->at;
    if (tpl_at_operator(parser, "(")) return parse_parentheses(parser, made);
    tpl_node *node;
    PARSE_NEW(node, parser, TPL_CONSTANT);
    *made = node;
    switch (at->kind) {
    case TPL_TOKEN_NAME: parse_name(parser, node); return PCO_OK;
    case TPL_TOKEN_STRING: return parse_strings(parser, node);
    case TPL_TOKEN_INTEGER: node->value = tpl_int(at->integer); break;
    case TPL_TOKEN_FLOAT: node->value = tpl_float(at->number); break;
    default:
        if (tpl_at_operator(parser, "[")) return parse_list(parser, node);
        if (tpl_at_operator(parser, "{")) return parse_dict(parser, node);
        return parse_unexpected(parser, "an expression");
    }
    tpl_advance(parser);
    return PCO_OK;
}

/* ---- what stands behind a primary ---- */

/* (a, b, name=c): *items in a list. */
static pco_status parse_arguments(tpl_parser *parser, tpl_node **items)
{
    tpl_node **next = items;
    int named = 0;
    for (tpl_advance(parser); !tpl_skip_operator(parser, ")"); next = &(*next)->next) {
        tpl_text name = {NULL, 0};
        pco_status status = *items ? tpl_expect(parser, ",") : PCO_OK;
        if (!status && *items && tpl_skip_operator(parser, ")")) break;
        if (!status && (tpl_at_operator(parser, "*") || tpl_at_operator(parser, "**")))
            return tpl_error(parser, PCO_ERROR_UNSUPPORTED, "arguments with '*' are not supported");
        if (!status && parser->at->kind == TPL_TOKEN_NAME && parser->at->next->kind == TPL_TOKEN_OPERATOR &&
            tpl_is(parser->at->next->text, "=")) {
            name = parser->at->text;
            tpl_advance(parser);
            tpl_advance(parser);
        } else if (!status && named) {
            return tpl_error(parser, PCO_ERROR_FORMAT, "an argument without a name stands behind one with a name");
        }
        if (!status) status = tpl_parse_expression(parser, next);
        if (status) return status;
        named = name.data != NULL;
        if (!named) continue;
        tpl_node *argument = *next; /* a name of its own: the expression may be a NAME */
        PARSE_NEW(*next, parser, TPL_SET);
        (*next)->name = name;
        (*next)->a = argument;
    }
    return PCO_OK;
}

/* [a], [a:b], [a:b:c], [:b] */
static pco_status parse_subscript(tpl_parser *parser, tpl_node *node)
{
    tpl_node *parts[3] = {NULL};
    int part = 0;
    tpl_advance(parser);
    node->kind = TPL_ITEM;
    while (!tpl_at_operator(parser, "]")) {
        if (tpl_at_operator(parser, ":")) {
            node->kind = TPL_SLICE;
            tpl_advance(parser);
            if (++part > 2) return parse_unexpected(parser, "']'");
            continue;
        }
        if (parts[part]) return tpl_expect(parser, "]");
        pco_status status = tpl_parse_expression(parser, &parts[part]);
        if (status) return status;
    }
    if (node->kind == TPL_ITEM) node->b = parts[0];
    if (node->kind == TPL_ITEM && !node->b) return parse_unexpected(parser, "an expression");
    for (int i = 0; i < 3 && node->kind == TPL_SLICE; i++) {
        if (!parts[i]) {
            PARSE_NEW(parts[i], parser, TPL_CONSTANT);
            parts[i]->value = tpl_none();
        }
        if (i) parts[i - 1]->next = parts[i];
        node->items = parts[0];
    }
    tpl_advance(parser);
    return PCO_OK;
}

static pco_status parse_dot(tpl_parser *parser, tpl_node *node)
{
    tpl_advance(parser);
    if (parser->at->kind == TPL_TOKEN_NAME) {
        node->kind = TPL_ATTRIBUTE;
        node->name = tpl_advance(parser)->text;
        return PCO_OK;
    }
    if (parser->at->kind != TPL_TOKEN_INTEGER) return parse_unexpected(parser, "a name");
    node->kind = TPL_ITEM;
    return parse_primary(parser, &node->b);
}

/* .name, [key] and (arguments). */
static pco_status parse_postfix(tpl_parser *parser, tpl_node **made)
{
    unsigned links = 0;
    pco_status status = PCO_OK;
    while (!status) {
        const int dot = tpl_at_operator(parser, "."), item = tpl_at_operator(parser, "[");
        if (!dot && !item && !tpl_at_operator(parser, "(")) return PCO_OK;
        tpl_node *node;
        PARSE_NEW(node, parser, TPL_CALL);
        node->a = *made;
        *made = node;
        status = parse_link(parser, &links);
        if (!status)
            status = dot    ? parse_dot(parser, node)
                     : item ? parse_subscript(parser, node)
                            : parse_arguments(parser, &node->items);
    }
    return status;
}

static pco_status parse_test(tpl_parser *parser, tpl_node **made)
{
    tpl_node *node, *negated;
    PARSE_NEW(node, parser, TPL_TEST);
    tpl_advance(parser);
    const int no = tpl_skip_name(parser, "not");
    node->a = *made;
    pco_status status = tpl_expect_name(parser, &node->name);
    const tpl_token_kind kind = parser->at->kind;
    if (!status && tpl_at_operator(parser, "("))
        status = parse_arguments(parser, &node->items);
    else if (!status && (kind == TPL_TOKEN_STRING || kind == TPL_TOKEN_INTEGER || kind == TPL_TOKEN_FLOAT ||
                         tpl_at_operator(parser, "[") || tpl_at_operator(parser, "{") ||
                         (kind == TPL_TOKEN_NAME && !tpl_at_name(parser, "else") && !tpl_at_name(parser, "or") &&
                          !tpl_at_name(parser, "and")))) {
        if (tpl_at_name(parser, "is")) return tpl_error(parser, PCO_ERROR_FORMAT, "tests cannot be chained");
        status = parse_primary(parser, &node->items);
        if (!status) status = parse_postfix(parser, &node->items);
    }
    *made = node;
    if (status || !no) return status;
    PARSE_NEW(negated, parser, TPL_UNARY);
    negated->sign = "not";
    negated->a = node;
    *made = negated;
    return PCO_OK;
}

pco_status tpl_parse_filters(tpl_parser *parser, int begun, tpl_node **a)
{
    unsigned links = 0;
    while (begun || tpl_at_operator(parser, "|")) {
        tpl_node *node;
        PARSE_NEW(node, parser, TPL_FILTER);
        if (!begun) tpl_advance(parser);
        begun = 0;
        node->a = *a;
        *a = node;
        pco_status status = parse_link(parser, &links);
        if (!status) status = tpl_expect_name(parser, &node->name);
        if (!status && tpl_at_operator(parser, "(")) status = parse_arguments(parser, &node->items);
        if (status) return status;
    }
    return PCO_OK;
}

/* Filters, tests and calls behind an expression. */
static pco_status parse_behind(tpl_parser *parser, tpl_node **made)
{
    unsigned links = 0;
    pco_status status = PCO_OK;
    while (!status) {
        if (tpl_at_operator(parser, "|"))
            status = tpl_parse_filters(parser, 0, made);
        else if (tpl_at_name(parser, "is"))
            status = parse_test(parser, made);
        else if (tpl_at_operator(parser, "(")) {
            tpl_node *node;
            PARSE_NEW(node, parser, TPL_CALL);
            node->a = *made;
            *made = node;
            status = parse_arguments(parser, &node->items);
        } else {
            return PCO_OK;
        }
        if (!status) status = parse_link(parser, &links);
    }
    return status;
}

/* ---- operators ---- */

static pco_status parse_unary(tpl_parser *parser, int with_filters, tpl_node **made)
{
    pco_status status = tpl_enter(parser);
    if (status) return status;
    if (tpl_at_operator(parser, "-") || tpl_at_operator(parser, "+")) {
        tpl_node *node;
        PARSE_NEW(node, parser, TPL_UNARY);
        node->sign = tpl_advance(parser)->text.data;
        *made = node;
        status = parse_unary(parser, 0, &node->a);
    } else {
        status = parse_primary(parser, made);
        if (!status) status = parse_postfix(parser, made);
    }
    if (!status && with_filters) status = parse_behind(parser, made);
    tpl_leave(parser);
    return status;
}

/* The operators of each level, weakest first; all of them go from left to right, ** too. */
static const char *const parse_levels[][5] = {{"+", "-"}, {"~"}, {"*", "/", "//", "%"}, {"**"}};
enum { PARSE_LEVELS = sizeof parse_levels / sizeof *parse_levels };

/* The sign of the level that is next, as a literal; NULL: another one. */
static const char *parse_operator(const tpl_parser *parser, const char *const operators[])
{
    for (int i = 0; operators[i]; i++)
        if (tpl_at_operator(parser, operators[i])) return operators[i];
    return NULL;
}

static pco_status parse_binary(tpl_parser *parser, unsigned level, tpl_node **made)
{
    if (level == PARSE_LEVELS) return parse_unary(parser, 1, made);
    unsigned links = 0;
    pco_status status = parse_binary(parser, level + 1, made);
    const char *sign;
    while (!status && (sign = parse_operator(parser, parse_levels[level]))) {
        const int concat = *sign == '~', more = concat && links;
        tpl_node *node = *made;
        status = parse_link(parser, &links);
        if (!more) PARSE_NEW(node, parser, concat ? TPL_CONCAT : TPL_BINARY);
        tpl_advance(parser);
        if (!more && concat)
            node->items = node->b = *made; /* b: the last one */
        else if (!more)
            node->a = *made;
        node->sign = sign;
        tpl_node **to = concat ? &node->b->next : &node->b;
        *made = node;
        if (!status) status = parse_binary(parser, level + 1, to);
        if (concat) node->b = *to;
    }
    return status;
}

static pco_status parse_compare(tpl_parser *parser, tpl_node **made)
{
    static const char *const operators[] = {"==", "!=", "<", "<=", ">", ">=", NULL};
    tpl_node **next = NULL;
    pco_status status = parse_binary(parser, 0, made);
    while (!status) {
        const char *sign = parse_operator(parser, operators);
        const int no = tpl_at_name(parser, "not") && parser->at->next->kind == TPL_TOKEN_NAME &&
                       tpl_is(parser->at->next->text, "in");
        if (!sign && no) sign = "not in";
        if (!sign && tpl_at_name(parser, "in")) sign = "in";
        if (!sign) return PCO_OK;
        if (!next) {
            tpl_node *node;
            PARSE_NEW(node, parser, TPL_COMPARE);
            node->a = *made;
            *made = node;
            next = &node->items;
        }
        if (no) tpl_advance(parser);
        tpl_advance(parser);
        /* a name of its own, as parts may be COMPAREs in parentheses */
        PARSE_NEW(*next, parser, TPL_SET);
        (*next)->sign = sign;
        status = parse_binary(parser, 0, &(*next)->a);
        next = &(*next)->next;
    }
    return status;
}

static pco_status parse_not(tpl_parser *parser, tpl_node **made)
{
    tpl_node *node;
    if (!tpl_at_name(parser, "not")) return parse_compare(parser, made);
    pco_status status = tpl_enter(parser);
    PARSE_NEW(node, parser, TPL_UNARY);
    tpl_advance(parser);
    node->sign = "not";
    *made = node;
    if (!status) status = parse_not(parser, &node->a);
    tpl_leave(parser);
    return status;
}

static pco_status parse_logic(tpl_parser *parser, int is_or, tpl_node **made)
{
    unsigned links = 0;
    pco_status status = is_or ? parse_logic(parser, 0, made) : parse_not(parser, made);
    while (!status && tpl_at_name(parser, is_or ? "or" : "and")) {
        tpl_node *node;
        PARSE_NEW(node, parser, is_or ? TPL_OR : TPL_AND);
        tpl_advance(parser);
        node->a = *made;
        *made = node;
        status = parse_link(parser, &links);
        if (!status) status = is_or ? parse_logic(parser, 0, &node->b) : parse_not(parser, &node->b);
    }
    return status;
}

pco_status tpl_parse_plain(tpl_parser *parser, int with_choice, tpl_node **made)
{
    unsigned links = 0;
    pco_status status = tpl_enter(parser);
    *made = NULL;
    if (!status) status = parse_logic(parser, 1, made);
    while (!status && with_choice && tpl_at_name(parser, "if")) {
        tpl_node *node;
        PARSE_NEW(node, parser, TPL_CHOICE);
        tpl_advance(parser);
        node->a = *made;
        *made = node;
        status = parse_link(parser, &links);
        if (!status) status = parse_logic(parser, 1, &node->b);
        if (!status && tpl_skip_name(parser, "else")) status = tpl_parse_expression(parser, &node->c);
    }
    tpl_leave(parser);
    return status;
}

pco_status tpl_parse_expression(tpl_parser *parser, tpl_node **made) { return tpl_parse_plain(parser, 1, made); }

pco_status tpl_parse_tuple(tpl_parser *parser, int with_choice, tpl_node **made)
{
    pco_status status = tpl_parse_plain(parser, with_choice, made);
    if (status || !tpl_at_operator(parser, ",")) return status;
    tpl_node *node, **next;
    PARSE_NEW(node, parser, TPL_ITEMS);
    node->value.kind = TPL_TUPLE;
    node->items = *made;
    next = &node->items->next;
    *made = node;
    while (!status && tpl_skip_operator(parser, ",")) {
        const tpl_token *at = parser->at;
        if (at->kind == TPL_TOKEN_BLOCK_END || at->kind == TPL_TOKEN_VARIABLE_END || tpl_at_operator(parser, ")"))
            break;
        status = tpl_parse_plain(parser, with_choice, next);
        if (!status) next = &(*next)->next;
    }
    return status;
}
