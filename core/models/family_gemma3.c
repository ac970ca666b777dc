/* Gemma 3, the part that reads text, alone or of a model that reads images, too (Gemma Team 2025): Gemma 2 with a norm
 * of each head's query and key instead of soft caps, and five layers with a window and a rotation of their own to each
 * that sees all keys. */
#include "models/family.h"

#include "models/gguf_spec.h"

#include <math.h>

static const pco_model_spec gemma3_spec = {
    .program = "gemma3",
    PCO_GGUF_NAMES("attn_norm", "ffn_norm"),
    .names.self_attention_post_norm = "post_attention_norm",
    .names.ffn_post_norm = "post_ffw_norm",
    .names.query_norm = "attn_q_norm",
    .names.key_norm = "attn_k_norm",
    .activation_function = PCO_NN_GEGLU,
    .normalize_before = 1,
    .norm.type = PCO_NN_RMS_NORM,
    .final_norm = 1,
    .position_embedding = PCO_POSITION_ROPE,
    .rope_theta = 1e6,
    .rope_theta_windowed = 10000,
    .scale_embedding = 1,
    .sliding_window = PCO_SPEC_NO_WINDOW,
    .full_interval = 6,
    .decoder_only = 1,
};

/* No key says it: scores of the model with 27 billion parameters are scaled by what a head would have if heads shared
 * the width. */
static pco_status gemma3_read(const pco_gguf *gguf, pco_model_spec *spec, pco_error *err)
{
    enum { LARGEST = 62 }; /* its layers */
    (void)gguf;
    (void)err;
    if (spec->layers[PCO_DECODER] == LARGEST)
        spec->attention_scale = 1 / sqrt((double)spec->d_model / (double)spec->attention_heads[PCO_DECODER]);
    return PCO_OK;
}

/* The text_config of a model that reads images says only what is not as in transformers' Gemma3TextConfig. */
static const pco_hub_sizes gemma3_sizes = {.width = 2304,
                                           .ffn = 9216,
                                           .layers = 26,
                                           .heads = 8,
                                           .kv_heads = 4,
                                           .head_dim = 256,
                                           .positions = 131072,
                                           .vocab = 262208,
                                           .eps = 1e-6};

static const pco_hub_keys gemma3_keys = {PCO_HUB_USUAL_SIZES, .eps = "rms_norm_eps", .activation = "hidden_activation",
                                         .usual = &gemma3_sizes};

static void gemma3_read_config(pco_hub_reader *r, pco_model_spec *spec)
{
    spec->tie_word_embeddings = 1;
    spec->rope_theta_windowed = pco_hub_number(r, "rope_local_base_freq", 1e-30, 1e30, 10000);
    pco_hub_read_decoder(r, &gemma3_keys, spec);
    spec->sliding_window = 4096;
    spec->full_interval = pco_hub_size_or(r, "sliding_window_pattern", 1 << 12, 6);
    pco_hub_read_window(r, 1, spec);
    spec->attention_softcap = pco_hub_number(r, "attn_logit_softcapping", 1e-3, 1e6, 0);
    spec->logits_softcap = pco_hub_number(r, "final_logit_softcapping", 1e-3, 1e6, 0);
    spec->attention_scale = 1 / sqrt(pco_hub_number(r, "query_pre_attn_scalar", 1e-6, 1e6, 256));
    spec->attention_bias = spec->output_bias = pco_hub_bias(r, "attention_bias", 0);
    pco_hub_only(r, "use_bidirectional_attention", 0);
    pco_hub_ignore(r, "cache_implementation");
}

static void gemma3_write(pco_hub_writer *w, const pco_model_spec *spec)
{
    pco_hub_put_width(w);
    pco_hub_put_types(w);
    pco_hub_put_or_null(w, "attn_logit_softcapping", spec->attention_softcap, spec->attention_softcap > 0);
    pco_hub_put_or_null(w, "final_logit_softcapping", spec->logits_softcap, spec->logits_softcap > 0);
    pco_hub_put_query_scalar(w, "query_pre_attn_scalar");
    pco_hub_put_bool(w, "attention_bias", spec->attention_bias == PCO_BIAS_ALL);
    pco_hub_put_number(w, "rope_local_base_freq", spec->rope_theta_windowed);
}

/* The model that reads images, too. */
static const char *const gemma3_text[][2] = {{"language_model.model.", "model."},
                                             {"language_model.lm_head.", "lm_head."},
                                             {"model.language_model.", "model."},
                                             {NULL, NULL}};
static const char *const gemma3_others[] = {"vision_tower.", "multi_modal_projector.", "model.vision_tower.",
                                            "model.multi_modal_projector.", NULL};
static const char *const gemma3_whole_keys[] = {"vision_config",     "mm_tokens_per_image", "boi_token_index",
                                                "eoi_token_index",   "boi_token_id",        "eoi_token_id",
                                                "image_token_index", "image_token_id",      NULL};
static const pco_hub_whole gemma3_whole = {
    .model_type = "gemma3", .text = gemma3_text, .others = gemma3_others, .keys = gemma3_whole_keys};

static const pco_hub gemma3_hub = {PCO_HUB_NAMES("input_layernorm", "pre_feedforward_layernorm"),
                                   .names.self_attention_post_norm = "post_attention_layernorm",
                                   .names.ffn_post_norm = "post_feedforward_layernorm",
                                   .names.query_norm = "self_attn.q_norm",
                                   .names.key_norm = "self_attn.k_norm",
                                   .norm_offset = 1,
                                   .ignored = pco_hub_inverse_frequencies,
                                   .class = "Gemma3ForCausalLM",
                                   .keys = &gemma3_keys,
                                   .write = gemma3_write,
                                   .read = gemma3_read_config,
                                   .whole = &gemma3_whole};

const pco_family pco_family_gemma3 = {.name = "gemma3",
                                      .architecture = "gemma3",
                                      .model_type = "gemma3_text",
                                      .hub = &gemma3_hub,
                                      .spec = &gemma3_spec,
                                      .read_gguf = gemma3_read};
