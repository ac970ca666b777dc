#include "models/graphs.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *pco_spec_layer_name(const pco_model_spec *spec, pco_model_side side, int64_t index, const char *part,
                                char name[PCO_SPEC_NAME])
{
    const char *layer = spec->stacks[side].layer;
    const size_t star = strcspn(layer, "*");
    if (spec->layer_groups) index = index * spec->layer_groups / spec->layers[side];
    snprintf(name, PCO_SPEC_NAME, "%.*s%" PRId64 "%s%s%s", (int)star, layer, index, layer + star + 1, part ? "." : "",
             part ? part : "");
    return name;
}

pco_model_spec pco_spec_for_context(const pco_model_spec *spec, int64_t context)
{
    pco_model_spec chosen = *spec;
    if (spec->rope_original_context && context > spec->rope_original_context)
        memcpy(chosen.rope_factors, spec->rope_long_factors, sizeof chosen.rope_factors);
    return chosen;
}

int pco_spec_sees_all(const pco_model_spec *spec, int64_t layer)
{
    return layer < spec->full_first || (spec->full_interval && (layer + 1) % spec->full_interval == 0);
}

int64_t pco_spec_find_pattern(pco_model_spec *spec, const unsigned char *sees_all, int64_t layers)
{
    int64_t first = 0, interval = 0, layer = 0;
    while (first < layers && sees_all[first]) first++;
    for (int64_t i = first; i < layers && !interval; i++)
        if (sees_all[i]) interval = i + 1;
    spec->full_first = first;
    spec->full_interval = interval;
    while (layer < layers && pco_spec_sees_all(spec, layer) == (sees_all[layer] != 0)) layer++;
    return layer;
}

/* Where the names of a layer come from. */
typedef struct spec_namer {
    const pco_nn *nn;
    const char *prefix;
} spec_namer;

static const char *spec_name(const spec_namer *namer, const char *part)
{
    return part ? pco_nn_name(namer->nn, "%s.%s", namer->prefix, part) : NULL;
}

static int spec_bias(const pco_nn *nn, pco_bias bias, const char *projection)
{
    if (bias != PCO_BIAS_FOUND) return bias == PCO_BIAS_ALL;
    return nn->weights && pco_weights_find(nn->weights, pco_nn_name(nn, "%s.bias", projection));
}

static pco_nn_attention_params spec_attention_params(const spec_namer *namer, const pco_model_spec *spec,
                                                     pco_model_side side, int self)
{
    const pco_layer_names *names = pco_spec_names(spec, side);
    pco_nn_attention_params params = {.size = sizeof params,
                                      .width = spec->d_model,
                                      .heads = spec->attention_heads[side],
                                      .kv_heads = spec->kv_heads[side],
                                      .head_dim = spec->head_dim[side],
                                      .causal = self && (side == PCO_DECODER || spec->causal),
                                      .rope_interleaved = spec->rope_interleaved,
                                      .rope_amplitude = spec->rope_amplitude,
                                      .scale = spec->attention_scale,
                                      .softcap = spec->attention_softcap};
    params.query = spec_name(namer, self ? names->query : names->cross_query);
    params.key = spec_name(namer, self ? names->key : names->cross_key);
    params.value = spec_name(namer, self ? names->value : names->cross_value);
    params.output = spec_name(namer, self ? names->output : names->cross_output);
    if (self) {
        params.fused = spec_name(namer, names->fused);
        params.query_norm = spec_name(namer, names->query_norm);
        params.key_norm = spec_name(namer, names->key_norm);
        params.head_norm = &spec->norm;
        params.norm_whole = spec->query_norm_whole;
    }
    params.no_key_bias = spec->no_key_bias;
    params.bias = spec_bias(namer->nn, spec->attention_bias, params.fused ? params.fused : params.query);
    params.output_bias = spec_bias(namer->nn, spec->output_bias, params.output);
    return params;
}

