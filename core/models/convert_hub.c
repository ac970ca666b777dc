/* Folders of Hugging Face and GGUF files on their way to each other: names, order of rows, keys. What the other file
 * does not say of a model is found by reading it back: it must give the same spec. */
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

const pco_family *convert_family(const pco_model_file *file, int folder)
{
    const pco_family *family = file->family;
    if (file->spec.encoder_only) return NULL;
    if (family->written_as) return family->written_as(&file->spec, folder);
    if (!family->hub) return NULL;
    if (!folder) return family->architecture ? family : family->in_gguf;
    family = pco_family_of_folder(family, &file->spec);
    return family->hub->class ? family : NULL;
}

/* ---- names ---------------------------------------------------------------------------------------------- */

enum { HUB_PARTS = sizeof(pco_layer_names) / sizeof(const char *) };

/* The names of a layer's parts that the model has: a family's are those of all its models. */
static pco_layer_names hub_names(const pco_model_spec *spec, pco_model_side side)
{
    pco_layer_names names = *pco_spec_names(spec, side);
    const int gated = spec->activation_function == PCO_NN_SWIGLU || spec->activation_function == PCO_NN_GEGLU;
    if (gated) names.fc1 = names.fc2 = NULL;
    if (!gated) names.gate = names.up = names.down = names.gate_up = NULL;
    if (names.gate_up) names.gate = names.up = NULL;
    if (names.fused) names.query = names.key = names.value = NULL;
    return names;
}

/* Is the name `base` with ".weight" or ".bias" behind it, or `base` itself? What stands behind it; NULL: it is not. */
static const char *hub_tail(const char *name, const char *base)
{
    const size_t size = base ? strlen(base) : 0;
    if (!base || strncmp(name, base, size) != 0) return NULL;
    const char *tail = name + size;
    return !*tail || strcmp(tail, ".weight") == 0 || strcmp(tail, ".bias") == 0 ? tail : NULL;
}

/* Which part of a layer: "model.layers.3.self_attn.q_proj.weight" is query, layer 3, ".weight". -1: none. */
static int hub_part_of(const pco_model_spec *spec, pco_model_side side, const char *name, int64_t *layer,
                       const char **tail)
{
    const pco_layer_names names = hub_names(spec, side);
    const char *const *parts = (const char *const *)&names;
    const char *pattern = spec->stacks[side].layer;
    const size_t star = strcspn(pattern, "*");
    char *end;
    if (strncmp(name, pattern, star) != 0) return -1;
    *layer = strtol(name + star, &end, 10);
    if (end == name + star || *end != '.') return -1;
    for (int i = 0; i < HUB_PARTS; i++)
        if ((*tail = hub_tail(end + 1, parts[i]))) return i;
    return -1;
}

/* The name of what is on that side in the other file; 0 where there is none. */
static int hub_side_name(const pco_model_spec *from, const pco_model_spec *with, pco_model_side side, const char *name,
                         char to[PCO_SPEC_NAME], int *part)
{
    const pco_stack_names *a = &from->stacks[side], *b = &with->stacks[side];
    const pco_layer_names names = hub_names(with, side);
    const struct {
        const char *from, *to;
    } outside[] = {{a->embedding, b->embedding},           {a->positions, b->positions},
                   {a->last_norm, b->last_norm},           {a->token_types, b->token_types},
                   {a->embedding_norm, b->embedding_norm}, {a->relative_bias, b->relative_bias},
                   {from->lm_head, with->lm_head},         {from->logits_bias, with->logits_bias},
                   {from->sound.conv1, with->sound.conv1}, {from->sound.conv2, with->sound.conv2}};
    const char *tail = NULL, *base = NULL;
    char inside[PCO_SPEC_NAME];
    int64_t layer;
    *part = -1;
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
        if (!base && outside[i].to && (tail = hub_tail(name, outside[i].from))) base = outside[i].to;
    if (base) return snprintf(to, PCO_SPEC_NAME, "%s%s", base, tail) < PCO_SPEC_NAME;
    *part = hub_part_of(from, side, name, &layer, &tail);
    if (*part < 0 || !(base = ((const char *const *)&names)[*part])) return 0;
    pco_spec_layer_name(with, side, layer, base, inside);
    return snprintf(to, PCO_SPEC_NAME, "%s%s", inside, tail) < PCO_SPEC_NAME;
}

