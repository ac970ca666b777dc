/* Norms and gates from primitives, and all patterns in turn. */
#include "models/onnx/merge.h"
#include "models/onnx/merge_internal.h"

#include <string.h>

/* A vector of the size of y's last dimension, which scales or shifts its rows. */
static bool merge_row(const pco_graph *graph, uint32_t x, uint32_t y)
{
    const pco_tensor *row = &graph->tensors[x], *rows = &graph->tensors[y];
    return row->rank == 1 && rows->rank > 0 && row->dtype == PCO_F32 && row->shape[0] == rows->shape[rows->rank - 1];
}

/* ---- norms ---- */

/* sqrt(mean(z^2) + eps): z, or PCO_NONE. */
static uint32_t merge_deviation(const pco_graph *graph, uint32_t x, double *eps)
{
    const pco_node *root = merge_made(graph, x, PCO_OP_SQRT);
    const uint32_t variance = root ? merge_with_scalar(graph, root->inputs[0], PCO_OP_ADD, eps) : PCO_NONE;
    const uint32_t squares = variance == PCO_NONE ? PCO_NONE : merge_mean(graph, variance);
    return squares == PCO_NONE || !(*eps >= 0) ? PCO_NONE : merge_squared(graph, squares);
}

/* x - mean(x): x, or PCO_NONE. */
static uint32_t merge_centred(const pco_graph *graph, uint32_t x)
{
    const pco_node *node = merge_made(graph, x, PCO_OP_SUB);
    return node && merge_mean(graph, node->inputs[1]) == node->inputs[0] ? node->inputs[0] : PCO_NONE;
}

/* Two differences of the same operands are one value. */
static bool merge_same(const pco_graph *graph, uint32_t a, uint32_t b)
{
    const pco_node *x = merge_made(graph, a, PCO_OP_SUB), *y = merge_made(graph, b, PCO_OP_SUB);
    return a == b || (x && y && merge_centred(graph, a) != PCO_NONE && x->inputs[0] == y->inputs[0] &&
                      merge_centred(graph, b) != PCO_NONE);
}

/* z over its deviation: a layer norm where z is centred, an RMS norm elsewhere. */
static uint32_t merge_norm(pco_graph *graph, uint32_t z, uint32_t deviation)
{
    double eps;
    const uint32_t of = merge_deviation(graph, deviation, &eps);
    if (of == PCO_NONE || !merge_same(graph, of, z)) return PCO_NONE;
    const uint32_t x = merge_centred(graph, z);
    const pco_layer_norm_attrs layer = {.eps = eps};
    const pco_rms_norm_attrs rms = {.eps = eps};
    return x != PCO_NONE ? pco_graph_add(graph, PCO_OP_LAYER_NORM, &layer, &x, 1, NULL)
                         : pco_graph_add(graph, PCO_OP_RMS_NORM, &rms, &z, 1, NULL);
}

static uint32_t merge_div(pco_graph *graph, uint32_t y)
{
    const pco_node *node = merge_made(graph, y, PCO_OP_DIV);
    return node ? merge_norm(graph, node->inputs[0], node->inputs[1]) : PCO_NONE;
}

/* z times one over its deviation, as a reciprocal, a quotient or a reciprocal root. */
static uint32_t merge_mul_norm(pco_graph *graph, uint32_t z, uint32_t factor)
{
    const pco_node *turned = merge_made(graph, factor, PCO_OP_RECIPROCAL),
                   *quotient = merge_made(graph, factor, PCO_OP_DIV);
    if (turned) return merge_norm(graph, z, turned->inputs[0]);
    return quotient && merge_is(graph, quotient->inputs[0], 1) ? merge_norm(graph, z, quotient->inputs[1]) : PCO_NONE;
}

/* A norm without weights that is scaled by a vector. */
static uint32_t merge_mul_weight(pco_graph *graph, uint32_t norm, uint32_t weight)
{
    const pco_node *layer = merge_made(graph, norm, PCO_OP_LAYER_NORM), *rms = merge_made(graph, norm, PCO_OP_RMS_NORM);
    const pco_node *node = layer ? layer : rms;
    if (!node || !merge_row(graph, weight, norm) || node->n_inputs > 1) return PCO_NONE;
    const uint32_t in[2] = {node->inputs[0], weight};
    return pco_graph_add(graph, (pco_op)node->op, node->attrs, in, 2, NULL);
}

/* A layer norm with weights, and none yet of what is added. */
static uint32_t merge_add_bias(pco_graph *graph, uint32_t norm, uint32_t bias)
{
    const pco_node *node = merge_made(graph, norm, PCO_OP_LAYER_NORM);
    if (!node || !merge_row(graph, bias, norm) || node->n_inputs != 2) return PCO_NONE;
    const uint32_t in[3] = {node->inputs[0], node->inputs[1], bias};
    return pco_graph_add(graph, PCO_OP_LAYER_NORM, node->attrs, in, 3, NULL);
}

/* ---- activations ---- */

