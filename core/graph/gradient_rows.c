/* Rules of ops over rows: softmax and its family, norms, rotary positions, cross-entropy. */
#include "graph/gradient.h"

#include <math.h>

#define ATTRS(name) const pco_##name##_attrs *attrs = g->node.attrs
#define BIN(op, a, b)  pco_binary(g->graph, PCO_OP_##op, a, b)
#define BINS(op, a, v) pco_binary_scalar(g->graph, PCO_OP_##op, a, v)
#define UN(op, a)      pco_unary(g->graph, PCO_OP_##op, a)
#define SUM(x, axis)   pco_reduce(g->graph, PCO_OP_SUM, x, axis, 1)

PCO_GRADIENT(softmax)
{
    ATTRS(softmax);
    uint32_t y = gradient_out(g, 0), dy = gradient_upstream(g, 0);
    gradient_give(g, 0, BIN(MUL, y, BIN(SUB, dy, SUM(BIN(MUL, dy, y), attrs->axis))));
}

PCO_GRADIENT(log_softmax)
{
    ATTRS(log_softmax);
    uint32_t y = gradient_out(g, 0), dy = gradient_upstream(g, 0);
    gradient_give(g, 0, BIN(SUB, dy, BIN(MUL, UN(EXP, y), SUM(dy, attrs->axis))));
}

/* exp(x - y), 0 where x is -inf: there y may be -inf too. */
PCO_GRADIENT(logsumexp)
{
    ATTRS(logsumexp);
    pco_tensor in = gradient_tensor(g->graph, g->node.inputs[0]);
    in.shape[attrs->axis < 0 ? attrs->axis + in.rank : attrs->axis] = 1;
    uint32_t x = gradient_in(g, 0), y = pco_reshape(g->graph, gradient_out(g, 0), in.rank, in.shape);
    uint32_t dy = pco_reshape(g->graph, gradient_upstream(g, 0), in.rank, in.shape);
    uint32_t none = BIN(EQ, x, pco_scalar(g->graph, PCO_F32, -INFINITY));
    uint32_t zero = pco_scalar(g->graph, PCO_F32, 0);
    gradient_give(g, 0, pco_where(g->graph, none, zero, BIN(MUL, dy, UN(EXP, BIN(SUB, x, y)))));
}

/* The gradient of weight and bias of a norm, from dy and the normalised rows, and dy * weight. */
static uint32_t rows_affine(pco_gradient *g, uint32_t dy, uint32_t normal)
{
    if (g->wanted[2]) gradient_give(g, 2, dy);
    if (g->wanted[1]) gradient_give(g, 1, BIN(MUL, dy, normal));
    return gradient_operand(g, 1) == PCO_NONE ? dy : BIN(MUL, dy, gradient_in(g, 1));
}

/* With c = x - mean, deviation D, n = c / D, m = N - correction and u = dy * weight:
 *   dx = (u - mean u) / D - n * sum(u n) / (m D)          form 0, D = sqrt(var + eps)
 *   dx = (u - mean u) / D - n * sum(u n) / (m sqrt(var))  form 1, D = sqrt(var) + eps; the second term is 0 at var 0
 * (Ba et al. 2016, differentiated; mean n = 0 whatever the form). */
PCO_GRADIENT(layer_norm)
{
    ATTRS(layer_norm);
    if (g->upstream[1] != PCO_NONE || g->upstream[2] != PCO_NONE) { /* somebody reads the statistics */
        gradient_decomposed(g);
        return;
    }
    pco_tensor in = gradient_tensor(g->graph, g->node.inputs[0]);
    double count = (double)(in.rank ? in.shape[in.rank - 1] - attrs->correction : 1);
    uint32_t x = gradient_in(g, 0), dy = gradient_upstream(g, 0);
    uint32_t centred = BIN(SUB, x, pco_reduce(g->graph, PCO_OP_MEAN, x, -1, 1));
    uint32_t variance = BINS(DIV, SUM(BIN(MUL, centred, centred), -1), count), root, deviation;
    root = attrs->form ? UN(SQRT, variance) : UN(SQRT, BINS(ADD, variance, attrs->eps));
    deviation = attrs->form ? BINS(ADD, root, attrs->eps) : root;
    uint32_t normal = BIN(DIV, centred, deviation), u = rows_affine(g, dy, normal);
    if (!g->wanted[0]) return;
    uint32_t share = BIN(DIV, BINS(DIV, SUM(BIN(MUL, u, normal), -1), count), root);
    if (attrs->form)
        share = pco_where(g->graph, BINS(EQ, root, 0), pco_scalar(g->graph, PCO_F32, 0), share);
    uint32_t rest = BIN(DIV, BIN(SUB, u, pco_reduce(g->graph, PCO_OP_MEAN, u, -1, 1)), deviation);
    gradient_give(g, 0, BIN(SUB, rest, BIN(MUL, normal, share)));
}

/* With D = sqrt(mean x^2 + eps), n = x / D and u = dy * weight: dx = (u - n * mean(u n)) / D
 * (Zhang & Sennrich 2019, differentiated). */
PCO_GRADIENT(rms_norm)
{
    ATTRS(rms_norm);
    if (g->upstream[1] != PCO_NONE) {
        gradient_decomposed(g);
        return;
    }
    uint32_t x = gradient_in(g, 0), dy = gradient_upstream(g, 0);
    uint32_t square = pco_reduce(g->graph, PCO_OP_MEAN, BIN(MUL, x, x), -1, 1);
    uint32_t root = UN(SQRT, BINS(ADD, square, attrs->eps)), normal = BIN(DIV, x, root);
    uint32_t u = rows_affine(g, dy, normal);
    if (!g->wanted[0]) return;
    uint32_t along = pco_reduce(g->graph, PCO_OP_MEAN, BIN(MUL, u, normal), -1, 1);
    gradient_give(g, 0, BIN(DIV, BIN(SUB, u, BIN(MUL, normal, along)), root));
}

/* A rotation (times scale): its adjoint turns back. */
PCO_GRADIENT(rope)
{
    pco_rope_attrs back = *(const pco_rope_attrs *)g->node.attrs;
    back.inverse = !back.inverse;
    uint32_t inputs[3] = {g->upstream[0], g->node.inputs[1], g->node.inputs[2]};
    g->result[0] = pco_graph_add(g->graph, PCO_OP_ROPE, &back, inputs, 3, NULL);
}

PCO_GRADIENT(cross_entropy)
{
    ATTRS(cross_entropy);
    pco_cross_entropy_backward_attrs back = {.ignore_index = attrs->ignore_index,
                                             .label_smoothing = attrs->label_smoothing};
    uint32_t inputs[3] = {g->node.inputs[0], g->node.inputs[1], g->upstream[0]};
    g->result[0] = pco_graph_add(g->graph, PCO_OP_CROSS_ENTROPY_BACKWARD, &back, inputs, 3, NULL);
}
