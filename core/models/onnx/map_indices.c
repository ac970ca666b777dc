/* Operators of ONNX that choose elements by index, or put them there. */
#include "models/onnx/map_internal.h"

#include <stdlib.h>
#include <string.h>

uint32_t onnx_wrapped(pco_onnx_map *map, uint32_t indices, int64_t n)
{
    uint32_t negative = pco_binary_scalar(map->graph, PCO_OP_LT, indices, 0.0);
    return pco_where(map->graph, negative, pco_binary_scalar(map->graph, PCO_OP_ADD, indices, (double)n), indices);
}

/* Input i, wrapped; on the host where it is known. */
static uint32_t onnx_indices_of(pco_onnx_map *map, uint32_t i, int64_t n)
{
    const double *known = onnx_known(map, i, true);
    const pco_onnx_tensor *tensor = map->operands[i];
    if (!known || pco_onnx_map_type(tensor->type) != PCO_I32) return onnx_wrapped(map, onnx_in(map, i), n);
    double *values = malloc(((size_t)tensor->count + 1) * sizeof *values);
    if (!values) return pco_graph_fail(map->graph, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for indices");
    for (int64_t k = 0; k < tensor->count; k++) values[k] = known[k] < 0 ? known[k] + (double)n : known[k];
    const uint32_t indices = onnx_constant(map, PCO_I32, tensor->rank, tensor->shape, values);
    free(values);
    return indices;
}

static int64_t onnx_choose(onnx_choice how, int64_t i, int64_t n)
{
    if (how == ONNX_CHOOSE_EDGE) return i < 0 ? 0 : i >= n ? n - 1 : i;
    const int64_t period = how == ONNX_CHOOSE_WRAPPED || n == 1 ? n : 2 * (n - 1);
    const int64_t at = (i % period + period) % period;
    return at < n ? at : period - at;
}

uint32_t onnx_chosen(pco_onnx_map *map, uint32_t x, int64_t axis, int64_t count, onnx_choice how, int64_t start,
                     int64_t n)
{
    enum { MOST = 1 << 24 };
    if (count < 0 || count > MOST || (count && n < 1)) return onnx_skip(map, "%.100s of too much", map->node->op);
    int32_t *indices = malloc((size_t)count * sizeof *indices + 1);
    if (!indices) return pco_graph_fail(map->graph, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for indices");
    for (int64_t i = 0; i < count; i++) indices[i] = (int32_t)onnx_choose(how, start + i, n);
    const uint32_t chosen = pco_graph_constant_copy(map->graph, "indices", PCO_I32, 1, &count, indices);
    free(indices);
    return pco_gather(map->graph, x, chosen, axis);
}

static uint32_t onnx_indices_gather(pco_onnx_map *map)
{
    const uint32_t x = onnx_in(map, 0);
    const int64_t axis = onnx_axis(map, onnx_int(map, "axis", 0), onnx_desc(map, x)->rank);
    if (!onnx_has(map, 1)) return onnx_skip(map, "Gather without indices");
    return pco_gather(map->graph, x, onnx_indices_of(map, 1, onnx_desc(map, x)->shape[axis]), axis);
}

/* x is cut to the indices' shape outside the axis. */
static uint32_t onnx_indices_gather_elements(pco_onnx_map *map)
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
static uint32_t onnx_indices_linear(pco_onnx_map *map, uint32_t indices, const pco_tensor *data, int64_t batch,
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
    int64_t batches = 1, all = pco_tensor_elements(onnx_desc(map, linear));
    for (int64_t d = 0; d < batch; d++) batches *= data->shape[d];
    if (batch && batches) {
        const uint32_t first = pco_iota(graph, PCO_I32, 0, 0.0, (double)(rows / batches), 2, (int64_t[]){batches, 1});
        linear = pco_reshape(graph, linear, 2, (int64_t[]){batches, all / batches});
        linear = pco_binary(graph, PCO_OP_ADD, linear, first);
    }
    return pco_reshape(graph, linear, 1, &all);
}

/* Index tuples become one index into rows of a matrix; leading batch dimensions count as a first index. The result has
 * the dimensions of the tuples, then those of x that no tuple counts through. */
static uint32_t onnx_indices_gather_nd(pco_onnx_map *map)
{
    pco_graph *graph = map->graph;
    uint32_t x = onnx_in(map, 0), indices = onnx_in(map, 1);
    const pco_tensor data = *onnx_desc(map, x), tuple = *onnx_desc(map, indices);
    int64_t batch = onnx_int(map, "batch_dims", 0), rows = 1, inner = 1, shape[2 * PCO_MAX_RANK];
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
    const uint32_t flat = onnx_indices_linear(map, indices, &data, batch, depth, rows);
    const uint32_t y = pco_gather(graph, pco_reshape(graph, x, 2, (int64_t[]){rows, inner}), flat, 0);
    return pco_reshape(graph, y, rank, shape);
}

/* x with updates at rows of the matrix as which it is seen. What is written is told from what is not by a count, so
 * that infinities and NaN of x do not survive; of two updates of one row, which ONNX does not allow, the sum is
 * written. */
static uint32_t onnx_indices_written(pco_onnx_map *map, uint32_t x, uint32_t rows, uint32_t updates, bool add)
{
    pco_graph *graph = map->graph;
    const pco_tensor desc = *onnx_desc(map, x);
    const bool truth = desc.dtype == PCO_BOOL;
    const pco_scatter_add_attrs attrs = {.axis = 0};
    const pco_dtype type = truth ? PCO_I32 : (pco_dtype)desc.dtype;
    if (add && truth) return onnx_skip(map, "a sum of booleans");
    if (truth) updates = pco_cast(graph, updates, PCO_I32);
    uint32_t base = add ? x : pco_fill(graph, type, 0.0, desc.rank, desc.shape);
    uint32_t y = pco_graph_add(graph, PCO_OP_SCATTER_ADD, &attrs, (uint32_t[]){base, rows, updates}, 3, NULL);
    if (add) return y;
    const int64_t count = onnx_desc(map, rows)->shape[0], column[2] = {desc.shape[0], 1}, ones[2] = {count, 1};
    base = pco_fill(graph, PCO_I32, 0.0, 2, column);
    const uint32_t one = pco_fill(graph, PCO_I32, 1.0, 2, ones);
    const uint32_t hits = pco_graph_add(graph, PCO_OP_SCATTER_ADD, &attrs, (uint32_t[]){base, rows, one}, 3, NULL);
    if (truth) y = pco_cast(graph, y, PCO_BOOL);
    return pco_where(graph, pco_binary_scalar(graph, PCO_OP_GT, hits, 0.0), y, x);
}

static bool onnx_indices_reduction(pco_onnx_map *map, bool *add)
{
    char text[16];
    onnx_text(map, "reduction", "none", text, sizeof text);
    *add = strcmp(text, "add") == 0;
    if (!*add && strcmp(text, "none") != 0) onnx_skip(map, "%.100s with reduction '%s'", map->node->op, text);
    return !map->skip[0];
}

static uint32_t onnx_indices_scatter_nd(pco_onnx_map *map)
{
    pco_graph *graph = map->graph;
    bool add;
    const uint32_t x = onnx_in(map, 0), indices = onnx_in(map, 1), updates = onnx_in(map, 2);
    const pco_tensor data = *onnx_desc(map, x), tuple = *onnx_desc(map, indices);
    int64_t rows = 1, inner = 1;
    if (!onnx_indices_reduction(map, &add)) return PCO_NONE;
    if (tuple.rank < 1) return onnx_skip(map, "ScatterND without index tuples");
    const int64_t depth = tuple.shape[tuple.rank - 1];
    if (depth < 1 || depth > (int64_t)data.rank) return onnx_skip(map, "ScatterND with tuples longer than its shape");
    for (uint32_t d = 0; d < data.rank; d++) *((int64_t)d < depth ? &rows : &inner) *= data.shape[d];
    const uint32_t flat = onnx_indices_linear(map, indices, &data, 0, depth, rows);
    const int64_t count = pco_tensor_elements(onnx_desc(map, flat));
    const uint32_t y = onnx_indices_written(map, pco_reshape(graph, x, 2, (int64_t[]){rows, inner}), flat,
                                            pco_reshape(graph, updates, 2, (int64_t[]){count, inner}), add);
    return pco_reshape(graph, y, data.rank, data.shape);
}

/* An element's place in the flat order: its own coordinates, and the index in that of the axis. */
static uint32_t onnx_indices_scatter_elements(pco_onnx_map *map)
{
    pco_graph *graph = map->graph;
    bool add;
    const uint32_t x = onnx_in(map, 0), updates = onnx_in(map, 2);
    uint32_t indices = onnx_in(map, 1), flat = PCO_NONE;
    const pco_tensor data = *onnx_desc(map, x), shape = *onnx_desc(map, indices);
    const int64_t axis = onnx_axis(map, onnx_int(map, "axis", 0), data.rank), all = pco_tensor_elements(&data);
    const int64_t count = pco_tensor_elements(&shape);
    int64_t stride = 1;
    if (!onnx_indices_reduction(map, &add)) return PCO_NONE;
    if (shape.rank != data.rank || all > INT32_MAX)
        return onnx_skip(map, "%s of other dimensions than it can have", map->node->op);
    indices = onnx_wrapped(map, indices, data.shape[axis]);
    for (uint32_t d = data.rank; d-- > 0; stride *= data.shape[d]) {
        int64_t line[PCO_MAX_RANK];
        for (uint32_t k = 0; k < data.rank; k++) line[k] = k == d ? shape.shape[k] : 1;
        const uint32_t part = (int64_t)d == axis ? pco_binary_scalar(graph, PCO_OP_MUL, indices, (double)stride)
                                                 : pco_iota(graph, PCO_I32, d, 0, (double)stride, data.rank, line);
        flat = flat == PCO_NONE ? part : pco_binary(graph, PCO_OP_ADD, flat, part);
    }
    const uint32_t y =
        onnx_indices_written(map, pco_reshape(graph, x, 2, (int64_t[]){all, 1}), pco_reshape(graph, flat, 1, &count),
                             pco_reshape(graph, updates, 2, (int64_t[]){count, 1}), add);
    return pco_reshape(graph, y, data.rank, data.shape);
}

/* on at the index along a new axis, off elsewhere: `values` are off and on. */
static uint32_t onnx_indices_one_hot(pco_onnx_map *map)
{
    pco_graph *graph = map->graph;
    uint32_t indices = onnx_in(map, 0);
    const uint32_t values = onnx_in(map, 2);
    pco_tensor desc = *onnx_desc(map, indices);
    const double depth = onnx_host_scalar(map, 1, 0);
    const int64_t axis = onnx_axis(map, onnx_int(map, "axis", -1), desc.rank + 1);
    int64_t shape[PCO_MAX_RANK];
    if (map->skip[0]) return PCO_NONE;
    if (!(depth >= 1 && depth <= 0x1p24) || desc.rank == PCO_MAX_RANK)
        return onnx_skip(map, "OneHot of a depth that is none, or too many dimensions");
    if (desc.dtype != PCO_I32) indices = pco_cast(graph, indices, PCO_I32);
    indices = onnx_wrapped(map, indices, (int64_t)depth);
    for (uint32_t d = 0; d <= desc.rank; d++)
        shape[d] = (int64_t)d == axis ? 1 : desc.shape[(int64_t)d < axis ? d : d - 1];
    indices = pco_reshape(graph, indices, desc.rank + 1, shape);
    for (uint32_t d = 0; d <= desc.rank; d++) shape[d] = (int64_t)d == axis ? (int64_t)depth : 1;
    const uint32_t places = pco_iota(graph, PCO_I32, (uint32_t)axis, 0, 1, desc.rank + 1, shape);
    map->type[0] = onnx_type(map, 2);
    return pco_where(graph, pco_binary(graph, PCO_OP_EQ, indices, places), pco_slice_axis(graph, values, 0, 1, 1),
                     pco_slice_axis(graph, values, 0, 0, 1));
}

const onnx_rule ONNX_INDICES[] = {
    {"Gather", onnx_indices_gather, 0, 0},
    {"GatherElements", onnx_indices_gather_elements, 0, 0},
    {"GatherND", onnx_indices_gather_nd, 0, 0},
    {"ScatterND", onnx_indices_scatter_nd, 0, 0},
    {"ScatterElements", onnx_indices_scatter_elements, 0, 0},
    {"OneHot", onnx_indices_one_hot, 0, 0},
    {0},
};
