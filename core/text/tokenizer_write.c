#include "text/tokenizer_write.h"

#include "base/error.h"
#include "text/tokenizer_kinds.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Strings that lie behind each other in `text`. */
typedef struct write_list {
    pco_writer text;
    pco_gguf_string *items;
    uint64_t count;
} write_list;

static void write_add(write_list *list, const char *text, size_t size)
{
    pco_write(&list->text, text, size);
    list->items[list->count++].size = size;
}

/* Puts the list under the key, once its memory no longer moves. */
static pco_status write_end(write_list *list, const char *key, pco_gguf_writer *out, pco_error *err)
{
    const char *at = list->text.data;
    pco_status status = pco_writer_check(&list->text, key, err);
    for (uint64_t i = 0; i < list->count && !status; at += list->items[i++].size) list->items[i].data = at ? at : "";
    if (!status) pco_gguf_put_texts(out, key, list->items, list->count);
    free(list->items);
    pco_writer_release(&list->text);
    return status;
}

/* Ids beyond the vocabulary, and those that it leaves out, get names that no text has. */
static pco_status write_tokens(const pco_tokenizer *tokenizer, uint32_t rows, pco_gguf_writer *out, pco_error *err)
{
    write_list list = {.items = calloc((size_t)rows + 1, sizeof *list.items)};
    int32_t *types = calloc((size_t)rows + 1, sizeof *types);
    pco_status status = list.items && types ? PCO_OK : text_no_memory(err);
    for (uint32_t id = 0; id < rows && !status; id++) {
        const text_token *token = id < tokenizer->count ? &tokenizer->tokens[id] : NULL;
        char unused[32];
        const int named = token && token->size > 0;
        snprintf(unused, sizeof unused, "[PAD%" PRIu32 "]", id);
        write_add(&list, named ? token->text : unused, named ? token->size : strlen(unused));
        types[id] = (int32_t)(!named ? TEXT_UNUSED : token->type == TEXT_ADDED ? TEXT_USER : (text_type)token->type);
    }
    if (status)
        free(list.items);
    else
        status = write_end(&list, "tokenizer.ggml.tokens", out, err);
    if (!status) pco_gguf_put_i32s(out, "tokenizer.ggml.token_type", types, rows);
    free(types);
    return status;
}

static int write_by_rank(const void *a, const void *b)
{
    const uint32_t x = ((const text_pair *)a)->rank, y = ((const text_pair *)b)->rank;
    return (x > y) - (x < y);
}

static pco_status write_merges(const pco_tokenizer *tokenizer, pco_gguf_writer *out, pco_error *err)
{
    uint32_t count = 0;
    text_pair *pairs = malloc(((size_t)tokenizer->pairs_size + 1) * sizeof *pairs);
    write_list list = {.items = calloc((size_t)tokenizer->pairs_size + 1, sizeof *list.items)};
    if (!pairs || !list.items) {
        free(pairs);
        free(list.items);
        return text_no_memory(err);
    }
    for (uint32_t i = 0; i < tokenizer->pairs_size; i++)
        if (tokenizer->pairs[i].id >= 0) pairs[count++] = tokenizer->pairs[i];
    qsort(pairs, count, sizeof *pairs, write_by_rank);
    for (uint32_t i = 0; i < count; i++) {
        const text_token *left = &tokenizer->tokens[pairs[i].key >> 32],
                         *right = &tokenizer->tokens[pairs[i].key & UINT32_MAX];
        pco_write(&list.text, left->text, left->size);
        pco_write_char(&list.text, ' ');
        pco_write(&list.text, right->text, right->size);
        list.items[list.count++].size = (size_t)left->size + 1 + right->size;
    }
    free(pairs);
    return write_end(&list, "tokenizer.ggml.merges", out, err);
}

static void write_id(pco_gguf_writer *out, const char *key, int32_t id)
{
    if (id >= 0) pco_gguf_put_u32(out, key, (uint32_t)id);
}

/* GGUF has one token in front of a text and one behind it, which are BOS and EOS. */
static pco_status write_check_around(const pco_tokenizer *tokenizer, pco_error *err)
{
    const int32_t special[] = {tokenizer->special.bos, tokenizer->special.eos};
    for (int behind = 0; behind < 2; behind++) {
        const int32_t id = tokenizer->around[behind][0];
        const uint32_t count = tokenizer->around_count[behind];
        const char *side = behind ? "behind" : "in front of", *name = behind ? "EOS" : "BOS";
        if (count > 1)
            return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                            "its tokenizer puts %" PRIu32 " tokens %s a text, and GGUF has one", count, side);
        if (count && special[behind] >= 0 && special[behind] != id)
            return pco_fail(
                err, PCO_ERROR_UNSUPPORTED,
                "its tokenizer puts '%.40s' %s a text and has '%.40s' as %s, and GGUF has one token for both",
                tokenizer->tokens[id].text, side, tokenizer->tokens[special[behind]].text, name);
    }
    return PCO_OK;
}

static pco_status write_specials(const pco_tokenizer *tokenizer, const int32_t *ends, uint32_t ends_count,
                                 pco_gguf_writer *out, pco_error *err)
{
    const int in_front = tokenizer->around_count[0] > 0, behind = tokenizer->around_count[1] > 0;
    const int32_t bos = tokenizer->special.bos >= 0 ? tokenizer->special.bos : in_front ? tokenizer->around[0][0] : -1;
    const int32_t eos = tokenizer->special.eos >= 0 ? tokenizer->special.eos : ends_count ? ends[0] : -1;
    static const char *const more[] = {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};
    uint32_t used = 0;
    write_id(out, "tokenizer.ggml.bos_token_id", bos);
    write_id(out, "tokenizer.ggml.eos_token_id", eos);
    write_id(out, "tokenizer.ggml.padding_token_id", tokenizer->special.pad);
    write_id(out, "tokenizer.ggml.unknown_token_id", tokenizer->special.unk);
    for (uint32_t i = 0; i < ends_count; i++) {
        if (ends[i] == eos) continue;
        if (used == 2)
            return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                            "'eos_token_id' has more tokens than the three ends of a text that GGUF has");
        write_id(out, more[used++], ends[i]);
    }
    pco_gguf_put_bool(out, "tokenizer.ggml.add_bos_token", tokenizer->add_bos || in_front);
    pco_gguf_put_bool(out, "tokenizer.ggml.add_eos_token", tokenizer->add_eos || behind);
    return PCO_OK;
}

pco_status pco_tokenizer_put_gguf(const pco_tokenizer *tokenizer, uint32_t rows, const int32_t *ends,
                                  uint32_t ends_count, pco_gguf_writer *out, int *exact, pco_error *err)
{
    char pre[64];
    if (!tokenizer->pairs || !tokenizer->spelling[0][0])
        return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                        "its tokenizer is no byte-level BPE, the only kind that is written to GGUF files");
    pco_status status = write_check_around(tokenizer, err);
    if (status) return status;
    if (!text_words_name(tokenizer, pre))
        return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                        "its tokenizer cuts texts into words in a way that has no name in GGUF files");
    *exact = tokenizer->norm_count == 0;
    pco_gguf_put_text(out, "tokenizer.ggml.model", "gpt2");
    pco_gguf_put_text(out, "tokenizer.ggml.pre", pre);
    status = write_tokens(tokenizer, rows, out, err);
    if (!status) status = write_merges(tokenizer, out, err);
    return status ? status : write_specials(tokenizer, ends, ends_count, out, err);
}
