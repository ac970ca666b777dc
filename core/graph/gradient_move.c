/* Rules of ops that move data: each one's adjoint is another of them. */
#include "graph/gradient.h"

#define RULE_GRAPH g->graph
#define RULE_NODE  &g->node
#include "graph/rules.h"

#include <string.h>

PCO_GRADIENT(broadcast_to) { gradient_give(g, 0, gradient_upstream(g, 0)); }

PCO_GRADIENT(reshape)
{
    pco_tensor x = gradient_tensor(g->graph, g->node.inputs[0]);
    g->result[0] = pco_reshape(g->graph, g->upstream[0], x.rank, x.shape);
}

PCO_GRADIENT(permute)
{
    ATTRS(permute);
    int64_t back[PCO_MAX_RANK] = {0};
    for (int64_t i = 0; i < attrs->n_dims; i++) back[attrs->dims[i]] = i;
    g->result[0] = pco_permute(g->graph, g->upstream[0], back);
}

static uint32_t move_pad(pco_graph *graph, uint32_t x, const int64_t *before, const int64_t *after)
{
    pco_tensor tensor = gradient_tensor(graph, x);
    pco_pad_attrs attrs = {.n_before = tensor.rank, .n_after = tensor.rank};
    memcpy(attrs.before, before, tensor.rank * sizeof *before);
    memcpy(attrs.after, after, tensor.rank * sizeof *after);
    return pco_graph_add(graph, PCO_OP_PAD, &attrs, &x, 1, NULL);
}

/* x with step - 1 zeros between neighbours of one axis: (n - 1) * step + 1 of them. */
static uint32_t move_spread(pco_graph *graph, uint32_t x, uint32_t axis, int64_t step)
{
    pco_tensor tensor = gradient_tensor(graph, x);
    int64_t outer = 1, inner = 1, n = tensor.shape[axis];
    for (uint32_t i = 0; i < axis; i++) outer *= tensor.shape[i];
    for (uint32_t i = axis + 1; i < tensor.rank; i++) inner *= tensor.shape[i];
    x = pco_reshape(graph, x, 4, SHAPE(outer, n, 1, inner));
    x = move_pad(graph, x, SHAPE(0, 0, 0, 0), SHAPE(0, 0, step - 1, 0));
    x = pco_reshape(graph, x, 3, SHAPE(outer, n * step, inner));
    x = pco_slice_axis(graph, x, 1, 0, (n - 1) * step + 1);
    tensor.shape[axis] = (n - 1) * step + 1;
    return pco_reshape(graph, x, tensor.rank, tensor.shape);
}

PCO_GRADIENT(slice)
{
    ATTRS(slice);
    pco_tensor x = gradient_tensor(g->graph, g->node.inputs[0]);
    int64_t before[PCO_MAX_RANK], after[PCO_MAX_RANK];
    uint32_t value = g->upstream[0];
    for (uint32_t i = 0; i < x.rank; i++) {
        int64_t taken = attrs->sizes[i];
        if (attrs->steps[i] > 1 && taken > 1) {
            value = move_spread(g->graph, value, i, attrs->steps[i]);
            taken = (taken - 1) * attrs->steps[i] + 1;
        }
        before[i] = taken ? attrs->starts[i] : 0;
        after[i] = x.shape[i] - taken - before[i];
    }
    g->result[0] = move_pad(g->graph, value, before, after);
}

PCO_GRADIENT(concat)
{
    ATTRS(concat);
    int64_t at = 0, axis = attrs->axis;
    for (uint32_t i = 0; i < g->node.n_inputs; i++) {
        if (g->node.inputs[i] == PCO_NONE) continue;
        int64_t size = gradient_tensor(g->graph, g->node.inputs[i]).shape[axis];
        if (g->wanted[i]) g->result[i] = pco_slice_axis(g->graph, g->upstream[0], axis, at, size);
        at += size;
    }
}

PCO_GRADIENT(pad)
{
    ATTRS(pad);
    pco_tensor x = gradient_tensor(g->graph, g->node.inputs[0]);
    pco_slice_attrs slice = {.n_starts = x.rank, .n_sizes = x.rank, .n_steps = x.rank};
    for (uint32_t i = 0; i < x.rank; i++) {
        slice.starts[i] = attrs->before[i];
        slice.sizes[i] = x.shape[i];
        slice.steps[i] = 1;
    }
    g->result[0] = pco_graph_add(g->graph, PCO_OP_SLICE, &slice, g->upstream, 1, NULL);
}

