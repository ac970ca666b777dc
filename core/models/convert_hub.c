/* Folders of Hugging Face on their way to GGUF: names, order of rows, keys. What GGUF does not say of a model is found
 * by reading the keys back: they must give the spec that the folder's config.json gave. */
#include "models/convert_internal.h"

#include "base/dtype.h"
#include "base/error.h"
#include "models/gguf_spec.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const pco_family *convert_family(const pco_model_file *file)
{
    const pco_family *family = file->family;
    if (!family->hub || !file->spec.decoder_only) return NULL;
    return family->architecture ? family : family->in_gguf;
}

/* ---- names ---------------------------------------------------------------------------------------------- */

enum { HUB_PARTS = sizeof(pco_layer_names) / sizeof(const char *) };

/* Is the name `base` with ".weight" or ".bias" behind it, or `base` itself? What stands behind it; NULL: it is not. */
static const char *hub_tail(const char *name, const char *base)
{
    const size_t size = base ? strlen(base) : 0;
    if (!base || strncmp(name, base, size) != 0) return NULL;
    const char *tail = name + size;
    return !*tail || strcmp(tail, ".weight") == 0 || strcmp(tail, ".bias") == 0 ? tail : NULL;
}

/* Which part of a layer: "model.layers.3.self_attn.q_proj.weight" is query, layer 3, ".weight". -1: none. */
static int hub_part_of(const pco_model_spec *spec, const char *name, int64_t *layer, const char **tail)
{
    const char *const *parts = (const char *const *)&spec->names;
    const char *pattern = spec->stacks[PCO_DECODER].layer;
    const size_t star = strcspn(pattern, "*");
    char *end;
    if (strncmp(name, pattern, star) != 0) return -1;
    *layer = strtol(name + star, &end, 10);
    if (end == name + star || *end != '.') return -1;
    for (int i = 0; i < HUB_PARTS; i++)
        if ((*tail = hub_tail(end + 1, parts[i]))) return i;
    return -1;
}

/* The name in GGUF; 0 where there is none. */
static int hub_gguf_name(const pco_model_spec *from, const pco_model_spec *with, const char *name,
                         char to[PCO_GGUF_NAME], int *part)
{
    const pco_stack_names *a = &from->stacks[PCO_DECODER], *b = &with->stacks[PCO_DECODER];
    const struct {
        const char *from, *to;
    } outside[] = {{a->embedding, b->embedding},
                   {a->positions, b->positions},
                   {a->last_norm, b->last_norm},
                   {from->lm_head, with->lm_head}};
    const char *tail = NULL, *base = NULL;
    int64_t layer;
    *part = -1;
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
        if (!base && outside[i].to && (tail = hub_tail(name, outside[i].from))) base = outside[i].to;
    if (base) return snprintf(to, PCO_GGUF_NAME, "%s%s", base, tail) < PCO_GGUF_NAME;
    *part = hub_part_of(from, name, &layer, &tail);
    if (*part < 0 || !(base = ((const char *const *)&with->names)[*part])) return 0;
    return snprintf(to, PCO_GGUF_NAME, "blk.%" PRId64 ".%s%s", layer, base, tail) < PCO_GGUF_NAME;
}

pco_status convert_rename(const pco_model_file *file, convert_items *all, pco_error *err)
{
    static const int query = offsetof(pco_layer_names, query) / sizeof(const char *),
                     key = offsetof(pco_layer_names, key) / sizeof(const char *);
    const pco_model_spec *spec = &file->spec;
    pco_model_spec with = *convert_family(file)->spec;
    const int paired = with.rope_interleaved && !spec->rope_interleaved;
    if (spec->experts) pco_gguf_name_experts(&with.names);
    for (uint32_t i = 0; i < all->count; i++) {
        convert_item *item = &all->items[i];
        int part;
        if (!hub_gguf_name(spec, &with, item->weight->name, item->name, &part))
            return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: GGUF files of architecture '%s' have no tensor '%s'",
                            file->path, convert_family(file)->architecture, item->weight->name);
        if (!paired || (part != query && part != key)) continue;
        item->pair_heads = part == query ? spec->attention_heads[PCO_DECODER] : spec->kv_heads[PCO_DECODER];
        item->pair_rows = spec->rope_dimensions ? spec->rope_dimensions : spec->head_dim[PCO_DECODER];
    }
    return PCO_OK;
}

/* ---- tensors that follow from the config ---------------------------------------------------------------- */

