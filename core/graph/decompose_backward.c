/* Decompositions of the backward ops. */
#include "graph/decompose.h"

#define RULE_GRAPH graph
#define RULE_NODE  node
#include "graph/rules.h"

#define SUM(x)  pco_reduce(graph, PCO_OP_SUM, x, -1, 1)
#define MEAN(x) pco_reduce(graph, PCO_OP_MEAN, x, -1, 1)

PCO_DECOMPOSE(softmax_backward)
{
    ATTRS(softmax_backward);
    pco_dtype dtype = TYPE(INPUT(0));
    uint32_t y = pco_cast(graph, INPUT(0), PCO_F32), dy = pco_cast(graph, INPUT(1), PCO_F32);
    uint32_t along = pco_reduce(graph, PCO_OP_SUM, BIN(MUL, dy, y), attrs->axis, 1);
    out[0] = pco_cast(graph, BIN(MUL, y, BIN(SUB, dy, along)), dtype);
    return pco_graph_check(graph, err);
}

/* gradient * weight in f32 */
static uint32_t backward_weighted(pco_graph *graph, uint32_t gradient, uint32_t weight)
{
    gradient = pco_cast(graph, gradient, PCO_F32);
    return weight == PCO_NONE ? gradient : BIN(MUL, gradient, pco_cast(graph, weight, PCO_F32));
}

PCO_DECOMPOSE(layer_norm_backward)
{
    ATTRS(layer_norm_backward);
    const pco_tensor *in = &graph->tensors[INPUT(0)];
    pco_dtype dtype = (pco_dtype)in->dtype;
    double count = (double)(in->shape[in->rank - 1] - attrs->correction);
    uint32_t x = pco_cast(graph, INPUT(0), PCO_F32), u = backward_weighted(graph, INPUT(1), INPUT(2));
    uint32_t centred = BIN(SUB, x, MEAN(x)), variance = BINS(DIV, SUM(BIN(MUL, centred, centred)), count);
    uint32_t root = attrs->form ? UN(SQRT, variance) : UN(SQRT, BINS(ADD, variance, attrs->eps));
    uint32_t deviation = attrs->form ? BINS(ADD, root, attrs->eps) : root, normal = BIN(DIV, centred, deviation);
    uint32_t share = BIN(DIV, BINS(DIV, SUM(BIN(MUL, u, normal)), count), root);
    if (attrs->form) share = pco_where(graph, BINS(EQ, root, 0), pco_scalar(graph, PCO_F32, 0), share);
    uint32_t rest = BIN(DIV, BIN(SUB, u, MEAN(u)), deviation);
    out[0] = pco_cast(graph, BIN(SUB, rest, BIN(MUL, normal, share)), dtype);
    return pco_graph_check(graph, err);
}

PCO_DECOMPOSE(rms_norm_backward)
{
    ATTRS(rms_norm_backward);
    pco_dtype dtype = TYPE(INPUT(0));
    uint32_t x = pco_cast(graph, INPUT(0), PCO_F32), u = backward_weighted(graph, INPUT(1), INPUT(2));
    uint32_t root = UN(SQRT, BINS(ADD, MEAN(BIN(MUL, x, x)), attrs->eps)), normal = BIN(DIV, x, root);
    uint32_t share = BIN(DIV, MEAN(BIN(MUL, u, normal)), root);
    out[0] = pco_cast(graph, BIN(SUB, BIN(DIV, u, root), BIN(MUL, normal, share)), dtype);
    return pco_graph_check(graph, err);
}

PCO_DECOMPOSE(swiglu_backward)
{
    uint32_t gate = INPUT(0), up = INPUT(1), joined = up == PCO_NONE;
    pco_dtype dtype = TYPE(gate);
    if (joined) {
        int64_t half = graph->tensors[gate].shape[graph->tensors[gate].rank - 1] / 2;
        up = pco_slice_axis(graph, gate, -1, half, half);
        gate = pco_slice_axis(graph, gate, -1, 0, half);
    }
    gate = pco_cast(graph, gate, PCO_F32);
    up = pco_cast(graph, up, PCO_F32);
    uint32_t dy = pco_cast(graph, INPUT(2), PCO_F32), s = UN(SIGMOID, gate);
    uint32_t rest = BIN(SUB, pco_scalar(graph, PCO_F32, 1), s); /* not s - 1: an exact zero where s is 1 */
    uint32_t slope = BIN(MUL, s, BINS(ADD, BIN(MUL, gate, rest), 1));
    uint32_t parts[2] = {BIN(MUL, BIN(MUL, dy, up), slope), BIN(MUL, dy, BIN(MUL, gate, s))};
    if (joined) {
        out[0] = pco_cast(graph, pco_concat(graph, parts, 2, -1), dtype);
    } else {
        out[0] = pco_cast(graph, parts[0], dtype);
        out[1] = pco_cast(graph, parts[1], dtype);
    }
    return pco_graph_check(graph, err);
}
