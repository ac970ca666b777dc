/* Ops of ONNX that move data. Shapes, axes and the like are read on the host; values go through the device.
 */
#include "onnx/onnx_map.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_PARTS = ONNX_MAX_OPERANDS };

uint32_t onnx_wrapped(onnx_map *map, uint32_t indices, int64_t n)
{
    uint32_t negative = pco_binary_scalar(map->graph, PCO_OP_LT, indices, 0.0);
    return pco_where(map->graph, negative, pco_binary_scalar(map->graph, PCO_OP_ADD, indices, (double)n), indices);
}

static void onnx_shapes_transpose(onnx_map *map)
{
    uint32_t x = onnx_in(map, 0), rank = onnx_desc(map, x)->rank;
    int64_t dims[PCO_MAX_RANK];
    if (onnx_ints(map->test, "perm", dims, PCO_MAX_RANK) < 0)
        for (uint32_t i = 0; i < rank; i++) dims[i] = rank - 1 - i;
    map->out[0] = pco_permute(map->graph, x, dims);
}

static void onnx_shapes_reshape(onnx_map *map)
{
    uint32_t x = onnx_in(map, 0);
    int64_t shape[PCO_MAX_RANK], n = onnx_host(map, 1, shape, PCO_MAX_RANK);
    bool allow_zero = onnx_int(map->test, "allowzero", 0) != 0;
    for (int64_t i = 0; i < n; i++)
        if (shape[i] == 0 && !allow_zero) shape[i] = onnx_desc(map, x)->shape[i];
    map->out[0] = pco_reshape(map->graph, x, (uint32_t)n, shape);
}

/* Both are reshapes to the expected rank: dimensions of size 1 come or go. */
static void onnx_shapes_squeeze(onnx_map *map, bool add)
{
    uint32_t x = onnx_in(map, 0);
    const pco_tensor *desc = onnx_desc(map, x);
    int64_t axes[PCO_MAX_RANK], n = onnx_host(map, 1, axes, PCO_MAX_RANK), shape[PCO_MAX_RANK] = {0};
    uint32_t rank = desc->rank + (add && n > 0 ? (uint32_t)n : 0), mask = 0, to = 0, from = 0;
    for (int64_t i = 0; i < n; i++) mask |= 1u << onnx_axis(axes[i], rank);
    for (uint32_t i = 0; i < rank; i++) {
        bool named = mask >> i & 1;
        if (add) {
            shape[to++] = named ? 1 : desc->shape[from++];
        } else if (!named && !(n <= 0 && desc->shape[i] == 1)) {
            shape[to++] = desc->shape[i];
        }
    }
    map->out[0] = pco_reshape(map->graph, x, to, shape);
}

static void onnx_shapes_expand(onnx_map *map)
{
    uint32_t x = onnx_in(map, 0);
    const pco_tensor *desc = onnx_desc(map, x);
    int64_t wanted[PCO_MAX_RANK], shape[PCO_MAX_RANK], n = onnx_host(map, 1, wanted, PCO_MAX_RANK);
    uint32_t rank = desc->rank > (uint32_t)n ? desc->rank : (uint32_t)n;
    for (uint32_t i = 0; i < rank; i++) {
        int64_t have = i < desc->rank ? desc->shape[desc->rank - 1 - i] : 1;
        int64_t want = i < (uint32_t)n ? wanted[n - 1 - i] : 1;
        shape[rank - 1 - i] = want == 1 ? have : want;
    }
    map->out[0] = pco_broadcast_to(map->graph, x, rank, shape);
}

static void onnx_shapes_concat(onnx_map *map)
{
    uint32_t parts[MAX_PARTS];
    for (uint32_t i = 0; i < map->test->n_inputs; i++) parts[i] = onnx_in(map, i);
    map->out[0] = pco_concat(map->graph, parts, map->test->n_inputs, onnx_int(map->test, "axis", 0));
}

