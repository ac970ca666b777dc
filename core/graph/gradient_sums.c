/* Rules of matmul and the reductions. */
#include "graph/gradient.h"

#define RULE_GRAPH g->graph
#define RULE_NODE  &g->node
#include "base/dtype.h"
#include "graph/rules.h"

#include <string.h>

/* a x b, each transposed or not, as a tensor of type `dtype`. */
static uint32_t sums_product(pco_graph *graph, uint32_t a, int transpose_a, uint32_t b, int transpose_b, uint32_t dtype)
{
    pco_matmul_attrs attrs = {.transpose_a = transpose_a, .transpose_b = transpose_b, .dtype = dtype};
    return pco_graph_add(graph, PCO_OP_MATMUL, &attrs, (uint32_t[]){a, b}, 2, NULL);
}

/* A quantised matrix [N,K] as floats: all its rows are looked up. */
static uint32_t sums_dequantised(pco_graph *graph, uint32_t b, uint32_t dtype)
{
    pco_tensor tensor = gradient_tensor(graph, b);
    if (!pco_dtype_is_quantised(tensor.dtype)) return b;
    uint32_t rows = pco_iota(graph, PCO_I32, 0, 0, 1, 1, tensor.shape);
    pco_gather_attrs attrs = {.axis = 0, .dtype = dtype};
    return pco_graph_add(graph, PCO_OP_GATHER, &attrs, (uint32_t[]){b, rows}, 2, NULL);
}

/* [.., R, C] as [rows, C] with all leading dimensions in rows. */
static uint32_t sums_flat(pco_graph *graph, uint32_t x)
{
    pco_tensor tensor = gradient_tensor(graph, x);
    int64_t columns = tensor.rank ? tensor.shape[tensor.rank - 1] : 1, rows = 1;
    for (uint32_t i = 0; i + 1 < tensor.rank; i++) rows *= tensor.shape[i];
    return tensor.rank == 2 ? x : pco_reshape(graph, x, 2, SHAPE(rows, columns));
}

/* How many matrices a tensor is. */
static int64_t sums_matrices(const pco_tensor *x)
{
    int64_t count = 1;
    for (uint32_t i = 0; i + 2 < x->rank; i++) count *= x->shape[i];
    return count;
}

/* The type in which a product is made that becomes the gradient of x: f32 when it is summed over a batch that
 * x was broadcast over, so that a half type is rounded once, at the end. */
static uint32_t sums_type(const pco_graph *graph, const pco_tensor *x, uint32_t dy)
{
    const pco_tensor y = gradient_tensor(graph, dy);
    return sums_matrices(x) == sums_matrices(&y) ? x->dtype : PCO_F32;
}

/* y = A B with A = a or its transpose: dA = dy B^T, and a gets it transposed if it is. */
static void sums_left(pco_gradient *g, uint32_t dy)
{
    ATTRS(matmul);
    pco_graph *graph = g->graph;
    pco_tensor a = gradient_tensor(graph, g->node.inputs[0]);
    uint32_t b = sums_dequantised(graph, g->node.inputs[1], a.dtype);
    uint32_t dtype = sums_type(graph, &a, dy);
    uint32_t value = attrs->transpose_a ? sums_product(graph, b, attrs->transpose_b != 0, dy, 1, dtype)
                                        : sums_product(graph, dy, 0, b, !attrs->transpose_b, dtype);
    gradient_give(g, 0, value);
}

/* dB = A^T dy. A matrix that all of a batch was multiplied with is one product over all rows, not one product
 * for each member and a sum. */
static void sums_right(pco_gradient *g, uint32_t dy)
{
    ATTRS(matmul);
    pco_graph *graph = g->graph;
    pco_tensor b = gradient_tensor(graph, g->node.inputs[1]);
    uint32_t a = g->node.inputs[0];
    int transposed = attrs->transpose_a != 0, one = 1;
    for (uint32_t i = 0; i + 2 < b.rank; i++) one &= b.shape[i] == 1;
    if (one && !transposed) {
        a = sums_flat(graph, a);
        dy = sums_flat(graph, dy);
    }
    uint32_t dtype = sums_type(graph, &b, dy);
    uint32_t value = attrs->transpose_b ? sums_product(graph, dy, 1, a, transposed, dtype)
                                        : sums_product(graph, a, !transposed, dy, 0, dtype);
    gradient_give(g, 1, value);
}

PCO_GRADIENT(matmul)
{
    uint32_t dy = g->upstream[0];
    if (g->wanted[3]) g->result[3] = dy;
    if (g->wanted[2]) gradient_give(g, 2, pco_cast(g->graph, sums_flat(g->graph, dy), PCO_F32));
    if (g->wanted[1]) sums_right(g, dy);
    if (g->wanted[0]) sums_left(g, dy);
}

