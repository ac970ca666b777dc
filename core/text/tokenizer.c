#include "text/tokenizer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "text/tokenizer_kinds.h"

#define TEXT_SIZE_MOST ((size_t)1 << 30)

void pco_tokenizer_destroy(pco_tokenizer *tokenizer)
{
    if (!tokenizer) return;
    free(tokenizer->pairs);
    text_release_steps(tokenizer);
    text_release(tokenizer);
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

/* The longest special token that stands at the start of text[size], or -1. */
static int32_t text_marked_at(const pco_tokenizer *tokenizer, const char *text, size_t size, int control)
{
    unsigned char first = (unsigned char)text[0];
    for (uint32_t i = tokenizer->marked_first[first]; i < tokenizer->marked_first[first + 1]; i++) {
        const text_token *token = &tokenizer->tokens[tokenizer->marked[i]];
        if (token->type == TEXT_CONTROL && !control) continue;
        if (token->piece_size <= size && memcmp(token->piece, text, token->piece_size) == 0)
            return (int32_t)tokenizer->marked[i];
    }
    return -1;
}

static pco_status text_encode_all(text_run *run, const char *text, size_t size, int control)
{
    const pco_tokenizer *tokenizer = run->tokenizer;
    size_t begin = 0, at = 0;
    pco_status status = PCO_OK;
    while (at < size && tokenizer->marked_count && !status) {
        int32_t id = text_marked_at(tokenizer, text + at, size - at, control);
        if (id < 0) {
            at++;
            continue;
        }
        if (at > begin) status = tokenizer->encode(run, text + begin, at - begin, 1);
        if (!status) status = text_push(&run->ids, id, run->err);
        at += tokenizer->tokens[id].piece_size;
        begin = at;
    }
    if (!status && size > begin) status = tokenizer->encode(run, text + begin, size - begin, 1);
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
    text_run run;
    pco_status status = text_run_begin(&run, tokenizer, size, err);
    if (!status && (flags & PCO_ENCODE_BOS)) status = text_push(&run.ids, tokenizer->special.bos, err);
    if (!status) status = text_encode_all(&run, text, size, (flags & PCO_ENCODE_SPECIAL) != 0);
    if (!status && (flags & PCO_ENCODE_EOS)) status = text_push(&run.ids, tokenizer->special.eos, err);
    text_run_end(&run);
    if (status) {
        free(run.ids.data);
        return status;
    }
    *ids = run.ids.data;
    *count = run.ids.count;
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
