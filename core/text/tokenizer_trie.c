/* Tokens as a tree of bytes, in which all tokens that begin a text are found by walking along it once. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "text/tokenizer_kinds.h"

static int text_by_text(const void *a, const void *b, void *tokens)
{
    const text_token *first = (const text_token *)tokens + *(const uint32_t *)a;
    const text_token *second = (const text_token *)tokens + *(const uint32_t *)b;
    int order = memcmp(first->text, second->text, first->size < second->size ? first->size : second->size);
    if (order) return order;
    if (first->size != second->size) return first->size < second->size ? -1 : 1;
    return first < second ? -1 : first > second;
}

/* Bytes that both texts begin with. */
static uint32_t text_common(const text_token *a, const text_token *b)
{
    uint32_t most = a->size < b->size ? a->size : b->size, common = 0;
    while (common < most && a->text[common] == b->text[common]) common++;
    return common;
}

static uint32_t text_trie_bucket(const text_trie *trie, uint32_t from)
{
    uint64_t hash = (uint64_t)from * UINT64_C(0x9E3779B97F4A7C15);
    uint32_t at = (uint32_t)((hash >> 32) * trie->size >> 32); /* any size, not only powers of two */
    while (trie->edges[at].to && trie->edges[at].from != from) at = at + 1 == trie->size ? 0 : at + 1;
    return at;
}

uint32_t text_trie_step(const text_trie *trie, uint32_t node, unsigned char byte)
{
    return trie->edges[text_trie_bucket(trie, node << 8 | byte)].to;
}

static void text_trie_fill(text_trie *trie, const text_token *tokens, const uint32_t *order, uint32_t count)
{
    uint32_t used = 1;
    for (uint32_t i = 0; i < count; i++) {
        const text_token *token = &tokens[order[i]];
        uint32_t node = 0;
        for (uint32_t k = 0; k < token->size; k++) {
            uint32_t from = node << 8 | (unsigned char)token->text[k], bucket = text_trie_bucket(trie, from);
            if (!trie->edges[bucket].to) {
                trie->ids[used] = -1;
                trie->edges[bucket] = (struct text_trie_edge){from, used++};
            }
            node = trie->edges[bucket].to;
        }
        if (node && trie->ids[node] < 0) trie->ids[node] = (int32_t)order[i]; /* of equals the first */
    }
}

pco_status text_trie_make(pco_tokenizer *tokenizer, const char *label, pco_error *err)
{
    text_trie *trie = &tokenizer->trie;
    uint32_t *order = malloc(tokenizer->count * sizeof *order), count = 0;
    uint64_t nodes = 1;
    if (!order) return text_no_memory(err);
    for (uint32_t id = 0; id < tokenizer->count; id++)
        if (text_is_plain(&tokenizer->tokens[id])) order[count++] = id;
    qsort_r(order, count, sizeof *order, text_by_text, tokenizer->tokens);
    for (uint32_t i = 0; i < count; i++) {
        const text_token *token = &tokenizer->tokens[order[i]];
        nodes += token->size - (i ? text_common(token, &tokenizer->tokens[order[i - 1]]) : 0);
    }
    if (nodes >= 1 << 24) {
        free(order);
        return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                        "%s: the vocabulary is too large (more than 2^24 bytes of it differ)", label);
    }
    trie->nodes = (uint32_t)nodes;
    trie->size = (uint32_t)(nodes + nodes / 4 + 8);
    trie->edges = calloc(trie->size, sizeof *trie->edges);
    trie->ids = malloc(nodes * sizeof *trie->ids);
    if (trie->edges && trie->ids) {
        trie->ids[0] = -1;
        text_trie_fill(trie, tokenizer->tokens, order, count);
    }
    free(order);
    return trie->edges && trie->ids ? PCO_OK : text_no_memory(err);
}

void text_trie_release(text_trie *trie)
{
    free(trie->edges);
    free(trie->ids);
}
