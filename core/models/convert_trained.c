/* Models whose parts were chosen one by one, as what Portico trains (family_transformer.c), in the files of families
 * that compute the same: sinusoidal positions become a table, biases that a model has not zeros. */
#include "models/convert_internal.h"

#include "base/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void convert_trained_spec(const pco_model_file *file, const pco_family *family, pco_model_spec *spec)
{
    if (!file->family->any_parts) return;
    if (spec->position_embedding == PCO_POSITION_SINUSOIDAL) spec->position_embedding = PCO_POSITION_LEARNED;
    if (spec->position_embedding != PCO_POSITION_ROPE) spec->rope_theta = 0; /* not said */
    spec->position_offset = 0; /* angles are of distances, and a table begins where it is read first */
    if (spec->scale_embedding && !family->says_scale) spec->scale_embedding = spec->tie_word_embeddings = 0;
    if (spec->decoder_only) { /* biases of an encoder-decoder are all there in other files, or become zeros */
        if (family->one_bias && spec->ffn_bias == PCO_BIAS_ALL)
            spec->attention_bias = spec->output_bias = PCO_BIAS_ALL; /* one key for all */
        return;
    }
    const pco_model_spec *other = family->spec;
    if (other->attention_bias == PCO_BIAS_ALL) spec->attention_bias = PCO_BIAS_ALL;
    if (other->output_bias == PCO_BIAS_ALL) spec->output_bias = PCO_BIAS_ALL;
    if (other->ffn_bias == PCO_BIAS_ALL) spec->ffn_bias = PCO_BIAS_ALL;
    if (!spec->logits_bias) spec->logits_bias = other->logits_bias;
}

static int trained_fuses(const pco_model_file *file, const convert_target *target)
{
    return file->family->any_parts && target->names.names.fused && !file->spec.names.fused;
}

int convert_trained_part(const pco_model_file *file, const convert_target *target, const char *name,
                         char to[PCO_SPEC_NAME])
{
    const pco_layer_names *names = &file->spec.names;
    const char *const parts[] = {names->query, names->key, names->value};
    const size_t star = strcspn(file->spec.stacks[PCO_DECODER].layer, "*");
    const char *part = strlen(name) > star ? strchr(name + star, '.') : NULL;
    *to = 0;
    for (int i = 0; i < 3 && part && trained_fuses(file, target); i++)
        if (strncmp(part + 1, parts[i], strlen(parts[i])) == 0) return 1;
    return 0;
}

/* Takes out what is to become part of another tensor. */
static void trained_drop(convert_items *all)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < all->count; i++)
        if (*all->items[i].name) all->items[kept++] = all->items[i];
    all->count = kept;
}

/* One projection of three, ".weight" or ".bias". */
static pco_status trained_fuse(const pco_model_file *file, const convert_target *target, int64_t layer,
                               const char *tail, convert_items *all, pco_error *err)
{
    const pco_layer_names *names = &file->spec.names;
    const char *const parts[] = {names->query, names->key, names->value};
    const pco_weight *found[3] = {NULL, NULL, NULL};
    char name[PCO_SPEC_NAME], whole[PCO_SPEC_NAME + 8];
    for (int i = 0; i < 3; i++) {
        pco_spec_layer_name(&file->spec, PCO_DECODER, layer, parts[i], name);
        snprintf(whole, sizeof whole, "%s%s", name, tail);
        found[i] = pco_weights_find(file->weights, whole);
        if (!found[0]) return PCO_OK; /* no biases: zeros, later */
        if (!found[i] || found[i]->dtype != found[0]->dtype || found[i]->rank != found[0]->rank ||
            file->spec.rope_interleaved != target->names.rope_interleaved)
            return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: '%s' cannot become part of a projection for all three",
                            file->path, whole);
    }
    pco_spec_layer_name(&target->names, PCO_DECODER, layer, target->names.names.fused, name);
    snprintf(whole, sizeof whole, "%s%s", name, tail);
    convert_item *item = convert_add(all, found[0], whole);
    if (!item) return convert_no_memory(err);
    item->more[0] = found[1];
    item->more[1] = found[2];
    item->shape[0] = found[0]->shape[0] + found[1]->shape[0] + found[2]->shape[0];
    if (target->folder && pco_hub_is_transposed(target->family->hub, whole)) convert_transpose(item);
    return PCO_OK;
}

