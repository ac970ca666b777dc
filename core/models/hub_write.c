/* config.json of Hugging Face from a spec: the opposite of hub.c. Whether a file says all of a model is found by
 * reading it. */
#include "models/family.h"
#include "models/rope.h"

#include "base/error.h"
#include "base/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void hub_give(pco_hub_writer *w, cJSON *to, const char *key, cJSON *item)
{
    if (!pco_json_give(to, key, item)) w->failed = 1;
}

/* The fewest digits that are the same number: in f32, for what GGUF files have as such, else in f64. */
static void hub_digits(double value, char text[40])
{
    const int single = (double)(float)value == value;
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, 40, "%.*g", digits, value);
        const double back = strtod(text, NULL);
        if (single ? (float)back == (float)value : back == value) break;
    }
    pco_number_plain(text);
}

/* A number with a fraction, or ".0": transformers tells them from whole ones. */
static cJSON *hub_real(double value)
{
    char text[40 + 3];
    hub_digits(value, text);
    if (!strpbrk(text, ".en")) strcat(text, ".0");
    return cJSON_CreateRaw(text);
}

void pco_hub_put_size(pco_hub_writer *w, const char *key, int64_t value)
{
    if (key) hub_give(w, w->root, key, cJSON_CreateNumber((double)value));
}

void pco_hub_put_number(pco_hub_writer *w, const char *key, double value)
{
    if (key) hub_give(w, w->root, key, hub_real(value));
}

void pco_hub_put_bool(pco_hub_writer *w, const char *key, int value)
{
    hub_give(w, w->root, key, cJSON_CreateBool(value));
}

void pco_hub_put_text(pco_hub_writer *w, const char *key, const char *value)
{
    hub_give(w, w->root, key, cJSON_CreateString(value));
}

void pco_hub_put_or_null(pco_hub_writer *w, const char *key, double value, int is_there)
{
    hub_give(w, w->root, key, is_there ? hub_real(value) : cJSON_CreateNull());
}

void pco_hub_put_query_scalar(pco_hub_writer *w, const char *key)
{
    const double scale = w->spec->attention_scale;
    const double scalar = scale > 0 ? 1 / (scale * scale) : (double)w->spec->head_dim[PCO_DECODER];
    const int whole = fabs(scalar - round(scalar)) < 1e-9 * scalar;
    if (whole)
        pco_hub_put_size(w, key, (int64_t)round(scalar));
    else
        pco_hub_put_number(w, key, scalar);
}

void pco_hub_put_types(pco_hub_writer *w)
{
    cJSON *list = cJSON_CreateArray();
    for (int64_t i = 0; i < w->spec->layers[PCO_DECODER]; i++) {
        const int all = !w->spec->sliding_window || pco_spec_sees_all(w->spec, i);
        hub_give(w, list, NULL, cJSON_CreateString(all ? "full_attention" : "sliding_attention"));
    }
    hub_give(w, w->root, "layer_types", list);
}

void pco_hub_put_width(pco_hub_writer *w)
{
    const int64_t window = w->spec->sliding_window;
    hub_give(w, w->root, "sliding_window", window > 0 ? cJSON_CreateNumber((double)window) : cJSON_CreateNull());
}

void pco_hub_put_window(pco_hub_writer *w, int says_use)
{
    const int on = w->spec->sliding_window > 0;
    if (says_use) pco_hub_put_bool(w, "use_sliding_window", on);
    pco_hub_put_width(w);
    if (says_use && on) pco_hub_put_types(w);
}

void pco_hub_put_activation(pco_hub_writer *w, const char *key, pco_nn_activation activation)
{
    const char *name = "gelu_pytorch_tanh";
    if (activation == PCO_NN_RELU) name = "relu";
    if (activation == PCO_NN_GELU) name = "gelu";
    if (activation == PCO_NN_SILU || activation == PCO_NN_SWIGLU) name = "silu";
    pco_hub_put_text(w, key, name);
}

void pco_hub_put_part(pco_hub_writer *w, const char *key, pco_hub_put_fn write)
{
    pco_hub_writer part = {.root = cJSON_CreateObject(), .spec = w->spec};
    if (part.root) write(&part, w->spec);
    w->failed |= part.failed;
    hub_give(w, w->root, key, part.root);
}

/* ---- RoPE ----------------------------------------------------------------------------------------------- */

