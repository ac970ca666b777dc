/* The token that a text is. */
#include <string.h>

#include "text/tokenizer_kinds.h"

/* FNV-1a. */
uint32_t *text_bucket(const pco_tokenizer *tokenizer, const char *text, size_t size)
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

int32_t text_find_plain(const pco_tokenizer *tokenizer, const char *text, size_t size)
{
    int32_t id = text_find(tokenizer, text, size);
    return id >= 0 && text_is_plain(&tokenizer->tokens[id]) ? id : -1;
}
