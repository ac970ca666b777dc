/* Operators of ONNX that move data, and running sums and top k. Shapes, axes and the like are read on the host; values
 * go through the device. */
#include "models/onnx/map_internal.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_PARTS = PCO_ONNX_MAX_OPERANDS };

/* Indices with negative ones counted from the end of an axis of n. */
static uint32_t onnx_wrapped(pco_onnx_map *map, uint32_t indices, int64_t n)
{
    uint32_t negative = pco_binary_scalar(map->graph, PCO_OP_LT, indices, 0.0);
    return pco_where(map->graph, negative, pco_binary_scalar(map->graph, PCO_OP_ADD, indices, (double)n), indices);
}

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
    const bool add = onnx_is(map, "Unsqueeze");
    uint32_t x = onnx_in(map, 0);
    const pco_tensor *desc = onnx_desc(map, x);
    int64_t axes[PCO_MAX_RANK], n = onnx_host(map, 1, axes, PCO_MAX_RANK), shape[PCO_MAX_RANK] = {0};
    uint32_t rank = desc->rank + (add && n > 0 ? (uint32_t)n : 0), mask = 0, to = 0, from = 0;
    if (rank > PCO_MAX_RANK) return onnx_skip(map, "Unsqueeze to more dimensions than there are");
    for (int64_t i = 0; i < n; i++) mask |= 1u << onnx_axis(map, axes[i], rank);
    for (uint32_t i = 0; i < rank; i++) {
        bool named = mask >> i & 1;
        if (add) {
            shape[to++] = named ? 1 : desc->shape[from++];
        } else if (!named && !(n <= 0 && desc->shape[i] == 1)) {
            shape[to++] = desc->shape[i];
        }
    }
    return pco_reshape(map->graph, x, to, shape);
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

static uint32_t onnx_shapes_gather(pco_onnx_map *map)
{
    uint32_t x = onnx_in(map, 0), indices = onnx_in(map, 1);
    int64_t axis = onnx_axis(map, onnx_int(map, "axis", 0), onnx_desc(map, x)->rank);
    indices = onnx_wrapped(map, indices, onnx_desc(map, x)->shape[axis]);
    return pco_gather(map->graph, x, indices, axis);
}

/* x is cut to the indices' shape outside the axis. */
static uint32_t onnx_shapes_gather_elements(pco_onnx_map *map)
{
    uint32_t x = onnx_in(map, 0), indices = onnx_in(map, 1);
    pco_tensor shape = *onnx_desc(map, indices);
    int64_t axis = onnx_axis(map, onnx_int(map, "axis", 0), onnx_desc(map, x)->rank);
    indices = onnx_wrapped(map, indices, onnx_desc(map, x)->shape[axis]);
    for (int64_t d = 0; d < (int64_t)shape.rank; d++)
        if (d != axis && onnx_desc(map, x)->shape[d] != shape.shape[d])
            x = pco_slice_axis(map->graph, x, d, 0, shape.shape[d]);
    pco_gather_along_axis_attrs attrs = {.axis = axis};
    return pco_graph_add(map->graph, PCO_OP_GATHER_ALONG_AXIS, &attrs, (uint32_t[]){x, indices}, 2, NULL);
}

/* Rows of a matrix, by index tuples: rows of `indices`, all in `rows` rows of x. */
static uint32_t onnx_shapes_linear(pco_onnx_map *map, uint32_t indices, const pco_tensor *data, int64_t batch,
                                   int64_t depth, int64_t rows)
{
    pco_graph *graph = map->graph;
    uint32_t linear = PCO_NONE;
    for (int64_t k = 0; k < depth; k++) {
        uint32_t one = onnx_wrapped(map, pco_slice_axis(graph, indices, -1, k, 1), data->shape[batch + k]);
        if (linear != PCO_NONE) {
            linear = pco_binary_scalar(graph, PCO_OP_MUL, linear, (double)data->shape[batch + k]);
            one = pco_binary(graph, PCO_OP_ADD, linear, one);
        }
        linear = one;
    }
    if (batch) {
        double step = (double)rows / (double)data->shape[0];
        uint32_t first = pco_iota(graph, PCO_I32, 0, 0.0, step, 2, (int64_t[]){data->shape[0], 1});
        linear = pco_reshape(graph, linear, 2, (int64_t[]){data->shape[0], -1});
        linear = pco_binary(graph, PCO_OP_ADD, linear, first);
    }
    return pco_reshape(graph, linear, 1, (int64_t[]){-1});
}

/* Index tuples become one index into rows of a matrix; leading batch dimensions count as a first index. The result has
 * the dimensions of the tuples, then those of x that no tuple counts through. */
