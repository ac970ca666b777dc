/* ALBERT (Lan et al. 2019) in folders of Hugging Face: BERT whose layers share their weights, with embeddings of a
 * width of their own and a projection behind them. */
#include "models/family.h"

#include "base/error.h"
#include "models/hf_config.h"

#include <inttypes.h>

static const pco_model_spec albert_spec = {
    .program = "encoder",
    .stacks[PCO_ENCODER] = {.embed_scope = "embeddings",
                            .head_scope = "encoder",
                            .embedding = "embeddings.word_embeddings.weight",
                            .positions = "embeddings.position_embeddings.weight",
                            .token_types = "embeddings.token_type_embeddings.weight",
                            .embedding_norm = "embeddings.LayerNorm",
                            .embedding_projection = "encoder.embedding_hidden_mapping_in",
                            .layer = "encoder.albert_layer_groups.*.albert_layers.0"},
    .names = {.self_attention_norm = "attention.LayerNorm",
              .ffn_norm = "full_layer_layer_norm",
              .query = "attention.query",
              .key = "attention.key",
              .value = "attention.value",
              .output = "attention.dense",
              .fc1 = "ffn",
              .fc2 = "ffn_output"},
    .masked_head = {.dense = "predictions.dense", .norm = "predictions.LayerNorm", .bias = "predictions.bias"},
    .activation_function = PCO_NN_GELU_TANH,
    .norm.eps = 1e-12,
    .attention_bias = PCO_BIAS_ALL,
    .output_bias = PCO_BIAS_ALL,
    .ffn_bias = PCO_BIAS_ALL,
    .position_embedding = PCO_POSITION_LEARNED,
    .encoder_only = 1,
};

static pco_status albert_read(const cJSON *root, const char *label, pco_model_spec *spec, pco_error *err)
{
    pco_json_reader reader = {.root = root, .label = label, .err = err};
    pco_hf_read_encoder(&reader, spec);
    spec->masked_head.activation = spec->activation_function;
    spec->token_types = pco_json_read_int(&reader, "type_vocab_size", 1, 1 << 20, 2);
    spec->embedding_size = pco_json_read_int(&reader, "embedding_size", 1, 1 << 20, 128);
    spec->layer_groups = pco_json_read_int(&reader, "num_hidden_groups", 1, 1024, 1);
    const int64_t inner = pco_json_read_int(&reader, "inner_group_num", 1, 1024, 1);
    if (reader.status) return reader.status;
    if (inner != 1)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                        "%s: 'inner_group_num' is %" PRId64 "; Portico runs groups of 1 layer only", label, inner);
    if (spec->layers[PCO_ENCODER] % spec->layer_groups)
        return pco_fail(err, PCO_ERROR_FORMAT,
                        "%s: 'num_hidden_layers' %" PRId64 " is no multiple of 'num_hidden_groups' %" PRId64, label,
                        spec->layers[PCO_ENCODER], spec->layer_groups);
    return PCO_OK;
}

static const char *const albert_ignored[] = {PCO_HF_ENCODER_IGNORED, "predictions.decoder.", "sop_classifier.", NULL};

const pco_family pco_family_albert = {
    .name = "albert", .spec = &albert_spec, .prefix = "albert.", .ignored = albert_ignored, .read_config = albert_read};