/* Zeros plus the gradient's slices, in the order of the indices: the order is part of scatter_add's promise.
 */
PCO_GRADIENT(gather)
{
    ATTRS(gather);
    pco_tensor x = gradient_tensor(g->graph, g->node.inputs[0]);
    uint32_t zeros = pco_fill(g->graph, (pco_dtype)x.dtype, 0, x.rank, x.shape);
    pco_scatter_add_attrs scatter = {.axis = attrs->axis};
    uint32_t inputs[3] = {zeros, g->node.inputs[1], g->upstream[0]};
    g->result[0] = pco_graph_add(g->graph, PCO_OP_SCATTER_ADD, &scatter, inputs, 3, NULL);
}

/* What was taken along an axis at indices `picks` goes back, each element to its own place in the flat operand: a
 * scatter_add along one axis of all elements, in the order of the flat indices. An index outside becomes -1, which
 * scatter_add skips. */
static void move_back(pco_gradient *g, int64_t axis, uint32_t picks)
{
    pco_graph *graph = g->graph;
    pco_tensor x = gradient_tensor(graph, g->node.inputs[0]), indices = gradient_tensor(graph, picks);
    int64_t outer = 1, inner = 1, size = x.shape[axis];
    for (int64_t i = 0; i < axis; i++) outer *= x.shape[i];
    for (int64_t i = axis + 1; i < (int64_t)x.rank; i++) inner *= x.shape[i];
    int64_t taken = indices.shape[axis], total = outer * size * inner;
    if (total > INT32_MAX) {
        pco_graph_fail(graph, PCO_ERROR_UNSUPPORTED, "gradient of op '%s' (%s): '%s' has more than 2^31 - 1 elements",
                       pco_node_op(&g->node)->name, g->node.name, x.name);
        return;
    }
    uint32_t at = pco_reshape(graph, picks, 3, SHAPE(outer, taken, inner));
    uint32_t low = pco_binary_scalar(graph, PCO_OP_GE, at, 0),
             high = pco_binary_scalar(graph, PCO_OP_LT, at, (double)size);
    uint32_t inside = pco_binary(graph, PCO_OP_LOGICAL_AND, low, high);
    uint32_t block = pco_iota(graph, PCO_I32, 0, 0, (double)(size * inner), 3, SHAPE(outer, 1, 1));
    uint32_t column = pco_iota(graph, PCO_I32, 2, 0, 1, 3, SHAPE(1, 1, inner));
    uint32_t flat = pco_binary_scalar(graph, PCO_OP_MUL, at, (double)inner);
    flat = pco_binary(graph, PCO_OP_ADD, pco_binary(graph, PCO_OP_ADD, flat, block), column);
    flat = pco_where(graph, inside, flat, pco_scalar(graph, PCO_I32, -1));
    flat = pco_reshape(graph, flat, 1, SHAPE(outer * taken * inner));
    uint32_t zeros = pco_fill(graph, (pco_dtype)x.dtype, 0, 1, &total);
    uint32_t updates = pco_reshape(graph, g->upstream[0], 1, SHAPE(outer * taken * inner));
    uint32_t sum = pco_graph_add(graph, PCO_OP_SCATTER_ADD, &(pco_scatter_add_attrs){.axis = 0},
                                 (uint32_t[]){zeros, flat, updates}, 3, NULL);
    g->result[0] = pco_reshape(graph, sum, x.rank, x.shape);
}

PCO_GRADIENT(gather_along_axis)
{
    ATTRS(gather_along_axis);
    move_back(g, attrs->axis, g->node.inputs[1]);
}

PCO_GRADIENT(top_k)
{
    ATTRS(top_k);
    move_back(g, attrs->axis, g->node.outputs[1]);
}

PCO_GRADIENT(scatter_add)
{
    ATTRS(scatter_add);
    if (g->wanted[0]) g->result[0] = g->upstream[0];
    if (g->wanted[2]) g->result[2] = pco_gather(g->graph, g->upstream[0], g->node.inputs[1], attrs->axis);
}
