/* RoPE as config.json says it: "rope_parameters", or "rope_theta", "rope_scaling" and "partial_rotary_factor" of
 * before. */
#include "models/hub.h"
#include "models/rope.h"

#include "base/error.h"

#include <inttypes.h>
#include <string.h>

/* What divides an angle: models have 1 to 64. */
#define HUB_FACTOR_LEAST 1e-6
#define HUB_FACTOR_MOST  1e6

/* A reader of the object in which the parameters are: its own keys are checked, too. */
static void hub_rope_list(pco_hub_reader *r, const char *key, int64_t pairs, float *factors)
{
    const cJSON *list = pco_hub_item(r, key), *item;
    int64_t index = 0;
    if (r->status) return;
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != pairs || pairs > PCO_ROPE_PAIRS) {
        r->status =
            pco_fail(r->err, PCO_ERROR_FORMAT, "%s: '%s' must be a list of %" PRId64 " numbers", r->label, key, pairs);
        return;
    }
    cJSON_ArrayForEach(item, list)
    {
        const double value = cJSON_IsNumber(item) ? item->valuedouble : 0;
        if (!(value >= HUB_FACTOR_LEAST && value <= HUB_FACTOR_MOST)) {
            r->status = pco_fail(r->err, PCO_ERROR_FORMAT, "%s: number %" PRId64 " of '%s' must be %g to %g", r->label,
                                 index, key, HUB_FACTOR_LEAST, HUB_FACTOR_MOST);
            return;
        }
        factors[index++] = (float)value;
    }
}

/* LongRoPE (Ding et al. 2024): a list of factors for texts up to the original context, another for longer ones. */
static void hub_rope_long(pco_hub_reader *r, int64_t original, pco_model_spec *spec)
{
    const int64_t pairs = spec->rope_dimensions / 2;
    const double ratio = (double)spec->max_position_embeddings / (double)original;
    const double factor = pco_hub_number(r, "factor", HUB_FACTOR_LEAST, HUB_FACTOR_MOST, ratio);
    hub_rope_list(r, "short_factor", pairs, spec->rope_factors);
    hub_rope_list(r, "long_factor", pairs, spec->rope_long_factors);
    spec->rope_factor_count = pairs;
    spec->rope_original_context = original;
    spec->rope_amplitude = pco_hub_number(r, "attention_factor", HUB_FACTOR_LEAST, HUB_FACTOR_MOST,
                                          pco_rope_long_amplitude(factor, original));
}

static void hub_rope_yarn(pco_hub_reader *r, int64_t original, pco_model_spec *spec)
{
    const double ratio = (double)spec->max_position_embeddings / (double)original;
    const double factor = pco_hub_number(r, "factor", HUB_FACTOR_LEAST, HUB_FACTOR_MOST, ratio),
                 mscale = pco_hub_number(r, "mscale", 0, HUB_FACTOR_MOST, 0),
                 all = pco_hub_number(r, "mscale_all_dim", 0, HUB_FACTOR_MOST, 0);
    const double amplitude = mscale > 0 && all > 0
                                 ? pco_rope_yarn_amplitude(factor, mscale) / pco_rope_yarn_amplitude(factor, all)
                                 : pco_rope_yarn_amplitude(factor, 1);
    const double fast = pco_hub_number(r, "beta_fast", 0, HUB_FACTOR_MOST, 32),
                 slow = pco_hub_number(r, "beta_slow", 0, HUB_FACTOR_MOST, 1);
    const pco_rope_yarn yarn = {.factor = factor,
                                .original_context = (double)original,
                                .beta_fast = fast > 0 ? fast : 32,
                                .beta_slow = slow > 0 ? slow : 1,
                                .truncate = pco_hub_bool(r, "truncate", 1)};
    spec->rope_amplitude = pco_hub_number(r, "attention_factor", HUB_FACTOR_LEAST, HUB_FACTOR_MOST, amplitude);
    if (!r->status) r->status = pco_rope_scale_yarn(spec, &yarn, r->label, r->err);
}

