/* A tokenizer from GGUF metadata. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "text/tokenizer_kinds.h"

/* Which token a key names. Absent: `fallback` when the vocabulary has it. 2^32 - 1 in a file means none. */
static pco_status text_special_id(const pco_gguf *gguf, const char *key, uint32_t count, int32_t fallback, int32_t *id,
                                  pco_error *err)
{
    uint32_t value, none = UINT32_MAX;
    uint32_t missing = fallback >= 0 && (uint32_t)fallback < count ? (uint32_t)fallback : none;
    pco_status status = pco_gguf_u32_or(gguf, key, missing, &value, err);
    if (status) return status;
    if (value != none && value >= count)
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: key '%s' is %" PRIu32 ", outside the vocabulary of %" PRIu32,
                        pco_gguf_label(gguf), key, value, count);
    *id = value == none ? -1 : (int32_t)value;
    return PCO_OK;
}

/* The values of tokenizer.ggml.model, and what holds for a file that does not say otherwise: the ids of its
 * special tokens, -1 for none, and whether text begins with BOS. */
typedef struct text_kind {
    const char *name;
    int32_t bos, eos, unk;
    int add_bos, add_eos;
    const char *bos_key, *eos_key;            /* where they are not the usual ones */
    void (*pieces)(pco_tokenizer *tokenizer); /* before text_index */
    pco_status (*prepare)(pco_tokenizer *tokenizer, const pco_gguf *gguf, pco_error *err);
} text_kind;

static const text_kind text_kinds[] = {
    {"llama", 1, 2, 0, 1, 0, NULL, NULL, text_llama_pieces, text_llama_prepare},
    {"gpt2", -1, -1, -1, 0, 0, NULL, NULL, text_gpt2_pieces, text_gpt2_prepare},
    {"gemma4", -1, -1, -1, 0, 0, NULL, NULL, text_llama_pieces, text_gemma4_prepare},
    {"t5", -1, 1, 2, 0, 1, NULL, NULL, text_llama_pieces, text_t5_prepare},
    {"bert", 101, 102, 100, 1, 1, "tokenizer.ggml.cls_token_id", "tokenizer.ggml.seperator_token_id", text_llama_pieces,
     text_bert_prepare},
};

static pco_status text_find_kind(const pco_gguf *gguf, const text_kind **kind, pco_error *err)
{
    const char *model;
    pco_status status = pco_gguf_text(gguf, "tokenizer.ggml.model", &model, err);
    if (status) return status;
    for (size_t i = 0; i < sizeof text_kinds / sizeof *text_kinds; i++)
        if (strcmp(model, text_kinds[i].name) == 0) {
            *kind = &text_kinds[i];
            return PCO_OK;
        }
    return pco_fail(
        err, PCO_ERROR_UNSUPPORTED,
        "%s: the tokenizer '%s' (key 'tokenizer.ggml.model') is not supported; 'llama', 'gpt2', 'gemma4', 't5' and "
        "'bert' are",
        pco_gguf_label(gguf), model);
}

