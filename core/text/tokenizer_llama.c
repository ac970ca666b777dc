/* SentencePiece-style BPE: characters are merged by falling score of the merged token; what has no token
 * becomes byte tokens. Spaces are spelled U+2581. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer_kinds.h"

#define TEXT_SPACE      "\xE2\x96\x81"
#define TEXT_SPACE_SIZE 3u

void text_llama_pieces(pco_tokenizer *tokenizer)
{
    for (uint32_t id = 0; id < tokenizer->count; id++) {
        const text_token *token = &tokenizer->tokens[id];
        int byte = token->type == TEXT_BYTE ? text_byte_value(token->text, token->size) : -1;
        if (byte >= 0) {
            char piece = (char)byte;
            text_set_piece(tokenizer, id, &piece, 1);
            if (tokenizer->byte_ids[byte] < 0) tokenizer->byte_ids[byte] = (int32_t)id;
            continue;
        }
        text_set_piece_replaced(tokenizer, id, TEXT_SPACE, " ");
    }
}

static int text_llama_pair(const pco_tokenizer *tokenizer, const char *text, const text_symbol *left,
                           const text_symbol *right, double *rank, int32_t *id)
{
    *id = text_find_plain(tokenizer, text + left->begin, (size_t)left->size + right->size);
    if (*id < 0) return 0;
    *rank = -tokenizer->tokens[*id].score;
    return 1;
}

static pco_status text_llama_merge(text_run *run, const char *text, size_t size)
{
    const pco_tokenizer *tokenizer = run->tokenizer;
    text_merger *merger = &run->merger;
    pco_status status = PCO_OK;
    merger->symbol_count = 0;
    for (size_t at = 0; at < size && !status;) {
        size_t length = pco_utf8_decode(text + at, size - at, NULL);
        if (length == 0) length = 1; /* a byte that is not UTF-8 stands alone */
        status = text_merger_add(merger, at, length, -1, run->err);
        at += length;
    }
    if (!status) status = text_merger_run(merger, tokenizer, text, text_llama_pair, run->err);
    for (int32_t i = 0; i >= 0 && !status; i = merger->symbols[i].next) {
        const text_symbol *symbol = &merger->symbols[i];
        int32_t id = symbol->id;
        if (id < 0) id = text_find_plain(tokenizer, text + symbol->begin, symbol->size);
        if (id >= 0)
            status = text_push(&run->ids, id, run->err);
        else
            status = text_push_bytes(run, text + symbol->begin, symbol->size);
    }
    return status;
}

static pco_status text_llama_encode(text_run *run, const char *text, size_t size, text_place place)
{
    const pco_tokenizer *tokenizer = run->tokenizer;
    pco_writer escaped = {0};
    if (size == 0) return PCO_OK;
    if (tokenizer->space_prefix && place != TEXT_INSIDE) pco_write(&escaped, TEXT_SPACE, TEXT_SPACE_SIZE);
    text_write_replaced(&escaped, text, size, " ", TEXT_SPACE);
    pco_status status = pco_writer_check(&escaped, "a text to encode", run->err);
    if (!status) status = text_llama_merge(run, escaped.data, escaped.size);
    pco_writer_release(&escaped);
    return status;
}

pco_status text_llama_prepare(pco_tokenizer *tokenizer, const pco_gguf *gguf, pco_error *err)
{
    static const char key[] = "tokenizer.ggml.scores";
    float *scores;
    uint64_t count;
    pco_status status = pco_gguf_f32_array(gguf, key, &scores, &count, err);
    if (status) return status;
    if (count != tokenizer->count) {
        status = pco_fail(err, PCO_ERROR_FORMAT, "%s: key '%s' has %llu elements for %u tokens", pco_gguf_label(gguf),
                          key, (unsigned long long)count, tokenizer->count);
        goto fail;
    }
    for (uint32_t id = 0; id < tokenizer->count; id++) {
        if (isnan(scores[id])) {
            status = pco_fail(err, PCO_ERROR_FORMAT, "%s: element %u of key '%s' is not a number", pco_gguf_label(gguf),
                              id, key);
            goto fail;
        }
        tokenizer->tokens[id].score = scores[id];
    }
    tokenizer->encode = text_llama_encode;
    status = pco_gguf_bool_or(gguf, "tokenizer.ggml.add_space_prefix", 1, &tokenizer->space_prefix, err);
    if (tokenizer->space_prefix) tokenizer->strip = TEXT_STRIP_ONE;
fail:
    free(scores);
    return status;
}
