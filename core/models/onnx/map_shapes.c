/* Operators of ONNX that move data, and running sums and top k. Shapes, axes and the like are read on the host; values
 * go through the device. */
#include "models/onnx/map_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PARTS = PCO_ONNX_MAX_OPERANDS };

static uint32_t onnx_shapes_transpose(pco_onnx_map *map)
{
    int64_t dims[PCO_MAX_RANK];
    const uint32_t x = onnx_in(map, 0);
    if (x == PCO_NONE || !onnx_bounds_permute(map, map->operands[0], dims)) return PCO_NONE;
    return pco_permute(map->graph, x, dims);
}

static uint32_t onnx_shapes_reshape(pco_onnx_map *map)
{
    int64_t shape[PCO_MAX_RANK];
    uint32_t rank;
    const uint32_t x = onnx_in(map, 0);
    if (x == PCO_NONE || !onnx_bounds_reshape(map, map->operands[0], shape, &rank)) return PCO_NONE;
    return pco_reshape(map->graph, x, rank, shape);
}

/* To a matrix, whose columns are all dimensions from the axis on. */
static uint32_t onnx_shapes_flatten(pco_onnx_map *map)
{
    const uint32_t x = onnx_in(map, 0);
    const pco_tensor *desc = onnx_desc(map, x);
    int64_t axis = onnx_int(map, "axis", 1), shape[2] = {1, 1};
    if (axis < 0) axis += desc->rank;
    if (axis < 0 || axis > (int64_t)desc->rank) return onnx_skip(map, "an axis that the tensor has not");
    for (int64_t d = 0; d < (int64_t)desc->rank; d++) shape[d >= axis] *= desc->shape[d];
    return pco_reshape(map->graph, x, 2, shape);
}

/* Both are reshapes to the expected rank: dimensions of size 1 come or go. */
static uint32_t onnx_shapes_squeeze(pco_onnx_map *map)
{
    int64_t shape[PCO_MAX_RANK];
    uint32_t rank = 0;
    const uint32_t x = onnx_in(map, 0);
    if (x == PCO_NONE || !onnx_bounds_squeeze(map, map->operands[0], shape, &rank)) return PCO_NONE;
    return pco_reshape(map->graph, x, rank, shape);
}

static uint32_t onnx_shapes_expand(pco_onnx_map *map)
{
    int64_t shape[PCO_MAX_RANK];
    uint32_t rank = 0;
    const uint32_t x = onnx_in(map, 0);
    if (x == PCO_NONE || !onnx_bounds_expand(map, map->operands[0], shape, &rank)) return PCO_NONE;
    return pco_broadcast_to(map->graph, x, rank, shape);
}

static uint32_t onnx_shapes_concat(pco_onnx_map *map)
{
    uint32_t parts[MAX_PARTS];
    for (uint32_t i = 0; i < map->node->n_inputs; i++) parts[i] = onnx_in(map, i);
    return pco_concat(map->graph, parts, map->node->n_inputs, onnx_int(map, "axis", 0));
}

/* Sizes from the second input, or equal parts, the last one smaller. */
static uint32_t onnx_shapes_split(pco_onnx_map *map)
{
    uint32_t x = onnx_in(map, 0), parts = map->node->n_outputs;
    int64_t axis, sizes[MAX_PARTS], start = 0;
    if (x == PCO_NONE || !onnx_desc(map, x)->rank || !onnx_bounds_split(map, map->operands[0], &axis, sizes))
        return onnx_skip(map, "Split of a scalar");
    for (uint32_t i = 0; i < parts; i++) {
        map->out[i] = pco_slice_axis(map->graph, x, axis, start, sizes[i]);
        start += sizes[i];
    }
    return map->out[0];
}