static pco_nn_ffn_params spec_ffn_params(const spec_namer *namer, const pco_model_spec *spec, pco_model_side side)
{
    const pco_layer_names *names = pco_spec_names(spec, side);
    pco_nn_ffn_params params = {.size = sizeof params,
                                .activation = spec->activation_function,
                                .width = spec->d_model,
                                .hidden = spec->ffn_dim[side]};
    params.fc1 = spec_name(namer, names->fc1);
    params.fc2 = spec_name(namer, names->fc2);
    params.gate = spec_name(namer, names->gate);
    params.up = spec_name(namer, names->up);
    params.down = spec_name(namer, names->down);
    params.gate_up = spec_name(namer, names->gate_up);
    params.bias = spec_bias(namer->nn, spec->ffn_bias, params.up ? params.up : params.fc1);
    if (side == PCO_DECODER && spec->experts) {
        params.router = spec_name(namer, names->router);
        params.experts = spec->experts;
        params.experts_used = spec->experts_used;
        params.experts_normalized = spec->experts_normalized;
    }
    return params;
}

pco_nn_layer_params pco_spec_layer(const pco_nn *nn, const pco_model_spec *spec, pco_model_side side, int64_t index)
{
    char prefix[PCO_SPEC_NAME];
    const spec_namer namer = {nn, pco_spec_layer_name(spec, side, index, NULL, prefix)};
    const pco_layer_names *names = pco_spec_names(spec, side);
    pco_nn_layer_params params = {
        .normalize_before = spec->normalize_before, .parallel = spec->parallel_residual, .norm = spec->norm};
    params.self_attention_norm = spec_name(&namer, names->self_attention_norm);
    params.cross_attention_norm = spec_name(&namer, names->cross_attention_norm);
    params.ffn_norm = spec_name(&namer, names->ffn_norm);
    params.self_attention_post_norm = spec_name(&namer, names->self_attention_post_norm);
    params.ffn_post_norm = spec_name(&namer, names->ffn_post_norm);
    params.self_attention = spec_attention_params(&namer, spec, side, 1);
    if (side == PCO_DECODER && !pco_spec_sees_all(spec, index)) params.self_attention.window = spec->sliding_window;
    if (params.self_attention.window && spec->rope_theta_windowed > 0) params.self_attention.rope_amplitude = 1;
    if (names->cross_query) params.cross_attention = spec_attention_params(&namer, spec, side, 0);
    params.ffn = spec_ffn_params(&namer, spec, side);
    return params;
}

/* What all embeddings end with. */
static uint32_t spec_end_embedding(const pco_nn *nn, const pco_model_spec *spec, const pco_stack_names *names,
                                   uint32_t x)
{
    const int64_t width = spec->embedding_size ? spec->embedding_size : spec->d_model;
    if (names->embedding_norm) {
        pco_nn_norm_params norm = spec->norm;
        norm.width = width;
        x = pco_nn_norm(nn, x, names->embedding_norm, &norm);
    }
    if (names->embedding_projection)
        x = pco_nn_linear(nn, x,
                          &(pco_nn_linear_params){.size = sizeof(pco_nn_linear_params),
                                                  .name = names->embedding_projection,
                                                  .in_features = width,
                                                  .out_features = spec->d_model,
                                                  .bias = 1});
    return pco_nn_activations(nn, pco_nn_dropout(nn, x));
}

uint32_t pco_spec_embed(const pco_nn *nn, const pco_model_spec *spec, pco_model_side side, uint32_t ids,
                        uint32_t positions, uint32_t types)
{
    const pco_stack_names *names = &spec->stacks[side];
    const int64_t width = spec->embedding_size ? spec->embedding_size : spec->d_model;
    const int64_t position_rows = spec->position_rows ? spec->position_rows : spec->max_position_embeddings;
    uint32_t x = pco_nn_embedding(nn, ids, names->embedding, spec->vocab_size[side], width);
    if (spec->scale_embedding) x = pco_binary_scalar(nn->graph, PCO_OP_MUL, x, sqrt((double)spec->d_model));
    if (spec->position_embedding == PCO_POSITION_SINUSOIDAL)
        x = pco_nn_sinusoidal(nn, x, positions, spec->sinusoidal_layout);
    else if (spec->position_embedding == PCO_POSITION_LEARNED)
        x = pco_binary(nn->graph, PCO_OP_ADD, x,
                       pco_nn_embedding(nn, positions, names->positions, position_rows, width));
    if (types != PCO_NONE) {
        x = pco_binary(nn->graph, PCO_OP_ADD, x,
                       pco_nn_embedding(nn, types, names->token_types, spec->token_types, width));
    } else if (names->token_types) {
        uint32_t first = pco_nn_weight(nn, names->token_types, 2, (int64_t[]){spec->token_types, width});
        first = pco_cast(nn->graph, pco_slice_axis(nn->graph, first, 0, 0, 1), PCO_F32);
        x = pco_binary(nn->graph, PCO_OP_ADD, x, first);
    }
    return spec_end_embedding(nn, spec, names, x);
}

