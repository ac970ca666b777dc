/* Byte-level BPE: the text is cut into words (tokenizer_words.c), each word starts as single bytes, and pairs merge in
 * the order of the merge list. In the vocabulary, bytes are spelled as printable characters. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer_kinds.h"

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

/* `joined` has room for the merge. */
static pco_status text_gpt2_add_merge(pco_tokenizer *tokenizer, const text_source *source, const pco_gguf_string *merge,
                                      uint32_t rank, char *joined, pco_error *err)
{
    const char *space = merge->size > 2 ? memchr(merge->data + 1, ' ', merge->size - 2) : NULL;
    int32_t left = -1, right = -1, id = -1;
    if (space) {
        size_t left_size = (size_t)(space - merge->data), right_size = merge->size - left_size - 1;
        left = text_find(tokenizer, merge->data, left_size);
        right = text_find(tokenizer, space + 1, right_size);
        memcpy(joined, merge->data, left_size);
        const char *mark = tokenizer->prefixes[1] ? tokenizer->prefixes[1] : ""; /* of all but the first */
        size_t prefix = strlen(mark);
        if (prefix > right_size || memcmp(space + 1, mark, prefix) != 0) prefix = 0;
        memcpy(joined + left_size, space + 1 + prefix, right_size - prefix);
        id = text_find(tokenizer, joined, left_size + right_size - prefix);
    }
    if (left < 0 || right < 0 || id < 0)
        return pco_fail(err, PCO_ERROR_FORMAT,
                        "%s: element %" PRIu32 " of key '%s', '%.*s', is not two tokens that make a third",
                        source->label, rank, source->key, (int)(merge->size < 80 ? merge->size : 80), merge->data);
    text_pair *bucket = text_pair_bucket(tokenizer, text_pair_key(left, right));
    if (bucket->id < 0) *bucket = (text_pair){text_pair_key(left, right), rank, id};
    return PCO_OK;
}

pco_status text_gpt2_merges(pco_tokenizer *tokenizer, const text_source *source, const pco_gguf_string *merges,
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
    size_t longest = 1;
    for (uint64_t i = 0; i < count; i++) longest = merges[i].size > longest ? merges[i].size : longest;
    char *joined = malloc(longest);
    if (!joined) return text_no_memory(err);
    for (uint64_t i = 0; i < count && !status; i++)
        status = text_gpt2_add_merge(tokenizer, source, &merges[i], (uint32_t)i, joined, err);
    free(joined);
    return status;
}

/* ---- encoding ------------------------------------------------------------------------------------------ */

int text_pair_by_ids(const pco_tokenizer *tokenizer, const char *text, const text_symbol *left,
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

/* The token that a whole word is, or -1. */
static int32_t text_gpt2_whole(const pco_tokenizer *tokenizer, const char *word, size_t size)
{
    char spelled[2 * 256 + 4];
    size_t used = 0;
    if (size > 256) return -1;
    for (size_t i = 0; i < size; i++) {
        memcpy(spelled + used, tokenizer->spelling[(unsigned char)word[i]], 4);
        used += strlen(spelled + used);
    }
    int32_t id = text_find(tokenizer, spelled, used);
    return id >= 0 && tokenizer->tokens[id].type == TEXT_NORMAL ? id : -1;
}

static pco_status text_gpt2_word(text_run *run, const char *word, size_t size)
{
    const pco_tokenizer *tokenizer = run->tokenizer;
    text_merger *merger = &run->merger;
    pco_status status = PCO_OK;
    int32_t whole = tokenizer->ignore_merges ? text_gpt2_whole(tokenizer, word, size) : -1;
    if (whole >= 0) return text_push(&run->ids, whole, run->err);
    merger->symbol_count = 0;
    for (size_t i = 0; i < size && !status; i++)
        status = text_merger_add(merger, i, 1, tokenizer->byte_ids[(unsigned char)word[i]], run->err);
    if (!status) status = text_merger_run(merger, tokenizer, word, text_pair_by_ids, run->err);
    for (int32_t i = 0; i >= 0 && !status; i = merger->symbols[i].next) {
        const text_symbol *symbol = &merger->symbols[i];
        if (symbol->id >= 0)
            status = text_push(&run->ids, symbol->id, run->err);
        else
            status = text_push_bytes(run, word + symbol->begin, symbol->size);
    }
    return status;
}

void text_gpt2_ready(pco_tokenizer *tokenizer)
{
    for (int byte = 0; byte < 256; byte++) text_gpt2_spell((unsigned char)byte, tokenizer->spelling[byte]);
    tokenizer->encode = text_steps_encode;
    tokenizer->word = text_gpt2_word;
}

pco_status text_gpt2_prepare(pco_tokenizer *tokenizer, const pco_gguf *gguf, pco_error *err)
{
    const char *pre;
    const pco_gguf_string *merges;
    uint64_t count;
    const text_source source = {pco_gguf_label(gguf), "tokenizer.ggml.merges"};
    const int says = pco_gguf_find(gguf, "tokenizer.ggml.add_bos_token") != NULL, add_bos = tokenizer->add_bos;
    pco_status status = pco_gguf_text(gguf, "tokenizer.ggml.pre", &pre, err);
    if (!status) status = text_add_words(tokenizer, pre, source.label, err);
    tokenizer->add_bos = says ? add_bos : tokenizer->add_bos && tokenizer->special.bos >= 0;
    if (!status) status = pco_gguf_string_array(gguf, source.key, &merges, &count, err);
    if (!status) status = text_gpt2_merges(tokenizer, &source, merges, count, err);
    text_gpt2_ready(tokenizer);
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
    if (!status) status = text_add_words(tokenizer, "gpt-2", label, err);
    text_gpt2_ready(tokenizer);
    return status;
}
