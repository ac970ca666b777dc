/* Rules of ops over rows: softmax and its family, norms, rotary positions, cross-entropy. */
#include "graph/gradient.h"

#define RULE_GRAPH g->graph
#define RULE_NODE  &g->node
#include "graph/rules.h"

#include <math.h>

#define SUM(x, axis) pco_reduce(g->graph, PCO_OP_SUM, x, axis, 1)

PCO_GRADIENT(softmax)
{
    ATTRS(softmax);
    uint32_t inputs[2] = {g->node.outputs[0], g->upstream[0]};
    pco_softmax_backward_attrs back = {.axis = attrs->axis};
    g->result[0] = pco_graph_add(g->graph, PCO_OP_SOFTMAX_BACKWARD, &back, inputs, 2, NULL);
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
    in.shape[attrs->axis] = 1;
    uint32_t x = gradient_in(g, 0), y = pco_reshape(g->graph, gradient_out(g, 0), in.rank, in.shape);
    uint32_t dy = pco_reshape(g->graph, gradient_upstream(g, 0), in.rank, in.shape);
    uint32_t none = BIN(EQ, x, pco_scalar(g->graph, PCO_F32, -INFINITY));
    uint32_t zero = pco_scalar(g->graph, PCO_F32, 0);
    gradient_give(g, 0, pco_where(g->graph, none, zero, BIN(MUL, dy, UN(EXP, BIN(SUB, x, y)))));
}

/* The gradients of weight and bias: for the weight the rows are normalised again, by the op itself. */
static void rows_affine(pco_gradient *g, const void *attrs)
{
    uint32_t dy = gradient_upstream(g, 0);
    if (g->wanted[2]) gradient_give(g, 2, dy);
    if (!g->wanted[1]) return;
    uint32_t x = gradient_in(g, 0), normal = pco_graph_add(g->graph, (pco_op)g->node.op, attrs, &x, 1, NULL);
    gradient_give(g, 1, BIN(MUL, dy, normal));
}

PCO_GRADIENT(layer_norm)
{
    ATTRS(layer_norm);
    if (g->upstream[1] != PCO_NONE || g->upstream[2] != PCO_NONE) { /* somebody reads the statistics */
        gradient_decomposed(g);
        return;
    }
    pco_layer_norm_attrs plain = *attrs;
    plain.stats = 0;
    rows_affine(g, &plain);
    pco_layer_norm_backward_attrs back = {.eps = attrs->eps, .form = attrs->form, .correction = attrs->correction};
    uint32_t inputs[3] = {g->node.inputs[0], g->upstream[0], gradient_operand(g, 1)};
    if (g->wanted[0]) g->result[0] = pco_graph_add(g->graph, PCO_OP_LAYER_NORM_BACKWARD, &back, inputs, 3, NULL);
}

PCO_GRADIENT(rms_norm)
{
    ATTRS(rms_norm);
    if (g->upstream[1] != PCO_NONE) {
        gradient_decomposed(g);
        return;
    }
    pco_rms_norm_attrs plain = {.eps = attrs->eps};
    rows_affine(g, &plain);
    pco_rms_norm_backward_attrs back = {.eps = attrs->eps};
    uint32_t inputs[3] = {g->node.inputs[0], g->upstream[0], gradient_operand(g, 1)};
    if (g->wanted[0]) g->result[0] = pco_graph_add(g->graph, PCO_OP_RMS_NORM_BACKWARD, &back, inputs, 3, NULL);
}

/* A rotation (times scale): its adjoint turns back. */
PCO_GRADIENT(rope)
{
    pco_rope_attrs back = *(const pco_rope_attrs *)g->node.attrs;
    back.inverse = !back.inverse;
    uint32_t inputs[3] = {g->upstream[0], g->node.inputs[1], g->node.inputs[2]};
    g->result[0] = pco_graph_add(g->graph, PCO_OP_ROPE, &back, inputs, 3, NULL);
}

/* What the op does not have (a cap, the gradient of the weights or of a mask) is differentiated step by step. */
PCO_GRADIENT(attention)
{
    ATTRS(scaled_dot_product_attention);
    if (attrs->softcap > 0 || g->upstream[0] == PCO_NONE || g->upstream[1] != PCO_NONE || g->wanted[3]) {
        gradient_decomposed(g);
        return;
    }
    pco_scaled_dot_product_attention_backward_attrs back = {
        .scale = attrs->scale, .causal = attrs->causal, .window = attrs->window, .heads_first = attrs->heads_first};
    uint32_t inputs[7], out[PCO_MAX_OUTPUTS] = {PCO_NONE, PCO_NONE, PCO_NONE, PCO_NONE};
    for (uint32_t i = 0; i < 6; i++) inputs[i] = gradient_operand(g, i);
    inputs[6] = g->upstream[0];
    pco_graph_add(g->graph, PCO_OP_SCALED_DOT_PRODUCT_ATTENTION_BACKWARD, &back, inputs, 7, out);
    for (uint32_t i = 0; i < 3; i++)
        if (g->wanted[i]) g->result[i] = out[i];
}

PCO_GRADIENT(cross_entropy)
{
    ATTRS(cross_entropy);
    pco_cross_entropy_backward_attrs back = {.ignore_index = attrs->ignore_index,
                                             .label_smoothing = attrs->label_smoothing};
    uint32_t inputs[3] = {g->node.inputs[0], g->node.inputs[1], g->upstream[0]};
    g->result[0] = pco_graph_add(g->graph, PCO_OP_CROSS_ENTROPY_BACKWARD, &back, inputs, 3, NULL);
}