/* A negative step is a choice of indices. */
static uint32_t onnx_shapes_slice(pco_onnx_map *map)
{
    onnx_slices slices;
    uint32_t x = onnx_in(map, 0);
    const uint32_t rank = onnx_desc(map, x)->rank;
    pco_slice_attrs attrs = {.n_starts = rank, .n_sizes = rank, .n_steps = rank};
    if (x == PCO_NONE || !onnx_bounds_slice(map, map->operands[0], &slices)) return PCO_NONE;
    for (uint32_t d = 0; d < rank; d++) {
        const bool turned = slices.step[d] < 0;
        attrs.starts[d] = turned ? 0 : slices.start[d];
        attrs.steps[d] = turned ? 1 : slices.step[d];
        attrs.sizes[d] = slices.size[d];
        if (!turned) continue;
        const uint32_t indices =
            pco_iota(map->graph, PCO_I32, 0, (double)slices.start[d], (double)slices.step[d], 1, &slices.size[d]);
        x = pco_gather(map->graph, x, indices, d);
    }
    return pco_graph_add(map->graph, PCO_OP_SLICE, &attrs, &x, 1, NULL);
}

static uint32_t onnx_shapes_constant(pco_onnx_map *map, pco_dtype dtype, int64_t rows, int64_t columns,
                                     const void *data)
{
    return pco_graph_constant_copy(map->graph, "constant", dtype, 2, (int64_t[]){rows, columns}, data);
}

static uint32_t onnx_shapes_trilu(pco_onnx_map *map)
{
    uint32_t x = onnx_in(map, 0);
    const pco_tensor *desc = onnx_desc(map, x);
    if (desc->rank < 2) return onnx_skip(map, "Trilu of less than two dimensions");
    const int64_t rows = desc->shape[desc->rank - 2], columns = desc->shape[desc->rank - 1];
    int64_t k = 0;
    if (rows > 1 << 15 || columns > 1 << 15) return onnx_skip(map, "Trilu of a matrix that is too large");
    bool upper = onnx_flag(map, "upper", 1) != 0;
    onnx_host(map, 1, &k, 1);
    uint8_t *mask = calloc((size_t)(rows * columns) + 1, 1);
    if (!mask) return PCO_NONE;
    for (int64_t i = 0; i < rows * columns; i++) {
        int64_t above = i % columns - i / columns;
        mask[i] = upper ? above >= k : above <= k;
    }
    uint32_t keep = onnx_shapes_constant(map, PCO_BOOL, rows, columns, mask);
    free(mask);
    uint32_t zero = pco_scalar(map->graph, (pco_dtype)onnx_desc(map, x)->dtype, 0.0);
    return pco_where(map->graph, keep, x, zero);
}

static uint32_t onnx_shapes_cumsum(pco_onnx_map *map)
{
    uint32_t x = onnx_in(map, 0);
    pco_cumsum_attrs attrs = {.exclusive = onnx_flag(map, "exclusive", 0), .reverse = onnx_flag(map, "reverse", 0)};
    onnx_host(map, 1, &attrs.axis, 1);
    return pco_graph_add(map->graph, PCO_OP_CUMSUM, &attrs, &x, 1, NULL);
}

/* `sorted` 0 allows any order, and so this one. */
static uint32_t onnx_shapes_top_k(pco_onnx_map *map)
{
    uint32_t x = onnx_in(map, 0), out[PCO_MAX_OUTPUTS];
    pco_top_k_attrs attrs = {.axis = onnx_int(map, "axis", -1), .largest = onnx_flag(map, "largest", 1)};
    onnx_flag(map, "sorted", 1);
    onnx_host(map, 1, &attrs.k, 1);
    if (pco_graph_add(map->graph, PCO_OP_TOP_K, &attrs, &x, 1, out) == PCO_NONE) return PCO_NONE;
    map->out[1] = out[1], map->type[1] = PCO_ONNX_INT64;
    return out[0];
}

/* The place t along the axis has row t - index[b] of the update where there is one (in a circular cache: modulo its
 * length), and what it had elsewhere. */