/* dy [rows,U,O] at the places of the matrices that were chosen: [rows,matrices O], 0 elsewhere. */
static uint32_t sums_spread(pco_gradient *g, int64_t rows, int64_t each, int64_t outputs, uint32_t dtype)
{
    ATTRS(indexed_matmul);
    pco_graph *graph = g->graph;
    const uint32_t index = pco_reshape(graph, g->node.inputs[2], 3, SHAPE(rows, each, 1));
    const uint32_t number = pco_iota(graph, PCO_I32, 2, 0, 1, 3, SHAPE(1, 1, attrs->matrices));
    const uint32_t chosen = pco_cast(graph, BIN(EQ, index, number), (pco_dtype)dtype); /* [rows,U,matrices] */
    const uint32_t dy = pco_reshape(graph, g->upstream[0], 3, SHAPE(rows, each, outputs));
    return pco_reshape(graph, sums_product(graph, chosen, 1, dy, 0, dtype), 2, SHAPE(rows, attrs->matrices * outputs));
}

/* As if all matrices had been multiplied, and counted 0 where they were not chosen: products of the whole weights, in
 * any type, which have gradients themselves. */
PCO_GRADIENT(indexed_matmul)
{
    ATTRS(indexed_matmul);
    pco_graph *graph = g->graph;
    const pco_tensor x = gradient_tensor(graph, g->node.inputs[0]), w = gradient_tensor(graph, g->node.inputs[1]),
                     indices = gradient_tensor(graph, g->node.inputs[2]);
    const int64_t outputs = w.shape[0] / attrs->matrices;
    int64_t each = x.rank > indices.rank ? 1 : indices.shape[indices.rank - 1], rows = 1; /* indices of a row of x */
    for (uint32_t i = 0; i + 1 < x.rank; i++) rows *= x.shape[i];
    if (rows == 0 || each == 0 || outputs == 0 || w.shape[1] == 0) return; /* nothing was added: all gradients are 0 */
    const uint32_t dy = sums_spread(g, rows, each, outputs, x.dtype);
    if (g->wanted[0]) {
        const uint32_t all = sums_dequantised(graph, g->node.inputs[1], x.dtype);
        g->result[0] = pco_reshape(graph, sums_product(graph, dy, 0, all, 0, x.dtype), x.rank, x.shape);
    }
    if (g->wanted[1]) {
        const uint32_t flat = pco_reshape(graph, g->node.inputs[0], 2, SHAPE(rows, w.shape[1]));
        gradient_give(g, 1, sums_product(graph, dy, 1, flat, 0, PCO_F32));
    }
}

/* x's shape with size 1 where it was reduced, and over how many elements that was. */
static int64_t sums_kept(pco_gradient *g, int64_t *shape)
{
    ATTRS(sum); /* mean and amax have the same struct */
    pco_tensor x = gradient_tensor(g->graph, g->node.inputs[0]);
    int64_t count = 1;
    memcpy(shape, x.shape, sizeof x.shape);
    for (int64_t i = 0; i < attrs->n_axes; i++) {
        int64_t axis = attrs->axes[i];
        count *= shape[axis];
        shape[axis] = 1;
    }
    return count;
}

PCO_GRADIENT(sum)
{
    int64_t kept[PCO_MAX_RANK];
    pco_tensor x = gradient_tensor(g->graph, g->node.inputs[0]);
    sums_kept(g, kept);
    uint32_t dy = pco_reshape(g->graph, g->upstream[0], x.rank, kept);
    g->result[0] = pco_broadcast_to(g->graph, dy, x.rank, x.shape);
}

PCO_GRADIENT(mean)
{
    int64_t kept[PCO_MAX_RANK];
    pco_tensor x = gradient_tensor(g->graph, g->node.inputs[0]);
    int64_t count = sums_kept(g, kept);
    uint32_t dy = pco_reshape(g->graph, gradient_upstream(g, 0), x.rank, kept);
    dy = pco_binary_scalar(g->graph, PCO_OP_DIV, dy, (double)count);
    gradient_give(g, 0, pco_broadcast_to(g->graph, dy, x.rank, x.shape));
}

/* What x[j] was added to: the sums of all i >= j; the other way round for the other direction. */
PCO_GRADIENT(cumsum)
{
    pco_cumsum_attrs back = *(const pco_cumsum_attrs *)g->node.attrs;
    back.reverse = !back.reverse;
    g->result[0] = pco_graph_add(g->graph, PCO_OP_CUMSUM, &back, &g->upstream[0], 1, NULL);
}

/* Shared equally by all elements that are the largest. Where the largest is NaN no element equals it: 0 / 0 makes the
 * whole row NaN, as in PyTorch; a gradient of 0 would hide it. */
PCO_GRADIENT(amax)
{
    ATTRS(amax);
    pco_graph *graph = g->graph;
    int64_t kept[PCO_MAX_RANK];
    pco_tensor x = gradient_tensor(graph, g->node.inputs[0]);
    sums_kept(g, kept);
    uint32_t y = pco_reshape(graph, g->node.outputs[0], x.rank, kept);
    uint32_t top = pco_binary(graph, PCO_OP_EQ, g->node.inputs[0], y);
    pco_sum_attrs sum = {.keepdims = 1, .n_axes = attrs->n_axes};
    memcpy(sum.axes, attrs->axes, sizeof sum.axes);
    uint32_t ones = pco_cast(graph, top, PCO_F32), count = pco_graph_add(graph, PCO_OP_SUM, &sum, &ones, 1, NULL);
    uint32_t dy = pco_reshape(graph, gradient_upstream(g, 0), x.rank, kept);
    gradient_give(g, 0, pco_binary(graph, PCO_OP_DIV, pco_binary(graph, PCO_OP_MUL, ones, dy), count));
}
