/* DistilBERT (Sanh et al. 2019) in folders of Hugging Face: BERT without token types, with names and keys of its own.
 */
#include "models/family.h"
#include "models/hf_config.h"

static const pco_model_spec distilbert_spec = {
    .program = "encoder",
    .stacks[PCO_ENCODER] = {.embed_scope = "embeddings",
                            .head_scope = "encoder",
                            .embedding = "embeddings.word_embeddings.weight",
                            .positions = "embeddings.position_embeddings.weight",
                            .embedding_norm = "embeddings.LayerNorm",
                            .layer = "transformer.layer.*"},
    .names = {.self_attention_norm = "sa_layer_norm",
              .ffn_norm = "output_layer_norm",
              .query = "attention.q_lin",
              .key = "attention.k_lin",
              .value = "attention.v_lin",
              .output = "attention.out_lin",
              .fc1 = "ffn.lin1",
              .fc2 = "ffn.lin2"},
    .masked_head = {.dense = "vocab_transform", .norm = "vocab_layer_norm", .bias = "vocab_projector.bias"},
    .activation_function = PCO_NN_GELU,
    .norm.eps = 1e-12,
    .attention_bias = PCO_BIAS_ALL,
    .output_bias = PCO_BIAS_ALL,
    .ffn_bias = PCO_BIAS_ALL,
    .position_embedding = PCO_POSITION_LEARNED,
    .encoder_only = 1,
};

/* Positions by sinuses are in the table, too: the model has them there. */
static pco_status distilbert_read(const cJSON *root, const char *label, pco_model_spec *spec, pco_error *err)
{
    static const pco_hf_encoder_keys keys = {"dim", "n_layers", "n_heads", "hidden_dim", "activation"};
    pco_json_reader reader = {.root = root, .label = label, .err = err};
    pco_hf_read_encoder_keys(&reader, &keys, spec);
    spec->masked_head.activation = spec->activation_function;
    return reader.status;
}

static const char *const distilbert_ignored[] = {PCO_HF_ENCODER_IGNORED, "pre_classifier.", "vocab_projector.", NULL};

const pco_family pco_family_distilbert = {.name = "distilbert",
                                          .spec = &distilbert_spec,
                                          .prefix = "distilbert.",
                                          .ignored = distilbert_ignored,
                                          .read_config = distilbert_read};
