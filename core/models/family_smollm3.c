/* SmolLM3 (Hugging Face 2025): a Llama that does not rotate in every fourth layer (NoPE: Yang et al. 2025, arXiv
 * 2501.18795). */
#include "models/family.h"

#include "base/error.h"
#include "models/gguf_spec.h"

#include <inttypes.h>

static const pco_model_spec smollm3_spec = {
    .program = "smollm3",
    PCO_GGUF_NAMES("attn_norm", "ffn_norm"),
    .activation_function = PCO_NN_SWIGLU,
    .normalize_before = 1,
    .norm.type = PCO_NN_RMS_NORM,
    .final_norm = 1,
    .attention_bias = PCO_BIAS_FOUND,
    .output_bias = PCO_BIAS_FOUND,
    .ffn_bias = PCO_BIAS_FOUND,
    .position_embedding = PCO_POSITION_ROPE,
    .rope_theta = 2e6,
    .rope_interleaved = 1,
    .rope_none_interval = 4, /* files do not say it */
    .decoder_only = 1,
};

/* 1 for each layer that rotates, 0 for the others: the interval once more. */
static void smollm3_read_list(pco_hub_reader *r, pco_model_spec *spec)
{
    const cJSON *list = pco_hub_item(r, "no_rope_layers"), *item;
    const int64_t layers = spec->layers[PCO_DECODER];
    int64_t layer = 0;
    if (r->status || !list || !list->child) return;
    for (item = list->child; item && !cJSON_IsFalse(item) && item->valuedouble != 0; item = item->next) layer++;
    spec->rope_none_interval = item ? layer + 1 : 0;
    layer = 0;
    cJSON_ArrayForEach(item, list)
    {
        const int none = spec->rope_none_interval && (layer + 1) % spec->rope_none_interval == 0;
        if (!cJSON_IsNumber(item) || item->valuedouble != !none) break;
        layer++;
    }
    if (item || layer != layers)
        r->status =
            pco_fail(r->err, PCO_ERROR_UNSUPPORTED,
                     "%s: 'no_rope_layers' must be a list of %" PRId64 " numbers, 0 at every so many layers and "
                     "1 elsewhere; Portico runs no other pattern",
                     r->label, layers);
}

static void smollm3_read(pco_hub_reader *r, pco_model_spec *spec)
{
    spec->tie_word_embeddings = 1;
    pco_hub_read_decoder(r, &pco_hub_usual_keys, spec);
    pco_hub_read_window(r, 0, spec);
    spec->rope_none_interval = pco_hub_size_or(r, "no_rope_layer_interval", 1 << 12, spec->rope_none_interval);
    smollm3_read_list(r, spec);
    spec->attention_bias = spec->output_bias = pco_hub_bias(r, "attention_bias", 0);
    spec->ffn_bias = pco_hub_bias(r, "mlp_bias", 0);
}

static void smollm3_write(pco_hub_writer *w, const pco_model_spec *spec)
{
    cJSON *list = cJSON_CreateArray();
    const int64_t interval = spec->rope_none_interval;
    for (int64_t i = 0; i < spec->layers[PCO_DECODER]; i++)
        w->failed |= !pco_json_give(list, NULL, cJSON_CreateNumber(!interval || (i + 1) % interval != 0));
    w->failed |= !pco_json_give(w->root, "no_rope_layers", list);
    if (interval) pco_hub_put_size(w, "no_rope_layer_interval", interval);
    pco_hub_put_window(w, 1);
    pco_hub_put_bool(w, "attention_bias", spec->attention_bias == PCO_BIAS_ALL);
    pco_hub_put_bool(w, "mlp_bias", spec->ffn_bias == PCO_BIAS_ALL);
}

static const pco_hub smollm3_hub = {PCO_HUB_NAMES("input_layernorm", "post_attention_layernorm"),
                                    .ignored = pco_hub_inverse_frequencies,
                                    .class = "SmolLM3ForCausalLM",
                                    .keys = &pco_hub_usual_keys,
                                    .write = smollm3_write,
                                    .read = smollm3_read};

const pco_family pco_family_smollm3 = {
    .name = "smollm3", .architecture = "smollm3", .model_type = "smollm3", .hub = &smollm3_hub, .spec = &smollm3_spec};