static void hub_put_factors(pco_hub_writer *w, cJSON *to, const char *key, const float *factors)
{
    cJSON *list = cJSON_CreateArray();
    for (int64_t i = 0; i < w->spec->rope_factor_count; i++) hub_give(w, list, NULL, hub_real((double)factors[i]));
    hub_give(w, to, key, list);
}

/* The context that Llama 3's factors were made for, from one that is mixed: the share of it that is kept grows with how
 * often the wave fits into that context. */
static double hub_llama3_context(const pco_model_spec *spec, const pco_rope_llama3 *scaling)
{
    static const double turn = 2 * 3.14159265358979323846;
    for (int64_t i = 0; i < spec->rope_factor_count; i++) {
        const double f = (double)spec->rope_factors[i];
        if (f < 1.001 || f > 0.999 * scaling->factor) continue;
        const double kept = (1 / f - 1 / scaling->factor) / (1 - 1 / scaling->factor),
                     turns = scaling->low + kept * (scaling->high - scaling->low),
                     frequency = pow(spec->rope_theta, -2.0 * (double)i / (double)spec->rope_dimensions);
        return round(turns * turn / frequency);
    }
    return 8192;
}

/* Both are f32 of what was worked out in double, half an ulp (6e-8) away each, from a theta that a file has in f32:
 * 6e-8 of it moves a factor of Llama 3, where it is largest (32, at one turn), by 32 * 6e-8 / 3 of its size, and less
 * elsewhere; YaRN's come from whole numbers of pairs. Together 8e-7. */
static int hub_same_factors(const pco_model_spec *a, const pco_model_spec *b)
{
    for (int64_t i = 0; i < a->rope_factor_count; i++)
        if (fabsf(a->rope_factors[i] - b->rope_factors[i]) > 1e-6f * a->rope_factors[i]) return 0;
    return 1;
}

static double hub_largest_factor(const pco_model_spec *spec)
{
    double largest = 1;
    for (int64_t i = 0; i < spec->rope_factor_count; i++)
        if ((double)spec->rope_factors[i] > largest) largest = (double)spec->rope_factors[i];
    return largest;
}

/* YaRN's, where a context that models are made for makes them once more: so many times shorter than the model's, as
 * long, or a power of two. */
static int hub_put_yarn(pco_hub_writer *w, cJSON *to)
{
    const pco_model_spec *spec = w->spec;
    const double longest = (double)spec->max_position_embeddings;
    pco_rope_yarn scaling = {.factor = hub_largest_factor(spec), .beta_fast = 32, .beta_slow = 1, .truncate = 1};
    pco_error unused;
    for (int i = 0; i < 32; i++) {
        pco_model_spec made = *spec;
        scaling.original_context = i == 0 ? round(longest / scaling.factor) : i == 1 ? longest : ldexp(1, i);
        if (scaling.original_context < 1 || scaling.original_context > longest) continue;
        if (pco_rope_scale_yarn(&made, &scaling, "", &unused) || !hub_same_factors(&made, spec)) continue;
        hub_give(w, to, "rope_type", cJSON_CreateString("yarn"));
        hub_give(w, to, "factor", hub_real(scaling.factor));
        hub_give(w, to, "attention_factor", hub_real(spec->rope_amplitude > 0 ? spec->rope_amplitude : 1));
        hub_give(w, to, "original_max_position_embeddings", cJSON_CreateNumber(scaling.original_context));
        return 1;
    }
    return 0;
}

/* GGUF has the factors and not what they come from. They are Llama 3's (Dubey et al. 2024) where its numbers make them
 * once more: two that all its models have in common, the largest factor, and the context. */
static int hub_put_llama3(pco_hub_writer *w, cJSON *to)
{
    pco_model_spec made = *w->spec;
    pco_rope_llama3 scaling = {.factor = hub_largest_factor(w->spec), .low = 1, .high = 4};
    pco_error unused;
    if (w->spec->rope_amplitude > 0 && w->spec->rope_amplitude != 1) return 0;
    scaling.original_context = hub_llama3_context(w->spec, &scaling);
    if (pco_rope_scale_llama3(&made, &scaling, "", &unused) || !hub_same_factors(&made, w->spec)) return 0;
    hub_give(w, to, "rope_type", cJSON_CreateString("llama3"));
    hub_give(w, to, "factor", hub_real(scaling.factor));
    hub_give(w, to, "low_freq_factor", hub_real(scaling.low));
    hub_give(w, to, "high_freq_factor", hub_real(scaling.high));
    hub_give(w, to, "original_max_position_embeddings", cJSON_CreateNumber(scaling.original_context));
    return 1;
}

