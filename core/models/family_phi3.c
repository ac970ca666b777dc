/* Phi-3 and Phi-4 (Abdin et al. 2024): a Llama with one projection for query, key and value, and one for gate and up;
 * LongRoPE for long texts, a part of each head that is not rotated, windows. */
#include "models/family.h"
#include "models/gguf_spec.h"

static const pco_model_spec phi3_spec = {
    .program = "phi3",
    PCO_GGUF_NAMES("attn_norm", "ffn_norm"),
    .names.fused = "attn_qkv",
    .names.gate_up = "ffn_up",
    .activation_function = PCO_NN_SWIGLU,
    .normalize_before = 1,
    .norm.type = PCO_NN_RMS_NORM,
    .final_norm = 1,
    .position_embedding = PCO_POSITION_ROPE,
    .sliding_window = PCO_SPEC_NO_WINDOW,
    .decoder_only = 1,
};

static const pco_hub_keys phi3_keys = {PCO_HUB_USUAL_KEYS, .eps = "rms_norm_eps",
                                       .rotary_key = "partial_rotary_factor"};

static void phi3_read(pco_hub_reader *r, pco_model_spec *spec)
{
    pco_hub_read_decoder(r, &phi3_keys, spec);
    pco_hub_read_window(r, 1, spec);
    pco_hub_only(r, "attention_bias", 0); /* what the files say and its code does not have, as the next ones */
    pco_hub_only(r, "mlp_bias", 0);
    pco_hub_only(r, "lm_head_bias", 0);
    pco_hub_only(r, "full_attn_mod", 1);
    pco_hub_only(r, "interpolate_factor", 1);
}

static void phi3_write(pco_hub_writer *w, const pco_model_spec *spec)
{
    (void)spec;
    pco_hub_put_window(w, 0);
}

static const pco_hub phi3_hub = {PCO_HUB_NAMES("input_layernorm", "post_attention_layernorm"),
                                 .names.fused = "self_attn.qkv_proj",
                                 .names.gate_up = "mlp.gate_up_proj",
                                 .ignored = pco_hub_inverse_frequencies,
                                 .class = "Phi3ForCausalLM",
                                 .keys = &phi3_keys,
                                 .write = phi3_write,
                                 .read = phi3_read};

const pco_family pco_family_phi3 = {
    .name = "phi3", .architecture = "phi3", .model_type = "phi3", .hub = &phi3_hub, .spec = &phi3_spec};