static pco_status text_special_ids(const pco_gguf *gguf, const text_kind *kind, pco_tokenizer *tokenizer,
                                   pco_error *err)
{
    pco_tokenizer_special *special = &tokenizer->special;
    uint32_t count = tokenizer->count;
    const char *bos_key = kind->bos_key ? kind->bos_key : "tokenizer.ggml.bos_token_id";
    const char *eos_key = kind->eos_key ? kind->eos_key : "tokenizer.ggml.eos_token_id";
    pco_status status = text_special_id(gguf, bos_key, count, kind->bos, &special->bos, err);
    if (!status) status = text_special_id(gguf, eos_key, count, kind->eos, &special->eos, err);
    if (!status)
        status = text_special_id(gguf, "tokenizer.ggml.unknown_token_id", count, kind->unk, &special->unk, err);
    if (!status) status = text_special_id(gguf, "tokenizer.ggml.padding_token_id", count, -1, &special->pad, err);
    for (int i = 0; i < 2 && !status; i++) { /* end of a turn, of a message */
        int32_t *end = &tokenizer->ends[tokenizer->end_count];
        status = text_special_id(gguf, i ? "tokenizer.ggml.eom_token_id" : "tokenizer.ggml.eot_token_id", count, -1,
                                 end, err);
        if (!status && *end >= 0) tokenizer->end_count++;
    }
    if (!status)
        status = pco_gguf_bool_or(gguf, "tokenizer.ggml.add_bos_token", kind->add_bos, &tokenizer->add_bos, err);
    if (!status)
        status = pco_gguf_bool_or(gguf, "tokenizer.ggml.add_eos_token", kind->add_eos, &tokenizer->add_eos, err);
    if (status) return status;
    tokenizer->add_bos = tokenizer->add_bos && special->bos >= 0;
    tokenizer->add_eos = tokenizer->add_eos && special->eos >= 0;
    return PCO_OK;
}

/* Texts and types of all tokens. */
static pco_status text_read_tokens(const pco_gguf *gguf, pco_tokenizer **tokenizer, pco_error *err)
{
    static const char tokens_key[] = "tokenizer.ggml.tokens", types_key[] = "tokenizer.ggml.token_type";
    const pco_gguf_string *tokens;
    uint64_t count, type_count = 0;
    int32_t *types = NULL;
    pco_status status = pco_gguf_string_array(gguf, tokens_key, &tokens, &count, err);
    if (!status && pco_gguf_find(gguf, types_key))
        status = pco_gguf_i32_array(gguf, types_key, &types, &type_count, err);
    if (status) return status;
    size_t bytes = 0, longest = 0;
    for (uint64_t i = 0; i < count; i++) {
        bytes += tokens[i].size;
        if (tokens[i].size > longest) longest = tokens[i].size;
    }
    if (count == 0 || count > INT32_MAX || longest > UINT16_MAX || (types && type_count != count)) {
        status = pco_fail(err, PCO_ERROR_FORMAT,
                          "%s: key '%s' has %" PRIu64 " tokens (longest %zu bytes), and key '%s' %" PRIu64
                          " types: that is no vocabulary",
                          pco_gguf_label(gguf), tokens_key, count, longest, types_key, type_count);
        goto fail;
    }
    *tokenizer = text_create((uint32_t)count, bytes);
    if (!*tokenizer) {
        status = text_no_memory(err);
        goto fail;
    }
    for (uint32_t id = 0; id < count; id++)
        text_set_token(*tokenizer, id, tokens[id].data, tokens[id].size, types ? (uint32_t)types[id] : TEXT_NORMAL);
fail:
    free(types);
    return status;
}

static pco_status text_chat_template(const pco_gguf *gguf, pco_tokenizer *tokenizer, pco_error *err)
{
    const char *text;
    pco_status status = pco_gguf_text_or(gguf, "tokenizer.chat_template", NULL, &text, err);
    if (!status && text && !(tokenizer->chat_template = strdup(text))) status = text_no_memory(err);
    return status;
}

pco_status pco_tokenizer_from_gguf(const pco_gguf *gguf, pco_tokenizer **tokenizer, pco_error *err)
{
    const text_kind *kind;
    pco_tokenizer *made = NULL;
    int32_t twice;
    *tokenizer = NULL;
    pco_status status = text_find_kind(gguf, &kind, err);
    if (!status) status = text_read_tokens(gguf, &made, err);
    if (status) return status;
    kind->pieces(made);
    status = text_special_ids(gguf, kind, made, err);
    if (!status) status = text_index(made, &twice, err);
    if (!status) status = kind->prepare(made, gguf, err);
    if (!status) status = text_chat_template(gguf, made, err);
    if (status)
        pco_tokenizer_destroy(made);
    else
        *tokenizer = made;
    return status;
}