static uint32_t merge_mul_silu(pco_graph *graph, uint32_t x, uint32_t factor)
{
    const pco_node *gate = merge_made(graph, factor, PCO_OP_SIGMOID);
    return gate && gate->inputs[0] == x ? pco_unary(graph, PCO_OP_SILU, x) : PCO_NONE;
}

static uint32_t merge_mul_swiglu(pco_graph *graph, uint32_t activated, uint32_t up)
{
    const pco_node *silu = merge_made(graph, activated, PCO_OP_SILU);
    const pco_tensor *a = &graph->tensors[activated], *b = &graph->tensors[up];
    if (!silu || a->rank != b->rank || !a->rank || memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) != 0)
        return PCO_NONE;
    return pco_graph_add(graph, PCO_OP_SWIGLU, NULL, (uint32_t[]){silu->inputs[0], up}, 2, NULL);
}

/* ---- all ---- */

static uint32_t merge_permute(pco_graph *graph, uint32_t y)
{
    int64_t dims[PCO_MAX_RANK];
    const pco_node *node = merge_made(graph, y, PCO_OP_PERMUTE);
    if (!node) return PCO_NONE;
    const uint32_t x = merge_unpermuted(graph, y, dims);
    bool none = true;
    for (uint32_t d = 0; d < graph->tensors[y].rank; d++) none &= dims[d] == d;
    if (none) return x;
    return x == node->inputs[0] ? PCO_NONE : pco_permute(graph, x, dims);
}

/* To the shape that it has: nothing. [B,H,T,D] as [BH,T,D], whose last two dimensions change places, as [B,H,D,T]: one
 * permutation. */
static uint32_t merge_reshape(pco_graph *graph, uint32_t y)
{
    const pco_node *back = merge_made(graph, y, PCO_OP_RESHAPE);
    const pco_tensor *was = &graph->tensors[back->inputs[0]], *is = &graph->tensors[y];
    if (was->rank == is->rank && memcmp(was->shape, is->shape, was->rank * sizeof *was->shape) == 0)
        return back->inputs[0];
    const pco_node *swap = merge_made(graph, back->inputs[0], PCO_OP_PERMUTE);
    const pco_node *flat = swap ? merge_made(graph, swap->inputs[0], PCO_OP_RESHAPE) : NULL;
    const pco_permute_attrs *attrs = swap ? swap->attrs : NULL;
    if (!flat || attrs->n_dims != 3 || attrs->dims[0] != 0 || attrs->dims[1] != 2) return PCO_NONE;
    const pco_tensor *to = &graph->tensors[y], *from = &graph->tensors[flat->inputs[0]];
    if (to->rank != 4 || from->rank != 4 || to->shape[0] != from->shape[0] || to->shape[1] != from->shape[1] ||
        to->shape[2] != from->shape[3] || to->shape[3] != from->shape[2])
        return PCO_NONE;
    if (graph->tensors[swap->inputs[0]].shape[1] != from->shape[2]) return PCO_NONE;
    int64_t dims[PCO_MAX_RANK];
    const uint32_t x = merge_unpermuted(graph, flat->inputs[0], dims);
    return pco_permute(graph, x, (int64_t[]){dims[0], dims[1], dims[3], dims[2]});
}

uint32_t pco_onnx_merge(pco_graph *graph, uint32_t y)
{
    static uint32_t (*const EITHER[])(pco_graph *, uint32_t, uint32_t) = {merge_mul_norm, merge_mul_weight,
                                                                          merge_mul_silu, merge_mul_swiglu};
    if (graph->status || y == PCO_NONE || graph->producers[y] == PCO_NONE) return y;
    const pco_node node = graph->nodes[graph->producers[y]]; /* a copy: appending moves nodes */
    uint32_t merged = node.op == PCO_OP_PERMUTE ? merge_permute(graph, y) : PCO_NONE;
    if (node.op == PCO_OP_RESHAPE) merged = merge_reshape(graph, y);
    const bool floats = graph->tensors[y].dtype == PCO_F32;
    if (floats && node.op == PCO_OP_DIV) merged = merge_div(graph, y);
    if (floats && node.op == PCO_OP_MATMUL) merged = merge_attention(graph, y);
    if (floats && node.op == PCO_OP_MUL) merged = merge_gelu(graph, y);
    if (floats && node.op == PCO_OP_ADD) merged = merge_rotary(graph, y);
    for (int side = 0; side < 2 && floats; side++) {
        const uint32_t a = node.inputs[side], b = node.inputs[1 - side];
        for (size_t i = 0; i < sizeof EITHER / sizeof *EITHER && merged == PCO_NONE && node.op == PCO_OP_MUL; i++)
            merged = EITHER[i](graph, a, b);
        if (merged == PCO_NONE && node.op == PCO_OP_ADD) merged = merge_add_bias(graph, a, b);
    }
    if (merged == PCO_NONE || graph->status) return y;
    const pco_tensor *was = &graph->tensors[y], *is = &graph->tensors[merged];
    const bool same = was->rank == is->rank && memcmp(was->shape, is->shape, was->rank * sizeof *was->shape) == 0;
    return same ? merged : y;
}
