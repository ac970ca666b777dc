/* T5 (Raffel et al. 2020) in folders of Hugging Face, of the first version (ReLU, one table for all) and 1.1 (gated
 * GELU, an output projection of its own): an encoder-decoder, pre-norm by RMS, without biases, whose scores are not
 * scaled and have a bias for each distance instead of positions. */
#include "models/family.h"

#include "models/hf_config.h"

#include <math.h>

#define T5_STACK(side) \
    { \
        .embed_scope = side, .head_scope = side, .embedding = "shared.weight", .layer = side ".block.*", \
        .last_norm = side ".final_layer_norm", \
        .relative_bias = side ".block.0.layer.0.SelfAttention.relative_attention_bias.weight" \
    }
#define T5_NAMES(ffn) \
    .self_attention_norm = "layer.0.layer_norm", .query = "layer.0.SelfAttention.q", .key = "layer.0.SelfAttention.k", \
    .value = "layer.0.SelfAttention.v", .output = "layer.0.SelfAttention.o", .ffn_norm = "layer." ffn ".layer_norm", \
    .fc1 = "layer." ffn ".DenseReluDense.wi", .fc2 = "layer." ffn ".DenseReluDense.wo", \
    .gate = "layer." ffn ".DenseReluDense.wi_0", .up = "layer." ffn ".DenseReluDense.wi_1", \
    .down = "layer." ffn ".DenseReluDense.wo"

static const pco_layer_names t5_decoder = {T5_NAMES("2"),
                                           .cross_attention_norm = "layer.1.layer_norm",
                                           .cross_query = "layer.1.EncDecAttention.q",
                                           .cross_key = "layer.1.EncDecAttention.k",
                                           .cross_value = "layer.1.EncDecAttention.v",
                                           .cross_output = "layer.1.EncDecAttention.o"};

static const pco_model_spec t5_spec = {
    .program = "decoder",
    .stacks = {T5_STACK("encoder"), T5_STACK("decoder")},
    .names = {T5_NAMES("1")},
    .decoder_names = &t5_decoder,
    .lm_head = "lm_head.weight",
    .normalize_before = 1,
    .norm = {.type = PCO_NN_RMS_NORM, .eps = 1e-6},
    .final_norm = 1,
    .attention_scale = 1,
    .position_embedding = PCO_POSITION_NONE,
    .share_embeddings = 1,
    .add_eos_to_source = 1,
};

static pco_status t5_read(const cJSON *root, const char *label, pco_model_spec *spec, pco_error *err)
{
    static const char *const forms[] = {"relu", "gated-gelu"};
    pco_json_reader reader = {.root = root, .label = label, .err = err};
    const int64_t vocab = pco_json_read_int(&reader, "vocab_size", 1, INT32_MAX, 32128);
    spec->d_model = pco_json_read_int(&reader, "d_model", 1, 1 << 20, 512);
    const int64_t layers = pco_json_read_int(&reader, "num_layers", 1, 1024, 6);
    for (int side = 0; side < 2; side++) {
        spec->vocab_size[side] = vocab;
        spec->layers[side] = side ? pco_json_read_int(&reader, "num_decoder_layers", 1, 1024, layers) : layers;
        spec->attention_heads[side] = spec->kv_heads[side] = pco_json_read_int(&reader, "num_heads", 1, 4096, 8);
        spec->head_dim[side] = pco_json_read_int(&reader, "d_kv", 1, 1 << 16, 64);
        spec->ffn_dim[side] = pco_json_read_int(&reader, "d_ff", 1, 1 << 24, 2048);
    }
    spec->activation_function =
        pco_json_read_enum(&reader, "feed_forward_proj", forms, 2, 0) ? PCO_NN_GEGLU : PCO_NN_RELU;
    spec->relative_buckets = pco_json_read_int(&reader, "relative_attention_num_buckets", 4, 1 << 16, 32);
    spec->relative_distance = pco_json_read_int(&reader, "relative_attention_max_distance", 1, 1 << 24, 128);
    spec->max_position_embeddings = pco_json_read_int(&reader, "n_positions", 1, 1 << 24, 512);
    spec->norm.eps = pco_json_read_number(&reader, "layer_norm_epsilon", 0, 1, spec->norm.eps);
    spec->norm.size = spec->d_model;
    spec->last_norm = spec->norm;
    spec->tie_word_embeddings = pco_json_read_bool(&reader, "tie_word_embeddings", 1);
    /* transformers 5 writes that embeddings are tied, and separately whether the scale is there */
    if (pco_json_read_bool(&reader, "scale_decoder_outputs", spec->tie_word_embeddings))
        spec->head_scale = 1 / sqrt((double)spec->d_model);
    spec->pad_token_id = pco_hf_token(&reader, "pad_token_id", 0);
    spec->eos_token_id = pco_hf_token(&reader, "eos_token_id", 1);
    spec->bos_token_id = -1;
    spec->decoder_start_token_id = pco_hf_token(&reader, "decoder_start_token_id", spec->pad_token_id);
    return reader.status;
}

static const char *const t5_ignored[] = {"encoder.embed_tokens.", "decoder.embed_tokens.", NULL};

const pco_family pco_family_t5 = {
    .name = "t5", .spec = &t5_spec, .prefix = "", .ignored = t5_ignored, .read_config = t5_read};
