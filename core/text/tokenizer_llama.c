/* SentencePiece-style BPE: characters are merged by falling score of the merged token; what has no token
 * becomes byte tokens. Spaces are spelled U+2581. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer_kinds.h"

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
        text_set_piece_replaced(tokenizer, id, TEXT_BLANK, " ");
    }
}

/* A symbol that a user defined: its id is LLAMA_FROZEN - id, and it merges with nothing. */
#define LLAMA_FROZEN (-2)

static int text_llama_pair(const pco_tokenizer *tokenizer, const char *text, const text_symbol *left,
                           const text_symbol *right, double *rank, int32_t *id)
{
    if (left->id <= LLAMA_FROZEN || right->id <= LLAMA_FROZEN || tokenizer->sentence.model == TEXT_SENTENCE_CHAR)
        return 0;
    *id = text_find_plain(tokenizer, text + left->begin, (size_t)left->size + right->size);
    if (*id < 0) return 0;
    *rank = -tokenizer->tokens[*id].score;
    return 1;
}

pco_status text_llama_word(text_run *run, const char *text, size_t size)
{
    const pco_tokenizer *tokenizer = run->tokenizer;
    text_merger *merger = &run->merger;
    pco_status status = PCO_OK;
    merger->symbol_count = 0;
    for (size_t at = 0; at < size && !status;) {
        const text_mark *symbol = text_marks_at(&tokenizer->sentence.symbols, text + at, size - at);
        size_t length = symbol ? symbol->size : pco_utf8_decode(text + at, size - at, NULL);
        if (length == 0) length = 1; /* a byte that is not UTF-8 stands alone */
        status = text_merger_add(merger, at, length, symbol ? LLAMA_FROZEN - symbol->id : -1, run->err);
        at += length;
    }
    if (!status) status = text_merger_run(merger, tokenizer, text, text_llama_pair, run->err);
    const int joined = tokenizer->sentence.model && !tokenizer->byte_fallback;
    size_t from = size, end = size; /* what is unknown: of neighbours SentencePiece makes one */
    for (int32_t i = 0; i >= 0 && !status; i = merger->symbols[i].next) {
        const text_symbol *symbol = &merger->symbols[i];
        int32_t id = symbol->id;
        if (id <= LLAMA_FROZEN) id = LLAMA_FROZEN - id;
        if (id < 0) id = text_find_plain(tokenizer, text + symbol->begin, symbol->size);
        if (id < 0 && joined) {
            if (from == size) from = symbol->begin;
            end = (size_t)symbol->begin + symbol->size;
            continue;
        }
        if (from < size) status = text_push_bytes(run, text + from, end - from);
        from = size;
        if (status) break;
        status =
            id >= 0 ? text_push(&run->ids, id, run->err) : text_push_bytes(run, text + symbol->begin, symbol->size);
    }
    if (!status && from < size) status = text_push_bytes(run, text + from, end - from);
    return status;
}

static pco_status text_llama_encode(text_run *run, const char *text, size_t size, text_position position)
{
    const pco_tokenizer *tokenizer = run->tokenizer;
    pco_writer escaped = {0};
    if (size == 0) return PCO_OK;
    if (tokenizer->space_prefix && position != TEXT_INSIDE) pco_write(&escaped, TEXT_BLANK, 3);
    text_write_replaced(&escaped, text, size, " ", TEXT_BLANK);
    pco_status status = pco_writer_check(&escaped, "a text to encode", run->err);
    if (!status) status = text_run_word(run, escaped.data, escaped.size);
    pco_writer_release(&escaped);
    return status;
}

pco_status text_llama_prepare(pco_tokenizer *tokenizer, const pco_gguf *gguf, pco_error *err)
{
    pco_status status = text_read_scores(tokenizer, gguf, err);
    if (status) return status;
    tokenizer->encode = text_llama_encode;
    tokenizer->word = text_llama_word;
    text_cut_at_blanks(tokenizer);
    status = pco_gguf_bool_or(gguf, "tokenizer.ggml.add_space_prefix", 1, &tokenizer->space_prefix, err);
    if (tokenizer->space_prefix) tokenizer->strip = TEXT_STRIP_ONE;
    return status;
}
