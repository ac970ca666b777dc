/* ALBERT (Lan et al. 2019) in folders of Hugging Face: BERT whose layers share their weights, with embeddings of a
 * width of their own and a projection behind them. */
#include "models/family.h"

#include "base/error.h"

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

static void albert_read(pco_hub_reader *r, pco_model_spec *spec)
{
    pco_hub_read_encoder(r, &pco_hub_encoder_keys, spec);
    spec->masked_head.activation = spec->activation_function;
    spec->token_types = pco_hub_size_or(r, "type_vocab_size", 1 << 20, 2);
    spec->embedding_size = pco_hub_size_or(r, "embedding_size", 1 << 20, 128);
    spec->layer_groups = pco_hub_size_or(r, "num_hidden_groups", 1024, 1);
    pco_hub_only(r, "inner_group_num", 1);
    pco_hub_only(r, "down_scale_factor", 1); /* of experiments before publication, as the next ones */
    pco_hub_only(r, "gap_size", 0);
    pco_hub_only(r, "net_structure_type", 0);
    pco_hub_only(r, "num_memory_blocks", 0);
    if (!r->status && spec->layers[PCO_ENCODER] % spec->layer_groups)
        r->status = pco_fail(r->err, PCO_ERROR_FORMAT,
                             "%s: 'num_hidden_layers' %" PRId64 " is no multiple of 'num_hidden_groups' %" PRId64,
                             r->label, spec->layers[PCO_ENCODER], spec->layer_groups);
}

static const char *const albert_unused[] = {PCO_HUB_ENCODER_UNUSED, "predictions.decoder.", "sop_classifier.", NULL};
static const pco_hub albert_hub = {.read = albert_read, .prefix = "albert.", .unused = albert_unused};

const pco_family pco_family_albert = {
    .name = "albert", .model_type = "albert", .spec = &albert_spec, .hub = &albert_hub};