static uint32_t onnx_shapes_gather_nd(pco_onnx_map *map)
{
    pco_graph *graph = map->graph;
    uint32_t x = onnx_in(map, 0), indices = onnx_in(map, 1);
    const pco_tensor data = *onnx_desc(map, x), tuple = *onnx_desc(map, indices);
    int64_t batch = onnx_int(map, "batch_dims", 0), rows = 1, inner = 1, shape[2 * PCO_MAX_RANK];
    if (batch > 1) return onnx_skip(map, "GatherND with several batch dimensions");
    if (tuple.rank < 1 || batch < 0 || batch >= tuple.rank) return onnx_skip(map, "GatherND without index tuples");
    const int64_t depth = tuple.shape[tuple.rank - 1];
    if (depth < 1 || batch + depth > data.rank) return onnx_skip(map, "GatherND with tuples longer than its shape");
    uint32_t rank = tuple.rank - 1;
    memcpy(shape, tuple.shape, rank * sizeof *shape);
    for (uint32_t d = 0; d < data.rank; d++) {
        *((int64_t)d < batch + depth ? &rows : &inner) *= data.shape[d];
        if ((int64_t)d >= batch + depth) shape[rank++] = data.shape[d];
    }
    if (rank > PCO_MAX_RANK) return onnx_skip(map, "GatherND to more dimensions than there are");
    const uint32_t flat = onnx_shapes_linear(map, indices, &data, batch, depth, rows);
    const uint32_t y = pco_gather(graph, pco_reshape(graph, x, 2, (int64_t[]){rows, inner}), flat, 0);
    return pco_reshape(graph, y, rank, shape);
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
    int64_t rows = desc->shape[desc->rank - 2], columns = desc->shape[desc->rank - 1], k = 0;
    bool upper = onnx_int(map, "upper", 1) != 0;
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
    pco_cumsum_attrs attrs = {.exclusive = onnx_int(map, "exclusive", 0), .reverse = onnx_int(map, "reverse", 0)};
    onnx_host(map, 1, &attrs.axis, 1);
    return pco_graph_add(map->graph, PCO_OP_CUMSUM, &attrs, &x, 1, NULL);
}

/* `sorted` 0 allows any order, and so this one. */
static uint32_t onnx_shapes_top_k(pco_onnx_map *map)
{
    uint32_t x = onnx_in(map, 0), out[PCO_MAX_OUTPUTS];
    pco_top_k_attrs attrs = {.axis = onnx_int(map, "axis", -1), .largest = onnx_int(map, "largest", 1)};
    onnx_int(map, "sorted", 1);
    onnx_host(map, 1, &attrs.k, 1);
    if (pco_graph_add(map->graph, PCO_OP_TOP_K, &attrs, &x, 1, out) == PCO_NONE) return PCO_NONE;
    map->out[1] = out[1], map->type[1] = PCO_ONNX_INT64;
    return out[0];
}

/* The cache is a state, first filled with the past. Where it is circular, what falls off its end is written a
 * second time, a whole length further in front; what then lies outside is dropped. */
static uint32_t onnx_shapes_tensor_scatter(pco_onnx_map *map)
{
    pco_graph *graph = map->graph;
    char mode[16];
    uint32_t past = onnx_in(map, 0), update = onnx_in(map, 1), indices = onnx_in(map, 2);
    pco_tensor shape = *onnx_desc(map, past);
    int64_t axis = onnx_axis(map, onnx_int(map, "axis", -2), shape.rank), zero[1] = {1};
    onnx_text(map, "mode", "linear", mode, sizeof mode);
    if (strcmp(mode, "linear") != 0 && strcmp(mode, "circular") != 0)
        return onnx_skip(map, "TensorScatter in an unknown mode");
    if (axis == 0) return onnx_skip(map, "TensorScatter along the batch");
    uint32_t state = pco_graph_state(graph, map->node->outputs[0], (pco_dtype)shape.dtype, shape.rank, shape.shape);
    uint32_t origin = pco_fill(graph, PCO_I32, 0.0, 1, zero);
    if (indices == PCO_NONE) indices = origin;
    state = pco_state_write(graph, state, past, origin, axis);
    state = pco_state_write(graph, state, update, indices, axis);
    if (strcmp(mode, "circular") == 0) {
        uint32_t wrapped = pco_binary_scalar(graph, PCO_OP_SUB, indices, (double)shape.shape[axis]);
        state = pco_state_write(graph, state, update, wrapped, axis);
    }
    return state;
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
    {"Gather", onnx_shapes_gather, 0, 0},
    {"GatherElements", onnx_shapes_gather_elements, 0, 0},
    {"GatherND", onnx_shapes_gather_nd, 0, 0},
    {"Trilu", onnx_shapes_trilu, 0, 0},
    {"CumSum", onnx_shapes_cumsum, 0, 0},
    {"TopK", onnx_shapes_top_k, 0, 0},
    {"TensorScatter", onnx_shapes_tensor_scatter, 0, 0},
    {0},
};