/* The name in the other file; 0 where there is none. */
static int hub_other_name(const pco_model_spec *from, const pco_model_spec *with, const char *name,
                          char to[PCO_SPEC_NAME], int *part)
{
    for (int side = from->decoder_only ? PCO_DECODER : PCO_ENCODER; side <= PCO_DECODER; side++)
        if (hub_side_name(from, with, (pco_model_side)side, name, to, part)) return 1;
    return 0;
}

#define HUB_PART(name) ((int)(offsetof(pco_layer_names, name) / sizeof(const char *)))

/* How rows of projections change places. */
static convert_order hub_order(const pco_model_spec *spec, const convert_target *target, int part)
{
    const int64_t head_dim = spec->head_dim[PCO_DECODER], heads = spec->attention_heads[PCO_DECODER],
                  kv_heads = spec->kv_heads[PCO_DECODER];
    const int pairs = target->names.rope_interleaved;
    if (spec->position_embedding == PCO_POSITION_ROPE && pairs != spec->rope_interleaved &&
        (part == HUB_PART(query) || part == HUB_PART(key)))
        return (convert_order){.kind = pairs ? CONVERT_PAIRS : CONVERT_HALVES,
                               .heads = part == HUB_PART(query) ? heads : kv_heads,
                               .rows = spec->rope_dimensions ? spec->rope_dimensions : head_dim};
    if (target->folder && target->family->hub->grouped && part == HUB_PART(fused) && kv_heads > 1)
        return (convert_order){CONVERT_GROUPS, kv_heads, head_dim, heads / kv_heads};
    return (convert_order){.kind = CONVERT_SAME};
}

/* "experts.w1.weight" as "experts.0.w1.weight" and so on, one matrix each. */
static pco_status hub_split_experts(convert_items *all, uint32_t index, const char *before, pco_error *err)
{
    const convert_item stack = all->items[index];
    const char *found = strstr(stack.name, before);
    if (!found || stack.rank != 3)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "tensor '%s' is no stack of matrices", stack.name);
    const int size = (int)(found - stack.name) + (int)strlen(before);
    for (int64_t e = 0; e < stack.shape[0]; e++) {
        convert_item *item = e ? convert_add(all, stack.weight, "") : &all->items[index];
        if (!item) return convert_no_memory(err);
        if (snprintf(item->name, sizeof item->name, "%.*s%" PRId64 ".%s", size, stack.name, e, stack.name + size) >=
            (int)sizeof item->name)
            return pco_fail(err, PCO_ERROR_UNSUPPORTED, "the name '%s' is too long", stack.name);
        item->rank = 2;
        item->shape[0] = stack.shape[1];
        item->shape[1] = stack.shape[2];
        item->first = e * stack.shape[1];
    }
    return PCO_OK;
}

/* What folders of a family have in another form than GGUF. */
static pco_status hub_fold(const pco_hub *hub, convert_items *all, uint32_t index, int part, pco_error *err)
{
    convert_item *item = &all->items[index];
    const int is_expert = part == HUB_PART(gate) || part == HUB_PART(up) || part == HUB_PART(down);
    if (hub->norm_offset != 0 && pco_hub_is_norm(hub, item->name)) {
        item->scale = 1;
        item->offset = -hub->norm_offset;
    }
    if (pco_hub_is_transposed(hub, item->name)) convert_transpose(item);
    return hub->experts && is_expert ? hub_split_experts(all, index, hub->experts, err) : PCO_OK;
}

