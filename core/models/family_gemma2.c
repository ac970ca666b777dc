/* Gemma 2 in GGUF (Gemma Team 2024): RMS norm before and behind each block, GEGLU, soft caps on scores and
 * logits, a sliding window in every other layer, scaled embeddings. Files hold the weights of norms with
 * their 1 added. */
#include "models/family.h"

#include "base/error.h"
#include "models/gguf_spec.h"

#include <math.h>

static const pco_model_spec gemma2_spec = {
    .program = "gemma2",
    PCO_GGUF_NAMES,
    .names.self_attention_post_norm = "post_attention_norm",
    .names.ffn_post_norm = "post_ffw_norm",
    .activation_function = PCO_NN_GEGLU,
    .normalize_before = 1,
    .norm.type = PCO_NN_RMS_NORM,
    .final_norm = 1,
    .position_embedding = PCO_POSITION_ROPE,
    .scale_embedding = 1,
    .full_interval = 2,
    .decoder_only = 1,
};

static pco_status gemma2_cap(const pco_gguf *gguf, const char *key, float fallback, double *cap,
                             pco_error *err)
{
    float value;
    pco_status status = pco_gguf_f32_or(gguf, key, fallback, &value, err);
    if (status) return status;
    *cap = (double)value;
    if (*cap >= 1e-3 && *cap <= 1e6) return PCO_OK;
    return pco_fail(err, PCO_ERROR_FORMAT, "%s: key '%s' is %g, and must be 0.001 to 1e+06",
                    pco_gguf_label(gguf), key, *cap);
}

static pco_status gemma2_read(const pco_gguf *gguf, pco_model_spec *spec, pco_error *err)
{
    enum { LARGEST = 46 }; /* layers of the model with 27 billion parameters */
    uint32_t window = 4096;
    pco_status status = gemma2_cap(gguf, "gemma2.attn_logit_softcapping", 50, &spec->attention_softcap, err);
    if (!status) status = gemma2_cap(gguf, "gemma2.final_logit_softcapping", 30, &spec->logits_softcap, err);
    if (!status) status = pco_gguf_u32_or(gguf, "gemma2.attention.sliding_window", window, &window, err);
    spec->sliding_window = window;
    /* no key says it: scores of that model are scaled by what a head would have if heads shared the width */
    if (spec->layers[PCO_DECODER] == LARGEST)
        spec->attention_scale = 1 / sqrt((double)spec->d_model / (double)spec->attention_heads[PCO_DECODER]);
    return status;
}

const pco_family pco_family_gemma2 = {.name = "gemma2", .spec = &gemma2_spec, .read_gguf = gemma2_read};
