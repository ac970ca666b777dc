/* Qwen3 in GGUF (Yang et al. 2025), without experts: as Qwen2, with a norm of each head's query and key
 * instead of their biases, and with a head size of its own. */
#include "models/family.h"
#include "models/gguf_spec.h"

static const pco_model_spec qwen3_spec = {
    .program = "qwen3",
    PCO_GGUF_NAMES,
    .names.query_norm = "attn_q_norm",
    .names.key_norm = "attn_k_norm",
    .activation_function = PCO_NN_SWIGLU,
    .normalize_before = 1,
    .norm.type = PCO_NN_RMS_NORM,
    .final_norm = 1,
    .position_embedding = PCO_POSITION_ROPE,
    .decoder_only = 1,
};

const pco_family pco_family_qwen3 = {.name = "qwen3", .spec = &qwen3_spec};
