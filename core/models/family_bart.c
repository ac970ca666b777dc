/* BART (Lewis et al. 2019) in folders of Hugging Face: an encoder-decoder, post-norm, with learned positions that begin
 * at 2, a norm behind the embeddings, which both sides share with the output projection. */
#include "models/family.h"

#include "base/error.h"
#include "models/hf_config.h"

#include <inttypes.h>

#define BART_STACK(side) \
    .embed_scope = side, .head_scope = side, .embedding = "shared.weight", .layer = side ".layers.*"
#define BART_LEARNED(side) \
    { \
        BART_STACK(side), .positions = side ".embed_positions.weight", .embedding_norm = side ".layernorm_embedding" \
    }
#define BART_SPEC \
    .program = "decoder", \
    .names = {.self_attention_norm = "self_attn_layer_norm", \
              .cross_attention_norm = "encoder_attn_layer_norm", \
              .ffn_norm = "final_layer_norm", \
              .query = "self_attn.q_proj", \
              .key = "self_attn.k_proj", \
              .value = "self_attn.v_proj", \
              .output = "self_attn.out_proj", \
              .cross_query = "encoder_attn.q_proj", \
              .cross_key = "encoder_attn.k_proj", \
              .cross_value = "encoder_attn.v_proj", \
              .cross_output = "encoder_attn.out_proj", \
              .fc1 = "fc1", \
              .fc2 = "fc2"}, \
    .logits_bias = "final_logits_bias", .norm.eps = 1e-5, .attention_bias = PCO_BIAS_ALL, .output_bias = PCO_BIAS_ALL, \
    .ffn_bias = PCO_BIAS_ALL, .tie_word_embeddings = 1, .share_embeddings = 1, .add_eos_to_source = 1

static const pco_model_spec bart_spec = {
    BART_SPEC,
    .stacks = {BART_LEARNED("encoder"), BART_LEARNED("decoder")},
    .position_embedding = PCO_POSITION_LEARNED,
    .position_offset = 2,
};

static const pco_model_spec marian_spec = {
    BART_SPEC,
    .stacks = {{BART_STACK("encoder")}, {BART_STACK("decoder")}},
    .position_embedding = PCO_POSITION_SINUSOIDAL,
    .sinusoidal_layout = 2,
};

static pco_status bart_read(const cJSON *root, const char *label, pco_model_spec *spec, pco_error *err)
{
    static const char *const layers[] = {"encoder_layers", "decoder_layers"},
                             *const heads[] = {"encoder_attention_heads", "decoder_attention_heads"},
                             *const hidden[] = {"encoder_ffn_dim", "decoder_ffn_dim"};
    pco_json_reader reader = {.root = root, .label = label, .err = err};
    const int64_t vocab = pco_json_read_int(&reader, "vocab_size", 1, INT32_MAX, 50265);
    spec->d_model = pco_json_read_int(&reader, "d_model", 1, 1 << 20, 1024);
    for (int side = 0; side < 2; side++) {
        spec->vocab_size[side] = vocab;
        spec->layers[side] = pco_json_read_int(&reader, layers[side], 1, 1024, 12);
        spec->attention_heads[side] = spec->kv_heads[side] = pco_json_read_int(&reader, heads[side], 1, 4096, 16);
        spec->ffn_dim[side] = pco_json_read_int(&reader, hidden[side], 1, 1 << 24, 4096);
        spec->head_dim[side] = spec->d_model / spec->attention_heads[side];
        if (!reader.status && spec->d_model % spec->attention_heads[side])
            return pco_fail(err, PCO_ERROR_FORMAT, "%s: 'd_model' %" PRId64 " is no multiple of '%s'", label,
                            spec->d_model, heads[side]);
    }
    spec->max_position_embeddings = pco_json_read_int(&reader, "max_position_embeddings", 1, 1 << 24, 1024);
    spec->position_rows = spec->max_position_embeddings + spec->position_offset;
    spec->activation_function = pco_hf_activation(&reader, "activation_function", PCO_NN_GELU);
    spec->scale_embedding = pco_json_read_bool(&reader, "scale_embedding", 0);
    spec->norm.size = spec->d_model;
    spec->pad_token_id = pco_hf_token(&reader, "pad_token_id", 1);
    spec->bos_token_id = pco_hf_token(&reader, "bos_token_id", 0);
    spec->eos_token_id = pco_hf_token(&reader, "eos_token_id", 2);
    spec->decoder_start_token_id = pco_hf_token(&reader, "decoder_start_token_id", 2);
    if (!reader.status && !pco_json_read_bool(&reader, "tie_word_embeddings", 1))
        return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                        "%s: 'tie_word_embeddings' is false; Portico runs BART with shared embeddings only", label);
    if (!reader.status && !pco_json_read_bool(&reader, "share_encoder_decoder_embeddings", 1))
        return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                        "%s: 'share_encoder_decoder_embeddings' is false; Portico runs one table for both sides only",
                        label);
    if (!reader.status && spec->position_embedding == PCO_POSITION_SINUSOIDAL && spec->d_model % 2)
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: sinusoidal positions need an even d_model", label);
    if (!reader.status && spec->pad_token_id < 0) spec->pad_token_id = 0;
    return reader.status;
}

static const char *const bart_ignored[] = {"encoder.embed_tokens.",    "decoder.embed_tokens.",    "lm_head.",
                                           "encoder.embed_positions.", "decoder.embed_positions.", NULL};

const pco_family pco_family_bart = {
    .name = "bart", .spec = &bart_spec, .prefix = "model.", .ignored = bart_ignored, .read_config = bart_read};

const pco_family pco_family_marian = {
    .name = "marian", .spec = &marian_spec, .prefix = "model.", .ignored = bart_ignored, .read_config = bart_read};
