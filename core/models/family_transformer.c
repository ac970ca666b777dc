/* The configurable transformer (Vaswani et al. 2017 and its common variants), an encoder-decoder or a decoder
 * alone, from a folder with config.json: what Portico trains. Fields, defaults and tensor names:
 * tests/golden/README.md. */
#include "models/family.h"

#include "base/error.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const transformer_keys[] = {
    "model_type",
    "vocab_size",
    "encoder_vocab_size",
    "decoder_vocab_size",
    "d_model",
    "encoder_layers",
    "decoder_layers",
    "encoder_attention_heads",
    "decoder_attention_heads",
    "encoder_ffn_dim",
    "decoder_ffn_dim",
    "activation_function",
    "fused_gate_up",
    "normalize_before",
    "norm_type",
    "norm_form",
    "norm_eps",
    "final_norm",
    "final_norm_form",
    "final_norm_eps",
    "attention_bias",
    "ffn_bias",
    "fused_qkv",
    "position_embedding",
    "rope_theta",
    "rope_interleaved",
    "sinusoidal_layout",
    "position_offset",
    "scale_embedding",
    "tie_word_embeddings",
    "share_embeddings",
    "final_logits_bias",
    "pad_token_id",
    "bos_token_id",
    "eos_token_id",
    "decoder_start_token_id",
    "max_position_embeddings",
    "add_eos_to_source",
    "is_encoder_decoder",
    "dropout",
    "vocab",
    "encoder_vocab",
    "decoder_vocab",
    "merges",
    "encoder_merges",
    "decoder_merges",
};

/* -1 means none, which only a decoder alone can do with. */
static int32_t transformer_token(pco_json_reader *r, const pco_model_spec *c, const char *key, int32_t fallback)
{
    return (int32_t)pco_json_read_int(r, key, c->decoder_only ? -1 : 0, INT32_MAX, fallback);
}

static void transformer_read_sizes(pco_json_reader *r, pco_model_spec *c)
{
    int64_t vocab = pco_json_read_int(r, "vocab_size", 0, INT32_MAX, 0);
    c->decoder_only = !pco_json_read_bool(r, "is_encoder_decoder", 1);
    c->share_embeddings = pco_json_read_bool(r, "share_embeddings", 1);
    if (c->share_embeddings) c->stacks[0].embedding = c->stacks[1].embedding = "shared.weight";
    c->vocab_size[0] = pco_json_read_int(r, "encoder_vocab_size", 0, INT32_MAX, vocab);
    c->vocab_size[1] = pco_json_read_int(r, "decoder_vocab_size", 0, INT32_MAX, vocab);
    if (c->share_embeddings) c->vocab_size[0] = c->vocab_size[1] = vocab;
    c->d_model = pco_json_read_int(r, "d_model", 1, 1 << 20, 512);
    c->layers[0] = pco_json_read_int(r, "encoder_layers", 0, 1024, 6);
    c->layers[1] = pco_json_read_int(r, "decoder_layers", 0, 1024, 6);
    c->attention_heads[0] = pco_json_read_int(r, "encoder_attention_heads", 1, 4096, 8);
    c->attention_heads[1] = pco_json_read_int(r, "decoder_attention_heads", 1, 4096, 8);
    c->ffn_dim[0] = pco_json_read_int(r, "encoder_ffn_dim", 1, 1 << 24, 2048);
    c->ffn_dim[1] = pco_json_read_int(r, "decoder_ffn_dim", 1, 1 << 24, 2048);
    c->max_position_embeddings = pco_json_read_int(r, "max_position_embeddings", 1, 1 << 24, 512);
    if (!c->decoder_only) return;
    c->layers[0] = 0;
    c->attention_heads[0] = c->attention_heads[1];
    c->vocab_size[0] = c->vocab_size[1];
}

static void transformer_read_norms(pco_json_reader *r, pco_model_spec *c)
{
    static const char *const types[] = {"layer_norm", "rms_norm"}, *const forms[] = {"var_eps", "std_eps"};
    pco_spec_set_norm(c);
    c->norm.type = (pco_nn_norm_type)pco_json_read_enum(r, "norm_type", types, 2, PCO_NN_LAYER_NORM);
    c->norm.form = (pco_nn_norm_form)pco_json_read_enum(r, "norm_form", forms, 2, PCO_NN_VAR_EPS);
    c->norm.eps = pco_json_read_number(r, "norm_eps", 0, 1e3, 1e-5);
    c->final_norm = pco_json_read_bool(r, "final_norm", 0);
    c->last_norm = c->norm;
    c->last_norm.form = (pco_nn_norm_form)pco_json_read_enum(r, "final_norm_form", forms, 2, c->norm.form);
    c->last_norm.eps = pco_json_read_number(r, "final_norm_eps", 0, 1e3, c->norm.eps);
}

