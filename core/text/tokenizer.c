#include "text/tokenizer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "text/tokenizer_kinds.h"

#define TEXT_SIZE_MOST ((size_t)1 << 30)

pco_status text_no_memory(pco_error *err)
{
    return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the tokenizer");
}

/* ---- making and looking up ------------------------------------------------------------------------------
 */

pco_tokenizer *text_create(uint32_t count, size_t bytes)
{
    pco_tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    if (!tokenizer) return NULL;
    tokenizer->tokens = calloc(count, sizeof *tokenizer->tokens);
    tokenizer->marked = calloc(count, sizeof *tokenizer->marked);
    tokenizer->pool = malloc(2 * bytes + 2 * (size_t)count);
    if (!tokenizer->tokens || !tokenizer->marked || !tokenizer->pool) {
        pco_tokenizer_destroy(tokenizer);
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
    uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;
    const text_token *token = tokens;
    if (token[first].piece_size != token[second].piece_size)
        return token[first].piece_size > token[second].piece_size ? -1 : 1;
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
        tokenizer->marked_first[(unsigned char)token->piece[0]] = 1;
    }
    if (tokenizer->marked_count)
        qsort_r(tokenizer->marked, tokenizer->marked_count, sizeof *tokenizer->marked, text_by_length,
                tokenizer->tokens);
    return PCO_OK;
}

void pco_tokenizer_destroy(pco_tokenizer *tokenizer)
{
    if (!tokenizer) return;
    text_gpt2_release(tokenizer);
    free(tokenizer->tokens);
    free(tokenizer->marked);
    free(tokenizer->pool);
    free(tokenizer->table);
    free(tokenizer);
}

uint32_t pco_tokenizer_vocab_size(const pco_tokenizer *tokenizer) { return tokenizer->count; }
pco_tokenizer_special pco_tokenizer_specials(const pco_tokenizer *tokenizer) { return tokenizer->special; }
int pco_tokenizer_adds_bos(const pco_tokenizer *tokenizer) { return tokenizer->add_bos; }
int pco_tokenizer_ends(const pco_tokenizer *tokenizer, int32_t id)
{
    return id >= 0 && (id == tokenizer->special.eos || id == tokenizer->eot || id == tokenizer->eom);
}

int pco_tokenizer_adds_eos(const pco_tokenizer *tokenizer) { return tokenizer->add_eos; }

const char *pco_tokenizer_token(const pco_tokenizer *tokenizer, int32_t id, size_t *size)
{
    if (id < 0 || (uint32_t)id >= tokenizer->count) return NULL;
    if (size) *size = tokenizer->tokens[id].size;
    return tokenizer->tokens[id].text;
}

/* ---- encoding ------------------------------------------------------------------------------------------ */

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

pco_status text_push_bytes(const pco_tokenizer *tokenizer, const char *bytes, size_t size, text_ids *ids,
                           pco_error *err)
{
    pco_status status = PCO_OK;
    for (size_t i = 0; i < size; i++) {
        if (tokenizer->byte_ids[(unsigned char)bytes[i]] >= 0) continue;
        if (tokenizer->special.unk >= 0) return text_push(ids, tokenizer->special.unk, err);
        return pco_fail(err, PCO_ERROR_INVALID,
                        "the text has a byte 0x%02X for which the vocabulary has no token, nor has it an unknown "
                        "token; leave that character out",
                        (unsigned)(unsigned char)bytes[i]);
    }
    for (size_t i = 0; i < size && !status; i++)
        status = text_push(ids, tokenizer->byte_ids[(unsigned char)bytes[i]], err);
    return status;
}

/* The longest special token that stands at the start of text[size], or -1. */
static int32_t text_marked_at(const pco_tokenizer *tokenizer, const char *text, size_t size, int control)
{
    if (!tokenizer->marked_first[(unsigned char)text[0]]) return -1;
    for (uint32_t i = 0; i < tokenizer->marked_count; i++) {
        const text_token *token = &tokenizer->tokens[tokenizer->marked[i]];
        if (token->type == TEXT_CONTROL && !control) continue;
        if (token->piece_size <= size && memcmp(token->piece, text, token->piece_size) == 0)
            return (int32_t)tokenizer->marked[i];
    }
    return -1;
}

