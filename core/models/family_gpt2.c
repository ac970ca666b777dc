/* GPT-2 in GGUF (Radford et al. 2019): LayerNorm before each block and behind the last, learned positions,
 * one projection for query, key and value, GELU by tanh, biases everywhere. */
#include "models/family.h"
#include "models/gguf_spec.h"

static const pco_model_spec gpt2_spec = {
    .program = "gpt2",
    PCO_GGUF_NAMES,
    .names.fused = "attn_qkv",
    .activation_function = PCO_NN_GELU_TANH,
    .normalize_before = 1,
    .norm.type = PCO_NN_LAYER_NORM,
    .final_norm = 1,
    .attention_bias = PCO_BIAS_ALL,
    .output_bias = PCO_BIAS_ALL,
    .ffn_bias = PCO_BIAS_ALL,
    .position_embedding = PCO_POSITION_LEARNED,
    .decoder_only = 1,
};

const pco_family pco_family_gpt2 = {.name = "gpt2", .spec = &gpt2_spec};