static void transformer_read_options(pco_json_reader *r, pco_model_spec *c)
{
    static const char *const activations[] = {"relu", "gelu", "gelu_tanh", "swiglu"};
    static const pco_nn_activation values[] = {PCO_NN_RELU, PCO_NN_GELU, PCO_NN_GELU_TANH, PCO_NN_SWIGLU};
    static const char *const positions[] = {"sinusoidal", "rope"}, *const layouts[] = {"interleaved", "half"};
    c->activation_function = values[pco_json_read_enum(r, "activation_function", activations, 4, 0)];
    if (pco_json_read_bool(r, "fused_gate_up", 0)) c->names.gate_up = "gate_up_proj";
    c->normalize_before = pco_json_read_bool(r, "normalize_before", 0);
    c->attention_bias = c->output_bias = pco_json_read_bool(r, "attention_bias", 1) ? PCO_BIAS_ALL : PCO_BIAS_NONE;
    c->ffn_bias = pco_json_read_bool(r, "ffn_bias", 1) ? PCO_BIAS_ALL : PCO_BIAS_NONE;
    if (pco_json_read_bool(r, "fused_qkv", 0)) c->names.fused = "self_attn.in_proj_";
    c->position_embedding = (pco_position_embedding)pco_json_read_enum(r, "position_embedding", positions, 2, 0);
    c->rope_theta = pco_json_read_number(r, "rope_theta", 1, 1e12, 10000);
    c->rope_interleaved = pco_json_read_bool(r, "rope_interleaved", 0);
    c->sinusoidal_layout = (int)pco_json_read_enum(r, "sinusoidal_layout", layouts, 2, 0);
    c->position_offset = pco_json_read_int(r, "position_offset", 0, 1 << 24, 0);
    c->scale_embedding = pco_json_read_bool(r, "scale_embedding", 0);
    c->tie_word_embeddings = pco_json_read_bool(r, "tie_word_embeddings", 1);
    if (pco_json_read_bool(r, "final_logits_bias", 0)) c->logits_bias = "final_logits_bias";
    c->pad_token_id = transformer_token(r, c, "pad_token_id", 0);
    c->bos_token_id = transformer_token(r, c, "bos_token_id", 1);
    c->eos_token_id = transformer_token(r, c, "eos_token_id", 2);
    c->decoder_start_token_id = transformer_token(r, c, "decoder_start_token_id", 1);
    c->add_eos_to_source = pco_json_read_bool(r, "add_eos_to_source", 0);
    c->dropout = pco_json_read_number(r, "dropout", 0, 0.999, 0);
}

static pco_status transformer_read(const cJSON *root, const char *label, pco_model_spec *spec, pco_error *err)
{
    static const char *const sides[] = {"encoder", "decoder"};
    const uint32_t n_keys = sizeof transformer_keys / sizeof *transformer_keys;
    pco_json_reader reader = {root, label, pco_json_known(root, label, transformer_keys, n_keys, err), err};
    if (reader.status) return reader.status;
    transformer_read_sizes(&reader, spec);
    transformer_read_norms(&reader, spec);
    transformer_read_options(&reader, spec);
    if (reader.status) return reader.status;
    for (int side = 0; side < 2; side++) {
        int64_t heads = spec->attention_heads[side], size = spec->d_model / heads;
        if (spec->d_model % heads)
            return pco_fail(err, PCO_ERROR_FORMAT,
                            "%s: d_model %" PRId64 " is no multiple of %s_attention_heads %" PRId64, label,
                            spec->d_model, sides[side], heads);
        if (spec->position_embedding == PCO_POSITION_ROPE && size % 2)
            return pco_fail(err, PCO_ERROR_FORMAT,
                            "%s: rope needs an even head size, and d_model / %s_attention_heads "
                            "is %" PRId64,
                            label, sides[side], size);
        spec->kv_heads[side] = heads;
        spec->head_dim[side] = size;
    }
    if (spec->position_embedding == PCO_POSITION_SINUSOIDAL && spec->d_model % 2)
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: sinusoidal positions need an even d_model, and it is %" PRId64,
                        label, spec->d_model);
    return PCO_OK;
}

