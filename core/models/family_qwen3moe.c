/* Qwen3 with experts (Yang et al. 2025): as Qwen3, but for its feed-forward blocks. */
#include "models/family.h"
#include "models/gguf_spec.h"

static const pco_model_spec qwen3moe_spec = {
    .program = "qwen3moe",
    PCO_GGUF_NAMES("attn_norm", "ffn_norm"),
    .names.router = PCO_GGUF_ROUTER,
    .names.query_norm = "attn_q_norm",
    .names.key_norm = "attn_k_norm",
    .activation_function = PCO_NN_SWIGLU,
    .normalize_before = 1,
    .norm.type = PCO_NN_RMS_NORM,
    .final_norm = 1,
    .position_embedding = PCO_POSITION_ROPE,
    .experts_normalized = 1, /* files do not say it */
    .decoder_only = 1,
};

static const pco_hub_keys qwen3moe_keys = {PCO_HUB_USUAL_HEADS, .ffn = "moe_intermediate_size", .eps = "rms_norm_eps",
                                           .activation = "hidden_act"};

static void qwen3moe_read(pco_hub_reader *r, pco_model_spec *spec)
{
    pco_hub_ignore(r, "intermediate_size"); /* of layers without experts, which there are none of: */
    pco_hub_only(r, "decoder_sparse_step", 1);
    pco_hub_read_decoder(r, &qwen3moe_keys, spec);
    const int64_t window = pco_hub_size_or(r, "sliding_window", 1 << 30, 0);
    spec->sliding_window = pco_hub_bool(r, "use_sliding_window", 0) ? window : 0;
    pco_hub_ignore(r, "max_window_layers"); /* unlike Qwen3's, all have the window */
    spec->attention_bias = spec->output_bias = pco_hub_bias(r, "attention_bias", 0);
    const char *count = pco_hub_item(r, "num_experts") ? "num_experts" : "num_local_experts";
    pco_hub_read_experts(r, count, 128, "num_experts_per_tok", 8, spec);
    spec->experts_normalized = pco_hub_bool(r, "norm_topk_prob", 0);
}

static void qwen3moe_write(pco_hub_writer *w, const pco_model_spec *spec)
{
    pco_hub_put_size(w, "intermediate_size", spec->ffn_dim[PCO_DECODER]);
    pco_hub_put_size(w, "decoder_sparse_step", 1);
    pco_hub_put_size(w, "num_experts", spec->experts);
    pco_hub_put_size(w, "num_experts_per_tok", spec->experts_used);
    pco_hub_put_bool(w, "norm_topk_prob", spec->experts_normalized);
    pco_hub_put_bool(w, "use_sliding_window", spec->sliding_window > 0);
    pco_hub_put_width(w);
    pco_hub_put_bool(w, "attention_bias", spec->attention_bias == PCO_BIAS_ALL);
}

static const pco_hub qwen3moe_hub = {.stack = PCO_HUB_STACK,
                                     .base = "model.",
                                     .lm_head = "lm_head.weight",
                                     .names = {PCO_HUB_ATTENTION("input_layernorm", "post_attention_layernorm"),
                                               .query_norm = "self_attn.q_norm", .key_norm = "self_attn.k_norm",
                                               .router = "mlp.gate", .gate = "mlp.experts.gate_proj",
                                               .up = "mlp.experts.up_proj", .down = "mlp.experts.down_proj"},
                                     .experts = "mlp.experts.",
                                     .ignored = pco_hub_inverse_frequencies,
                                     .class = "Qwen3MoeForCausalLM",
                                     .keys = &qwen3moe_keys,
                                     .write = qwen3moe_write,
                                     .read = qwen3moe_read};

const pco_family pco_family_qwen3moe = {.name = "qwen3moe",
                                        .architecture = "qwen3moe",
                                        .model_type = "qwen3_moe",
                                        .hub = &qwen3moe_hub,
                                        .spec = &qwen3moe_spec};