static int trained_has(const convert_items *all, const char *name)
{
    for (uint32_t i = 0; i < all->count; i++)
        if (strcmp(all->items[i].name, name) == 0) return 1;
    return 0;
}

/* A tensor of zeros that the target has and the model has not. */
static pco_status trained_zeros(const char *name, uint32_t rank, const int64_t *shape, convert_items *all,
                                pco_error *err)
{
    float *zeros;
    if (trained_has(all, name)) return PCO_OK;
    return convert_add_made(all, name, rank, shape, &zeros) ? PCO_OK : convert_no_memory(err);
}

/* A bias of zero behind a projection that the target has with one. */
static pco_status trained_zero(const convert_target *target, pco_model_side side, int64_t layer, const char *part,
                               int64_t rows, convert_items *all, pco_error *err)
{
    char name[PCO_SPEC_NAME], whole[PCO_SPEC_NAME + 8];
    if (!part) return PCO_OK;
    pco_spec_layer_name(&target->names, side, layer, part, name);
    snprintf(whole, sizeof whole, "%s.weight", name);
    if (!trained_has(all, whole)) return PCO_OK;
    snprintf(whole, sizeof whole, "%s.bias", name);
    return trained_zeros(whole, 1, &rows, all, err);
}

static pco_status trained_layer(const pco_model_file *file, const convert_target *target, pco_model_side side,
                                int64_t layer, convert_items *all, pco_error *err)
{
    const pco_model_spec *spec = &file->spec;
    const pco_layer_names *names = pco_spec_names(&target->names, side);
    const pco_bias attention = target->names.attention_bias, output = target->names.output_bias,
                   ffn = target->names.ffn_bias;
    const int64_t head_dim = spec->head_dim[side], query = spec->attention_heads[side] * head_dim,
                  key = spec->kv_heads[side] * head_dim, hidden = spec->ffn_dim[side];
    const struct {
        pco_bias bias;
        const char *part;
        int64_t rows;
    } zeros[] = {{attention, names->fused, query + 2 * key},
                 {attention, names->query, query},
                 {attention, names->key, key},
                 {attention, names->value, key},
                 {attention, names->cross_query, query},
                 {attention, names->cross_key, key},
                 {attention, names->cross_value, key},
                 {output, names->output, spec->d_model},
                 {output, names->cross_output, spec->d_model},
                 {ffn, names->fc1, hidden},
                 {ffn, names->fc2, spec->d_model}};
    pco_status status = PCO_OK;
    if (trained_fuses(file, target)) status = trained_fuse(file, target, layer, ".weight", all, err);
    if (!status && trained_fuses(file, target)) status = trained_fuse(file, target, layer, ".bias", all, err);
    for (size_t i = 0; i < sizeof zeros / sizeof *zeros && !status; i++)
        if (zeros[i].bias == PCO_BIAS_ALL)
            status = trained_zero(target, side, layer, zeros[i].part, zeros[i].rows, all, err);
    return status;
}

