#include "models/ct2_model.h"

#include "base/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CT2_STACK(side) \
    { \
        .embed_scope = side, .head_scope = side, .embedding = side ".embeddings.weight", .layer = side ".layer_*", \
        .last_norm = side ".layer_norm" \
    }

/* What CTranslate2's specifications of version 2 fix: pre-norm, ReLU, sinuses at positions counted from 1. */
static const pco_model_spec ct2_spec = {
    .program = "decoder",
    .stacks = {CT2_STACK("encoder"), CT2_STACK("decoder")},
    .names = {.self_attention_norm = "self_attention.layer_norm",
              .cross_attention_norm = "attention.layer_norm",
              .ffn_norm = "ffn.layer_norm",
              .query = "self_attention.linear_0",
              .key = "self_attention.linear_0",
              .value = "self_attention.linear_0",
              .fused = "self_attention.linear_0",
              .output = "self_attention.linear_1",
              .cross_query = "attention.linear_0",
              .cross_key = "attention.key",
              .cross_value = "attention.value",
              .cross_output = "attention.linear_2",
              .fc1 = "ffn.linear_0",
              .fc2 = "ffn.linear_1"},
    .lm_head = "decoder.projection.weight",
    .logits_bias = "decoder.projection.bias",
    .activation_function = PCO_NN_RELU,
    .normalize_before = 1,
    .norm.eps = 1e-5,
    .final_norm = 1,
    .attention_bias = PCO_BIAS_ALL,
    .output_bias = PCO_BIAS_ALL,
    .ffn_bias = PCO_BIAS_ALL,
    .position_embedding = PCO_POSITION_SINUSOIDAL,
    .sinusoidal_layout = 1,
    .position_offset = 1,
    .scale_embedding = 1,
    .max_position_embeddings = 512,
};

const pco_family pco_family_ct2 = {.name = "ct2", .spec = &ct2_spec};

/* The lines of a file as a tokenizer; *size tokens are expected. */
static pco_status ct2_vocabulary(const char *folder, const char *name, int64_t size, pco_tokenizer_special *special,
                                 pco_tokenizer **tokenizer, pco_error *err)
{
    char path[1200];
    pco_map map;
    int64_t count = 0;
    snprintf(path, sizeof path, "%.1000s/%s", folder, name);
    pco_status status = pco_map_open(path, &map, err);
    if (status) return status;
    char *text = strndup(map.data ? (const char *)map.data : "", map.size);
    const char **tokens = calloc((size_t)size + 1, sizeof *tokens);
    pco_map_close(&map);
    if (!text || !tokens) status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %s", path);
    for (char *at = text, *end; !status && *at; at = end, count++) {
        end = strchr(at, '\n');
        if (end)
            *end++ = 0;
        else
            end = at + strlen(at);
        if (count < size) tokens[count] = at;
        if (strcmp(at, "<s>") == 0) special->bos = (int32_t)count;
        if (strcmp(at, "</s>") == 0) special->eos = (int32_t)count;
        if (strcmp(at, "<blank>") == 0) special->pad = (int32_t)count;
        if (strcmp(at, "<unk>") == 0) special->unk = (int32_t)count;
    }
    if (!status && count == size - 1) { /* the unknown token is the last, and not in the file */
        special->unk = (int32_t)count;
        tokens[count++] = "<unk>";
    }
    if (!status && count != size)
        status = pco_fail(err, PCO_ERROR_FORMAT, "%s has %" PRId64 " tokens and the embeddings have %" PRId64, path,
                          count, size);
    if (!status) status = pco_tokenizer_from_vocab(tokens, (uint32_t)count, special, tokenizer, err);
    free(tokens);
    free(text);
    return status;
}

static int64_t ct2_size(const pco_weights *weights, const char *name, uint32_t dimension)
{
    const pco_weight *weight = pco_weights_find(weights, name);
    return weight && weight->rank == 2 ? weight->shape[dimension] : 0;
}

static pco_status ct2_read_spec(const pco_weights *weights, pco_model_spec *spec, pco_error *err)
{
    static const char *const sides[] = {"encoder", "decoder"};
    const char *kind = pco_weights_note_value(weights, "spec");
    const int64_t heads = strcmp(kind, "TransformerBase") == 0 ? 8 : strcmp(kind, "TransformerBig") == 0 ? 16 : 0;
    char name[64];
    *spec = ct2_spec;
    if (!heads)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                        "%s is of '%.100s'; Portico reads TransformerBase and TransformerBig", weights->label, kind);
    spec->d_model = ct2_size(weights, "decoder.embeddings.weight", 1);
    for (int side = 0; side < 2; side++) {
        int64_t layers = 0;
        snprintf(name, sizeof name, "%s.embeddings.weight", sides[side]);
        spec->vocab_size[side] = ct2_size(weights, name, 0);
        snprintf(name, sizeof name, "%s.layer_0.ffn.linear_0.weight", sides[side]);
        spec->ffn_dim[side] = ct2_size(weights, name, 0);
        do snprintf(name, sizeof name, "%s.layer_%" PRId64 ".ffn.linear_0.weight", sides[side], layers);
        while (pco_weights_find(weights, name) && ++layers);
        spec->layers[side] = layers;
        spec->attention_heads[side] = spec->kv_heads[side] = heads;
        spec->head_dim[side] = spec->d_model / heads;
        if (spec->vocab_size[side] < 1 || spec->ffn_dim[side] < 1 || spec->d_model < 1 || spec->d_model % (2 * heads))
            return pco_fail(err, PCO_ERROR_FORMAT, "%s has not the weights of a %s of %" PRId64 " heads",
                            weights->label, sides[side], heads);
    }
    pco_spec_set_norm(spec);
    spec->last_norm = spec->norm;
    return PCO_OK;
}

pco_status pco_ct2_read_model(const char *folder, const pco_weights *weights, pco_model_spec *spec,
                              pco_tokenizer **source, pco_tokenizer **target, pco_error *err)
{
    static const char *const names[] = {"source_vocabulary.txt", "target_vocabulary.txt"};
    pco_tokenizer_special special[2] = {{-1, -1, -1, -1}, {-1, -1, -1, -1}};
    char path[1200];
    pco_status status = ct2_read_spec(weights, spec, err);
    if (status) return status;
    snprintf(path, sizeof path, "%.1000s/shared_vocabulary.txt", folder);
    const int shared = access(path, F_OK) == 0;
    status = ct2_vocabulary(folder, shared ? "shared_vocabulary.txt" : names[0], spec->vocab_size[0], &special[0],
                            source, err);
    if (!status && shared) *target = *source;
    if (!status && !shared) status = ct2_vocabulary(folder, names[1], spec->vocab_size[1], &special[1], target, err);
    const pco_tokenizer_special *ends = &special[shared ? 0 : 1];
    spec->pad_token_id = ends->pad < 0 ? 0 : ends->pad;
    spec->bos_token_id = spec->decoder_start_token_id = ends->bos;
    spec->eos_token_id = ends->eos;
    if (!status && (ends->bos < 0 || ends->eos < 0))
        status = pco_fail(err, PCO_ERROR_FORMAT, "%s: the vocabulary of the target has no '<s>' or no '</s>'", folder);
    return status;
}
