/* Qwen2 and Qwen2.5 in GGUF (Yang et al. 2024): as Llama, with biases of query, key and value, and with RoPE
 * on pairs that are half a head apart. */
#include "models/family.h"
#include "models/gguf_spec.h"

static const pco_model_spec qwen2_spec = {
    .program = "qwen2",
    PCO_GGUF_NAMES("attn_norm", "ffn_norm"),
    .activation_function = PCO_NN_SWIGLU,
    .normalize_before = 1,
    .norm.type = PCO_NN_RMS_NORM,
    .final_norm = 1,
    .attention_bias = PCO_BIAS_ALL,
    .position_embedding = PCO_POSITION_ROPE,
    .full_first = 28, /* with windows; files say it */
    .decoder_only = 1,
};

static void qwen2_read(pco_hub_reader *r, pco_model_spec *spec)
{
    pco_hub_read_decoder(r, &pco_hub_usual_keys, spec);
    pco_hub_read_window(r, 0, spec);
}

static void qwen2_write(pco_hub_writer *w, const pco_model_spec *spec)
{
    (void)spec;
    pco_hub_put_window(w, 1);
}

static const pco_hub qwen2_hub = {PCO_HUB_NAMES("input_layernorm", "post_attention_layernorm"),
                                  .ignored = pco_hub_inverse_frequencies,
                                  .class = "Qwen2ForCausalLM",
                                  .keys = &pco_hub_usual_keys,
                                  .write = qwen2_write,
                                  .read = qwen2_read};

const pco_family pco_family_qwen2 = {
    .name = "qwen2", .architecture = "qwen2", .model_type = "qwen2", .hub = &qwen2_hub, .spec = &qwen2_spec};
