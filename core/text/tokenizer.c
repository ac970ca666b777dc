#include "text/tokenizer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "text/tokenizer_kinds.h"

void pco_tokenizer_destroy(pco_tokenizer *tokenizer)
{
    if (!tokenizer) return;
    text_release(tokenizer);
}

uint32_t pco_tokenizer_vocab_size(const pco_tokenizer *tokenizer) { return tokenizer->count; }
pco_tokenizer_special pco_tokenizer_specials(const pco_tokenizer *tokenizer) { return tokenizer->special; }
int pco_tokenizer_adds_bos(const pco_tokenizer *tokenizer) { return tokenizer->add_bos; }
int pco_tokenizer_ends(const pco_tokenizer *tokenizer, int32_t id)
{
    if (id >= 0 && id == tokenizer->special.eos) return 1;
    for (uint32_t i = 0; i < tokenizer->end_count; i++)
        if (id == tokenizer->ends[i]) return 1;
    return 0;
}

const char *pco_tokenizer_chat_template(const pco_tokenizer *tokenizer) { return tokenizer->chat_template; }
uint32_t pco_tokenizer_max_length(const pco_tokenizer *tokenizer) { return tokenizer->max_length; }
int pco_tokenizer_adds_eos(const pco_tokenizer *tokenizer) { return tokenizer->add_eos; }

const char *pco_tokenizer_token(const pco_tokenizer *tokenizer, int32_t id, size_t *size)
{
    if (id < 0 || (uint32_t)id >= tokenizer->count) return NULL;
    if (size) *size = tokenizer->tokens[id].size;
    return tokenizer->tokens[id].text;
}

/* ---- encoding ------------------------------------------------------------------------------------------ */

/* BOS or EOS, or what the tokenizer has in its place. */
static pco_status text_push_around(text_run *run, int behind)
{
    const pco_tokenizer *tokenizer = run->tokenizer;
    pco_status status = PCO_OK;
    if (!tokenizer->around_count[behind])
        return text_push(&run->ids, behind ? tokenizer->special.eos : tokenizer->special.bos, run->err);
    for (uint32_t i = 0; i < tokenizer->around_count[behind] && !status; i++)
        status = text_push(&run->ids, tokenizer->around[behind][i], run->err);
    return status;
}

pco_status pco_tokenizer_encode(const pco_tokenizer *tokenizer, const char *text, size_t size, uint32_t flags,
                                int32_t **ids, size_t *count, pco_error *err)
{
    *ids = NULL;
    *count = 0;
    if (size > TEXT_SIZE_MOST / 4)
        return pco_fail(err, PCO_ERROR_INVALID, "a text of %zu bytes is too long to encode at once; cut it", size);
    const int no_bos = tokenizer->special.bos < 0 && !tokenizer->around_count[0];
    const int no_eos = tokenizer->special.eos < 0 && !tokenizer->around_count[1];
    if (((flags & PCO_ENCODE_BOS) && no_bos) || ((flags & PCO_ENCODE_EOS) && no_eos))
        return pco_fail(err, PCO_ERROR_INVALID, "the vocabulary has no %s token",
                        (flags & PCO_ENCODE_BOS) && no_bos ? "BOS" : "EOS");
    text_run run;
    pco_status status = text_run_begin(&run, tokenizer, size, err);
    if (!status && (flags & PCO_ENCODE_BOS)) status = text_push_around(&run, 0);
    run.control = (flags & PCO_ENCODE_SPECIAL) != 0;
    if (!status) status = text_marks_cut(&run, &tokenizer->marks[0], text, size, TEXT_AT_START, tokenizer->encode);
    if (!status && (flags & PCO_ENCODE_EOS)) status = text_push_around(&run, 1);
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
    for (int most = tokenizer->strip == TEXT_STRIP_ALL ? INT32_MAX : tokenizer->strip == TEXT_STRIP_ONE;
         most > 0 && !decoder->begun && *size && **piece == ' '; most--) {
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