static uint32_t spec_embed_patches(const pco_nn *nn, const pco_model_spec *spec, uint32_t patches)
{
    const pco_stack_names *names = &spec->stacks[PCO_ENCODER];
    const pco_patches *p = &spec->patches;
    if (nn->graph->status) return PCO_NONE;
    const int64_t batch = nn->graph->tensors[patches].shape[0], rows = pco_patch_count(p) + 1, width = spec->d_model;
    pco_graph_scope(nn->graph, "%s", names->embed_scope);
    const uint32_t squares =
        pco_nn_linear(nn, patches,
                      &(pco_nn_linear_params){.size = sizeof(pco_nn_linear_params),
                                              .name = p->projection,
                                              .in_features = p->channels * p->patch[0] * p->patch[1],
                                              .out_features = width,
                                              .bias = p->bias});
    uint32_t first = pco_cast(nn->graph, pco_nn_weight(nn, p->class_token, 1, &width), PCO_F32);
    first = pco_broadcast_to(nn->graph, pco_reshape(nn->graph, first, 3, (int64_t[]){1, 1, width}), 3,
                             (int64_t[]){batch, 1, width});
    uint32_t x = pco_concat(nn->graph, (uint32_t[]){first, squares}, 2, 1);
    const uint32_t table = pco_nn_weight(nn, names->positions, 2, (int64_t[]){rows, width});
    x = pco_binary(nn->graph, PCO_OP_ADD, x, pco_cast(nn->graph, table, PCO_F32));
    return spec_end_embedding(nn, spec, names, x);
}

/* positions, or position_offset, position_offset + 1, ... for ids [B,S]. */
static uint32_t spec_positions(const pco_nn *nn, const pco_model_spec *spec, uint32_t ids, uint32_t positions)
{
    if (positions != PCO_NONE || ids == PCO_NONE || nn->graph->status) return positions;
    return pco_nn_positions(nn, spec->position_offset, nn->graph->tensors[ids].shape[1]);
}

/* The phase tables of a stack: of its layers, and of those with a window. */
typedef struct spec_phases {
    uint32_t usual, windowed;
} spec_phases;