/* The encoding of Vaswani et al. 2017, 3.5, as pco_nn_sinusoidal lays it out. */
static pco_status trained_positions(const pco_model_spec *spec, const char *name, convert_items *all, pco_error *err)
{
    const int64_t shape[] = {spec->max_position_embeddings, spec->d_model}, half = spec->d_model / 2;
    const int halves = spec->sinusoidal_layout;
    uint64_t weights = 0;
    float *table;
    for (uint32_t i = 0; i < all->count; i++) weights += all->items[i].weight->bytes;
    if ((uint64_t)shape[0] > (10 * weights + (1 << 20)) / (sizeof *table * (uint64_t)shape[1]))
        return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                        "a table of %" PRId64 " positions would be more than ten times as large as the model; lower "
                        "'max_position_embeddings'",
                        shape[0]);
    if (!convert_add_made(all, name, 2, shape, &table)) return convert_no_memory(err);
    for (int64_t row = 0; row < shape[0]; row++)
        for (int64_t i = 0; i < half; i++) {
            const double exponent =
                halves == 1 ? half > 1 ? (double)i / (double)(half - 1) : 0 : 2.0 * (double)i / (double)spec->d_model;
            const double angle = (double)(row + spec->position_offset) * pow(10000.0, -exponent);
            float *to = table + row * spec->d_model;
            to[halves ? i : 2 * i] = (float)sin(angle);
            to[halves ? half + i : 2 * i + 1] = (float)cos(angle);
        }
    return PCO_OK;
}

static convert_item *trained_find(const convert_items *all, const char *name)
{
    for (uint32_t i = 0; i < all->count; i++)
        if (strcmp(all->items[i].name, name) == 0) return &all->items[i];
    return NULL;
}

/* The table of a side, which the model may share and the target not; with its factor, where files of the target have
 * no key for that, and as the output projection, which has none. */
static pco_status trained_embedding(const pco_model_file *file, const convert_target *target, pco_model_side side,
                                    convert_items *all, pco_error *err)
{
    const pco_stack_names *stacks = target->names.stacks;
    const convert_item *other = trained_find(all, stacks[!side].embedding ? stacks[!side].embedding : "");
    convert_item *item = trained_find(all, stacks[side].embedding);
    if (!item && other) item = convert_add(all, other->weight, stacks[side].embedding);
    if (!item) return convert_no_memory(err);
    if (!file->spec.scale_embedding || target->spec.scale_embedding) return PCO_OK;
    item->scale = (double)(float)sqrt((double)file->spec.d_model); /* a product of f32, which is rounded once */
    return side == PCO_ENCODER || !file->spec.tie_word_embeddings ||
                   convert_add(all, item->weight, target->names.lm_head)
               ? PCO_OK
               : convert_no_memory(err);
}

static pco_status trained_side(const pco_model_file *file, const convert_target *target, pco_model_side side,
                               convert_items *all, pco_error *err)
{
    const pco_model_spec *spec = &file->spec;
    const pco_stack_names *stack = &target->names.stacks[side];
    pco_status status = PCO_OK;
    for (int64_t i = 0; i < spec->layers[side] && !status; i++) status = trained_layer(file, target, side, i, all, err);
    if (!status && spec->position_embedding == PCO_POSITION_SINUSOIDAL && stack->positions)
        status = trained_positions(spec, stack->positions, all, err);
    if (!status && stack->token_types)
        status = trained_zeros(stack->token_types, 2, (int64_t[]){target->names.token_types, spec->d_model}, all, err);
    return status ? status : trained_embedding(file, target, side, all, err);
}

pco_status convert_trained_items(const pco_model_file *file, const convert_target *target, convert_items *all,
                                 pco_error *err)
{
    const pco_model_spec *spec = &file->spec;
    const char *unread = target->folder ? target->family->hub->unread : NULL;
    const int64_t width = spec->d_model;
    char name[PCO_SPEC_NAME];
    pco_status status = PCO_OK;
    if (!file->family->any_parts) return PCO_OK;
    trained_drop(all);
    for (int side = spec->decoder_only ? PCO_DECODER : PCO_ENCODER; side <= PCO_DECODER && !status; side++)
        status = trained_side(file, target, (pco_model_side)side, all, err);
    if (!status && target->names.logits_bias)
        status = trained_zeros(target->names.logits_bias, 1, &spec->vocab_size[PCO_DECODER], all, err);
    for (int bias = 0; bias < 2 && unread && !status; bias++) {
        snprintf(name, sizeof name, "%s.%s", unread, bias ? "bias" : "weight");
        status = trained_zeros(name, bias ? 1 : 2, (int64_t[]){width, width}, all, err);
    }
    return status;
}
