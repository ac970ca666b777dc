/* Norms of ONNX. */
#include "models/onnx/map_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* x as [outer, n] over the dimensions from the axis on; the last one alone is that already. */
static uint32_t onnx_norms_flatten(pco_onnx_map *map, uint32_t x, int64_t axis)
{
    const pco_tensor *desc = onnx_desc(map, x);
    int64_t outer = 1, n = 1;
    if (axis + 1 == (int64_t)desc->rank) return x;
    for (int64_t d = 0; d < (int64_t)desc->rank; d++) *(d < axis ? &outer : &n) *= desc->shape[d];
    return pco_reshape(map->graph, x, 2, (int64_t[]){outer, n});
}

static uint32_t onnx_norms_norm(pco_onnx_map *map)
{
    const bool layer = onnx_is(map, "LayerNormalization");
    pco_graph *graph = map->graph;
    uint32_t x = onnx_in(map, 0), weight = onnx_in(map, 1), bias = layer ? onnx_in(map, 2) : PCO_NONE, out[4];
    pco_tensor shape = *onnx_desc(map, x), stats = shape;
    int64_t axis = onnx_axis(map, onnx_int(map, "axis", -1), shape.rank);
    double eps = onnx_float(map, "epsilon", 1e-5);
    if (onnx_int(map, "stash_type", PCO_ONNX_FLOAT) != PCO_ONNX_FLOAT)
        return onnx_skip(map, "statistics in another type than float");
    uint32_t flat = onnx_norms_flatten(map, x, axis);
    const int64_t n = shape.rank ? onnx_desc(map, flat)->shape[onnx_desc(map, flat)->rank - 1] : 1;
    uint32_t in[3] = {flat, weight, bias};
    for (int i = 1; i < 3; i++)
        if (in[i] != PCO_NONE && onnx_desc(map, in[i])->rank != 1) in[i] = pco_reshape(graph, in[i], 1, &n);
    pco_layer_norm_attrs layer_attrs = {.eps = eps, .stats = map->node->n_outputs > 1};
    pco_rms_norm_attrs rms_attrs = {.eps = eps};
    if (layer)
        pco_graph_add(graph, PCO_OP_LAYER_NORM, &layer_attrs, in, 3, out);
    else
        pco_graph_add(graph, PCO_OP_RMS_NORM, &rms_attrs, in, 2, out);
    if (graph->status) return PCO_NONE;
    const uint32_t y = flat == x ? out[0] : pco_reshape(graph, out[0], shape.rank, shape.shape);
    for (int64_t d = axis; d < (int64_t)shape.rank; d++) stats.shape[d] = 1;
    for (uint32_t i = 1; i < 3 && layer_attrs.stats; i++)
        map->out[i] = pco_reshape(graph, out[i], stats.rank, stats.shape);
    return y;
}

/* Per channel, as [1, C, 1 ..] against x. */
static uint32_t onnx_norms_channels(pco_onnx_map *map, uint32_t values, uint32_t rank, int64_t channels)
{
    int64_t shape[PCO_MAX_RANK];
    for (uint32_t d = 0; d < rank; d++) shape[d] = d == 1 ? channels : 1;
    return pco_reshape(map->graph, values, rank, shape);
}

/* Scale, bias, mean and variance that the host knows as one factor and one term; false where it does not, or cannot. */
static bool onnx_norms_known(pco_onnx_map *map, double eps, int64_t channels, uint32_t *scale, uint32_t *shift)
{
    const double *known[4];
    for (uint32_t i = 0; i < 4; i++) {
        known[i] = onnx_known(map, 1 + i, true);
        if (!known[i] || map->operands[1 + i]->count != channels) return false;
    }
    double *made = malloc(2 * (size_t)channels * sizeof *made + 1);
    if (!made) return false;
    for (int64_t c = 0; c < channels; c++) {
        made[c] = known[0][c] / sqrt(known[3][c] + eps);
        made[channels + c] = known[1][c] - known[2][c] * made[c];
    }
    *scale = onnx_constant(map, PCO_F32, 1, &channels, made);
    *shift = onnx_constant(map, PCO_F32, 1, &channels, made + channels);
    free(made);
    return true;
}