/* Sizes from the second input, or equal parts, the last one smaller. */
static void onnx_shapes_split(onnx_map *map)
{
    uint32_t x = onnx_in(map, 0), parts = map->test->n_outputs;
    const pco_tensor *desc = onnx_desc(map, x);
    int64_t axis = onnx_axis(onnx_int(map->test, "axis", 0), desc->rank), sizes[MAX_PARTS], start = 0;
    int64_t length = desc->shape[axis], each = (length + parts - 1) / parts;
    if (onnx_int(map->test, "num_outputs", parts) != parts) {
        onnx_skip(map, "Split with another number of outputs than it says");
        return;
    }
    if (onnx_host(map, 1, sizes, MAX_PARTS) < 0)
        for (uint32_t i = 0; i < parts; i++) sizes[i] = i + 1 < parts ? each : length - each * (parts - 1);
    for (uint32_t i = 0; i < parts; i++) {
        map->out[i] = pco_slice_axis(map->graph, x, axis, start, sizes[i]);
        start += sizes[i];
    }
}

static int64_t onnx_shapes_clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

static void onnx_shapes_slice(onnx_map *map)
{
    uint32_t x = onnx_in(map, 0);
    const pco_tensor *desc = onnx_desc(map, x);
    int64_t starts[8], ends[8], axes[8], steps[8], n = onnx_host(map, 1, starts, 8);
    pco_slice_attrs attrs = {.n_starts = desc->rank, .n_sizes = desc->rank, .n_steps = desc->rank};
    for (uint32_t d = 0; d < desc->rank; d++) attrs.sizes[d] = desc->shape[d], attrs.steps[d] = 1;
    onnx_host(map, 2, ends, 8);
    if (onnx_host(map, 3, axes, 8) < 0)
        for (int64_t i = 0; i < n; i++) axes[i] = i;
    if (onnx_host(map, 4, steps, 8) < 0)
        for (int64_t i = 0; i < n; i++) steps[i] = 1;
    for (int64_t i = 0; i < n; i++) {
        int64_t axis = onnx_axis(axes[i], desc->rank), length = desc->shape[axis];
        if (steps[i] < 1) {
            onnx_skip(map, "a negative step");
            return;
        }
        int64_t start = onnx_shapes_clamp(starts[i] < 0 ? starts[i] + length : starts[i], 0, length);
        int64_t end = onnx_shapes_clamp(ends[i] < 0 ? ends[i] + length : ends[i], start, length);
        attrs.starts[axis] = start, attrs.steps[axis] = steps[i];
        attrs.sizes[axis] = (end - start + steps[i] - 1) / steps[i];
    }
    map->out[0] = pco_graph_add(map->graph, PCO_OP_SLICE, &attrs, &x, 1, NULL);
}

static void onnx_shapes_gather(onnx_map *map)
{
    uint32_t x = onnx_in(map, 0), indices = onnx_in(map, 1);
    int64_t axis = onnx_axis(onnx_int(map->test, "axis", 0), onnx_desc(map, x)->rank);
    indices = onnx_wrapped(map, indices, onnx_desc(map, x)->shape[axis]);
    map->out[0] = pco_gather(map->graph, x, indices, axis);
}

/* x is cut to the indices' shape outside the axis. */
static void onnx_shapes_gather_elements(onnx_map *map)
{
    uint32_t x = onnx_in(map, 0), indices = onnx_in(map, 1);
    pco_tensor shape = *onnx_desc(map, indices);
    int64_t axis = onnx_axis(onnx_int(map->test, "axis", 0), onnx_desc(map, x)->rank);
    indices = onnx_wrapped(map, indices, onnx_desc(map, x)->shape[axis]);
    for (int64_t d = 0; d < (int64_t)shape.rank; d++)
        if (d != axis && onnx_desc(map, x)->shape[d] != shape.shape[d])
            x = pco_slice_axis(map->graph, x, d, 0, shape.shape[d]);
    pco_gather_along_axis_attrs attrs = {.axis = axis};
    map->out[0] = pco_graph_add(map->graph, PCO_OP_GATHER_ALONG_AXIS, &attrs, (uint32_t[]){x, indices}, 2, NULL);
}