/* As files of the family have it: with its prefix, and a bias of logits as a row. */
static pco_status hub_store(const pco_hub *hub, const pco_model_spec *names, convert_item *item, pco_error *err)
{
    char bare[PCO_SPEC_NAME];
    memcpy(bare, item->name, sizeof bare);
    if (!pco_hub_stored_name(hub, bare, item->name))
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "the name '%s' is too long", bare);
    if (hub->prefix && names->logits_bias && strcmp(bare, names->logits_bias) == 0 && item->rank == 1) {
        item->rank = 2;
        item->shape[1] = item->shape[0];
        item->shape[0] = 1;
    }
    return PCO_OK;
}

/* "GGUF files of architecture 'llama'" */
static const char *hub_kind(const convert_target *target, char text[128])
{
    snprintf(text, 128,
             target->folder ? "folders of Hugging Face with model_type '%.40s'" : "GGUF files of architecture '%.40s'",
             target->folder ? target->family->model_type : target->family->architecture);
    return text;
}

pco_status convert_rename(const pco_model_file *file, const convert_target *target, convert_items *all, pco_error *err)
{
    const pco_model_spec *spec = &file->spec;
    const uint32_t count = all->count;
    uint32_t kept = 0;
    char kind[128];
    pco_status status = PCO_OK;
    for (uint32_t i = 0; i < count && !status; i++) {
        convert_item *item = &all->items[i];
        const char *name = item->weight->name;
        int part;
        if (spec->rope_factor_count && strncmp(name, "rope_f", 6) == 0) continue; /* they live in the spec */
        const int known = hub_other_name(spec, &target->names, name, item->name, &part) ||
                          convert_trained_part(file, target, name, item->name);
        if (!known && file->family->hub && pco_hub_unused(file->family->hub, name)) continue; /* a copy of another */
        if (!known)
            return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: %s have no tensor '%s'", file->path,
                            hub_kind(target, kind), name);
        item->order = hub_order(spec, target, part);
        if (target->folder) status = hub_fold(target->family->hub, all, i, part, err);
        if (kept != i) all->items[kept] = all->items[i];
        kept++;
    }
    memmove(all->items + kept, all->items + count, (all->count - count) * sizeof *all->items);
    all->count -= count - kept;
    return status;
}

pco_status convert_store_names(const convert_target *target, convert_items *all, pco_error *err)
{
    const pco_hub *hub = target->family->hub;
    pco_status status = PCO_OK;
    for (uint32_t i = 0; i < all->count && hub->prefix && !status; i++)
        status = hub_store(hub, &target->names, &all->items[i], err);
    return status;
}

/* ---- tensors that follow from the config ---------------------------------------------------------------- */

static pco_status hub_add_factors(convert_items *all, const char *name, const float *factors, int64_t count,
                                  pco_error *err)
{
    float *data;
    if (!convert_add_made(all, name, 1, &count, &data)) return convert_no_memory(err);
    memcpy(data, factors, (size_t)count * sizeof *data);
    return PCO_OK;
}

