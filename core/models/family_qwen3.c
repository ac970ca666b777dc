/* Qwen3 in GGUF (Yang et al. 2025), without experts: as Qwen2, with a norm of each head's query and key
 * instead of their biases, and with a head size of its own. */
#include "models/family.h"
#include "models/gguf_spec.h"

static const pco_model_spec qwen3_spec = {
    .program = "qwen3",
    PCO_GGUF_NAMES("attn_norm", "ffn_norm"),
    .names.query_norm = "attn_q_norm",
    .names.key_norm = "attn_k_norm",
    .activation_function = PCO_NN_SWIGLU,
    .normalize_before = 1,
    .norm.type = PCO_NN_RMS_NORM,
    .final_norm = 1,
    .position_embedding = PCO_POSITION_ROPE,
    .full_first = 28, /* with windows; files say it */
    .decoder_only = 1,
};

static void qwen3_read(pco_hub_reader *r, pco_model_spec *spec)
{
    pco_hub_read_decoder(r, &pco_hub_usual_keys, spec);
    pco_hub_read_window(r, 0, spec);
    spec->attention_bias = spec->output_bias = pco_hub_bias(r, "attention_bias", 0);
}

static void qwen3_write(pco_hub_writer *w, const pco_model_spec *spec)
{
    pco_hub_put_window(w, 1);
    pco_hub_put_bool(w, "attention_bias", spec->attention_bias == PCO_BIAS_ALL);
}

static const pco_hub qwen3_hub = {PCO_HUB_NAMES("input_layernorm", "post_attention_layernorm"),
                                  .names.query_norm = "self_attn.q_norm",
                                  .names.key_norm = "self_attn.k_norm",
                                  .ignored = pco_hub_inverse_frequencies,
                                  .class = "Qwen3ForCausalLM",
                                  .keys = &pco_hub_usual_keys,
                                  .write = qwen3_write,
                                  .read = qwen3_read};

const pco_family pco_family_qwen3 = {
    .name = "qwen3", .architecture = "qwen3", .model_type = "qwen3", .hub = &qwen3_hub, .spec = &qwen3_spec};