/* Of inference: (x - mean) / sqrt(var + epsilon) * scale + bias, all four per channel. */
static uint32_t onnx_norms_batch(pco_onnx_map *map)
{
    pco_graph *graph = map->graph;
    const uint32_t x = onnx_in(map, 0);
    const pco_tensor desc = *onnx_desc(map, x);
    const double eps = onnx_float(map, "epsilon", 1e-5);
    uint32_t part[4];
    onnx_without(map, "momentum"); /* of training */
    if (onnx_flag(map, "training_mode", 0) || map->opset < 7) return onnx_skip(map, "BatchNormalization of training");
    if (desc.rank < 2) return onnx_skip(map, "BatchNormalization without channels");
    if (onnx_norms_known(map, eps, desc.shape[1], &part[0], &part[1])) {
        part[0] = onnx_norms_channels(map, part[0], desc.rank, desc.shape[1]);
        part[1] = onnx_norms_channels(map, part[1], desc.rank, desc.shape[1]);
        const uint32_t scaled = pco_binary(graph, PCO_OP_MUL, pco_cast(graph, x, PCO_F32), part[0]);
        return pco_cast(graph, pco_binary(graph, PCO_OP_ADD, scaled, part[1]), (pco_dtype)desc.dtype);
    }
    for (uint32_t i = 0; i < 4; i++)
        part[i] = onnx_norms_channels(map, pco_cast(graph, onnx_in(map, 1 + i), PCO_F32), desc.rank, desc.shape[1]);
    const uint32_t var = pco_binary_scalar(graph, PCO_OP_ADD, part[3], eps);
    const uint32_t scale = pco_binary(graph, PCO_OP_DIV, part[0], pco_unary(graph, PCO_OP_SQRT, var));
    uint32_t y = pco_binary(graph, PCO_OP_SUB, pco_cast(graph, x, PCO_F32), part[2]);
    y = pco_binary(graph, PCO_OP_ADD, pco_binary(graph, PCO_OP_MUL, y, scale), part[1]);
    return pco_cast(graph, y, (pco_dtype)desc.dtype);
}

/* Groups of channels, or each channel, as rows of one norm; scale and bias per channel (before operator set 21 of
 * GroupNormalization: per group). */
static uint32_t onnx_norms_group(pco_onnx_map *map)
{
    pco_graph *graph = map->graph;
    uint32_t x = onnx_in(map, 0), part[2];
    const bool each = onnx_is(map, "InstanceNormalization");
    const pco_tensor desc = *onnx_desc(map, x);
    pco_layer_norm_attrs attrs = {.eps = onnx_float(map, "epsilon", 1e-5)};
    const int64_t channels = desc.rank > 1 ? desc.shape[1] : 0, n = pco_tensor_elements(&desc);
    const int64_t groups = each ? channels : onnx_int(map, "num_groups", 0);
    if (!each && onnx_int(map, "stash_type", PCO_ONNX_FLOAT) != PCO_ONNX_FLOAT)
        return onnx_skip(map, "statistics in another type than float");
    if (groups < 1 || channels % groups || !desc.shape[0]) return onnx_skip(map, "%s of such channels", map->node->op);
    const int64_t rows[3] = {desc.shape[0], groups, n / desc.shape[0] / groups};
    x = pco_cast(graph, pco_reshape(graph, x, 3, rows), PCO_F32);
    x = pco_reshape(graph, pco_graph_add(graph, PCO_OP_LAYER_NORM, &attrs, &x, 1, NULL), desc.rank, desc.shape);
    for (uint32_t i = 0; i < 2; i++) {
        part[i] = pco_cast(graph, onnx_in(map, 1 + i), PCO_F32);
        if (!each && map->opset < 21) {
            part[i] = pco_reshape(graph, part[i], 2, (int64_t[]){groups, 1});
            part[i] = pco_broadcast_to(graph, part[i], 2, (int64_t[]){groups, channels / groups});
        }
        part[i] = onnx_norms_channels(map, part[i], desc.rank, channels);
    }
    x = pco_binary(graph, PCO_OP_ADD, pco_binary(graph, PCO_OP_MUL, x, part[0]), part[1]);
    return pco_cast(graph, x, (pco_dtype)desc.dtype);
}

/* x by its length along an axis; 0 stays 0. */
static uint32_t onnx_norms_length(pco_onnx_map *map)
{
    pco_graph *graph = map->graph;
    const uint32_t x = onnx_in(map, 0);
    const pco_tensor desc = *onnx_desc(map, x);
    const int64_t p = onnx_int(map, "p", 2), axis = onnx_axis(map, onnx_int(map, "axis", -1), desc.rank);
    if (p != 1 && p != 2) return onnx_skip(map, "LpNormalization with another p than 1 and 2");
    const uint32_t each = p == 1 ? pco_unary(graph, PCO_OP_ABS, x) : pco_binary(graph, PCO_OP_MUL, x, x);
    uint32_t size = onnx_sum_axes(map, PCO_OP_SUM, each, 1u << axis, 1);
    if (p == 2) size = pco_unary(graph, PCO_OP_SQRT, size);
    const uint32_t nothing = pco_binary_scalar(graph, PCO_OP_EQ, size, 0.0);
    size = pco_where(graph, nothing, pco_scalar(graph, (pco_dtype)desc.dtype, 1.0), size);
    return pco_binary(graph, PCO_OP_DIV, x, size);
}

const onnx_rule ONNX_NORMS[] = {
    {"LayerNormalization", onnx_norms_norm, 0, 0},
    {"RMSNormalization", onnx_norms_norm, 0, 0},
    {"BatchNormalization", onnx_norms_batch, 0, 0},
    {"InstanceNormalization", onnx_norms_group, 0, 0},
    {"GroupNormalization", onnx_norms_group, 0, 0},
    {"LpNormalization", onnx_norms_length, 0, 0},
    {0},
};