static uint32_t spec_phase(const pco_nn *nn, const pco_model_spec *spec, int64_t dimensions)
{
    if (!spec->rope_factor_count && spec->rope_scale <= 0)
        return pco_rope_phase(nn->graph, spec->rope_theta, (uint32_t)dimensions, NULL);
    float *factors = malloc((size_t)(dimensions / 2 + 1) * sizeof *factors);
    if (!factors) return pco_graph_fail(nn->graph, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for RoPE");
    for (int64_t i = 0; i < dimensions / 2; i++)
        factors[i] = (i < spec->rope_factor_count ? spec->rope_factors[i] : 1) *
                     (spec->rope_scale > 0 ? (float)spec->rope_scale : 1);
    const uint32_t phase = pco_rope_phase(nn->graph, spec->rope_theta, (uint32_t)dimensions, factors);
    free(factors);
    return phase;
}

static spec_phases spec_make_phases(const pco_nn *nn, const pco_model_spec *spec, pco_model_side side)
{
    spec_phases phases = {PCO_NONE, PCO_NONE};
    if (spec->position_embedding != PCO_POSITION_ROPE) return phases;
    const int64_t dimensions = spec->rope_dimensions ? spec->rope_dimensions : spec->head_dim[side];
    phases.usual = phases.windowed = spec_phase(nn, spec, dimensions);
    if (spec->rope_theta_windowed > 0)
        phases.windowed = pco_rope_phase(nn->graph, spec->rope_theta_windowed, (uint32_t)dimensions, NULL);
    return phases;
}

/* The table by which a layer of the decoder rotates; PCO_NONE where it does not. */
static uint32_t spec_layer_phase(const pco_model_spec *spec, const spec_phases *phases, int64_t layer)
{
    if (spec->rope_none_interval && (layer + 1) % spec->rope_none_interval == 0) return PCO_NONE;
    return spec->sliding_window && !pco_spec_sees_all(spec, layer) ? phases->windowed : phases->usual;
}

/* The bucket of a distance, key minus query (Raffel et al. 2020, 2.1; both-sided for encoders): half of the buckets of
 * a side are one distance each, the others grow with its logarithm. In float32, as the models were trained. */
static int32_t spec_bucket(const pco_model_spec *spec, int64_t distance, int both)
{
    int64_t buckets = spec->relative_buckets, first = 0, far = distance < 0 ? -distance : 0;
    if (both) {
        buckets /= 2;
        if (distance > 0) first = buckets, far = distance;
    }
    const int64_t exact = buckets / 2;
    if (far < exact) return (int32_t)(first + far);
    const float share = logf((float)far / (float)exact) / (float)log((double)spec->relative_distance / (double)exact);
    const int64_t bucket = exact + (int64_t)(share * (float)(buckets - exact));
    return (int32_t)(first + (bucket < buckets ? bucket : buckets - 1));
}

/* What is added to the scores of `rows` queries, at `positions` [B|1,rows] (PCO_NONE: 0, 1, ...), and keys 0 ... keys -
 * 1: [B|1,H,rows,keys], or PCO_NONE. A row of the table is taken per distance first, and then per query and key. */
static uint32_t spec_relative(const pco_nn *nn, const pco_model_spec *spec, pco_model_side side, uint32_t positions,
                              int64_t rows, int64_t keys)
{
    const char *name = spec->stacks[side].relative_bias;
    if (!name || nn->graph->status) return PCO_NONE;
    pco_graph *graph = nn->graph;
    const int64_t heads = spec->attention_heads[side], distances = 2 * keys - 1;
    int32_t *buckets = malloc((size_t)distances * sizeof *buckets);
    if (!buckets) return pco_graph_fail(graph, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a graph");
    for (int64_t i = 0; i < distances; i++) buckets[i] = spec_bucket(spec, i - (keys - 1), side == PCO_ENCODER);
    const uint32_t index =
        pco_graph_constant_copy(graph, "relative.buckets", PCO_I32, 1, (int64_t[]){distances}, buckets);
    free(buckets);
    const uint32_t table = pco_nn_weight(nn, name, 2, (int64_t[]){spec->relative_buckets, heads});
    const uint32_t by_distance = pco_permute(graph, pco_gather(graph, table, index, 0), (int64_t[]){1, 0});
    const int64_t batch = positions == PCO_NONE ? 1 : graph->tensors[positions].shape[0], queries = batch * rows;
    uint32_t query = pco_iota(graph, PCO_I32, 0, 0, 1, 2, (int64_t[]){rows, 1});
    if (positions != PCO_NONE)
        query = pco_binary_scalar(graph, PCO_OP_SUB, pco_reshape(graph, positions, 2, (int64_t[]){queries, 1}),
                                  (double)spec->position_offset);
    const uint32_t key = pco_iota(graph, PCO_I32, 1, (double)(keys - 1), 1, 2, (int64_t[]){1, keys});
    uint32_t bias = pco_gather(graph, by_distance, pco_binary(graph, PCO_OP_SUB, key, query), 1);
    bias = pco_reshape(graph, bias, 4, (int64_t[]){heads, batch, rows, keys});
    if (batch > 1)
        bias = pco_permute(graph, bias, (int64_t[]){1, 0, 2, 3});
    else
        bias = pco_reshape(graph, bias, 4, (int64_t[]){1, heads, rows, keys});
    return pco_cast(graph, bias, PCO_F32);
}

/* Nodes from here on belong to that layer. */
static pco_nn_layer_params spec_begin_layer(const pco_nn *nn, const pco_model_spec *spec, pco_model_side side,
                                            int64_t index)
{
    char scope[PCO_SPEC_NAME];
    pco_graph_scope(nn->graph, "%s", pco_spec_layer_name(spec, side, index, NULL, scope));
    return pco_spec_layer(nn, spec, side, index);
}

/* gelu of a convolution of 3 taps, x [1,from,frames] -> [1,d_model,frames / stride]. */
static uint32_t spec_convolve(const pco_nn *nn, const pco_model_spec *spec, uint32_t x, const char *name, int64_t from,
                              int64_t stride)
{
    const int64_t shape[3] = {spec->d_model, from, 3};
    const uint32_t weight = pco_nn_weight(nn, pco_nn_name(nn, "%s.weight", name), 3, shape),
                   bias = pco_nn_weight(nn, pco_nn_name(nn, "%s.bias", name), 1, shape);
    pco_conv1d_attrs attrs = pco_conv1d_defaults();
    attrs.padding = 1;
    attrs.stride = stride;
    x = pco_conv1d(nn->graph, x, weight, bias, &attrs);
    return pco_graph_add(nn->graph, PCO_OP_GELU, &(pco_gelu_attrs){.approximate = 0}, &x, 1, NULL);
}

/* Features f32 [1,bands,2 rows] as the layers read them: [1,rows,d_model]. */
static uint32_t spec_hear(const pco_nn *nn, const pco_model_spec *spec, uint32_t features)
{
    const pco_sound_source *sound = &spec->sound;
    uint32_t x = spec_convolve(nn, spec, features, sound->conv1, sound->bands, 1);
    x = pco_permute(nn->graph, spec_convolve(nn, spec, x, sound->conv2, spec->d_model, 2), (int64_t[]){0, 2, 1});
    const uint32_t table =
        pco_nn_weight(nn, spec->stacks[PCO_ENCODER].positions, 2, (int64_t[]){sound->rows, spec->d_model});
    return pco_binary(nn->graph, PCO_OP_ADD, x, pco_cast(nn->graph, table, PCO_F32));
}

/* The layers of an encoder, and the norm behind them. */
static uint32_t spec_encode_layers(const pco_nn *nn, const pco_model_spec *spec, uint32_t x,
                                   const pco_nn_attention_operands *self)
{
    for (int64_t i = 0; i < spec->layers[PCO_ENCODER]; i++) {
        pco_nn_layer_params layer = spec_begin_layer(nn, spec, PCO_ENCODER, i);
        x = pco_nn_self_layer(nn, x, &layer, self);
    }
    return pco_spec_last_norm(nn, spec, PCO_ENCODER, x);
}

uint32_t pco_spec_encode(const pco_nn *nn, const pco_model_spec *spec, uint32_t ids, uint32_t types,
                         const pco_spec_padding *padding)
{
    const pco_stack_names *names = &spec->stacks[PCO_ENCODER];
    pco_graph_scope(nn->graph, "%s", names->embed_scope);
    uint32_t positions = spec->sound.bands ? PCO_NONE : spec_positions(nn, spec, ids, PCO_NONE);
    if (nn->graph->status) return PCO_NONE;
    const int64_t rows = spec->sound.bands ? spec->sound.rows : nn->graph->tensors[ids].shape[1];
    const uint32_t x =
        spec->sound.bands ? spec_hear(nn, spec, ids) : pco_spec_embed(nn, spec, PCO_ENCODER, ids, positions, types);
    pco_nn_attention_operands self = PCO_NN_NO_OPERANDS;
    self.mask = padding->mask;
    if (self.mask == PCO_NONE) self.mask = spec_relative(nn, spec, PCO_ENCODER, PCO_NONE, rows, rows);
    self.lengths = padding->lengths;
    self.phase = spec_make_phases(nn, spec, PCO_ENCODER).usual;
    self.positions = positions;
    return spec_encode_layers(nn, spec, x, &self);
}

uint32_t pco_spec_encode_patches(const pco_nn *nn, const pco_model_spec *spec, uint32_t patches)
{
    const pco_nn_attention_operands self = PCO_NN_NO_OPERANDS;
    return spec_encode_layers(nn, spec, spec_embed_patches(nn, spec, patches), &self);
}

uint32_t pco_spec_row_head(const pco_nn *nn, const pco_model_spec *spec, const pco_row_head *head, uint32_t x)
{
    pco_graph_scope(nn->graph, "%s", head->linear);
    x = pco_nn_linear(nn, x,
                      &(pco_nn_linear_params){.size = sizeof(pco_nn_linear_params),
                                              .name = head->linear,
                                              .in_features = spec->d_model,
                                              .out_features = head->width,
                                              .bias = head->bias});
    return head->tanh ? pco_unary(nn->graph, PCO_OP_TANH, x) : x;
}

uint32_t pco_spec_last_norm(const pco_nn *nn, const pco_model_spec *spec, pco_model_side side, uint32_t x)
{
    const pco_stack_names *names = &spec->stacks[side];
    pco_graph_scope(nn->graph, "%s", names->head_scope);
    return spec->final_norm ? pco_nn_norm(nn, x, names->last_norm, &spec->last_norm) : x;
}

uint32_t pco_spec_masked_head(const pco_nn *nn, const pco_model_spec *spec, uint32_t x)
{
    const pco_masked_head *head = &spec->masked_head;
    const char *output = head->output ? head->output : spec->stacks[PCO_ENCODER].embedding;
    const int64_t width = spec->embedding_size ? spec->embedding_size : spec->d_model;
    const int64_t shape[2] = {spec->vocab_size[PCO_ENCODER], width};
    pco_nn_norm_params norm = spec->norm;
    norm.width = width;
    pco_graph_scope(nn->graph, "masked_head");
    x = pco_nn_linear(nn, x,
                      &(pco_nn_linear_params){.size = sizeof(pco_nn_linear_params),
                                              .name = head->dense,
                                              .in_features = spec->d_model,
                                              .out_features = width,
                                              .bias = 1,
                                              .activation = head->activation});
    x = pco_nn_norm(nn, x, head->norm, &norm);
    const uint32_t bias = pco_nn_weight(nn, head->bias, 1, shape);
    return pco_linear(nn->graph, x, pco_nn_weight(nn, output, 2, shape), bias, PCO_NN_IDENTITY);
}

uint32_t pco_spec_head(const pco_nn *nn, const pco_model_spec *spec, uint32_t x)
{
    const pco_stack_names *names = &spec->stacks[PCO_DECODER];
    x = pco_spec_last_norm(nn, spec, PCO_DECODER, x);
    if (spec->head_scale > 0) x = pco_binary_scalar(nn->graph, PCO_OP_MUL, x, spec->head_scale);
    const int64_t shape[2] = {spec->vocab_size[PCO_DECODER], spec->d_model};
    const char *name = spec->tie_word_embeddings ? names->embedding : spec->lm_head;
    uint32_t bias = PCO_NONE, weight = pco_nn_weight(nn, name, 2, shape);
    if (spec->logits_bias) bias = pco_nn_weight(nn, spec->logits_bias, 1, shape);
    const int half = nn->training && nn->training->dtype != PCO_F32;
    const pco_matmul_attrs attrs = {.transpose_b = 1, .dtype = half ? PCO_F32 : -1};
    x = pco_graph_add(nn->graph, PCO_OP_MATMUL, &attrs, (uint32_t[]){x, pco_nn_matrix(nn, weight), bias}, 3, NULL);
    if (spec->logits_softcap <= 0) return x;
    x = pco_unary(nn->graph, PCO_OP_TANH, pco_binary_scalar(nn->graph, PCO_OP_DIV, x, spec->logits_softcap));
    return pco_binary_scalar(nn->graph, PCO_OP_MUL, x, spec->logits_softcap);
}

uint32_t pco_spec_decode_layers(const pco_nn *nn, const pco_model_spec *spec, uint32_t ids,
                                const pco_spec_decoder *decoder)
{
    pco_graph_scope(nn->graph, "%s", spec->stacks[PCO_DECODER].embed_scope);
    uint32_t positions = spec_positions(nn, spec, ids, decoder->positions);
    if (nn->graph->status) return PCO_NONE;
    const int64_t rows = nn->graph->tensors[ids].shape[1];
    uint32_t x = pco_spec_embed(nn, spec, PCO_DECODER, ids, positions, PCO_NONE);
    pco_nn_attention_operands self = PCO_NN_NO_OPERANDS, cross = PCO_NN_NO_OPERANDS;
    self.mask = spec_relative(nn, spec, PCO_DECODER, decoder->positions, rows,
                              decoder->keys ? nn->graph->tensors[decoder->keys[0].state].shape[1] : rows);
    const spec_phases phases = spec_make_phases(nn, spec, PCO_DECODER);
    self.positions = positions;
    cross.memory = decoder->memory;
    cross.mask = decoder->padding.mask;
    cross.lengths = decoder->padding.lengths;
    for (int64_t i = 0; i < spec->layers[PCO_DECODER]; i++) {
        pco_nn_layer_params layer = spec_begin_layer(nn, spec, PCO_DECODER, i);
        self.phase = spec_layer_phase(spec, &phases, i);
        if (decoder->keys) {
            self.key_cache = &decoder->keys[i];
            self.value_cache = &decoder->values[i];
            self.index = self.starts = decoder->starts;
            self.lengths = decoder->lengths;
            self.take = decoder->take;
            self.lane = decoder->lane;
        }
        if (decoder->cross_keys) {
            cross.key = pco_nn_cache_read(nn, &decoder->cross_keys[i]);
            cross.value = pco_nn_cache_read(nn, &decoder->cross_values[i]);
        }
        x = spec->decoder_only ? pco_nn_self_layer(nn, x, &layer, &self)
                               : pco_nn_cross_layer(nn, x, &layer, &self, &cross);
    }
    return x;
}

pco_nn_cache *pco_spec_caches(const pco_nn *nn, const pco_model_spec *spec, const pco_spec_room *room, int values)
{
    const int64_t layers = spec->layers[PCO_DECODER];
    const int64_t shape[4] = {room->lanes, room->tokens, spec->kv_heads[PCO_DECODER], spec->head_dim[PCO_DECODER]};
    pco_nn_cache *caches = pco_arena_allocate(&nn->graph->arena, (size_t)(layers + 1) * sizeof *caches);
    if (!caches) {
        pco_graph_fail(nn->graph, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a graph");
        return NULL;
    }
    for (int64_t i = 0; i < layers; i++) {
        const char *name = pco_nn_name(nn, "%s.%s.%" PRId64, room->name, values ? "value" : "key", i);
        caches[i] = pco_nn_cache_state(nn, name, room->type, shape);
    }
    return nn->graph->status ? NULL : caches;
}

/* Rows `which` of a state, to the lanes that take them. */
static void spec_copy_state(pco_graph *graph, uint32_t state, uint32_t which, uint32_t take, uint32_t starts)
{
    if (state == PCO_NONE) return;
    const uint32_t x = pco_gather(graph, pco_gather(graph, state, which, 1), take, 0);
    pco_state_write(graph, state, x, starts, 1);
}

void pco_spec_build_copy(const pco_nn *nn, const pco_model_spec *spec, const pco_spec_room *room, int64_t rows)
{
    pco_graph *graph = nn->graph;
    const uint32_t which = pco_graph_input(graph, "rows", PCO_I32, 1, &rows);
    const uint32_t take = pco_graph_value(graph, "take", PCO_I32, 1, &room->lanes);
    const uint32_t starts = pco_graph_value(graph, "starts", PCO_I32, 1, &room->lanes);
    for (int values = 0; values < 2; values++) {
        const pco_nn_cache *caches = pco_spec_caches(nn, spec, room, values);
        for (int64_t i = 0; caches && i < spec->layers[PCO_DECODER]; i++) {
            char scope[PCO_SPEC_NAME];
            pco_graph_scope(graph, "%s", pco_spec_layer_name(spec, PCO_DECODER, i, NULL, scope));
            spec_copy_state(graph, caches[i].state, which, take, starts);
            spec_copy_state(graph, caches[i].scales, which, take, starts);
        }
    }
}

uint32_t pco_spec_decode(const pco_nn *nn, const pco_model_spec *spec, uint32_t ids, const pco_spec_decoder *decoder)
{
    return pco_spec_head(nn, spec, pco_spec_decode_layers(nn, spec, ids, decoder));
}

void pco_spec_attention(const pco_nn *nn, const pco_model_spec *spec, int64_t source_rows, int64_t target_rows)
{
    uint32_t source = PCO_NONE;
    if (!spec->decoder_only) source = pco_graph_input(nn->graph, "source", PCO_I32, 2, (int64_t[]){1, source_rows});
    uint32_t target = pco_graph_input(nn->graph, "target", PCO_I32, 2, (int64_t[]){1, target_rows});
    const pco_spec_padding none = {PCO_NONE, PCO_NONE};
    const pco_spec_decoder decoder = {.memory = spec->decoder_only ? PCO_NONE
                                                                   : pco_spec_encode(nn, spec, source, PCO_NONE, &none),
                                      .padding = none,
                                      .positions = PCO_NONE,
                                      .starts = PCO_NONE,
                                      .lengths = PCO_NONE,
                                      .take = PCO_NONE,
                                      .lane = PCO_NONE};
    pco_spec_decode_layers(nn, spec, target, &decoder);
}
