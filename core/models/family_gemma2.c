/* Gemma 2 in GGUF (Gemma Team 2024): RMS norm before and behind each block, GEGLU, soft caps on scores and
 * logits, a sliding window in every other layer, scaled embeddings. Files hold the weights of norms with
 * their 1 added. */
#include "models/family.h"

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

const pco_family pco_family_gemma2 = {.name = "gemma2", .spec = &gemma2_spec, .read_gguf = gemma2_read};
