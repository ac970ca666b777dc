/* The list of tokens that all kinds of tokenizer share, and lists of ids. */
#include "text/tokenizer_kinds.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

pco_status text_no_memory(pco_error *err)
{
    return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the tokenizer");
}

/* ---- making and looking up ---- */

void text_release(pco_tokenizer *tokenizer)
{
    free(tokenizer->tokens);
    free(tokenizer->marked);
    free(tokenizer->pool);
    free(tokenizer->table);
    free(tokenizer);
}

pco_tokenizer *text_create(uint32_t count, size_t bytes)
{
    pco_tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    if (!tokenizer) return NULL;
    tokenizer->tokens = calloc(count, sizeof *tokenizer->tokens);
    tokenizer->marked = calloc(count, sizeof *tokenizer->marked);
    tokenizer->pool = malloc(2 * bytes + 2 * (size_t)count);
    if (!tokenizer->tokens || !tokenizer->marked || !tokenizer->pool) {
        text_release(tokenizer);
        return NULL;
    }
    tokenizer->count = count;
    tokenizer->special = (pco_tokenizer_special){-1, -1, -1, -1};
    tokenizer->eot = tokenizer->eom = -1;
    for (int i = 0; i < 256; i++) tokenizer->byte_ids[i] = -1;
    return tokenizer;
}

static const char *text_pool_add(pco_tokenizer *tokenizer, const char *bytes, size_t size)
{
    char *copy = tokenizer->pool + tokenizer->pool_used;
    memmove(copy, bytes, size);
    copy[size] = 0;
    tokenizer->pool_used += size + 1;
    return copy;
}

void text_set_token(pco_tokenizer *tokenizer, uint32_t id, const char *text, size_t size, uint32_t type)
{
    text_token *token = &tokenizer->tokens[id];
    token->text = text_pool_add(tokenizer, text, size);
    token->size = (uint32_t)size;
    token->type = type;
}

void text_set_piece(pco_tokenizer *tokenizer, uint32_t id, const char *piece, size_t size)
{
    text_token *token = &tokenizer->tokens[id];
    token->piece = text_pool_add(tokenizer, piece, size);
    token->piece_size = (uint32_t)size;
}

/* FNV-1a. The bucket of the text, or the empty bucket where it would be. */
static uint32_t *text_bucket(const pco_tokenizer *tokenizer, const char *text, size_t size)
{
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    for (size_t i = 0; i < size; i++) hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001B3);
    uint32_t mask = tokenizer->table_size - 1, at = (uint32_t)(hash ^ hash >> 32) & mask;
    while (tokenizer->table[at]) {
        const text_token *token = &tokenizer->tokens[tokenizer->table[at] - 1];
        if (token->size == size && memcmp(token->text, text, size) == 0) break;
        at = (at + 1) & mask;
    }
    return &tokenizer->table[at];
}

int32_t text_find(const pco_tokenizer *tokenizer, const char *text, size_t size)
{
    if (size > tokenizer->longest) return -1;
    return (int32_t)*text_bucket(tokenizer, text, size) - 1;
}

static int text_by_length(const void *a, const void *b, void *tokens)
{
    const text_token *first = (const text_token *)tokens + *(const uint32_t *)a;
    const text_token *second = (const text_token *)tokens + *(const uint32_t *)b;
    unsigned char first_byte = (unsigned char)first->piece[0], second_byte = (unsigned char)second->piece[0];
    if (first_byte != second_byte) return first_byte < second_byte ? -1 : 1;
    if (first->piece_size != second->piece_size) return first->piece_size > second->piece_size ? -1 : 1;
    return first < second ? -1 : first > second;
}

pco_status text_index(pco_tokenizer *tokenizer, int32_t *twice, pco_error *err)
{
    uint64_t size = 16;
    while (size < 2 * (uint64_t)tokenizer->count) size *= 2;
    tokenizer->table = calloc((size_t)size, sizeof *tokenizer->table);
    if (!tokenizer->table || size > UINT32_MAX) return text_no_memory(err);
    tokenizer->table_size = (uint32_t)size;
    *twice = -1;
    for (uint32_t id = 0; id < tokenizer->count; id++) {
        const text_token *token = &tokenizer->tokens[id];
        uint32_t *bucket = text_bucket(tokenizer, token->text, token->size);
        if (*bucket)
            *twice = (int32_t)id;
        else
            *bucket = id + 1;
        if (token->size > tokenizer->longest) tokenizer->longest = token->size;
        if ((token->type != TEXT_CONTROL && token->type != TEXT_USER) || token->piece_size == 0) continue;
        tokenizer->marked[tokenizer->marked_count++] = id;
        tokenizer->marked_first[(unsigned char)token->piece[0] + 1]++;
    }
    if (tokenizer->marked_count)
        qsort_r(tokenizer->marked, tokenizer->marked_count, sizeof *tokenizer->marked, text_by_length,
                tokenizer->tokens);
    for (int byte = 0; byte < 256; byte++) tokenizer->marked_first[byte + 1] += tokenizer->marked_first[byte];
    return PCO_OK;
}

/* ---- ids ---- */

pco_status text_push(text_ids *ids, int32_t id, pco_error *err)
{
    if (ids->count == ids->capacity) {
        size_t capacity = ids->capacity ? 2 * ids->capacity : 64;
        int32_t *data = realloc(ids->data, capacity * sizeof *data);
        if (!data) return text_no_memory(err);
        ids->data = data;
        ids->capacity = capacity;
    }
    ids->data[ids->count++] = id;
    return PCO_OK;
}

pco_status text_push_bytes(text_run *run, const char *bytes, size_t size)
{
    const pco_tokenizer *tokenizer = run->tokenizer;
    pco_status status = PCO_OK;
    for (size_t i = 0; i < size; i++) {
        if (tokenizer->byte_ids[(unsigned char)bytes[i]] >= 0) continue;
        if (tokenizer->special.unk >= 0) return text_push(&run->ids, tokenizer->special.unk, run->err);
        return pco_fail(run->err, PCO_ERROR_INVALID,
                        "the text has a byte 0x%02X for which the vocabulary has no token, nor has it an unknown "
                        "token; leave that character out",
                        (unsigned)(unsigned char)bytes[i]);
    }
    for (size_t i = 0; i < size && !status; i++)
        status = text_push(&run->ids, tokenizer->byte_ids[(unsigned char)bytes[i]], run->err);
    return status;
}
