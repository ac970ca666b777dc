#include <stdlib.h>

#include "base/grow.h"
#include "text/tokenizer_kinds.h"

pco_status text_merger_add(text_merger *merger, size_t begin, size_t size, int32_t id, pco_error *err)
{
    text_symbol *symbols = pco_grow(merger->symbols, merger->symbol_count, &merger->symbol_capacity, sizeof *symbols);
    if (!symbols) return text_no_memory(err);
    merger->symbols = symbols;
    int32_t index = (int32_t)merger->symbol_count++;
    if (index > 0) merger->symbols[index - 1].next = index;
    merger->symbols[index] = (text_symbol){(uint32_t)begin, (uint32_t)size, index - 1, -1, id};
    return PCO_OK;
}

static int text_before(const text_candidate *a, const text_candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->left < b->left;
}

static void text_heap_push(text_merger *merger, const text_candidate *candidate)
{
    size_t at = merger->heap_count++;
    while (at > 0 && text_before(candidate, &merger->heap[(at - 1) / 2])) {
        merger->heap[at] = merger->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    merger->heap[at] = *candidate;
}

static text_candidate text_heap_pop(text_merger *merger)
{
    text_candidate top = merger->heap[0], last = merger->heap[--merger->heap_count];
    size_t at = 0, count = merger->heap_count;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= count) break;
        if (child + 1 < count && text_before(&merger->heap[child + 1], &merger->heap[child])) child++;
        if (!text_before(&merger->heap[child], &last)) break;
        merger->heap[at] = merger->heap[child];
        at = child;
    }
    if (count) merger->heap[at] = last;
    return top;
}

static void text_consider(text_merger *merger, const pco_tokenizer *tokenizer, const char *text, text_pair_fn pair,
                          int32_t left, int32_t right)
{
    if (left < 0 || right < 0) return;
    const text_symbol *first = &merger->symbols[left], *second = &merger->symbols[right];
    text_candidate candidate = {.left = left, .right = right, .size = first->size + second->size};
    if (pair(tokenizer, text, first, second, &candidate.rank, &candidate.id)) text_heap_push(merger, &candidate);
}

pco_status text_merger_run(text_merger *merger, const pco_tokenizer *tokenizer, const char *text, text_pair_fn pair,
                           pco_error *err)
{
    size_t need = 3 * merger->symbol_count; /* count - 1 pairs at first, two new ones for each merge */
    if (need > merger->heap_capacity) {
        text_candidate *heap = realloc(merger->heap, need * sizeof *heap);
        if (!heap) return text_no_memory(err);
        merger->heap = heap;
        merger->heap_capacity = need;
    }
    merger->heap_count = 0;
    for (size_t i = 1; i < merger->symbol_count; i++)
        text_consider(merger, tokenizer, text, pair, (int32_t)i - 1, (int32_t)i);
    while (merger->heap_count) {
        text_candidate best = text_heap_pop(merger);
        text_symbol *left = &merger->symbols[best.left], *right = &merger->symbols[best.right];
        if (!left->size || !right->size || left->size + right->size != best.size) continue;
        left->size += right->size;
        left->id = best.id;
        right->size = 0;
        left->next = right->next;
        if (right->next >= 0) merger->symbols[right->next].previous = best.left;
        text_consider(merger, tokenizer, text, pair, left->previous, best.left);
        text_consider(merger, tokenizer, text, pair, best.left, left->next);
    }
    return PCO_OK;
}

void text_merger_release(text_merger *merger)
{
    free(merger->symbols);
    free(merger->heap);
}
