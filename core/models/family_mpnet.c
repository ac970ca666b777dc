/* MPNet (Song et al. 2020) in folders of Hugging Face: BERT without token types, whose scores also have a bias for each
 * distance, as T5's; all layers share the table. */
#include "models/family.h"

static const pco_model_spec mpnet_spec = {
    .program = "encoder",
    .stacks[PCO_ENCODER] = {.embed_scope = "embeddings",
                            .head_scope = "encoder",
                            .embedding = "embeddings.word_embeddings.weight",
                            .positions = "embeddings.position_embeddings.weight",
                            .embedding_norm = "embeddings.LayerNorm",
                            .relative_bias = "encoder.relative_attention_bias.weight",
                            .layer = "encoder.layer.*"},
    .names = {.self_attention_norm = "attention.LayerNorm",
              .ffn_norm = "output.LayerNorm",
              .query = "attention.attn.q",
              .key = "attention.attn.k",
              .value = "attention.attn.v",
              .output = "attention.attn.o",
              .fc1 = "intermediate.dense",
              .fc2 = "output.dense"},
    .masked_head = {.dense = "lm_head.dense", .norm = "lm_head.layer_norm", .bias = "lm_head.bias"},
    .activation_function = PCO_NN_GELU,
    .norm.eps = 1e-12,
    .attention_bias = PCO_BIAS_ALL,
    .output_bias = PCO_BIAS_ALL,
    .ffn_bias = PCO_BIAS_ALL,
    .position_embedding = PCO_POSITION_LEARNED,
    .position_offset = 2,
    .pad_token_id = 1,
    .relative_buckets = 32,
    .relative_distance = 128,
    .encoder_only = 1,
};

static void mpnet_read(pco_hub_reader *r, pco_model_spec *spec)
{
    pco_hub_read_encoder(r, &pco_hub_encoder_keys, spec);
    spec->masked_head.activation = PCO_NN_GELU;
    /* its code has them as constants, whatever the file says */
    pco_hub_only(r, "relative_attention_num_buckets", (double)spec->relative_buckets);
}

static const char *const mpnet_unused[] = {PCO_HUB_ENCODER_UNUSED, "lm_head.decoder.", NULL};
static const pco_hub mpnet_hub = {.read = mpnet_read, .prefix = "mpnet.", .unused = mpnet_unused};

const pco_family pco_family_mpnet = {.name = "mpnet", .model_type = "mpnet", .spec = &mpnet_spec, .hub = &mpnet_hub};
