/* OLMo 2 (OLMo Team 2025): RMS norm behind each block and none in front, a norm of all heads of the query and of the
 * key as one row, SwiGLU. */
#include "models/family.h"
#include "models/gguf_spec.h"

static const pco_model_spec olmo2_spec = {
    .program = "olmo2",
    PCO_GGUF_NAMES(NULL, NULL),
    .names.self_attention_post_norm = "post_attention_norm",
    .names.ffn_post_norm = "post_ffw_norm",
    .names.query_norm = "attn_q_norm",
    .names.key_norm = "attn_k_norm",
    .query_norm_whole = 1,
    .activation_function = PCO_NN_SWIGLU,
    .normalize_before = 1,
    .norm.type = PCO_NN_RMS_NORM,
    .final_norm = 1,
    .position_embedding = PCO_POSITION_ROPE,
    .decoder_only = 1,
};

static void olmo2_read(pco_hub_reader *r, pco_model_spec *spec)
{
    pco_hub_read_decoder(r, &pco_hub_usual_keys, spec);
    spec->attention_bias = spec->output_bias = pco_hub_bias(r, "attention_bias", 0);
}

static void olmo2_write(pco_hub_writer *w, const pco_model_spec *spec)
{
    pco_hub_put_bool(w, "attention_bias", spec->attention_bias == PCO_BIAS_ALL);
}

static const pco_hub olmo2_hub = {PCO_HUB_NAMES(NULL, NULL),
                                  .names.self_attention_post_norm = "post_attention_layernorm",
                                  .names.ffn_post_norm = "post_feedforward_layernorm",
                                  .names.query_norm = "self_attn.q_norm",
                                  .names.key_norm = "self_attn.k_norm",
                                  .ignored = pco_hub_inverse_frequencies,
                                  .class = "Olmo2ForCausalLM",
                                  .keys = &pco_hub_usual_keys,
                                  .write = olmo2_write,
                                  .read = olmo2_read};

const pco_family pco_family_olmo2 = {
    .name = "olmo2", .architecture = "olmo2", .model_type = "olmo2", .hub = &olmo2_hub, .spec = &olmo2_spec};