static void hub_rope_llama3(pco_hub_reader *r, int64_t original, pco_model_spec *spec)
{
    const pco_rope_llama3 scaling = {.factor = pco_hub_number(r, "factor", HUB_FACTOR_LEAST, HUB_FACTOR_MOST, 1),
                                     .low = pco_hub_number(r, "low_freq_factor", 1e-3, 1e6, 1),
                                     .high = pco_hub_number(r, "high_freq_factor", 1e-3, 1e6, 4),
                                     .original_context = (double)original};
    if (!r->status && !(scaling.low < scaling.high))
        r->status =
            pco_fail(r->err, PCO_ERROR_FORMAT, "%s: 'low_freq_factor' must be below 'high_freq_factor'", r->label);
    if (!r->status) r->status = pco_rope_scale_llama3(spec, &scaling, r->label, r->err);
}

/* The kind of scaling that `object` says, and its parameters. Its keys are all of RoPE, and all are read. */
static void hub_rope_scaling(pco_hub_reader *outer, const cJSON *object, int64_t original, pco_model_spec *spec)
{
    static const char *const types[] = {"default", "linear", "llama3", "yarn", "longrope", "su"};
    pco_hub_reader inner = {.root = object, .label = outer->label, .status = outer->status, .err = outer->err},
                   *r = &inner;
    const char *key = pco_hub_item(r, "rope_type") ? "rope_type" : "type";
    const cJSON *kind = pco_hub_item(r, key);
    uint32_t type = 0;
    pco_hub_ignore(r, "type");
    pco_hub_ignore(r, "finetuned");
    if (!r->status && kind && cJSON_IsString(kind) &&
        (strcmp(kind->valuestring, "dynamic") == 0 || strcmp(kind->valuestring, "proportional") == 0))
        r->status = pco_fail(r->err, PCO_ERROR_UNSUPPORTED,
                             "%s: RoPE is scaled as '%s', which Portico cannot run; it runs 'default', 'linear', "
                             "'llama3', 'yarn' and 'longrope'",
                             r->label, kind->valuestring);
    type = pco_hub_enum(r, key, types, 6, 0);
    spec->rope_theta = pco_hub_number(r, "rope_theta", 1e-30, 1e30, spec->rope_theta);
    pco_hub_ignore(r, "partial_rotary_factor"); /* read before, as sizes of lists follow from it */
    original = pco_hub_size_or(r, "original_max_position_embeddings", 1 << 30, original);
    if (type == 1) spec->rope_scale = pco_hub_number(r, "factor", HUB_FACTOR_LEAST, HUB_FACTOR_MOST, 1);
    if (type == 2) hub_rope_llama3(r, original, spec);
    if (type == 3) hub_rope_yarn(r, original, spec);
    if (type >= 4) hub_rope_long(r, original, spec);
    for (const cJSON *item = object->child; item && !r->status; item = item->next) {
        int known = cJSON_IsNull(item);
        for (uint32_t i = 0; i < r->n_read && !known; i++) known = strcmp(r->read[i], item->string) == 0;
        if (!known)
            r->status = pco_fail(r->err, PCO_ERROR_UNSUPPORTED,
                                 "%s: RoPE has a parameter '%.100s', which Portico does not know for '%s'", r->label,
                                 item->string, types[type]);
    }
    outer->status = r->status;
}

/* The rotated part of each head. */
static int64_t hub_rope_dimensions(pco_hub_reader *r, const cJSON *parameters, double part, const pco_model_spec *spec)
{
    const cJSON *inner = cJSON_GetObjectItemCaseSensitive(parameters, "partial_rotary_factor");
    part = pco_hub_number(r, "partial_rotary_factor", 1e-6, 1, part);
    part = pco_hub_number(r, "rotary_pct", 1e-6, 1, part);
    if (inner && !cJSON_IsNull(inner) && !r->status)
        r->status = pco_json_number(parameters, r->label, "partial_rotary_factor", 1e-6, 1, &part, r->err);
    const int64_t head_dim = spec->head_dim[PCO_DECODER], dimensions = (int64_t)((double)head_dim * part);
    if (!r->status && (dimensions < 2 || dimensions % 2))
        r->status = pco_fail(r->err, PCO_ERROR_FORMAT,
                             "%s: RoPE turns %" PRId64 " of %" PRId64
                             " channels of a head; it must be an even number, at least 2",
                             r->label, dimensions, head_dim);
    return r->status ? 2 : dimensions;
}

