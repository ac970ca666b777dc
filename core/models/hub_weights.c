/* The tensors of a folder as the graph asks for them. Names are those of the folder; what changes is in memory that the
 * collection owns. */
#include "models/hub.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/small_float.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const pco_hub_inverse_frequencies[] = {"rotary_emb.inv_freq", NULL};

static pco_status hub_no_memory(const pco_weights *weights, pco_error *err)
{
    return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "%s: no memory for weights that the file has in another form",
                    weights->label);
}

/* ---- names ---------------------------------------------------------------------------------------------- */

int pco_hub_unused(const pco_hub *hub, const char *name)
{
    for (const char *const *begin = hub->unused; begin && *begin; begin++)
        if (strncmp(name, *begin, strlen(*begin)) == 0) return 1;
    return 0;
}

int pco_hub_stored_name(const pco_hub *hub, const char *name, char to[PCO_SPEC_NAME])
{
    const char *prefix = hub->prefix ? hub->prefix : "";
    for (const char *const *begin = hub->bare; begin && *begin; begin++)
        if (strncmp(name, *begin, strlen(*begin)) == 0) prefix = "";
    return snprintf(to, PCO_SPEC_NAME, "%s%s", prefix, name) < PCO_SPEC_NAME;
}

/* The name behind the prefix, with the end that PyTorch gives to norms ("gamma" and "beta" in the first BERTs); NULL
 * without memory. */
static char *hub_name(const char *name, const char *prefix)
{
    static const char *const ends[][2] = {{".LayerNorm.gamma", "weight"}, {".LayerNorm.beta", "bias"}};
    const size_t skip = strncmp(name, prefix, strlen(prefix)) == 0 ? strlen(prefix) : 0;
    char *made = strdup(name + skip);
    const size_t size = made ? strlen(made) : 0;
    for (int i = 0; made && i < 2; i++) {
        const size_t end = strlen(ends[i][0]);
        char *longer = NULL;
        if (!pco_text_ends(made, ends[i][0])) continue;
        if (asprintf(&longer, "%.*s.LayerNorm.%s", (int)(size - end), made, ends[i][1]) < 0) longer = NULL;
        free(made);
        return longer;
    }
    return made;
}

/* A tensor of more dimensions than its graph has, as one of those. */
static void hub_flatten(const pco_hub *hub, pco_weight *weight)
{
    const char *const *name = hub->flattened;
    while (name && *name && strcmp(*name, weight->name) != 0) name++;
    if (!name || !*name || weight->rank < 2) return;
    uint32_t front = 0;
    while (front + 1 < weight->rank && weight->shape[front] == 1) front++;
    int64_t behind = 1; /* elements of the tensor are counted by its reader */
    for (uint32_t i = front + 1; i < weight->rank; i++) behind *= weight->shape[i];
    weight->shape[0] = weight->shape[front];
    weight->shape[1] = behind;
    weight->rank = front + 1 < weight->rank ? 2 : 1;
}

static pco_status hub_rename(const pco_hub *hub, pco_weights *weights, pco_error *err)
{
    for (uint32_t i = 0; i < weights->count; i++) {
        pco_weight *weight = &weights->items[i];
        char *name = hub_name(weight->name, hub->prefix);
        if (!name) return hub_no_memory(weights, err);
        free(weight->name);
        weight->name = name;
        if (weight->rank == 2 && weight->shape[0] == 1 && strcmp(name, "final_logits_bias") == 0) {
            weight->rank = 1; /* a vector that is kept as a row */
            weight->shape[0] = weight->shape[1];
        }
        hub_flatten(hub, weight);
    }
    return pco_weights_index(weights, err);
}

/* Takes out what is no weight: tables that follow from the config, and an output projection that is not its own. */
static void hub_drop(const pco_hub *hub, const pco_model_spec *spec, pco_weights *weights)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < weights->count; i++) {
        char *name = weights->items[i].name;
        int drop = spec->tie_word_embeddings && strcmp(name, hub->lm_head) == 0;
        for (const char *const *end = hub->ignored; end && *end && !drop; end++) drop = pco_text_ends(name, *end);
        if (drop)
            free(name);
        else
            weights->items[kept++] = weights->items[i];
    }
    weights->count = kept;
}

