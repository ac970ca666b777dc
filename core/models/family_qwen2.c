/* Qwen2 and Qwen2.5 in GGUF (Yang et al. 2024): as Llama, with biases of query, key and value, and with RoPE
 * on pairs that are half a head apart. */
#include "models/family.h"
#include "models/gguf_spec.h"

static const pco_model_spec qwen2_spec = {
    .program = "qwen2",
    PCO_GGUF_NAMES,
    .activation_function = PCO_NN_SWIGLU,
    .normalize_before = 1,
    .norm.type = PCO_NN_RMS_NORM,
    .final_norm = 1,
    .attention_bias = PCO_BIAS_ALL,
    .position_embedding = PCO_POSITION_ROPE,
    .decoder_only = 1,
};

const pco_family pco_family_qwen2 = {.name = "qwen2", .spec = &qwen2_spec};