/* The object for full attention of a model that has one for each kind of layer, and in *windowed the other; or the
 * object itself. */
static const cJSON *hub_rope_of_kinds(pco_hub_reader *r, const cJSON *parameters, const cJSON **windowed)
{
    const cJSON *full = cJSON_GetObjectItemCaseSensitive(parameters, "full_attention");
    *windowed = cJSON_GetObjectItemCaseSensitive(parameters, "sliding_attention");
    if (!full || !*windowed) {
        *windowed = NULL;
        return parameters;
    }
    for (const cJSON *item = parameters->child; item && !r->status; item = item->next)
        if (item != full && item != *windowed && !cJSON_IsNull(item))
            r->status = pco_fail(r->err, PCO_ERROR_UNSUPPORTED,
                                 "%s: RoPE has a parameter '%.100s' beside those of 'full_attention' and "
                                 "'sliding_attention', which Portico does not know",
                                 r->label, item->string);
    if (!r->status && !(cJSON_IsObject(full) && cJSON_IsObject(*windowed)))
        r->status = pco_fail(r->err, PCO_ERROR_FORMAT,
                             "%s: 'full_attention' and 'sliding_attention' of RoPE must be objects", r->label);
    return full;
}

/* The theta of layers with a window goes to rope_theta_windowed; all else must be as in the others, unscaled. */
static void hub_rope_windowed(pco_hub_reader *r, const cJSON *windowed, double part, pco_model_spec *spec)
{
    pco_model_spec other = *spec;
    const int64_t dimensions = hub_rope_dimensions(r, windowed, part, spec);
    if (!r->status && dimensions != spec->rope_dimensions)
        r->status = pco_fail(r->err, PCO_ERROR_UNSUPPORTED,
                             "%s: 'partial_rotary_factor' of 'sliding_attention' is another than that of "
                             "'full_attention', which Portico cannot run",
                             r->label);
    if (!r->status) hub_rope_scaling(r, windowed, spec->max_position_embeddings, &other);
    if (!r->status && (other.rope_scale > 0 || other.rope_factor_count))
        r->status = pco_fail(r->err, PCO_ERROR_UNSUPPORTED,
                             "%s: RoPE of 'sliding_attention' is scaled, which Portico cannot run", r->label);
    spec->rope_theta_windowed = other.rope_theta;
}

void pco_hub_read_rope(pco_hub_reader *r, double part, pco_model_spec *spec)
{
    const cJSON *parameters = pco_hub_item(r, "rope_parameters"), *scaling = pco_hub_item(r, "rope_scaling");
    if (!parameters) parameters = scaling;
    if (parameters && !cJSON_IsObject(parameters) && !r->status)
        r->status = pco_fail(r->err, PCO_ERROR_FORMAT, "%s: the parameters of RoPE must be an object", r->label);
    spec->rope_theta = pco_hub_number(r, "rope_theta", 1e-30, 1e30, spec->rope_theta > 0 ? spec->rope_theta : 10000);
    spec->rope_theta = pco_hub_number(r, "rotary_emb_base", 1e-30, 1e30, spec->rope_theta);
    const cJSON *windowed = NULL;
    if (parameters && !r->status) parameters = hub_rope_of_kinds(r, parameters, &windowed);
    spec->rope_dimensions = hub_rope_dimensions(r, parameters, part, spec);
    const int64_t original =
        pco_hub_size_or(r, "original_max_position_embeddings", 1 << 30, spec->max_position_embeddings);
    if (windowed && !r->status) hub_rope_windowed(r, windowed, part, spec);
    if (parameters && !r->status) hub_rope_scaling(r, parameters, original, spec);
}