/* Files of the base model alone leave out what all its names begin with. */
static pco_status hub_complete_names(const pco_hub *hub, pco_weights *weights, pco_error *err)
{
    const size_t base = strlen(hub->base);
    if (pco_weights_find(weights, hub->stack.embedding) || !pco_weights_find(weights, hub->stack.embedding + base))
        return PCO_OK;
    for (uint32_t i = 0; i < weights->count; i++) {
        char *name = NULL;
        if (strcmp(weights->items[i].name, hub->lm_head) == 0) continue;
        if (asprintf(&name, "%s%s", hub->base, weights->items[i].name) < 0) return hub_no_memory(weights, err);
        free(weights->items[i].name);
        weights->items[i].name = name;
    }
    return pco_weights_index(weights, err);
}

/* What stands behind the number of the layer: "attn.c_attn.weight" of "transformer.h.3.attn.c_attn.weight"; NULL for a
 * tensor of no layer. */
static const char *hub_part(const pco_hub *hub, const char *name)
{
    const size_t star = hub->stack.layer ? strcspn(hub->stack.layer, "*") : 0;
    if (!star || strncmp(name, hub->stack.layer, star) != 0) return NULL;
    const size_t digits = strspn(name + star, "0123456789");
    return digits && name[star + digits] == '.' ? name + star + digits + 1 : NULL;
}

/* Is `part` "projection.weight" or "projection.bias"? */
static int hub_is(const char *part, const char *projection)
{
    const size_t size = projection ? strlen(projection) : 0;
    return size && strncmp(part, projection, size) == 0 && part[size] == '.';
}

/* ---- types ---------------------------------------------------------------------------------------------- */

/* Types of one byte whose numbers are all exact in F16: what each code stands for. False for another type. */
static bool hub_codes(const char *type, uint16_t *half)
{
    const bool e4m3 = strcmp(type, "F8_E4M3") == 0, e5m2 = strcmp(type, "F8_E5M2") == 0, i8 = strcmp(type, "I8") == 0;
    const pco_small_float *small = e4m3 ? &PCO_E4M3FN : &PCO_E5M2;
    for (unsigned code = 0; code < 256 && (e4m3 || e5m2 || i8); code++)
        half[code] = pco_f16_from_f32(i8 ? (float)(int8_t)code : (float)pco_small_float_value(small, code));
    return e4m3 || e5m2 || i8;
}

static pco_status hub_widen_item(pco_weights *weights, pco_weight *weight, pco_error *err)
{
    uint16_t half[256];
    const bool wide = strcmp(weight->type_name, "F64") == 0;
    if (weight->dtype >= 0 || !(wide || hub_codes(weight->type_name, half))) return PCO_OK;
    const uint64_t count = wide ? weight->bytes / 8 : weight->bytes, bytes = count * (wide ? 4 : 2);
    const unsigned char *from = weight->data;
    void *to = pco_weights_allocate(weights, bytes);
    if (!to) return hub_no_memory(weights, err);
    for (uint64_t i = 0; i < count; i++) {
        if (wide) {
            double value;
            memcpy(&value, from + 8 * i, sizeof value);
            ((float *)to)[i] = (float)value;
        } else {
            ((uint16_t *)to)[i] = half[from[i]];
        }
    }
    weight->type_name = wide ? "F32" : "F16";
    weight->dtype = wide ? PCO_F32 : PCO_F16;
    weight->bytes = bytes;
    weight->data = to;
    return PCO_OK;
}

/* ---- layouts -------------------------------------------------------------------------------------------- */

/* [in,out] to [out,in]. */
static pco_status hub_transpose(pco_weights *weights, pco_weight *weight, pco_error *err)
{
    if (weight->rank != 2 || weight->dtype < 0 || pco_dtype_class_of((uint32_t)weight->dtype) != PCO_DTYPE_FLOAT)
        return PCO_OK; /* refused where the graph asks for it */
    const int64_t rows = weight->shape[0], columns = weight->shape[1];
    const size_t size = weight->dtype == PCO_F32 ? 4 : 2;
    const char *from = weight->data;
    char *to = pco_weights_allocate(weights, weight->bytes);
    if (!to) return hub_no_memory(weights, err);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            memcpy(to + (size_t)(j * rows + i) * size, from + (size_t)(i * columns + j) * size, size);
    weight->shape[0] = columns;
    weight->shape[1] = rows;
    weight->data = to;
    return PCO_OK;
}

int64_t pco_hub_paired_row(int64_t row, int64_t head, int64_t pair_rows)
{
    const int64_t in = row % head;
    return in >= pair_rows ? row : row - in + in % 2 * (pair_rows / 2) + in / 2;
}