static void hub_add_factors(convert_items *all, pco_weight *made, const char *name, const float *factors, int64_t count)
{
    convert_item *item = &all->items[all->count];
    *made = (pco_weight){.name = (char *)name,
                         .dtype = PCO_F32,
                         .rank = 1,
                         .shape = {count},
                         .bytes = (uint64_t)count * sizeof *factors,
                         .data = factors};
    *item = (convert_item){.weight = made};
    snprintf(item->name, sizeof item->name, "%s", name);
    all->count++;
}

void convert_add_factors(const pco_model_spec *spec, convert_items *all, pco_weight made[CONVERT_MADE])
{
    if (!spec->rope_factor_count) return;
    if (spec->rope_original_context) {
        hub_add_factors(all, &made[0], "rope_factors_short.weight", spec->rope_factors, spec->rope_factor_count);
        hub_add_factors(all, &made[1], "rope_factors_long.weight", spec->rope_long_factors, spec->rope_factor_count);
    } else {
        hub_add_factors(all, &made[0], "rope_freqs.weight", spec->rope_factors, spec->rope_factor_count);
    }
}

/* ---- keys ----------------------------------------------------------------------------------------------- */

typedef struct hub_keys {
    pco_gguf_writer *out;
    const char *architecture;
    char key[128];
} hub_keys;

static const char *hub_key(hub_keys *k, const char *name)
{
    snprintf(k->key, sizeof k->key, "%s.%s", k->architecture, name);
    return k->key;
}

static void hub_size(hub_keys *k, const char *name, int64_t value)
{
    pco_gguf_put_u32(k->out, hub_key(k, name), (uint32_t)value);
}

static void hub_number(hub_keys *k, const char *name, double value)
{
    if (value > 0) pco_gguf_put_f32(k->out, hub_key(k, name), (float)value);
}

static void hub_put_rope(hub_keys *k, const pco_model_spec *spec)
{
    hub_size(k, "rope.dimension_count", spec->rope_dimensions ? spec->rope_dimensions : spec->head_dim[PCO_DECODER]);
    hub_number(k, "rope.freq_base", spec->rope_theta);
    hub_number(k, "rope.freq_base_swa", spec->rope_theta_windowed);
    if (spec->rope_scale > 0) {
        pco_gguf_put_text(k->out, hub_key(k, "rope.scaling.type"), "linear");
        hub_number(k, "rope.scaling.factor", spec->rope_scale);
    }
    if (spec->rope_original_context) {
        pco_gguf_put_text(k->out, hub_key(k, "rope.scaling.type"), "longrope");
        hub_size(k, "rope.scaling.original_context_length", spec->rope_original_context);
    }
    hub_number(k, "rope.scaling.attn_factor", spec->rope_amplitude);
}

void convert_put_spec(pco_gguf_writer *out, const pco_model_file *file)
{
    const pco_model_spec *spec = &file->spec;
    hub_keys keys = {.out = out, .architecture = convert_family(file)->architecture}, *k = &keys;
    const char *slash = strrchr(file->path, '/');
    pco_gguf_put_text(out, "general.architecture", k->architecture);
    pco_gguf_put_text(out, "general.type", "model");
    if (slash && slash[1]) pco_gguf_put_text(out, "general.name", slash + 1);
    hub_size(k, "context_length", spec->max_position_embeddings);
    hub_size(k, "embedding_length", spec->d_model);
    hub_size(k, "block_count", spec->layers[PCO_DECODER]);
    hub_size(k, "feed_forward_length", spec->ffn_dim[PCO_DECODER]);
    if (spec->experts) {
        hub_size(k, "expert_count", spec->experts);
        hub_size(k, "expert_used_count", spec->experts_used);
        hub_size(k, "expert_feed_forward_length", spec->ffn_dim[PCO_DECODER]);
    }
    hub_size(k, "vocab_size", spec->vocab_size[PCO_DECODER]);
    hub_size(k, "attention.head_count", spec->attention_heads[PCO_DECODER]);
    hub_size(k, "attention.head_count_kv", spec->kv_heads[PCO_DECODER]);
    hub_size(k, "attention.key_length", spec->head_dim[PCO_DECODER]);
    hub_size(k, "attention.value_length", spec->head_dim[PCO_DECODER]);
    hub_number(k,
               spec->norm.type == PCO_NN_RMS_NORM ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon",
               spec->norm.eps);
    if (spec->position_embedding == PCO_POSITION_ROPE) hub_put_rope(k, spec);
    hub_number(k, "attn_logit_softcapping", spec->attention_softcap);
    hub_number(k, "final_logit_softcapping", spec->logits_softcap);
    if (spec->sliding_window > 0) hub_size(k, "attention.sliding_window", spec->sliding_window);
    if (convert_family(file)->spec->parallel_residual)
        pco_gguf_put_bool(out, hub_key(k, "use_parallel_residual"), spec->parallel_residual);
}

