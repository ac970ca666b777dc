/* Tokenizers from lists of strings. Characters: each token is found as it is written, the longest one first. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer_kinds.h"

/* The longest plain token at the start of text[size], or -1; its length in *length. */
static int32_t text_vocab_match(const pco_tokenizer *tokenizer, const char *text, size_t size, size_t *length)
{
    size_t most = size < tokenizer->longest ? size : tokenizer->longest;
    for (*length = most; *length > 0; --*length) {
        if (*length < size && ((unsigned char)text[*length] & 0xC0) == 0x80) continue; /* inside a character */
        int32_t id = text_find(tokenizer, text, *length);
        if (id >= 0 && tokenizer->tokens[id].type == TEXT_NORMAL) return id;
    }
    return -1;
}

static pco_status text_vocab_encode(text_run *run, const char *text, size_t size, text_position position)
{
    const pco_tokenizer *tokenizer = run->tokenizer;
    pco_error *err = run->err;
    (void)position;
    pco_status status = PCO_OK;
    for (size_t at = 0; at < size && !status;) {
        uint32_t codepoint;
        size_t length, character = pco_utf8_decode(text + at, size - at, &codepoint);
        if (character == 0)
            return pco_fail(err, PCO_ERROR_INVALID, "the text is not UTF-8 at byte %zu; convert it to UTF-8", at);
        int32_t id = text_vocab_match(tokenizer, text + at, size - at, &length);
        if (id < 0) {
            id = tokenizer->special.unk;
            length = character;
        }
        if (id < 0)
            return pco_fail(err, PCO_ERROR_INVALID,
                            "character '%.*s' (U+%04" PRIX32
                            ") at byte %zu is not in the model's vocabulary of %" PRIu32 " tokens; leave it out",
                            (int)character, text + at, codepoint, at, tokenizer->count);
        status = text_push(&run->ids, id, err);
        at += length;
    }
    return status;
}

static pco_status text_vocab_special(int32_t id, const char *name, uint32_t count, pco_error *err)
{
    if (id >= -1 && (id < 0 || (uint32_t)id < count)) return PCO_OK;
    return pco_fail(err, PCO_ERROR_INVALID, "the id %" PRId32 " of the %s token is outside the vocabulary of %" PRIu32,
                    id, name, count);
}

/* A tokenizer with all texts and types set; pieces and the index are still to come. */
static pco_status text_vocab_make(const char *const *tokens, uint32_t count, const pco_tokenizer_special *special,
                                  pco_tokenizer **tokenizer, pco_error *err)
{
    *tokenizer = NULL;
    if (count == 0 || count > INT32_MAX)
        return pco_fail(err, PCO_ERROR_INVALID, "a vocabulary of %" PRIu32 " tokens cannot be used", count);
    pco_tokenizer_special ids = special ? *special : (pco_tokenizer_special){-1, -1, -1, -1};
    pco_status status = text_vocab_special(ids.bos, "BOS", count, err);
    if (!status) status = text_vocab_special(ids.eos, "EOS", count, err);
    if (!status) status = text_vocab_special(ids.pad, "padding", count, err);
    if (!status) status = text_vocab_special(ids.unk, "unknown", count, err);
    if (status) return status;
    size_t bytes = 0;
    for (uint32_t id = 0; id < count; id++) {
        size_t size = strlen(tokens[id]);
        if (size == 0 || pco_utf8_check(tokens[id], size) != size)
            return pco_fail(err, PCO_ERROR_INVALID, "token %" PRIu32 " of the vocabulary is empty or not UTF-8", id);
        bytes += size;
    }
    pco_tokenizer *made = text_create(count, bytes);
    if (!made) return text_no_memory(err);
    made->special = ids;
    made->add_bos = ids.bos >= 0;
    made->add_eos = ids.eos >= 0;
    for (uint32_t i = 0; i < count; i++) {
        int32_t id = (int32_t)i;
        int control = id == ids.bos || id == ids.eos || id == ids.pad;
        text_set_token(made, i, tokens[i], strlen(tokens[i]),
                       id == ids.unk ? TEXT_UNKNOWN
                       : control     ? TEXT_CONTROL
                                     : TEXT_NORMAL);
    }
    *tokenizer = made;
    return PCO_OK;
}

static pco_status text_vocab_index(pco_tokenizer *made, pco_error *err)
{
    int32_t twice = -1;
    pco_status status = text_index(made, &twice, err);
    if (status || twice < 0) return status;
    return pco_fail(err, PCO_ERROR_INVALID, "token '%s' is in the vocabulary twice, the second time as %" PRId32,
                    made->tokens[twice].text, twice);
}

/* Gives the tokenizer out, or destroys it. */
static pco_status text_vocab_done(pco_tokenizer *made, pco_status status, pco_tokenizer **tokenizer)
{
    *tokenizer = status ? NULL : made;
    if (status) pco_tokenizer_destroy(made);
    return status;
}

pco_status pco_tokenizer_from_vocab(const char *const *tokens, uint32_t count, const pco_tokenizer_special *special,
                                    pco_tokenizer **tokenizer, pco_error *err)
{
    pco_tokenizer *made;
    *tokenizer = NULL;
    pco_status status = text_vocab_make(tokens, count, special, &made, err);
    if (status) return status;
    made->encode = text_vocab_encode;
    for (uint32_t i = 0; i < count; i++) text_set_piece(made, i, tokens[i], strlen(tokens[i]));
    return text_vocab_done(made, text_vocab_index(made, err), tokenizer);
}

pco_status pco_tokenizer_from_bpe(const char *label, const char *const *tokens, uint32_t count,
                                  const char *const *merges, uint32_t merge_count, const pco_tokenizer_special *special,
                                  pco_tokenizer **tokenizer, pco_error *err)
{
    pco_tokenizer *made;
    *tokenizer = NULL;
    pco_status status = text_vocab_make(tokens, count, special, &made, err);
    if (status) return status;
    text_gpt2_pieces(made);
    status = text_vocab_index(made, err);
    if (!status) status = text_gpt2_prepare_list(made, label, merges, merge_count, err);
    return text_vocab_done(made, status, tokenizer);
}