static pco_status text_encode_all(const pco_tokenizer *tokenizer, const char *text, size_t size, int control,
                                  text_ids *ids, pco_error *err)
{
    size_t begin = 0, at = 0;
    int first = 1;
    pco_status status = PCO_OK;
    while (at < size && tokenizer->marked_count && !status) {
        int32_t id = text_marked_at(tokenizer, text + at, size - at, control);
        if (id < 0) {
            at++;
            continue;
        }
        if (at > begin) status = tokenizer->encode(tokenizer, text + begin, at - begin, first, ids, err);
        if (!status) status = text_push(ids, id, err);
        at += tokenizer->tokens[id].piece_size;
        begin = at;
        first = 1;
    }
    if (!status && size > begin) status = tokenizer->encode(tokenizer, text + begin, size - begin, first, ids, err);
    return status;
}

pco_status pco_tokenizer_encode(const pco_tokenizer *tokenizer, const char *text, size_t size, uint32_t flags,
                                int32_t **ids, size_t *count, pco_error *err)
{
    *ids = NULL;
    *count = 0;
    if (size > TEXT_SIZE_MOST / 4)
        return pco_fail(err, PCO_ERROR_INVALID, "a text of %zu bytes is too long to encode at once; cut it", size);
    if (((flags & PCO_ENCODE_BOS) && tokenizer->special.bos < 0) ||
        ((flags & PCO_ENCODE_EOS) && tokenizer->special.eos < 0))
        return pco_fail(err, PCO_ERROR_INVALID, "the vocabulary has no %s token",
                        (flags & PCO_ENCODE_BOS) && tokenizer->special.bos < 0 ? "BOS" : "EOS");
    text_ids made = {.data = malloc(64 * sizeof *made.data), .capacity = 64};
    pco_status status = made.data ? PCO_OK : text_no_memory(err);
    if (!status && (flags & PCO_ENCODE_BOS)) status = text_push(&made, tokenizer->special.bos, err);
    if (!status) status = text_encode_all(tokenizer, text, size, (flags & PCO_ENCODE_SPECIAL) != 0, &made, err);
    if (!status && (flags & PCO_ENCODE_EOS)) status = text_push(&made, tokenizer->special.eos, err);
    if (status) {
        free(made.data);
        return status;
    }
    *ids = made.data;
    *count = made.count;
    return PCO_OK;
}

/* ---- decoding ------------------------------------------------------------------------------------------ */

pco_status pco_decoder_next(pco_decoder *decoder, int32_t id, const char **piece, size_t *size, pco_error *err)
{
    const pco_tokenizer *tokenizer = decoder->tokenizer;
    if (id < 0 || (uint32_t)id >= tokenizer->count)
        return pco_fail(err, PCO_ERROR_INVALID, "token %" PRId32 " is outside the vocabulary of %" PRIu32, id,
                        tokenizer->count);
    const text_token *token = &tokenizer->tokens[id];
    *piece = token->piece;
    *size = token->piece_size;
    if (token->type == TEXT_CONTROL) {
        if (!decoder->show_control) *size = 0;
        return PCO_OK;
    }
    if (tokenizer->space_prefix && !decoder->begun && *size && **piece == ' ') {
        ++*piece;
        --*size;
    }
    decoder->begun = 1;
    return PCO_OK;
}

pco_status pco_tokenizer_decode(const pco_tokenizer *tokenizer, const int32_t *ids, size_t count, char **text,
                                size_t *size, pco_error *err)
{
    size_t most = 1;
    *text = NULL;
    *size = 0;
    for (size_t i = 0; i < count; i++)
        if (ids[i] >= 0 && (uint32_t)ids[i] < tokenizer->count) most += tokenizer->tokens[ids[i]].piece_size;
    char *made = malloc(most);
    if (!made) return text_no_memory(err);
    pco_decoder decoder = PCO_DECODER(tokenizer);
    for (size_t i = 0; i < count; i++) {
        const char *piece;
        size_t length;
        pco_status status = pco_decoder_next(&decoder, ids[i], &piece, &length, err);
        if (status) {
            free(made);
            *size = 0;
            return status;
        }
        memcpy(made + *size, piece, length);
        *size += length;
    }
    made[*size] = 0;
    *text = made;
    return PCO_OK;
}
