/* StarCoder2 (Lozhkov et al. 2024): LayerNorm before each block, biases everywhere, RoPE, grouped queries, GELU by tanh
 * without a gate, windows. */
#include "models/family.h"
#include "models/gguf_spec.h"

static const pco_model_spec starcoder2_spec = {
    .program = "starcoder2",
    PCO_GGUF_NAMES("attn_norm", "ffn_norm"),
    .activation_function = PCO_NN_GELU_TANH,
    .normalize_before = 1,
    .norm.type = PCO_NN_LAYER_NORM,
    .final_norm = 1,
    .attention_bias = PCO_BIAS_ALL,
    .output_bias = PCO_BIAS_ALL,
    .ffn_bias = PCO_BIAS_ALL,
    .position_embedding = PCO_POSITION_ROPE,
    .decoder_only = 1,
};

static const pco_hub_keys starcoder2_keys = {PCO_HUB_USUAL_KEYS, .eps = "norm_epsilon"};

static void starcoder2_read(pco_hub_reader *r, pco_model_spec *spec)
{
    spec->tie_word_embeddings = 1;
    pco_hub_read_decoder(r, &starcoder2_keys, spec);
    pco_hub_read_window(r, 1, spec);
    spec->attention_bias = spec->output_bias = spec->ffn_bias = pco_hub_bias(r, "use_bias", 1);
    pco_hub_only_text(r, "norm_type", "layer_norm"); /* of the first files, as the next ones */
    pco_hub_only_text(r, "mlp_type", "default");
    pco_hub_only(r, "scale_attn_weights", 1);
    pco_hub_ignore(r, "layer_norm_epsilon"); /* norm_epsilon once more */
    pco_hub_ignore(r, "attention_softmax_in_fp32");
    pco_hub_ignore(r, "scale_attention_softmax_in_fp32");
}

static void starcoder2_write(pco_hub_writer *w, const pco_model_spec *spec)
{
    pco_hub_put_window(w, 0);
    pco_hub_put_bool(w, "use_bias", spec->attention_bias == PCO_BIAS_ALL);
}

static const pco_hub starcoder2_hub = {PCO_HUB_NAMES("input_layernorm", "post_attention_layernorm"),
                                       .names.fc1 = "mlp.c_fc",
                                       .names.fc2 = "mlp.c_proj",
                                       .ignored = pco_hub_inverse_frequencies,
                                       .class = "Starcoder2ForCausalLM",
                                       .keys = &starcoder2_keys,
                                       .write = starcoder2_write,
                                       .read = starcoder2_read};

const pco_family pco_family_starcoder2 = {.name = "starcoder2",
                                          .architecture = "starcoder2",
                                          .model_type = "starcoder2",
                                          .hub = &starcoder2_hub,
                                          .one_bias = 1,
                                          .spec = &starcoder2_spec};
