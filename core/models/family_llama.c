/* Llama in GGUF (Touvron et al. 2023): RMS norm, RoPE on adjacent pairs, grouped queries, SwiGLU. */
#include "models/family.h"
#include "models/gguf_spec.h"

static const pco_model_spec llama_spec = {
    .program = "llama",
    PCO_GGUF_NAMES,
    .activation_function = PCO_NN_SWIGLU,
    .normalize_before = 1,
    .norm.type = PCO_NN_RMS_NORM,
    .final_norm = 1,
    /* Llamas have no biases, but files of models that are built the same may have some. */
    .attention_bias = PCO_BIAS_FOUND,
    .output_bias = PCO_BIAS_FOUND,
    .ffn_bias = PCO_BIAS_FOUND,
    .position_embedding = PCO_POSITION_ROPE,
    .rope_interleaved = 1,
    .decoder_only = 1,
};

const pco_family pco_family_llama = {.name = "llama", .spec = &llama_spec};