/* A list of strings; *list is malloc'ed, its strings belong to the document. */
static pco_status transformer_strings(const cJSON *list, const char *label, const char *key, const char ***strings,
                                      uint32_t *count, pco_error *err)
{
    const cJSON *item;
    *count = 0;
    *strings = NULL;
    if (!cJSON_IsArray(list)) return pco_fail(err, PCO_ERROR_FORMAT, "%s: '%s' must be a list of strings", label, key);
    *strings = calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof **strings);
    if (!*strings) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for '%s' of %s", key, label);
    cJSON_ArrayForEach(item, list)
    {
        if (!cJSON_IsString(item))
            return pco_fail(err, PCO_ERROR_FORMAT, "%s: '%s' must be a list of strings", label, key);
        (*strings)[(*count)++] = item->valuestring;
    }
    return PCO_OK;
}

static pco_status transformer_tokenizer(const cJSON *root, const char *label, const pco_model_spec *spec,
                                        pco_model_side side, pco_tokenizer **tokenizer, pco_error *err)
{
    static const char *const keys[][2] = {{"encoder_vocab", "encoder_merges"}, {"decoder_vocab", "decoder_merges"}};
    const char *key = keys[side][0], *merges_key = keys[side][1];
    const char **tokens = NULL, **merges = NULL;
    uint32_t count = 0, merge_count = 0;
    *tokenizer = NULL;
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(root, key);
    if (!list) list = cJSON_GetObjectItemCaseSensitive(root, key = "vocab");
    if (!list) return PCO_OK;
    const cJSON *merge_list = cJSON_GetObjectItemCaseSensitive(root, merges_key);
    if (!merge_list) merge_list = cJSON_GetObjectItemCaseSensitive(root, merges_key = "merges");
    pco_status status = transformer_strings(list, label, key, &tokens, &count, err);
    if (!status && merge_list) status = transformer_strings(merge_list, label, merges_key, &merges, &merge_count, err);
    if (!status && count != spec->vocab_size[side])
        status = pco_fail(err, PCO_ERROR_FORMAT, "%s: '%s' has %u tokens and the vocabulary size is %" PRId64, label,
                          key, count, spec->vocab_size[side]);
    const pco_tokenizer_special special = {
        .bos = spec->bos_token_id, .eos = spec->eos_token_id, .pad = spec->pad_token_id, .unk = -1};
    if (!status) {
        status = merge_list
                     ? pco_tokenizer_from_bpe(label, tokens, count, merges, merge_count, &special, tokenizer, err)
                     : pco_tokenizer_from_vocab(tokens, count, &special, tokenizer, err);
        if (status) status = pco_fail_prefix(err, status, "%s: '%s'", label, key);
    }
    free(tokens);
    free(merges);
    return status;
}

#define TRANSFORMER_STACK(side) \
    { \
        .embed_scope = side, .head_scope = side, .embedding = side ".embed_tokens.weight", .layer = side ".layers.*", \
        .last_norm = side ".layer_norm" \
    }

static const pco_model_spec transformer_spec = {
    .program = "decoder",
    .stacks = {TRANSFORMER_STACK("encoder"), TRANSFORMER_STACK("decoder")},
    .names = {PCO_FAIRSEQ_LAYER_NAMES, .gate = "gate_proj", .up = "up_proj", .down = "down_proj"},
    .lm_head = "lm_head.weight",
};

/* Decoders alone are written as those of others that compute the same: Llama where norms are RMS norms, StarCoder2 or
 * GPT-NeoX for LayerNorm with rotated positions, GPT-2 for sinusoidal ones, which become a table. Encoder-decoders, in
 * folders, as Marian's where norms are behind the blocks, and else as two stacks of other families; what these cannot
 * say (RMS norms, gates, rotated positions) is found when they are written. */
static const pco_family *transformer_written_as(const pco_model_spec *spec, int folder)
{
    const int rope = spec->position_embedding == PCO_POSITION_ROPE, gated = spec->activation_function == PCO_NN_SWIGLU;
    if (!spec->decoder_only)
        return !folder ? NULL : spec->normalize_before ? &pco_family_encoder_decoder : &pco_family_marian;
    if (!spec->normalize_before) return NULL;
    if (spec->norm.type == PCO_NN_RMS_NORM) return rope && gated ? &pco_family_llama : NULL;
    if (gated) return NULL;
    if (!rope) return &pco_family_gpt2;
    /* in GGUF each has one activation */
    return folder || spec->activation_function != PCO_NN_GELU ? &pco_family_starcoder2 : &pco_family_gptneox;
}

const pco_family pco_family_transformer = {.name = "transformer",
                                           .model_type = "transformer",
                                           .written_as = transformer_written_as,
                                           .any_parts = 1,
                                           .spec = &transformer_spec,
                                           .read_config = transformer_read,
                                           .read_tokenizer = transformer_tokenizer};
