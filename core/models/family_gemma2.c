/* Gemma 2 in GGUF (Gemma Team 2024): RMS norm before and behind each block, GEGLU, soft caps on scores and
 * logits, a sliding window in every other layer, scaled embeddings. Files hold the weights of norms with
 * their 1 added. */
#include "models/family.h"

#include "models/gguf_spec.h"

#include <math.h>

static const pco_model_spec gemma2_spec = {
    .program = "gemma2",
    PCO_GGUF_NAMES("attn_norm", "ffn_norm"),
    .names.self_attention_post_norm = "post_attention_norm",
    .names.ffn_post_norm = "post_ffw_norm",
    .activation_function = PCO_NN_GEGLU,
    .normalize_before = 1,
    .norm.type = PCO_NN_RMS_NORM,
    .final_norm = 1,
    .position_embedding = PCO_POSITION_ROPE,
    .scale_embedding = 1,
    .attention_softcap = 50,
    .logits_softcap = 30,
    .sliding_window = 4096,
    .full_interval = 2,
    .decoder_only = 1,
};

/* No key says it: scores of the model with 27 billion parameters are scaled by what a head would have if heads shared
 * the width. */
static pco_status gemma2_read(const pco_gguf *gguf, pco_model_spec *spec, pco_error *err)
{
    enum { LARGEST = 46 }; /* its layers */
    (void)gguf;
    (void)err;
    if (spec->layers[PCO_DECODER] == LARGEST)
        spec->attention_scale = 1 / sqrt((double)spec->d_model / (double)spec->attention_heads[PCO_DECODER]);
    return PCO_OK;
}

static const pco_hub_keys gemma2_keys = {PCO_HUB_USUAL_SIZES, .eps = "rms_norm_eps", .activation = "hidden_activation"};

static void gemma2_read_config(pco_hub_reader *r, pco_model_spec *spec)
{
    pco_hub_ignore(r, "hidden_act"); /* of before; not looked at where both are there */
    spec->tie_word_embeddings = 1;
    pco_hub_read_decoder(r, &gemma2_keys, spec);
    pco_hub_read_window(r, 1, spec);
    static const char *const caps[] = {"attn_logit_softcapping", "final_logit_softcapping"}; /* null: none */
    const int said[] = {cJSON_HasObjectItem(r->root, caps[0]), cJSON_HasObjectItem(r->root, caps[1])};
    spec->attention_softcap = pco_hub_number(r, caps[0], 1e-3, 1e6, said[0] ? 0 : spec->attention_softcap);
    spec->logits_softcap = pco_hub_number(r, caps[1], 1e-3, 1e6, said[1] ? 0 : spec->logits_softcap);
    spec->attention_scale = 1 / sqrt(pco_hub_number(r, "query_pre_attn_scalar", 1e-6, 1e6, 256));
    spec->attention_bias = spec->output_bias = pco_hub_bias(r, "attention_bias", 0);
    pco_hub_only(r, "use_bidirectional_attention", 0);
    pco_hub_ignore(r, "cache_implementation");
}

static void gemma2_write(pco_hub_writer *w, const pco_model_spec *spec)
{
    pco_hub_put_width(w);
    pco_hub_put_types(w);
    pco_hub_put_or_null(w, "attn_logit_softcapping", spec->attention_softcap, spec->attention_softcap > 0);
    pco_hub_put_or_null(w, "final_logit_softcapping", spec->logits_softcap, spec->logits_softcap > 0);
    pco_hub_put_query_scalar(w, "query_pre_attn_scalar");
    pco_hub_put_bool(w, "attention_bias", spec->attention_bias == PCO_BIAS_ALL);
}

static const pco_hub gemma2_hub = {PCO_HUB_NAMES("input_layernorm", "pre_feedforward_layernorm"),
                                   .names.self_attention_post_norm = "post_attention_layernorm",
                                   .names.ffn_post_norm = "post_feedforward_layernorm",
                                   .norm_offset = 1,
                                   .ignored = pco_hub_inverse_frequencies,
                                   .class = "Gemma2ForCausalLM",
                                   .keys = &gemma2_keys,
                                   .write = gemma2_write,
                                   .read = gemma2_read_config};

const pco_family pco_family_gemma2 = {.name = "gemma2",
                                      .architecture = "gemma2",
                                      .model_type = "gemma2",
                                      .hub = &gemma2_hub,
                                      .spec = &gemma2_spec,
                                      .read_gguf = gemma2_read};
