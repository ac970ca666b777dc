/* The list of tokens that all kinds of tokenizer share, and lists of ids. */
#include "text/tokenizer_kinds.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* ---- making and looking up ---- */

void text_release(pco_tokenizer *tokenizer)
{
    for (int i = 0; i < 2; i++) {
        text_marks_release(&tokenizer->marks[i]);
        free(tokenizer->prefixes[i]);
    }
    text_release_steps(tokenizer);
    text_release_norms(tokenizer);
    text_trie_release(&tokenizer->trie);
    text_marks_release(&tokenizer->sentence.symbols);
    free(tokenizer->sentence.charsmap);
    free(tokenizer->suffix);
    free(tokenizer->pairs);
    free(tokenizer->chat_template);
    free(tokenizer->tokens);
    free(tokenizer->pool);
    free(tokenizer->table);
    free(tokenizer->renamed);
    if (tokenizer->pieces) text_release(tokenizer->pieces);
    free(tokenizer);
}

pco_tokenizer *text_create(uint32_t count, size_t bytes)
{
    pco_tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    if (!tokenizer) return NULL;
    tokenizer->tokens = calloc(count, sizeof *tokenizer->tokens);
    tokenizer->pool_size = 2 * bytes + 3 * (size_t)count; /* texts, pieces with a blank more, and a NUL behind each */
    tokenizer->pool = malloc(tokenizer->pool_size);
    if (!tokenizer->tokens || !tokenizer->pool) {
        text_release(tokenizer);
        return NULL;
    }
    tokenizer->count = count;
    tokenizer->special = (pco_tokenizer_special){-1, -1, -1, -1};
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

void text_set_piece_replaced(pco_tokenizer *tokenizer, uint32_t id, const char *from, const char *to)
{
    const text_token *token = &tokenizer->tokens[id];
    char *out = tokenizer->pool + tokenizer->pool_used; /* in place: never longer than the text */
    size_t used = 0, from_size = strlen(from), to_size = strlen(to);
    for (size_t at = 0; at < token->size;) {
        int found = token->size - at >= from_size && memcmp(token->text + at, from, from_size) == 0;
        memcpy(out + used, found ? to : token->text + at, found ? to_size : 1);
        used += found ? to_size : 1;
        at += found ? from_size : 1;
    }
    text_set_piece(tokenizer, id, out, used);
}

pco_status text_index_table(pco_tokenizer *tokenizer, int32_t *twice, pco_error *err)
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
    }
    return PCO_OK;
}

pco_status text_index(pco_tokenizer *tokenizer, int32_t *twice, pco_error *err)
{
    pco_status status = text_index_table(tokenizer, twice, err);
    for (uint32_t id = 0; id < tokenizer->count && !status; id++) {
        const text_token *token = &tokenizer->tokens[id];
        if ((token->type != TEXT_CONTROL && token->type != TEXT_USER) || token->piece_size == 0) continue;
        const text_mark mark = {
            (char *)token->piece, token->piece_size, (int32_t)id, token->type == TEXT_CONTROL, 0, 0, 0};
        status = text_marks_add(&tokenizer->marks[0], &mark, err);
    }
    text_marks_sort(&tokenizer->marks[0]);
    return status;
}

void text_cut_at_blanks(pco_tokenizer *tokenizer)
{
    tokenizer->blank_starts = 0;
    if (tokenizer->ignore_merges || tokenizer->suffix || tokenizer->prefixes[1] || tokenizer->sentence.symbols.count ||
        text_find_plain(tokenizer, TEXT_BLANK, 3) < 0)
        return;
    for (uint32_t id = 0; id < tokenizer->count; id++) {
        const text_token *token = &tokenizer->tokens[id];
        int inside = 0; /* behind another character */
        for (uint32_t i = 0; text_is_plain(token) && i < token->size; i++) {
            const int blank = token->size - i >= 3 && memcmp(token->text + i, TEXT_BLANK, 3) == 0;
            if (blank && inside) return;
            inside |= !blank;
            if (blank) i += 2;
        }
    }
    tokenizer->blank_starts = 1;
}

int text_byte_value(const char *text, size_t size)
{
    if (size != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    int value = 0;
    for (int i = 3; i < 5; i++) {
        char c = text[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                           : -1;
        if (digit < 0) return -1;
        value = value * 16 + digit;
    }
    return value;
}

/* ---- ids ---- */

pco_status text_push_bytes(text_run *run, const char *bytes, size_t size)
{
    const pco_tokenizer *tokenizer = run->tokenizer;
    pco_status status = PCO_OK;
    const int32_t named = run->names && !tokenizer->byte_fallback ? text_find(run->names, bytes, size) : -1;
    if (named >= 0) return text_push(&run->ids, (int32_t)tokenizer->count + named, run->err);
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
