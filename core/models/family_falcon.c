/* Falcon (Almazrouei et al. 2023): LayerNorm, RoPE, GELU, attention and feed-forward beside each other, behind one norm
 * (7B: one key head for all queries) or one each (40B: grouped queries). Those of 1B that rotate are as 7B, or with the
 * blocks one behind the other. */
#include "models/family.h"

#include "models/gguf_spec.h"

static const pco_model_spec falcon_spec = {
    .program = "falcon",
    PCO_GGUF_NAMES("attn_norm", NULL),
    .names.fused = "attn_qkv",
    .activation_function = PCO_NN_GELU,
    .normalize_before = 1,
    .parallel_residual = 1,
    .norm.type = PCO_NN_LAYER_NORM,
    .final_norm = 1,
    .position_embedding = PCO_POSITION_ROPE,
    .decoder_only = 1,
};

/* Where there are two norms, attn_norm is that of the feed-forward block. */
static pco_status falcon_read(const pco_gguf *gguf, pco_model_spec *spec, pco_error *err)
{
    (void)err;
    if (!pco_weights_find(pco_gguf_weights(gguf), "blk.0.attn_norm_2.weight")) return PCO_OK;
    spec->names.self_attention_norm = "attn_norm_2";
    spec->names.ffn_norm = "attn_norm";
    return PCO_OK;
}

static const pco_hub_keys falcon_keys = {.width = "hidden_size",
                                         .ffn = "ffn_hidden_size",
                                         .layers = "num_hidden_layers",
                                         .heads = "num_attention_heads",
                                         .context = "max_position_embeddings",
                                         .eps = "layer_norm_epsilon",
                                         .activation = "activation"};

static void falcon_read_config(pco_hub_reader *r, pco_model_spec *spec)
{
    const int grouped = pco_hub_bool(r, "new_decoder_architecture", 0), one = pco_hub_bool(r, "multi_query", 1);
    pco_hub_keys keys = falcon_keys;
    if (grouped) keys.kv_heads = "num_kv_heads";
    spec->tie_word_embeddings = 1;
    pco_hub_read_decoder(r, &keys, spec);
    pco_hub_ignore(r, "num_kv_heads"); /* looked at with grouped queries only */
    if (!grouped && one) spec->kv_heads[PCO_ENCODER] = spec->kv_heads[PCO_DECODER] = 1;
    spec->parallel_residual = pco_hub_bool(r, "parallel_attn", 1);
    const int64_t norms = pco_hub_size_or(r, "num_ln_in_parallel_attn", 2, grouped ? 2 : 1);
    if (grouped) pco_hub_only(r, "parallel_attn", 1);
    if (!grouped && spec->parallel_residual) pco_hub_only(r, "num_ln_in_parallel_attn", 1);
    if (!spec->parallel_residual) spec->names.ffn_norm = "post_attention_layernorm";
    if (spec->parallel_residual && norms == 2) {
        spec->names.self_attention_norm = "ln_attn";
        spec->names.ffn_norm = "ln_mlp";
    }
    spec->attention_bias = spec->output_bias = spec->ffn_bias = pco_hub_bias(r, "bias", 0);
    pco_hub_ignore(r, "ff_factor"); /* what ffn_hidden_size was worked out from */
    pco_hub_only(r, "alibi", 0);
    pco_hub_only(r, "apply_residual_connection_post_layernorm", 0);
}

static void falcon_write(pco_hub_writer *w, const pco_model_spec *spec)
{
    const int64_t groups = spec->kv_heads[PCO_DECODER], heads = spec->attention_heads[PCO_DECODER];
    const int two_norms = spec->parallel_residual && spec->names.ffn_norm != NULL;
    const int grouped = two_norms || (groups != 1 && groups != heads);
    pco_hub_put_bool(w, "new_decoder_architecture", grouped);
    pco_hub_put_bool(w, "multi_query", groups == 1);
    if (grouped) pco_hub_put_size(w, "num_kv_heads", groups);
    if (grouped) pco_hub_put_size(w, "num_ln_in_parallel_attn", two_norms ? 2 : 1);
    pco_hub_put_bool(w, "parallel_attn", spec->parallel_residual);
    pco_hub_put_bool(w, "bias", spec->attention_bias == PCO_BIAS_ALL);
    pco_hub_put_bool(w, "alibi", 0);
}

static const pco_hub falcon_hub = {.stack = {.embed_scope = "embed",
                                             .head_scope = "output",
                                             .embedding = "transformer.word_embeddings.weight",
                                             .layer = "transformer.h.*",
                                             .last_norm = "transformer.ln_f"},
                                   .base = "transformer.",
                                   .lm_head = "lm_head.weight",
                                   .names = {.self_attention_norm = "input_layernorm",
                                             .fused = "self_attention.query_key_value",
                                             .output = "self_attention.dense",
                                             .fc1 = "mlp.dense_h_to_4h",
                                             .fc2 = "mlp.dense_4h_to_h"},
                                   .grouped = 1,
                                   .ignored = pco_hub_inverse_frequencies,
                                   .class = "FalconForCausalLM",
                                   .keys = &falcon_keys,
                                   .write = falcon_write,
                                   .read = falcon_read_config};

const pco_family pco_family_falcon = {.name = "falcon",
                                      .architecture = "falcon",
                                      .model_type = "falcon",
                                      .hub = &falcon_hub,
                                      .spec = &falcon_spec,
                                      .read_gguf = falcon_read};
