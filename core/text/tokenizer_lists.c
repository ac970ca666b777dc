/* Lists of ids and texts that grow, scores, and the characters in which byte-level vocabularies spell bytes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/grow.h"
#include "base/utf8.h"
#include "text/tokenizer_kinds.h"

pco_status text_no_memory(pco_error *err)
{
    return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the tokenizer");
}

void text_write_replaced(pco_writer *out, const char *text, size_t size, const char *from, const char *to)
{
    size_t from_size = strlen(from), to_size = strlen(to);
    for (size_t at = 0; at < size;) {
        const char *found = from_size ? memmem(text + at, size - at, from, from_size) : NULL;
        size_t before = found ? (size_t)(found - text) - at : size - at;
        pco_write(out, text + at, before);
        if (found) pco_write(out, to, to_size);
        at += before + (found ? from_size : 0);
    }
}

pco_status text_push(text_ids *ids, int32_t id, pco_error *err)
{
    int32_t *data = pco_grow(ids->data, ids->count, &ids->capacity, sizeof *data);
    if (!data) return text_no_memory(err);
    ids->data = data;
    ids->data[ids->count++] = id;
    return PCO_OK;
}

/* Printable bytes of Latin-1 stand for themselves, the others for U+0100 and up, in order. */
static int text_is_printable(uint32_t byte)
{
    return (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD && byte < 0x100);
}

void text_gpt2_spell(unsigned char byte, char out[4])
{
    uint32_t next = 0x100;
    if (!text_is_printable(byte))
        for (uint32_t b = 0; b < byte; b++) next += !text_is_printable(b);
    out[pco_utf8_encode(text_is_printable(byte) ? byte : next, out)] = 0;
}

/* The byte that a character of the vocabulary spells, or -1. */
int text_spelled_byte(uint32_t codepoint)
{
    if (text_is_printable(codepoint)) return (int)codepoint;
    uint32_t next = 0x100;
    for (uint32_t byte = 0; byte < 0x100; byte++) {
        if (text_is_printable(byte)) continue;
        if (next++ == codepoint) return (int)byte;
    }
    return -1;
}

pco_status text_read_scores(pco_tokenizer *tokenizer, const pco_gguf *gguf, pco_error *err)
{
    static const char key[] = "tokenizer.ggml.scores";
    float *scores;
    uint64_t count;
    pco_status status = pco_gguf_f32_array(gguf, key, &scores, &count, err);
    if (status) return status;
    if (count != tokenizer->count)
        status = pco_fail(err, PCO_ERROR_FORMAT, "%s: key '%s' has %llu elements for %u tokens", pco_gguf_label(gguf),
                          key, (unsigned long long)count, tokenizer->count);
    for (uint32_t id = 0; id < tokenizer->count && !status; id++) {
        if (isnan(scores[id]))
            status = pco_fail(err, PCO_ERROR_FORMAT, "%s: element %u of key '%s' is not a number", pco_gguf_label(gguf),
                              id, key);
        tokenizer->tokens[id].score = (double)scores[id];
    }
    free(scores);
    return status;
}

int text_is_plain(const text_token *token)
{
    return token->type == TEXT_NORMAL || token->type == TEXT_USER || token->type == TEXT_UNUSED;
}