/* Rows of [kv_heads][heads / kv_heads queries, key, value][head_dim] to all queries, all keys, all values. */
static pco_status hub_ungroup(const pco_model_spec *spec, pco_weights *weights, pco_weight *weight, pco_error *err)
{
    const int64_t heads = spec->attention_heads[PCO_DECODER], groups = spec->kv_heads[PCO_DECODER],
                  head_dim = spec->head_dim[PCO_DECODER], queries = heads / groups;
    if (weight->dtype < 0 || weight->rank < 1 || groups == 1 || weight->shape[0] != (heads + 2 * groups) * head_dim)
        return PCO_OK;
    const uint64_t head = weight->bytes / (uint64_t)(heads + 2 * groups); /* bytes of the rows of a head */
    const char *from = weight->data;
    char *to = pco_weights_allocate(weights, weight->bytes);
    if (!to) return hub_no_memory(weights, err);
    for (int64_t g = 0; g < groups; g++)
        for (int64_t i = 0; i < queries + 2; i++) {
            const int64_t at = i < queries ? g * queries + i : heads + (i - queries) * groups + g;
            memcpy(to + (uint64_t)at * head, from + (uint64_t)(g * (queries + 2) + i) * head, head);
        }
    weight->data = to;
    return PCO_OK;
}

float pco_hub_element(const pco_weight *weight, int64_t i)
{
    float value;
    uint16_t half;
    if (weight->dtype == PCO_F32) {
        memcpy(&value, (const char *)weight->data + 4 * i, sizeof value);
        return value;
    }
    memcpy(&half, (const char *)weight->data + 2 * i, sizeof half);
    return weight->dtype == PCO_F16 ? pco_f16_to_f32(half) : pco_bf16_to_f32(half);
}

/* The weight of a norm with its offset, in f32. */
static pco_status hub_offset(double offset, pco_weights *weights, pco_weight *weight, pco_error *err)
{
    if (weight->rank != 1 || weight->dtype < 0 || pco_dtype_class_of((uint32_t)weight->dtype) != PCO_DTYPE_FLOAT)
        return PCO_OK;
    const int64_t count = weight->shape[0];
    float *to = pco_weights_allocate(weights, (uint64_t)count * sizeof *to);
    if (!to) return hub_no_memory(weights, err);
    for (int64_t i = 0; i < count; i++) to[i] = (float)((double)pco_hub_element(weight, i) + offset);
    weight->type_name = "F32";
    weight->dtype = PCO_F32;
    weight->bytes = (uint64_t)count * sizeof *to;
    weight->data = to;
    return PCO_OK;
}

int pco_hub_is_norm(const pco_hub *hub, const char *name)
{
    const pco_layer_names *names = &hub->names;
    const char *const norms[] = {names->self_attention_norm, names->ffn_norm,   names->self_attention_post_norm,
                                 names->ffn_post_norm,       names->query_norm, names->key_norm};
    const char *part = hub_part(hub, name);
    if (!part) return hub_is(name, hub->stack.last_norm);
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        if (hub_is(part, norms[i])) return 1;
    return 0;
}

int pco_hub_is_transposed(const pco_hub *hub, const char *name)
{
    const char *part = hub_part(hub, name);
    for (const char *const *item = hub->transposed; part && item && *item; item++)
        if (hub_is(part, *item)) return 1;
    return 0;
}

static pco_status hub_arrange(const pco_hub *hub, const pco_model_spec *spec, pco_weights *weights, pco_weight *weight,
                              pco_error *err)
{
    const char *part = hub_part(hub, weight->name);
    pco_status status = hub_widen_item(weights, weight, err);
    if (!status && pco_hub_is_transposed(hub, weight->name)) status = hub_transpose(weights, weight, err);
    if (!status && part && hub->grouped && hub_is(part, hub->names.fused))
        status = hub_ungroup(spec, weights, weight, err);
    if (!status && hub->norm_offset != 0 && pco_hub_is_norm(hub, weight->name))
        status = hub_offset(hub->norm_offset, weights, weight, err);
    return status;
}

pco_status pco_hub_prepare(const pco_hub *hub, const pco_model_spec *spec, pco_weights *weights, pco_error *err)
{
    if (hub->prefix) return hub_rename(hub, weights, err);
    pco_status status = hub_complete_names(hub, weights, err);
    if (!status) hub_drop(hub, spec, weights);
    if (!status) status = pco_weights_index(weights, err);
    for (uint32_t i = 0; i < weights->count && !status; i++)
        status = hub_arrange(hub, spec, weights, &weights->items[i], err);
    return status || !hub->experts ? status : pco_hub_stack_experts(hub, spec->experts, weights, err);
}