static uint32_t onnx_shapes_tensor_scatter(pco_onnx_map *map)
{
    pco_graph *graph = map->graph;
    char mode[16];
    const uint32_t past = onnx_in(map, 0), update = onnx_in(map, 1);
    uint32_t indices = onnx_in(map, 2);
    const pco_tensor shape = *onnx_desc(map, past), rows = *onnx_desc(map, update);
    const int64_t axis = onnx_axis(map, onnx_int(map, "axis", -2), shape.rank);
    int64_t line[PCO_MAX_RANK], batch[PCO_MAX_RANK];
    onnx_text(map, "mode", "linear", mode, sizeof mode);
    if (strcmp(mode, "linear") != 0 && strcmp(mode, "circular") != 0)
        return onnx_skip(map, "TensorScatter in an unknown mode");
    if (axis == 0) return onnx_skip(map, "TensorScatter along the batch");
    const int64_t length = shape.shape[axis], count = rows.shape[axis];
    if (rows.rank != shape.rank || count > length || !length) return onnx_skip(map, "TensorScatter of too many rows");
    for (uint32_t d = 0; d < shape.rank; d++) {
        line[d] = (int64_t)d == axis ? length : 1, batch[d] = d ? 1 : shape.shape[0];
    }
    uint32_t at = pco_iota(graph, PCO_I32, (uint32_t)axis, 0, 1, shape.rank, line);
    if (indices != PCO_NONE) {
        indices = pco_reshape(graph, indices, shape.rank, batch);
        at = pco_binary(graph, PCO_OP_SUB, at, indices);
        const uint32_t before = pco_binary_scalar(graph, PCO_OP_LT, at, 0.0);
        if (*mode == 'c') at = pco_where(graph, before, pco_binary_scalar(graph, PCO_OP_ADD, at, (double)length), at);
    }
    at = pco_broadcast_to(graph, at, shape.rank, shape.shape);
    const pco_gather_along_axis_attrs attrs = {.axis = axis};
    const uint32_t new = pco_graph_add(graph, PCO_OP_GATHER_ALONG_AXIS, &attrs, (uint32_t[]){update, at}, 2, NULL);
    const uint32_t there = pco_binary(graph, PCO_OP_LOGICAL_AND, pco_binary_scalar(graph, PCO_OP_GE, at, 0.0),
                                      pco_binary_scalar(graph, PCO_OP_LT, at, (double)count));
    return pco_where(graph, there, new, past);
}

/* Copies one behind the other: a choice of indices along each axis. */
static uint32_t onnx_shapes_tile(pco_onnx_map *map)
{
    uint32_t x = onnx_in(map, 0);
    const pco_tensor desc = *onnx_desc(map, x);
    int64_t repeats[PCO_MAX_RANK];
    const int64_t n = onnx_host(map, 1, repeats, PCO_MAX_RANK);
    if (n != (int64_t)desc.rank) return onnx_skip(map, "Tile with another number of repeats than dimensions");
    for (uint32_t d = 0; d < desc.rank && !map->skip[0]; d++) {
        int64_t count;
        if (repeats[d] == 1) continue;
        if (repeats[d] < 0 || __builtin_mul_overflow(repeats[d], desc.shape[d], &count))
            return onnx_skip(map, "Tile with repeats below 0, or too many");
        x = onnx_chosen(map, x, d, count, ONNX_CHOOSE_WRAPPED, 0, desc.shape[d]);
    }
    return x;
}

