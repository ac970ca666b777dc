/* GPT-2 in GGUF (Radford et al. 2019): LayerNorm before each block and behind the last, learned positions,
 * one projection for query, key and value, GELU by tanh, biases everywhere. */
#include "models/family.h"
#include "models/gguf_spec.h"

static const pco_model_spec gpt2_spec = {
    .program = "gpt2",
    PCO_GGUF_NAMES("attn_norm", "ffn_norm"),
    .names.fused = "attn_qkv",
    .activation_function = PCO_NN_GELU_TANH,
    .normalize_before = 1,
    .norm.type = PCO_NN_LAYER_NORM,
    .final_norm = 1,
    .attention_bias = PCO_BIAS_ALL,
    .output_bias = PCO_BIAS_ALL,
    .ffn_bias = PCO_BIAS_ALL,
    .position_embedding = PCO_POSITION_LEARNED,
    .decoder_only = 1,
};

static const pco_hub_keys gpt2_keys = {.width = "n_embd",
                                       .ffn = "n_inner",
                                       .layers = "n_layer",
                                       .heads = "n_head",
                                       .context = "n_positions",
                                       .eps = "layer_norm_epsilon",
                                       .activation = "activation_function"};

static void gpt2_read(pco_hub_reader *r, pco_model_spec *spec)
{
    pco_hub_ignore(r, "n_ctx"); /* of before: the same as n_positions */
    spec->tie_word_embeddings = 1;
    pco_hub_read_decoder(r, &gpt2_keys, spec);
    if (!pco_hub_bool(r, "scale_attn_weights", 1)) spec->attention_scale = 1;
    pco_hub_only(r, "scale_attn_by_inverse_layer_idx", 0);
    pco_hub_ignore(r, "reorder_and_upcast_attn"); /* the same in other precision */
}

static const char *const gpt2_transposed[] = {"attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj", NULL};
static const char *const gpt2_ignored[] = {".attn.bias", ".attn.masked_bias", NULL};

static void gpt2_write(pco_hub_writer *w, const pco_model_spec *spec)
{
    if (spec->attention_scale == 1) pco_hub_put_bool(w, "scale_attn_weights", 0);
}

static const pco_hub gpt2_hub = {.stack = {.embed_scope = "embed",
                                           .head_scope = "output",
                                           .embedding = "transformer.wte.weight",
                                           .positions = "transformer.wpe.weight",
                                           .layer = "transformer.h.*",
                                           .last_norm = "transformer.ln_f"},
                                 .base = "transformer.",
                                 .lm_head = "lm_head.weight",
                                 .names = {.self_attention_norm = "ln_1",
                                           .ffn_norm = "ln_2",
                                           .fused = "attn.c_attn",
                                           .output = "attn.c_proj",
                                           .fc1 = "mlp.c_fc",
                                           .fc2 = "mlp.c_proj"},
                                 .transposed = gpt2_transposed,
                                 .ignored = gpt2_ignored,
                                 .class = "GPT2LMHeadModel",
                                 .keys = &gpt2_keys,
                                 .write = gpt2_write,
                                 .read = gpt2_read};

const pco_family pco_family_gpt2 = {
    .name = "gpt2", .architecture = "gpt2", .model_type = "gpt2", .hub = &gpt2_hub, .spec = &gpt2_spec};
