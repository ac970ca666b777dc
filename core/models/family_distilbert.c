/* DistilBERT (Sanh et al. 2019) in folders of Hugging Face: BERT without token types, with names and keys of its own.
 */
#include "models/family.h"

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

static void distilbert_read(pco_hub_reader *r, pco_model_spec *spec)
{
    static const pco_hub_keys keys = {.width = "dim",
                                      .ffn = "hidden_dim",
                                      .layers = "n_layers",
                                      .heads = "n_heads",
                                      .context = "max_position_embeddings",
                                      .eps = "layer_norm_eps",
                                      .activation = "activation"};
    pco_hub_read_encoder(r, &keys, spec);
    spec->masked_head.activation = spec->activation_function;
    pco_hub_ignore(r, "sinusoidal_pos_embds"); /* what the file's table of positions was filled with */
    pco_hub_only(r, "tie_weights_", 1);
}

static const char *const distilbert_unused[] = {PCO_HUB_ENCODER_UNUSED, "pre_classifier.", "vocab_projector.", NULL};
static const pco_hub distilbert_hub = {.read = distilbert_read, .prefix = "distilbert.", .unused = distilbert_unused};

const pco_family pco_family_distilbert = {
    .name = "distilbert", .model_type = "distilbert", .spec = &distilbert_spec, .hub = &distilbert_hub};