/* ---- read back ------------------------------------------------------------------------------------------ */

static double hub_scale_of(const pco_model_spec *spec)
{
    return spec->attention_scale > 0 ? spec->attention_scale : 1 / sqrt((double)spec->head_dim[PCO_DECODER]);
}

static double hub_rotated(const pco_model_spec *spec)
{
    return (double)(spec->rope_dimensions ? spec->rope_dimensions : spec->head_dim[PCO_DECODER]);
}

static double hub_or_one(double value) { return value > 0 ? value : 1; }

/* Where the one layer has a window and the other has none. */
static int64_t hub_windows_differ(const pco_model_spec *a, const pco_model_spec *b)
{
    for (int64_t i = 0; i < a->layers[PCO_DECODER]; i++) {
        const int64_t x = pco_spec_sees_all(a, i) ? 0 : a->sliding_window,
                      y = pco_spec_sees_all(b, i) ? 0 : b->sliding_window;
        if (x != y) return i + 1;
    }
    return 0;
}

pco_status convert_compare_specs(const pco_model_file *file, const pco_model_spec *read, pco_error *err)
{
    const pco_model_spec *a = &file->spec, *b = read;
#define HUB_SIZE(field)      #field, (double)a->field, (double)b->field
#define HUB_MADE(name, made) name, (double)made(a), (double)made(b)
    const struct {
        const char *what;
        double wanted, found;
    } rows[] = {{HUB_SIZE(d_model)},
                {HUB_SIZE(layers[PCO_DECODER])},
                {HUB_SIZE(attention_heads[PCO_DECODER])},
                {HUB_SIZE(kv_heads[PCO_DECODER])},
                {HUB_SIZE(head_dim[PCO_DECODER])},
                {HUB_SIZE(ffn_dim[PCO_DECODER])},
                {HUB_SIZE(experts)},
                {HUB_SIZE(experts_used)},
                {"experts_normalized", a->experts ? a->experts_normalized : 0, a->experts ? b->experts_normalized : 0},
                {HUB_SIZE(vocab_size[PCO_DECODER])},
                {HUB_SIZE(max_position_embeddings)},
                {HUB_SIZE(activation_function)},
                {HUB_SIZE(normalize_before)},
                {HUB_SIZE(parallel_residual)},
                {HUB_SIZE(norm.type)},
                {HUB_SIZE(norm.eps)},
                {HUB_SIZE(final_norm)},
                {HUB_SIZE(query_norm_whole)},
                {HUB_MADE("attention_scale", hub_scale_of)},
                {HUB_SIZE(attention_softcap)},
                {HUB_SIZE(logits_softcap)},
                {HUB_SIZE(position_embedding)},
                {HUB_MADE("rope_dimensions", hub_rotated)},
                {HUB_SIZE(rope_theta)},
                {"rope_theta_windowed", a->sliding_window ? a->rope_theta_windowed : 0,
                 a->sliding_window ? b->rope_theta_windowed : 0},
                {"rope_scale", hub_or_one(a->rope_scale), hub_or_one(b->rope_scale)},
                {HUB_SIZE(rope_factor_count)},
                {HUB_SIZE(rope_original_context)},
                {"rope_amplitude", hub_or_one(a->rope_amplitude), hub_or_one(b->rope_amplitude)},
                {HUB_SIZE(rope_none_interval)},
                {HUB_SIZE(position_offset)},
                {HUB_SIZE(scale_embedding)},
                {HUB_SIZE(tie_word_embeddings)},
                {"head_scale", hub_or_one(a->head_scale), hub_or_one(b->head_scale)}};
#undef HUB_SIZE
#undef HUB_MADE
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if ((float)rows[i].wanted != (float)rows[i].found)
            return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                            "%s: GGUF files of architecture '%s' cannot say that %s is %g (it would be read as %g)",
                            file->path, convert_family(file)->architecture, rows[i].what, rows[i].wanted,
                            rows[i].found);
    const int64_t layer = hub_windows_differ(a, b);
    if (layer)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                        "%s: GGUF files of architecture '%s' cannot say how many keys layer %" PRId64 " sees",
                        file->path, convert_family(file)->architecture, layer - 1);
    if (memcmp(a->rope_factors, b->rope_factors, sizeof a->rope_factors) != 0 ||
        memcmp(a->rope_long_factors, b->rope_long_factors, sizeof a->rope_long_factors) != 0)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: the factors of its rotations read back other than written",
                        file->path);
    return PCO_OK;
}