/* Elements of one value, or indices that mirror, repeat or continue; negative ones cut off. */
static uint32_t onnx_shapes_pad(pco_onnx_map *map)
{
    char mode[16];
    uint32_t x = onnx_in(map, 0);
    const pco_tensor desc = *onnx_desc(map, x);
    int64_t pads[2 * PCO_MAX_RANK], axes[PCO_MAX_RANK];
    pco_pad_attrs attrs = {.n_before = desc.rank, .n_after = desc.rank};
    onnx_text(map, "mode", "constant", mode, sizeof mode);
    int64_t n = onnx_host(map, 1, pads, 2 * PCO_MAX_RANK), named = onnx_host(map, 3, axes, PCO_MAX_RANK);
    if (n < 0) n = onnx_ints(map, "pads", pads, 2 * PCO_MAX_RANK);
    attrs.value =
        onnx_has(map, 2) && map->operands[2]->count ? onnx_host_scalar(map, 2, 0) : onnx_float(map, "value", 0);
    if (named < 0)
        for (named = 0; named < (int64_t)desc.rank; named++) axes[named] = named;
    if (n != 2 * named) return onnx_skip(map, "Pad with another number of pads than axes");
    const bool constant = strcmp(mode, "constant") == 0, edge = strcmp(mode, "edge") == 0;
    if (!constant && !edge && strcmp(mode, "reflect") != 0 && strcmp(mode, "wrap") != 0)
        return onnx_skip(map, "Pad in an unknown mode");
    const onnx_choice how = edge ? ONNX_CHOOSE_EDGE : *mode == 'w' ? ONNX_CHOOSE_WRAPPED : ONNX_CHOOSE_MIRRORED;
    for (int64_t i = 0; i < named && !map->skip[0]; i++) {
        const int64_t axis = onnx_axis(map, axes[i], desc.rank), before = pads[i], after = pads[named + i];
        const int64_t size = desc.rank ? desc.shape[axis] : 0;
        int64_t count;
        if (before < INT32_MIN || before > INT32_MAX || after < INT32_MIN || after > INT32_MAX || size > INT32_MAX ||
            (count = size + before + after) < 0)
            return onnx_skip(map, "Pad of more than there is, or too much");
        if (!constant && count > size && !size) return onnx_skip(map, "Pad of nothing");
        if (!constant) {
            x = onnx_chosen(map, x, axis, count, how, -before, size);
            continue;
        }
        const int64_t low = before < 0 ? -before : 0, high = after < 0 ? -after : 0;
        if (low || high) x = pco_slice_axis(map->graph, x, axis, low, size - low - high);
        attrs.before[axis] = before > 0 ? before : 0, attrs.after[axis] = after > 0 ? after : 0;
    }
    return constant ? pco_graph_add(map->graph, PCO_OP_PAD, &attrs, &x, 1, NULL) : x;
}

/* Blocks of b by b pixels to as many channels, and back. */
static uint32_t onnx_shapes_depth(pco_onnx_map *map)
{
    pco_graph *graph = map->graph;
    char mode[8];
    const uint32_t x = onnx_in(map, 0);
    const pco_tensor desc = *onnx_desc(map, x);
    const int64_t b = onnx_int(map, "blocksize", 0), *s = desc.shape;
    const bool depth = onnx_is(map, "SpaceToDepth");
    onnx_text(map, "mode", "DCR", mode, sizeof mode);
    if (desc.rank != 4 || b < 1 || (!depth && b > 32768) || (depth ? s[2] % b || s[3] % b : s[1] % (b * b)) ||
        (strcmp(mode, "DCR") != 0 && strcmp(mode, "CRD") != 0))
        return onnx_skip(map, "%s of a shape that has no such blocks", map->node->op);
    if (depth) {
        const uint32_t split = pco_reshape(graph, x, 6, (int64_t[]){s[0], s[1], s[2] / b, b, s[3] / b, b});
        const uint32_t y =
            pco_permute(graph, split, *mode == 'D' ? (int64_t[]){0, 3, 5, 1, 2, 4} : (int64_t[]){0, 1, 3, 5, 2, 4});
        return pco_reshape(graph, y, 4, (int64_t[]){s[0], s[1] * b * b, s[2] / b, s[3] / b});
    }
    const int64_t channels = s[1] / (b * b);
    const bool first = *mode == 'D';
    const uint32_t split = first ? pco_reshape(graph, x, 6, (int64_t[]){s[0], b, b, channels, s[2], s[3]})
                                 : pco_reshape(graph, x, 6, (int64_t[]){s[0], channels, b, b, s[2], s[3]});
    const uint32_t y = pco_permute(graph, split, first ? (int64_t[]){0, 3, 4, 1, 5, 2} : (int64_t[]){0, 1, 4, 2, 5, 3});
    return pco_reshape(graph, y, 4, (int64_t[]){s[0], channels, s[2] * b, s[3] * b});
}

