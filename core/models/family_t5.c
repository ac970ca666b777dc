/* T5 (Raffel et al. 2020) in folders of Hugging Face, of the first version (ReLU, one table for all) and 1.1 (gated
 * GELU, an output projection of its own): an encoder-decoder, pre-norm by RMS, without biases, whose scores are not
 * scaled and have a bias for each distance instead of positions. */
#include "models/family.h"

#include "base/error.h"

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

static void t5_read(pco_hub_reader *r, pco_model_spec *spec)
{
    static const char *const forms[] = {"relu", "gated-gelu"};
    const int64_t vocab = pco_hub_size_or(r, "vocab_size", INT32_MAX, 32128);
    spec->d_model = pco_hub_size_or(r, "d_model", 1 << 20, 512);
    const int64_t layers = pco_hub_size_or(r, "num_layers", 1024, 6);
    for (int side = 0; side < 2; side++) {
        spec->vocab_size[side] = vocab;
        spec->layers[side] = side ? pco_hub_size_or(r, "num_decoder_layers", 1024, layers) : layers;
        spec->attention_heads[side] = spec->kv_heads[side] = pco_hub_size_or(r, "num_heads", 4096, 8);
        spec->head_dim[side] = pco_hub_size_or(r, "d_kv", 1 << 16, 64);
        spec->ffn_dim[side] = pco_hub_size_or(r, "d_ff", 1 << 24, 2048);
    }
    const uint32_t gated = pco_hub_enum(r, "feed_forward_proj", forms, 2, 0);
    spec->activation_function = gated ? PCO_NN_GEGLU : PCO_NN_RELU;
    pco_hub_only(r, "is_gated_act", gated); /* what follows from feed_forward_proj, written down, as the next one */
    pco_hub_only_text(r, "dense_act_fn", gated ? "gelu_new" : "relu");
    spec->relative_buckets = pco_hub_size_or(r, "relative_attention_num_buckets", 1 << 16, 32);
    if (!r->status && spec->relative_buckets < 4)
        r->status =
            pco_fail(r->err, PCO_ERROR_FORMAT, "%s: 'relative_attention_num_buckets' must be at least 4", r->label);
    spec->relative_distance = pco_hub_size_or(r, "relative_attention_max_distance", 1 << 24, 128);
    spec->max_position_embeddings = pco_hub_size_or(r, "n_positions", 1 << 24, 512);
    spec->norm.eps = pco_hub_number(r, "layer_norm_epsilon", 0, 1, spec->norm.eps);
    pco_spec_set_norm(spec);
    spec->last_norm = spec->norm;
    spec->tie_word_embeddings = pco_hub_bool(r, "tie_word_embeddings", 1);
    /* transformers 5 writes that embeddings are tied, and separately whether the scale is there */
    if (pco_hub_bool(r, "scale_decoder_outputs", spec->tie_word_embeddings))
        spec->head_scale = 1 / sqrt((double)spec->d_model);
    pco_hub_only(r, "is_encoder_decoder", 1);
    spec->pad_token_id = pco_hub_token(r, "pad_token_id", 0);
    spec->eos_token_id = pco_hub_token(r, "eos_token_id", 1);
    spec->bos_token_id = -1;
    spec->decoder_start_token_id = pco_hub_token(r, "decoder_start_token_id", spec->pad_token_id);
}

static const char *const t5_unused[] = {"encoder.embed_tokens.", "decoder.embed_tokens.", NULL};
static const pco_hub t5_hub = {
    .read = t5_read, .prefix = "", .unused = t5_unused, .class = "T5ForConditionalGeneration"};

const pco_family pco_family_t5 = {.name = "t5", .model_type = "t5", .spec = &t5_spec, .hub = &t5_hub};