/* Index tuples become one index into rows of a matrix; leading batch dimensions count as a first index. */
static void onnx_shapes_gather_nd(onnx_map *map)
{
    pco_graph *graph = map->graph;
    uint32_t x = onnx_in(map, 0), indices = onnx_in(map, 1);
    pco_tensor data = *onnx_desc(map, x), tuple = *onnx_desc(map, indices);
    int64_t batch = onnx_int(map->test, "batch_dims", 0), depth = tuple.shape[tuple.rank - 1], rows = 1, inner = 1;
    if (batch > 1) {
        onnx_skip(map, "GatherND with several batch dimensions");
        return;
    }
    for (uint32_t d = 0; d < data.rank; d++) *((int64_t)d < batch + depth ? &rows : &inner) *= data.shape[d];
    uint32_t linear = PCO_NONE;
    for (int64_t k = 0; k < depth; k++) {
        uint32_t one = onnx_wrapped(map, pco_slice_axis(graph, indices, -1, k, 1), data.shape[batch + k]);
        if (linear != PCO_NONE) {
            linear = pco_binary_scalar(graph, PCO_OP_MUL, linear, (double)data.shape[batch + k]);
            one = pco_binary(graph, PCO_OP_ADD, linear, one);
        }
        linear = one;
    }
    if (batch) {
        double step = (double)rows / (double)data.shape[0];
        uint32_t first = pco_iota(graph, PCO_I32, 0, 0.0, step, 2, (int64_t[]){data.shape[0], 1});
        linear = pco_reshape(graph, linear, 2, (int64_t[]){data.shape[0], -1});
        linear = pco_binary(graph, PCO_OP_ADD, linear, first);
    }
    uint32_t flat = pco_reshape(graph, linear, 1, (int64_t[]){-1});
    uint32_t y = pco_gather(graph, pco_reshape(graph, x, 2, (int64_t[]){rows, inner}), flat, 0);
    const onnx_tensor *expected = &map->test->outputs[0];
    map->out[0] = pco_reshape(graph, y, expected->rank, expected->shape);
}

static uint32_t onnx_shapes_constant(onnx_map *map, pco_dtype dtype, int64_t rows, int64_t columns, const void *data)
{
    return pco_graph_constant_copy(map->graph, "constant", dtype, 2, (int64_t[]){rows, columns}, data);
}

static void onnx_shapes_trilu(onnx_map *map)
{
    uint32_t x = onnx_in(map, 0);
    const pco_tensor *desc = onnx_desc(map, x);
    if (desc->rank < 2) return;
    int64_t rows = desc->shape[desc->rank - 2], columns = desc->shape[desc->rank - 1], k = 0;
    bool upper = onnx_int(map->test, "upper", 1) != 0;
    onnx_host(map, 1, &k, 1);
    uint8_t *mask = calloc((size_t)(rows * columns) + 1, 1);
    if (!mask) return;
    for (int64_t i = 0; i < rows * columns; i++) {
        int64_t above = i % columns - i / columns;
        mask[i] = upper ? above >= k : above <= k;
    }
    uint32_t keep = onnx_shapes_constant(map, PCO_BOOL, rows, columns, mask);
    free(mask);
    uint32_t zero = pco_scalar(map->graph, (pco_dtype)onnx_desc(map, x)->dtype, 0.0);
    map->out[0] = pco_where(map->graph, keep, x, zero);
}

