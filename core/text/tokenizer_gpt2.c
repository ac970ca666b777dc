/* Byte-level BPE: a regular expression cuts the text into words, each word starts as single bytes, and pairs
 * merge in the order of the merge list. In the vocabulary, bytes are spelled as printable characters. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <inttypes.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer_kinds.h"

/* What a word is, by the values of tokenizer.ggml.pre: English contractions, letters, numbers, other signs, blanks.
 * GPT-2 (Radford et al. 2019) keeps a blank in front of each; Qwen2 takes digits one by one, and ends of lines with
 * the signs before them. Each expression matches any text, at once. The first is that of config.json. A GGUF file
 * without the key may mean any of them: it is of before converters wrote it. */
static const struct {
    const char *name, *words;
} text_gpt2_rules[] = {
    {"gpt-2", "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"},
    {"qwen2", "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
              "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
};
enum { TEXT_GPT2_RULES = sizeof text_gpt2_rules / sizeof *text_gpt2_rules };

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
static int text_spelled_byte(uint32_t codepoint)
{
    if (text_is_printable(codepoint)) return (int)codepoint;
    uint32_t next = 0x100;
    for (uint32_t byte = 0; byte < 0x100; byte++) {
        if (text_is_printable(byte)) continue;
        if (next++ == codepoint) return (int)byte;
    }
    return -1;
}

/* Tokens that are not spelled this way (control tokens, text added later) decode to what they say. */
void text_gpt2_pieces(pco_tokenizer *tokenizer)
{
    for (uint32_t id = 0; id < tokenizer->count; id++) {
        const text_token *token = &tokenizer->tokens[id];
        char *out = tokenizer->pool + tokenizer->pool_used;
        size_t used = 0, at = 0;
        int spelled = token->type == TEXT_NORMAL || token->type == TEXT_UNUSED;
        while (spelled && at < token->size) {
            uint32_t codepoint;
            size_t length = pco_utf8_decode(token->text + at, token->size - at, &codepoint);
            int byte = length ? text_spelled_byte(codepoint) : -1;
            if (byte < 0)
                spelled = 0;
            else
                out[used++] = (char)byte;
            at += length;
        }
        if (!spelled) {
            text_set_piece(tokenizer, id, token->text, token->size);
            continue;
        }
        text_set_piece(tokenizer, id, out, used);
        if (used == 1 && tokenizer->byte_ids[(unsigned char)out[0]] < 0)
            tokenizer->byte_ids[(unsigned char)out[0]] = (int32_t)id;
    }
}

/* ---- merges -------------------------------------------------------------------------------------------- */

static text_pair *text_pair_bucket(const pco_tokenizer *tokenizer, uint64_t key)
{
    uint64_t hash = key * UINT64_C(0x9E3779B97F4A7C15);
    uint32_t mask = tokenizer->pairs_size - 1, at = (uint32_t)(hash >> 32) & mask;
    while (tokenizer->pairs[at].id >= 0 && tokenizer->pairs[at].key != key) at = (at + 1) & mask;
    return &tokenizer->pairs[at];
}

static uint64_t text_pair_key(int32_t left, int32_t right) { return (uint64_t)(uint32_t)left << 32 | (uint32_t)right; }

/* Where merges come from, for messages. */
typedef struct text_source {
    const char *label, *key;
} text_source;

static pco_status text_gpt2_add_merge(pco_tokenizer *tokenizer, const text_source *source, const pco_gguf_string *merge,
                                      uint32_t rank, pco_error *err)
{
    const char *space = merge->size > 2 ? memchr(merge->data + 1, ' ', merge->size - 2) : NULL;
    char joined[512];
    int32_t left = -1, right = -1, id = -1;
    if (space && merge->size <= sizeof joined) {
        size_t left_size = (size_t)(space - merge->data), right_size = merge->size - left_size - 1;
        left = text_find(tokenizer, merge->data, left_size);
        right = text_find(tokenizer, space + 1, right_size);
        memcpy(joined, merge->data, left_size);
        memcpy(joined + left_size, space + 1, right_size);
        id = text_find(tokenizer, joined, left_size + right_size);
    }
    if (left < 0 || right < 0 || id < 0)
        return pco_fail(err, PCO_ERROR_FORMAT,
                        "%s: element %" PRIu32 " of key '%s', '%.*s', is not two tokens that make a third",
                        source->label, rank, source->key, (int)(merge->size < 80 ? merge->size : 80), merge->data);
    text_pair *bucket = text_pair_bucket(tokenizer, text_pair_key(left, right));
    if (bucket->id < 0) *bucket = (text_pair){text_pair_key(left, right), rank, id};
    return PCO_OK;
}

static pco_status text_gpt2_merges(pco_tokenizer *tokenizer, const text_source *source, const pco_gguf_string *merges,
                                   uint64_t count, pco_error *err)
{
    pco_status status = PCO_OK;
    if (count > UINT32_MAX / 4)
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: key '%s' has too many elements", source->label, source->key);
    uint32_t size = 16;
    while (size < 2 * count) size *= 2;
    tokenizer->pairs = malloc(size * sizeof *tokenizer->pairs);
    if (!tokenizer->pairs) return text_no_memory(err);
    tokenizer->pairs_size = size;
    for (uint32_t i = 0; i < size; i++) tokenizer->pairs[i] = (text_pair){.id = -1};
    for (uint64_t i = 0; i < count && !status; i++)
        status = text_gpt2_add_merge(tokenizer, source, &merges[i], (uint32_t)i, err);
    return status;
}

/* ---- encoding ------------------------------------------------------------------------------------------ */

static int text_gpt2_pair(const pco_tokenizer *tokenizer, const char *text, const text_symbol *left,
                          const text_symbol *right, double *rank, int32_t *id)
{
    (void)text;
    if (left->id < 0 || right->id < 0) return 0;
    const text_pair *pair = text_pair_bucket(tokenizer, text_pair_key(left->id, right->id));
    if (pair->id < 0) return 0;
    *rank = pair->rank;
    *id = pair->id;
    return 1;
}

static pco_status text_gpt2_word(const pco_tokenizer *tokenizer, text_merger *merger, const char *word, size_t size,
                                 text_ids *ids, pco_error *err)
{
    pco_status status = PCO_OK;
    merger->symbol_count = 0;
    for (size_t i = 0; i < size && !status; i++)
        status = text_merger_add(merger, i, 1, tokenizer->byte_ids[(unsigned char)word[i]], err);
    if (!status) status = text_merger_run(merger, tokenizer, word, text_gpt2_pair, err);
    for (int32_t i = 0; i >= 0 && !status; i = merger->symbols[i].next) {
        const text_symbol *symbol = &merger->symbols[i];
        if (symbol->id >= 0)
            status = text_push(ids, symbol->id, err);
        else
            status = text_push_bytes(tokenizer, word + symbol->begin, symbol->size, ids, err);
    }
    return status;
}

/* text[size] is UTF-8 here (checked once by the caller: pcre2 would check all of it for each word). */
static pco_status text_gpt2_run(const pco_tokenizer *tokenizer, text_merger *merger, pcre2_match_data *match,
                                const char *text, size_t size, text_ids *ids, pco_error *err)
{
    const size_t *bounds = pcre2_get_ovector_pointer(match);
    pco_status status = PCO_OK;
    for (size_t at = 0; at < size && !status; at = bounds[1]) {
        int found = pcre2_match(tokenizer->pattern, (PCRE2_SPTR)text, size, at, PCRE2_NO_UTF_CHECK, match, NULL);
        if (found <= 0 || bounds[0] != at || bounds[1] <= at) /* the pattern matches any text, at once */
            return pco_fail(err, PCO_ERROR_INTERNAL, "pcre2 answered %d at byte %zu of the text", found, at);
        status = text_gpt2_word(tokenizer, merger, text + at, bounds[1] - at, ids, err);
    }
    return status;
}

static pco_status text_gpt2_encode(const pco_tokenizer *tokenizer, const char *text, size_t size, int first,
                                   text_ids *ids, pco_error *err)
{
    (void)first;
    text_merger merger = {0};
    pco_status status = PCO_OK;
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    if (!match) return text_no_memory(err);
    for (size_t at = 0; at < size && !status;) {
        size_t good = pco_utf8_check(text + at, size - at);
        if (good) status = text_gpt2_run(tokenizer, &merger, match, text + at, good, ids, err);
        at += good;
        if (at == size || status) break;
        status = text_gpt2_word(tokenizer, &merger, text + at, 1, ids, err); /* a byte that is not UTF-8 */
        at++;
    }
    text_merger_release(&merger);
    pcre2_match_data_free(match);
    return status;
}

static pco_status text_gpt2_compile(const char *words, void **pattern, pco_error *err)
{
    int code = 0;
    PCRE2_SIZE offset = 0;
    *pattern = pcre2_compile((PCRE2_SPTR)words, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &code, &offset, NULL);
    if (*pattern) return PCO_OK;
    return pco_fail(err, PCO_ERROR_INTERNAL, "pcre2 refused the pattern of words with error %d at %zu", code,
                    (size_t)offset);
}

pco_status text_gpt2_pattern(void **pattern, pco_error *err)
{
    return text_gpt2_compile(text_gpt2_rules[0].words, pattern, err);
}

pco_status text_gpt2_prepare(pco_tokenizer *tokenizer, const pco_gguf *gguf, pco_error *err)
{
    const char *pre;
    pco_status status = pco_gguf_text(gguf, "tokenizer.ggml.pre", &pre, err);
    if (status) return status;
    int rule = 0;
    while (rule < TEXT_GPT2_RULES && strcmp(pre, text_gpt2_rules[rule].name) != 0) rule++;
    if (rule == TEXT_GPT2_RULES)
        return pco_fail(
            err, PCO_ERROR_UNSUPPORTED,
            "%s: the pre-tokenizer '%s' (key 'tokenizer.ggml.pre') is not supported; 'gpt-2' and 'qwen2' are",
            pco_gguf_label(gguf), pre);
    const pco_gguf_string *merges;
    uint64_t count;
    const text_source source = {pco_gguf_label(gguf), "tokenizer.ggml.merges"};
    status = pco_gguf_string_array(gguf, source.key, &merges, &count, err);
    if (!status) status = text_gpt2_merges(tokenizer, &source, merges, count, err);
    if (!status) status = text_gpt2_compile(text_gpt2_rules[rule].words, &tokenizer->pattern, err);
    if (!status) tokenizer->encode = text_gpt2_encode;
    return status;
}

pco_status text_gpt2_prepare_list(pco_tokenizer *tokenizer, const char *label, const char *const *merges,
                                  uint32_t count, pco_error *err)
{
    const text_source source = {label, "merges"};
    pco_gguf_string *strings = calloc(count ? count : 1, sizeof *strings);
    if (!strings) return text_no_memory(err);
    for (uint32_t i = 0; i < count; i++) strings[i] = (pco_gguf_string){merges[i], strlen(merges[i])};
    pco_status status = text_gpt2_merges(tokenizer, &source, strings, count, err);
    free(strings);
    if (!status) status = text_gpt2_pattern(&tokenizer->pattern, err);
    if (!status) tokenizer->encode = text_gpt2_encode;
    return status;
}

void text_gpt2_release(pco_tokenizer *tokenizer)
{
    free(tokenizer->pairs);
    pcre2_code_free(tokenizer->pattern);
}