pco_status convert_add_factors(const pco_model_spec *spec, convert_items *all, pco_error *err)
{
    const int64_t count = spec->rope_factor_count;
    if (!count) return PCO_OK;
    if (!spec->rope_original_context) return hub_add_factors(all, "rope_freqs.weight", spec->rope_factors, count, err);
    const pco_status status = hub_add_factors(all, "rope_factors_short.weight", spec->rope_factors, count, err);
    return status ? status : hub_add_factors(all, "rope_factors_long.weight", spec->rope_long_factors, count, err);
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

void convert_put_spec(pco_gguf_writer *out, const pco_model_file *file, const convert_target *target)
{
    const pco_model_spec *spec = &target->spec;
    hub_keys keys = {.out = out, .architecture = target->family->architecture}, *k = &keys;
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
    if (target->family->spec->parallel_residual)
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

/* Llama 3's factors are worked out again from numbers that are rounded: in f64, then to f32, so that a unit is all. */
static int hub_factors_differ(const float *a, const float *b)
{
    for (int i = 0; i < PCO_ROPE_PAIRS; i++)
        if (fabsf(a[i] - b[i]) > 0x1p-22f * fabsf(a[i])) return 1;
    return 0;
}

typedef struct hub_row {
    const char *what;
    double wanted, found;
} hub_row;

#define HUB_SIZE(field)      #field, (double)a->field, (double)b->field
#define HUB_MADE(name, made) name, (double)made(a), (double)made(b)

static pco_status hub_compare_rows(const char *path, const convert_target *target, const hub_row *rows, size_t count,
                                   pco_error *err)
{
    char kind[128];
    for (size_t i = 0; i < count; i++)
        if ((float)rows[i].wanted != (float)rows[i].found)
            return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: %s cannot say that %s is %g (it would be read as %g)",
                            path, hub_kind(target, kind), rows[i].what, rows[i].wanted, rows[i].found);
    return PCO_OK;
}

/* What an encoder-decoder has beside a decoder. */
static pco_status hub_compare_sources(const char *path, const convert_target *target, const pco_model_spec *read,
                                      pco_error *err)
{
    const pco_model_spec *a = &target->spec, *b = read;
    const hub_row rows[] = {{HUB_SIZE(vocab_size[PCO_ENCODER])},
                            {HUB_SIZE(layers[PCO_ENCODER])},
                            {HUB_SIZE(attention_heads[PCO_ENCODER])},
                            {HUB_SIZE(head_dim[PCO_ENCODER])},
                            {HUB_SIZE(ffn_dim[PCO_ENCODER])},
                            {HUB_SIZE(sound.bands)},
                            {HUB_SIZE(sound.rows)},
                            {HUB_SIZE(relative_buckets)},
                            {HUB_SIZE(relative_distance)},
                            {HUB_SIZE(attention_bias)},
                            {HUB_SIZE(output_bias)},
                            {HUB_SIZE(ffn_bias)},
                            {"final_logits_bias", a->logits_bias != NULL, b->logits_bias != NULL},
                            {HUB_SIZE(pad_token_id)},
                            {HUB_SIZE(eos_token_id)},
                            {HUB_SIZE(decoder_start_token_id)},
                            {HUB_SIZE(add_eos_to_source)}};
    return hub_compare_rows(path, target, rows, sizeof rows / sizeof *rows, err);
}

pco_status convert_compare_specs(const char *path, const convert_target *target, const pco_model_spec *read,
                                 pco_error *err)
{
    const pco_model_spec *a = &target->spec, *b = read;
    const hub_row rows[] = {
        {HUB_SIZE(d_model)},
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
        {HUB_SIZE(norm.form)},
        {HUB_SIZE(final_norm)},
        {"last_norm.form", a->final_norm ? a->last_norm.form : 0, a->final_norm ? b->last_norm.form : 0},
        {"last_norm.eps", a->final_norm ? a->last_norm.eps : 0, a->final_norm ? b->last_norm.eps : 0},
        {HUB_SIZE(norm.eps)},
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
    pco_status status = hub_compare_rows(path, target, rows, sizeof rows / sizeof *rows, err);
    if (!status && !a->decoder_only) status = hub_compare_sources(path, target, read, err);
    if (status) return status;
    const int64_t layer = hub_windows_differ(a, b);
    char kind[128];
    if (layer)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: %s cannot say how many keys layer %" PRId64 " sees", path,
                        hub_kind(target, kind), layer - 1);
    if (hub_factors_differ(a->rope_factors, b->rope_factors) ||
        hub_factors_differ(a->rope_long_factors, b->rope_long_factors))
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: the factors of its rotations read back other than written",
                        path);
    return PCO_OK;
}
