/* Following a text: for each character a set of items, each a place in a production and the set in which that began. */
#include "base/grow.h"
#include "text/grammar_internal.h"

#include <stdlib.h>
#include <string.h>

/* Items in all, and in one set; buckets of the table that finds an item of the newest set. */
enum { TEXT_ITEMS = 1 << 22, TEXT_SET = 1 << 12, TEXT_BUCKETS = 1 << 13 };

typedef struct text_item {
    uint32_t at, origin; /* symbol; set */
} text_item;

/* After each byte: the set, and what there is of a character that is not whole. */
typedef struct text_byte {
    uint32_t set;
    uint32_t partial;            /* its bits so far */
    unsigned char missing, have; /* bytes */
} text_byte;

typedef struct text_bucket {
    uint32_t at, origin, stamp;
} text_bucket;

struct pco_grammar_text {
    const pco_grammar *grammar;
    text_item *items;
    uint32_t *sets; /* where each begins; sets[n_sets] is the end */
    text_byte *bytes;
    text_bucket *buckets; /* [TEXT_BUCKETS] */
    uint32_t n_items, n_sets, stamp;
    size_t n_bytes, bytes_room, items_room, sets_room;
    pco_status status;
    pco_error *err;
};

static void *text_grow(pco_grammar_text *t, void *list, size_t count, size_t *room, size_t size)
{
    void *grown = pco_grow(list, count, room, size);
    if (!grown) t->status = pco_fail(t->err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory to follow a grammar");
    return grown;
}

/* An item of the set that is being made, once. */
static void text_add(pco_grammar_text *t, uint32_t at, uint32_t origin)
{
    if (t->status) return;
    uint32_t i = (at * 2654435761u ^ origin * 2246822519u) >> 7;
    for (;; i++) {
        text_bucket *b = &t->buckets[i %= TEXT_BUCKETS];
        if (b->stamp == t->stamp && b->at == at && b->origin == origin) return;
        if (b->stamp == t->stamp) continue;
        *b = (text_bucket){at, origin, t->stamp};
        break;
    }
    text_item *items = text_grow(t, t->items, t->n_items, &t->items_room, sizeof *items);
    if (!items) return;
    t->items = items;
    if (t->n_items >= TEXT_ITEMS || t->n_items - t->sets[t->n_sets] >= TEXT_SET) {
        t->status = pco_fail(t->err, PCO_ERROR_INVALID,
                             "the grammar leaves too much open: it can be read in too many ways, or recurs on the "
                             "right for too long; write repetitions as *");
        return;
    }
    t->items[t->n_items++] = (text_item){at, origin};
}

static void text_predict(pco_grammar_text *t, const text_item *item, uint32_t rule)
{
    const pco_grammar *g = t->grammar;
    for (uint32_t p = g->rules[rule].productions; p; p = g->productions[p].next)
        text_add(t, g->productions[p].symbol, t->n_sets);
    if (g->rules[rule].nullable) text_add(t, item->at + 1, item->origin);
}

/* What waited for the rule that has ended, where that began. In its own set only an empty text has, which those who
 * wait know already. */
static void text_finish(pco_grammar_text *t, const text_item *item, uint32_t rule)
{
    const grammar_symbol *symbols = t->grammar->symbols;
    if (item->origin == t->n_sets) return;
    for (uint32_t i = t->sets[item->origin]; i < t->sets[item->origin + 1] && !t->status; i++) {
        const text_item waiting = t->items[i];
        if (symbols[waiting.at].kind == GRAMMAR_RULE && symbols[waiting.at].index == rule)
            text_add(t, waiting.at + 1, waiting.origin);
    }
}

/* Completes the set that has been begun. */
static void text_close(pco_grammar_text *t)
{
    for (uint32_t i = t->sets[t->n_sets]; i < t->n_items && !t->status; i++) {
        const text_item item = t->items[i];
        const grammar_symbol symbol = t->grammar->symbols[item.at];
        if (symbol.kind == GRAMMAR_RULE) text_predict(t, &item, symbol.index);
        if (symbol.kind == GRAMMAR_END) text_finish(t, &item, symbol.index);
    }
    if (!t->status) t->sets[++t->n_sets] = t->n_items;
}

/* Room for one more set. */
static int text_begin_set(pco_grammar_text *t)
{
    uint32_t *sets = text_grow(t, t->sets, (size_t)t->n_sets + 2, &t->sets_room, sizeof *sets);
    if (!sets) return 0;
    t->sets = sets;
    t->sets[t->n_sets] = t->n_items;
    if (++t->stamp == 0) {
        memset(t->buckets, 0, TEXT_BUCKETS * sizeof *t->buckets);
        t->stamp = 1;
    }
    return 1;
}

/* Has the class a character from `first` to `last`? */
static int text_class_has(const pco_grammar *g, uint32_t index, uint32_t first, uint32_t last)
{
    const grammar_class *c = &g->classes[index];
    if (first == last || !c->negated) {
        int inside = 0;
        for (uint32_t i = 0; i < c->count && !inside; i++)
            inside = g->ranges[c->first + i].first <= last && g->ranges[c->first + i].last >= first;
        return inside != c->negated;
    }
    for (uint32_t at = first; at <= last;) { /* a negated class: is anything not covered? */
        uint32_t beyond = at;
        for (uint32_t i = 0; i < c->count; i++)
            if (g->ranges[c->first + i].first <= at && g->ranges[c->first + i].last >= beyond)
                beyond = g->ranges[c->first + i].last + 1;
        if (beyond == at) return 1;
        at = beyond;
    }
    return 0;
}

/* Moves over a character, in a new set; or asks whether one from `first` to `last` may come. */
static int text_scan(pco_grammar_text *t, uint32_t first, uint32_t last, int move)
{
    const pco_grammar *g = t->grammar;
    const uint32_t begin = t->sets[t->n_sets - 1], end = t->sets[t->n_sets];
    int found = 0;
    for (uint32_t i = begin; i < end && !t->status && (move || !found); i++) {
        const text_item item = t->items[i];
        const grammar_symbol symbol = g->symbols[item.at];
        if (symbol.kind != GRAMMAR_CLASS || !text_class_has(g, symbol.index, first, last)) continue;
        if (!found && move && !text_begin_set(t)) return 0;
        found = 1;
        if (move) text_add(t, item.at + 1, item.origin);
    }
    if (found && move && !t->status) text_close(t);
    return found && !t->status;
}

pco_status pco_grammar_begin(const pco_grammar *grammar, pco_grammar_text **text, pco_error *err)
{
    pco_grammar_text *t = *text = calloc(1, sizeof *t);
    if (t) t->buckets = calloc(TEXT_BUCKETS, sizeof *t->buckets);
    if (!t || !t->buckets) {
        pco_grammar_end(t);
        *text = NULL;
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory to follow a grammar");
    }
    t->grammar = grammar;
    t->err = err;
    if (text_begin_set(t)) {
        for (uint32_t p = grammar->rules[grammar->root].productions; p; p = grammar->productions[p].next)
            text_add(t, grammar->productions[p].symbol, 0);
        if (!t->status) text_close(t);
    }
    const pco_status status = t->status;
    if (status) {
        pco_grammar_end(t);
        *text = NULL;
    }
    return status;
}

void pco_grammar_end(pco_grammar_text *t)
{
    if (!t) return;
    free(t->items);
    free(t->sets);
    free(t->bytes);
    free(t->buckets);
    free(t);
}

size_t pco_grammar_size(const pco_grammar_text *t) { return t->n_bytes; }

void pco_grammar_cut(pco_grammar_text *t, size_t size)
{
    if (size >= t->n_bytes) return;
    t->n_bytes = size;
    t->n_sets = size ? t->bytes[size - 1].set : 1;
    t->n_items = t->sets[t->n_sets];
}

/* One more byte of UTF-8 behind `b`. 0 for what no text has there (overlong forms, surrogates and more are caught where
 * the character is whole, or by the least and the greatest that it can become). */
static int text_next_byte(text_byte *b, unsigned char byte, uint32_t *first, uint32_t *last)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (!b->missing) {
        const int length = byte < 0x80                   ? 1
                           : byte >= 0xc2 && byte < 0xe0 ? 2
                           : byte >= 0xe0 && byte < 0xf0 ? 3
                           : byte >= 0xf0 && byte < 0xf5 ? 4
                                                         : 0;
        if (!length) return 0;
        b->partial = length == 1 ? byte : byte & (0x7fu >> length);
        b->missing = (unsigned char)(length - 1);
        b->have = 1;
    } else {
        if ((byte & 0xc0) != 0x80) return 0;
        b->partial = b->partial << 6 | (byte & 0x3f);
        b->missing--;
        b->have++;
    }
    *first = b->partial << 6 * b->missing;
    *last = *first | ((1u << 6 * b->missing) - 1);
    if (*first < least[b->missing + b->have]) *first = least[b->missing + b->have];
    if (*last > 0x10ffff) *last = 0x10ffff;
    if (*first >= 0xd800 && *last <= 0xdfff) return 0;
    return *first <= *last;
}