static void hub_put_scaling(pco_hub_writer *w)
{
    const pco_model_spec *spec = w->spec;
    cJSON *scaling = cJSON_CreateObject();
    int used = 1;
    if (spec->rope_original_context) {
        pco_hub_put_size(w, "original_max_position_embeddings", spec->rope_original_context);
        hub_give(w, scaling, "rope_type", cJSON_CreateString("longrope"));
        hub_give(w, scaling, "original_max_position_embeddings",
                 cJSON_CreateNumber((double)spec->rope_original_context));
        if (spec->rope_amplitude > 0) hub_give(w, scaling, "attention_factor", hub_real(spec->rope_amplitude));
        hub_put_factors(w, scaling, "short_factor", spec->rope_factors);
        hub_put_factors(w, scaling, "long_factor", spec->rope_long_factors);
    } else if (spec->rope_scale > 0 && spec->rope_scale != 1) {
        hub_give(w, scaling, "rope_type", cJSON_CreateString("linear"));
        hub_give(w, scaling, "factor", hub_real(spec->rope_scale));
    } else {
        used = spec->rope_factor_count && (hub_put_llama3(w, scaling) || hub_put_yarn(w, scaling));
    }
    if (used)
        hub_give(w, w->root, "rope_scaling", scaling);
    else
        cJSON_Delete(scaling);
}

static void hub_put_rope(pco_hub_writer *w, const pco_hub_keys *keys)
{
    const double head_dim = (double)w->spec->head_dim[PCO_DECODER];
    const double part = w->spec->rope_dimensions ? (double)w->spec->rope_dimensions / head_dim : 1;
    pco_hub_put_number(w, keys->theta ? keys->theta : "rope_theta", w->spec->rope_theta);
    if (keys->rotary_key) pco_hub_put_number(w, keys->rotary_key, part);
    hub_put_scaling(w);
}

/* ---- a decoder ------------------------------------------------------------------------------------------ */

static void hub_put_decoder(pco_hub_writer *w, const pco_hub_keys *keys)
{
    const pco_model_spec *spec = w->spec;
    pco_hub_put_size(w, keys->width, spec->d_model);
    pco_hub_put_size(w, keys->ffn, spec->ffn_dim[PCO_DECODER]);
    pco_hub_put_size(w, keys->layers, spec->layers[PCO_DECODER]);
    pco_hub_put_size(w, keys->heads, spec->attention_heads[PCO_DECODER]);
    pco_hub_put_size(w, keys->kv_heads, spec->kv_heads[PCO_DECODER]);
    pco_hub_put_size(w, keys->head_dim, spec->head_dim[PCO_DECODER]);
    pco_hub_put_size(w, keys->context, spec->max_position_embeddings);
    pco_hub_put_size(w, "vocab_size", spec->vocab_size[PCO_DECODER]);
    pco_hub_put_number(w, keys->eps, spec->norm.eps);
    pco_hub_put_activation(w, keys->activation, spec->activation_function);
    pco_hub_put_bool(w, "tie_word_embeddings", spec->tie_word_embeddings);
    if (spec->position_embedding == PCO_POSITION_ROPE) hub_put_rope(w, keys);
}

pco_status pco_hub_write(const char *model_type, const pco_hub *hub, const pco_model_spec *spec, cJSON **root,
                         pco_error *err)
{
    pco_hub_writer w = {.root = cJSON_CreateObject(), .spec = spec};
    cJSON *classes = cJSON_CreateArray();
    *root = NULL;
    if (w.root) {
        pco_hub_put_text(&w, "model_type", model_type);
        hub_give(&w, classes, NULL, cJSON_CreateString(hub->class));
        hub_give(&w, w.root, "architectures", classes);
        if (hub->keys) hub_put_decoder(&w, hub->keys);
        if (hub->write) hub->write(&w, spec);
    }
    if (w.root && !w.failed) {
        *root = w.root;
        return PCO_OK;
    }
    cJSON_Delete(w.root);
    return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a config.json");
}