static void onnx_shapes_cumsum(onnx_map *map)
{
    uint32_t x = onnx_in(map, 0);
    pco_cumsum_attrs attrs = {.exclusive = onnx_int(map->test, "exclusive", 0),
                              .reverse = onnx_int(map->test, "reverse", 0)};
    onnx_host(map, 1, &attrs.axis, 1);
    map->out[0] = pco_graph_add(map->graph, PCO_OP_CUMSUM, &attrs, &x, 1, NULL);
}

/* `sorted` 0 allows any order, and so this one. */
static void onnx_shapes_top_k(onnx_map *map)
{
    uint32_t x = onnx_in(map, 0), out[PCO_MAX_OUTPUTS];
    pco_top_k_attrs attrs = {.axis = onnx_int(map->test, "axis", -1), .largest = onnx_int(map->test, "largest", 1)};
    onnx_int(map->test, "sorted", 1);
    onnx_host(map, 1, &attrs.k, 1);
    map->out[0] = pco_graph_add(map->graph, PCO_OP_TOP_K, &attrs, &x, 1, out);
    map->out[1] = out[1];
}

/* The cache is a state, first filled with the past. Where it is circular, what falls off its end is written a
 * second time, a whole length further in front; what then lies outside is dropped. */
static void onnx_shapes_tensor_scatter(onnx_map *map)
{
    pco_graph *graph = map->graph;
    char mode[16];
    uint32_t past = onnx_in(map, 0), update = onnx_in(map, 1), indices = onnx_in(map, 2);
    pco_tensor shape = *onnx_desc(map, past);
    int64_t axis = onnx_axis(onnx_int(map->test, "axis", -2), shape.rank), zero[1] = {1};
    onnx_text(map->test, "mode", "linear", mode, sizeof mode);
    if (strcmp(mode, "linear") != 0 && strcmp(mode, "circular") != 0) {
        onnx_skip(map, "TensorScatter in an unknown mode");
        return;
    }
    if (axis == 0) {
        onnx_skip(map, "TensorScatter along the batch");
        return;
    }
    uint32_t state =
        pco_graph_state(graph, map->test->node->output[0], (pco_dtype)shape.dtype, shape.rank, shape.shape);
    uint32_t origin = pco_fill(graph, PCO_I32, 0.0, 1, zero);
    if (indices == PCO_NONE) indices = origin;
    state = pco_state_write(graph, state, past, origin, axis);
    state = pco_state_write(graph, state, update, indices, axis);
    if (strcmp(mode, "circular") == 0) {
        uint32_t wrapped = pco_binary_scalar(graph, PCO_OP_SUB, indices, (double)shape.shape[axis]);
        state = pco_state_write(graph, state, update, wrapped, axis);
    }
    map->out[0] = state;
}

void onnx_map_shapes(onnx_map *map)
{
    if (onnx_is(map, "Transpose")) onnx_shapes_transpose(map);
    if (onnx_is(map, "Reshape")) onnx_shapes_reshape(map);
    if (onnx_is(map, "Squeeze")) onnx_shapes_squeeze(map, false);
    if (onnx_is(map, "Unsqueeze")) onnx_shapes_squeeze(map, true);
    if (onnx_is(map, "Expand")) onnx_shapes_expand(map);
    if (onnx_is(map, "Concat")) onnx_shapes_concat(map);
    if (onnx_is(map, "Split")) onnx_shapes_split(map);
    if (onnx_is(map, "Slice")) onnx_shapes_slice(map);
    if (onnx_is(map, "Gather")) onnx_shapes_gather(map);
    if (onnx_is(map, "GatherElements")) onnx_shapes_gather_elements(map);
    if (onnx_is(map, "GatherND")) onnx_shapes_gather_nd(map);
    if (onnx_is(map, "Trilu")) onnx_shapes_trilu(map);
    if (onnx_is(map, "CumSum")) onnx_shapes_cumsum(map);
    if (onnx_is(map, "TopK")) onnx_shapes_top_k(map);
    if (onnx_is(map, "TensorScatter")) onnx_shapes_tensor_scatter(map);
}