pco_status pco_grammar_push(pco_grammar_text *t, unsigned char byte, int *allowed, pco_error *err)
{
    text_byte next = t->n_bytes ? t->bytes[t->n_bytes - 1] : (text_byte){.set = 1};
    const uint32_t items = t->n_items, sets = t->n_sets;
    uint32_t first, last;
    t->err = err;
    t->status = PCO_OK;
    text_byte *bytes = text_grow(t, t->bytes, t->n_bytes, &t->bytes_room, sizeof *bytes);
    *allowed = 0;
    if (!bytes) return t->status;
    t->bytes = bytes;
    if (!text_next_byte(&next, byte, &first, &last)) return PCO_OK;
    *allowed = text_scan(t, first, last, next.missing == 0);
    if (!*allowed) { /* nothing was added, or not all of it */
        t->n_items = items;
        t->n_sets = sets;
        t->sets[sets] = items;
        return t->status;
    }
    if (!next.missing) next.have = 0, next.partial = 0;
    next.set = t->n_sets;
    t->bytes[t->n_bytes++] = next;
    return PCO_OK;
}

int pco_grammar_complete(const pco_grammar_text *t)
{
    if (t->n_bytes && t->bytes[t->n_bytes - 1].missing) return 0;
    for (uint32_t i = t->sets[t->n_sets - 1]; i < t->sets[t->n_sets]; i++) {
        const grammar_symbol symbol = t->grammar->symbols[t->items[i].at];
        if (symbol.kind == GRAMMAR_END && symbol.index == t->grammar->root && t->items[i].origin == 0) return 1;
    }
    return 0;
}
