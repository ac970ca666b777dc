/* GPT-NeoX (Black et al. 2022), also Pythia: LayerNorm, RoPE on a part of each head, GELU, biases everywhere, attention
 * and feed-forward beside each other. */
#include "models/family.h"
#include "models/gguf_spec.h"

static const pco_model_spec gptneox_spec = {
    .program = "gptneox",
    PCO_GGUF_NAMES("attn_norm", "ffn_norm"),
    .names.fused = "attn_qkv",
    .activation_function = PCO_NN_GELU,
    .normalize_before = 1,
    .parallel_residual = 1,
    .norm.type = PCO_NN_LAYER_NORM,
    .final_norm = 1,
    .attention_bias = PCO_BIAS_ALL,
    .output_bias = PCO_BIAS_ALL,
    .ffn_bias = PCO_BIAS_ALL,
    .position_embedding = PCO_POSITION_ROPE,
    .decoder_only = 1,
};

static pco_status gptneox_read(const pco_gguf *gguf, pco_model_spec *spec, pco_error *err)
{
    return pco_gguf_bool_or(gguf, "gptneox.use_parallel_residual", 1, &spec->parallel_residual, err);
}

static const pco_hub_keys gptneox_keys = {PCO_HUB_USUAL_KEYS, .eps = "layer_norm_eps", .theta = "rotary_emb_base",
                                          .rotary_key = "rotary_pct", .rotary = 0.25};

static void gptneox_read_config(pco_hub_reader *r, pco_model_spec *spec)
{
    pco_hub_read_decoder(r, &gptneox_keys, spec);
    spec->parallel_residual = pco_hub_bool(r, "use_parallel_residual", 1);
    spec->attention_bias = spec->output_bias = pco_hub_bias(r, "attention_bias", 1);
}

static const char *const gptneox_ignored[] = {".attention.bias", ".attention.masked_bias", "rotary_emb.inv_freq", NULL};

static void gptneox_write(pco_hub_writer *w, const pco_model_spec *spec)
{
    pco_hub_put_bool(w, "use_parallel_residual", spec->parallel_residual);
    pco_hub_put_bool(w, "attention_bias", spec->attention_bias == PCO_BIAS_ALL);
}

static const pco_hub gptneox_hub = {.stack = {.embed_scope = "embed",
                                              .head_scope = "output",
                                              .embedding = "gpt_neox.embed_in.weight",
                                              .layer = "gpt_neox.layers.*",
                                              .last_norm = "gpt_neox.final_layer_norm"},
                                    .base = "gpt_neox.",
                                    .lm_head = "embed_out.weight",
                                    .names = {.self_attention_norm = "input_layernorm",
                                              .ffn_norm = "post_attention_layernorm",
                                              .fused = "attention.query_key_value",
                                              .output = "attention.dense",
                                              .fc1 = "mlp.dense_h_to_4h",
                                              .fc2 = "mlp.dense_4h_to_h"},
                                    .grouped = 1,
                                    .ignored = gptneox_ignored,
                                    .class = "GPTNeoXForCausalLM",
                                    .keys = &gptneox_keys,
                                    .write = gptneox_write,
                                    .read = gptneox_read_config};

const pco_family pco_family_gptneox = {.name = "gptneox",
                                       .architecture = "gptneox",
                                       .model_type = "gpt_neox",
                                       .hub = &gptneox_hub,
                                       .spec = &gptneox_spec,
                                       .read_gguf = gptneox_read};
