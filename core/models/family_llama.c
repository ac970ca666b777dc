/* Llama (Touvron et al. 2023), also SmolLM2, and in GGUF Mixtral: RMS norm, RoPE (in GGUF on adjacent pairs), grouped
 * queries, SwiGLU. */
#include "models/family.h"
#include "models/gguf_spec.h"

static const pco_model_spec llama_spec = {
    .program = "llama",
    PCO_GGUF_NAMES("attn_norm", "ffn_norm"),
    .names.router = PCO_GGUF_ROUTER,
    .experts_normalized = 1,
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

static void llama_read(pco_hub_reader *r, pco_model_spec *spec)
{
    spec->tie_word_embeddings = 0;
    pco_hub_read_decoder(r, &pco_hub_usual_keys, spec);
    spec->attention_bias = spec->output_bias = pco_hub_bias(r, "attention_bias", 0);
    spec->ffn_bias = pco_hub_bias(r, "mlp_bias", 0);
}

static void llama_write(pco_hub_writer *w, const pco_model_spec *spec)
{
    pco_hub_put_bool(w, "attention_bias", spec->attention_bias == PCO_BIAS_ALL);
    pco_hub_put_bool(w, "mlp_bias", spec->ffn_bias == PCO_BIAS_ALL);
}

static const pco_hub llama_hub = {PCO_HUB_NAMES("input_layernorm", "post_attention_layernorm"),
                                  .ignored = pco_hub_inverse_frequencies,
                                  .class = "LlamaForCausalLM",
                                  .keys = &pco_hub_usual_keys,
                                  .write = llama_write,
                                  .read = llama_read};

const pco_family pco_family_llama = {
    .name = "llama", .architecture = "llama", .model_type = "llama", .hub = &llama_hub, .spec = &llama_spec};
