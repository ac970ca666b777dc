/* What a tokenizer.json says about decoding, as pieces of the tokens. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer_kinds.h"

static pco_status decoder_replace(const cJSON *item, const char *label, text_decoding *decoding, pco_error *err)
{
    const cJSON *pattern = cJSON_GetObjectItemCaseSensitive(item, "pattern");
    const char *from, *to;
    pco_status status = pco_json_string(pattern, label, "String", &from, err);
    if (!status) status = pco_json_string(item, label, "content", &to, err);
    if (status) return status;
    if (!*from || strlen(to) > strlen(from) || decoding->n_replaced == 4)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: the decoder's Replace of '%.40s' is not supported", label,
                        from);
    decoding->replaced[decoding->n_replaced][0] = from;
    decoding->replaced[decoding->n_replaced++][1] = to;
    return PCO_OK;
}

static pco_status decoder_one(pco_tokenizer *tokenizer, const cJSON *item, const char *label, const char *type,
                              text_decoding *decoding, pco_error *err)
{
    pco_status status = PCO_OK;
    const char *text;
    int flag;
    if (strcmp(type, "ByteLevel") == 0) {
        decoding->bytes = 1;
    } else if (strcmp(type, "ByteFallback") == 0) {
        decoding->byte_tokens = 1;
    } else if (strcmp(type, "Fuse") == 0) {
        return PCO_OK;
    } else if (strcmp(type, "Replace") == 0) {
        return decoder_replace(item, label, decoding, err);
    } else if (strcmp(type, "Strip") == 0) {
        int64_t start;
        status = pco_json_int(item, label, "start", 0, 1, &start, err);
        tokenizer->strip = start ? TEXT_STRIP_ONE : TEXT_STRIP_NONE;
    } else if (strcmp(type, "WordPiece") == 0) {
        decoding->blank_before = 1;
        status = pco_json_string_or(item, label, "prefix", "##", &decoding->prefix, err);
        if (!status) status = pco_json_bool_or(item, label, "cleanup", 1, &decoding->cleanup, err);
        tokenizer->strip = TEXT_STRIP_ONE;
    } else if (strcmp(type, "Metaspace") == 0) {
        status = pco_json_string_or(item, label, "replacement", "\xE2\x96\x81", &decoding->replaced[0][0], err);
        if (!status) status = pco_json_bool_or(item, label, "add_prefix_space", 1, &flag, err);
        if (!status) status = pco_json_string_or(item, label, "prepend_scheme", flag ? "always" : "never", &text, err);
        if (status) return status;
        decoding->replaced[0][1] = " ";
        decoding->n_replaced = *decoding->replaced[0][0] ? 1 : 0;
        if (strcmp(text, "never") != 0) tokenizer->strip = TEXT_STRIP_ALL;
    } else if (strcmp(type, "BPEDecoder") == 0) {
        status = pco_json_string_or(item, label, "suffix", "</w>", &decoding->replaced[0][0], err);
        decoding->replaced[0][1] = " ";
        decoding->n_replaced = !status && *decoding->replaced[0][0] ? 1 : 0;
    } else {
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: the decoder '%.60s' is not supported", label, type);
    }
    return status;
}

pco_status text_json_decoder(pco_tokenizer *tokenizer, const cJSON *item, const char *label, int depth,
                             text_decoding *decoding, pco_error *err)
{
    const char *type;
    const cJSON *child;
    if (!item || cJSON_IsNull(item)) return PCO_OK;
    if (!cJSON_IsObject(item) || depth > 8) return pco_fail(err, PCO_ERROR_FORMAT, "%s: the decoder is wrong", label);
    pco_status status = pco_json_string(item, label, "type", &type, err);
    if (status) return status;
    if (strcmp(type, "Sequence") != 0) return decoder_one(tokenizer, item, label, type, decoding, err);
    cJSON_ArrayForEach(child, cJSON_GetObjectItemCaseSensitive(item, "decoders"))
    {
        if (!status) status = text_json_decoder(tokenizer, child, label, depth + 1, decoding, err);
    }
    return status;
}

/* ---- pieces ---- */

/* English signs and endings that WordPiece's decoder sets without a blank in front. */
static int decoding_clings(const char *text)
{
    static const char *const words[] = {".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(text, words[i]) == 0) return 1;
    return 0;
}

static void decoding_wordpiece(pco_tokenizer *tokenizer, uint32_t id, const text_decoding *decoding)
{
    const text_token *token = &tokenizer->tokens[id];
    size_t prefix = strlen(decoding->prefix);
    if (prefix && token->size >= prefix && memcmp(token->text, decoding->prefix, prefix) == 0) {
        text_set_piece(tokenizer, id, token->text + prefix, token->size - prefix);
        return;
    }
    int blank = !(decoding->cleanup && decoding_clings(token->text));
    char *out = tokenizer->pool + tokenizer->pool_used;
    if (blank) out[0] = ' ';
    memmove(out + blank, token->text, token->size);
    text_set_piece(tokenizer, id, out, token->size + (size_t)blank);
}

static void decoding_replace(pco_tokenizer *tokenizer, uint32_t id, const text_decoding *decoding)
{
    const text_token *token = &tokenizer->tokens[id];
    char *out = tokenizer->pool + tokenizer->pool_used;
    size_t size = token->size;
    memmove(out, token->text, size);
    for (int i = 0; i < decoding->n_replaced; i++) { /* in place: never longer */
        const char *from = decoding->replaced[i][0], *to = decoding->replaced[i][1];
        size_t from_size = strlen(from), to_size = strlen(to), used = 0;
        for (size_t at = 0; at < size;) {
            int found = size - at >= from_size && memcmp(out + at, from, from_size) == 0;
            memmove(out + used, found ? to : out + at, found ? to_size : 1);
            used += found ? to_size : 1;
            at += found ? from_size : 1;
        }
        size = used;
    }
    text_set_piece(tokenizer, id, out, size);
}

void text_decoding_pieces(pco_tokenizer *tokenizer, const text_decoding *decoding)
{
    if (decoding->bytes) {
        text_gpt2_pieces(tokenizer);
        return;
    }
    for (uint32_t id = 0; id < tokenizer->count; id++) {
        const text_token *token = &tokenizer->tokens[id];
        int byte = decoding->byte_tokens ? text_byte_value(token->text, token->size) : -1;
        if (byte >= 0) {
            char piece = (char)byte;
            text_set_piece(tokenizer, id, &piece, 1);
        } else if (decoding->blank_before) {
            decoding_wordpiece(tokenizer, id, decoding);
        } else {
            decoding_replace(tokenizer, id, decoding);
        }
    }
}