/* What is too large for the host. */
static uint32_t onnx_shapes_range(pco_onnx_map *map)
{
    const double start = onnx_host_scalar(map, 0, 0), limit = onnx_host_scalar(map, 1, 0);
    const double step = onnx_host_scalar(map, 2, 1), steps = ceil((limit - start) / step);
    const int64_t count = steps > 0 ? (int64_t)fmin(steps, 0x1p62) : 0;
    if (!(steps <= 0x1p24)) return onnx_skip(map, "Range of too many values, or of none");
    return pco_iota(map->graph, (pco_dtype)pco_onnx_map_type(onnx_type(map, 0)), 0, start, step, 1, &count);
}

static uint32_t onnx_shapes_fill(pco_onnx_map *map)
{
    pco_onnx_tensor value;
    pco_error err;
    int64_t shape[PCO_MAX_RANK];
    const int64_t rank = onnx_host(map, 0, shape, PCO_MAX_RANK);
    const bool given = onnx_tensor(map, "value", &value) && !pco_onnx_tensor_values(&value, &err);
    const uint32_t dtype = given ? pco_onnx_map_type(value.type) : PCO_F32;
    const double one = given && value.count == 1 ? value.value[0] : 0;
    map->type[0] = given ? value.type : PCO_ONNX_FLOAT;
    const bool good = rank >= 0 && dtype != PCO_NONE && (!given || value.count == 1);
    pco_onnx_tensor_clear(&value);
    if (!good) return onnx_skip(map, "ConstantOfShape of a value that is none");
    return pco_fill(map->graph, (pco_dtype)dtype, one, (uint32_t)rank, shape);
}

static uint32_t onnx_shapes_eye(pco_onnx_map *map)
{
    pco_graph *graph = map->graph;
    const int32_t type = (int32_t)onnx_int(map, "dtype", onnx_type(map, 0));
    const int64_t k = onnx_int(map, "k", 0);
    if (!onnx_has(map, 0) || map->operands[0]->rank != 2 || pco_onnx_map_type(type) == PCO_NONE || k > INT32_MAX ||
        k < INT32_MIN)
        return onnx_skip(map, "EyeLike of another shape or type than it can have");
    const int64_t *shape = map->operands[0]->shape;
    const uint32_t rows = pco_iota(graph, PCO_I32, 0, (double)k, 1, 2, (int64_t[]){shape[0], 1});
    const uint32_t columns = pco_iota(graph, PCO_I32, 1, 0, 1, 2, (int64_t[]){1, shape[1]});
    map->type[0] = type;
    return pco_cast(graph, pco_binary(graph, PCO_OP_EQ, rows, columns), (pco_dtype)pco_onnx_map_type(type));
}

const onnx_rule ONNX_SHAPES[] = {
    {"Transpose", onnx_shapes_transpose, 0, 0},
    {"Reshape", onnx_shapes_reshape, 0, 0},
    {"Flatten", onnx_shapes_flatten, 0, 0},
    {"Squeeze", onnx_shapes_squeeze, 0, 0},
    {"Unsqueeze", onnx_shapes_squeeze, 0, 0},
    {"Expand", onnx_shapes_expand, 0, 0},
    {"Concat", onnx_shapes_concat, 0, 0},
    {"Split", onnx_shapes_split, 0, 0},
    {"Slice", onnx_shapes_slice, 0, 0},
    {"Tile", onnx_shapes_tile, 0, 0},
    {"Pad", onnx_shapes_pad, 0, 0},
    {"DepthToSpace", onnx_shapes_depth, 0, 0},
    {"SpaceToDepth", onnx_shapes_depth, 0, 0},
    {"Range", onnx_shapes_range, 0, 0},
    {"ConstantOfShape", onnx_shapes_fill, 0, 0},
    {"EyeLike", onnx_shapes_eye, 0, 0},
    {"Trilu", onnx_shapes_trilu, 0, 0},
    {"CumSum", onnx_shapes_cumsum, 0, 0},
    {"TopK", onnx_shapes_top_k, 0, 0},
    {"TensorScatter", onnx_shapes_tensor_scatter, 0, 0},
    {0},
};
