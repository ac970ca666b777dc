/* Rules of elementwise ops. Where a function has a corner, the derivative there is PyTorch's: ties of minimum
 * and maximum share the gradient, and where an operand is NaN both get all of it; relu has 0 at 0, clamp has 1 on its
 * limits, abs has 0 at 0. */
#include "graph/gradient.h"

#define RULE_GRAPH g->graph
#define RULE_NODE  &g->node
#include "graph/rules.h"

#include <math.h>

#define ZERO pco_scalar(g->graph, PCO_F32, 0)

/* No derivative but 0: sign, floor. */
PCO_GRADIENT(zero) { (void)g; }

PCO_GRADIENT(add)
{
    uint32_t dy = gradient_upstream(g, 0);
    for (uint32_t i = 0; i < 2; i++)
        if (g->wanted[i]) gradient_give(g, i, dy);
}

PCO_GRADIENT(sub)
{
    uint32_t dy = gradient_upstream(g, 0);
    if (g->wanted[0]) gradient_give(g, 0, dy);
    if (g->wanted[1]) gradient_give(g, 1, UN(NEG, dy));
}

PCO_GRADIENT(mul)
{
    uint32_t dy = gradient_upstream(g, 0);
    for (uint32_t i = 0; i < 2; i++)
        if (g->wanted[i]) gradient_give(g, i, BIN(MUL, dy, gradient_in(g, 1 - i)));
}

PCO_GRADIENT(div)
{
    uint32_t share = BIN(DIV, gradient_upstream(g, 0), gradient_in(g, 1));
    if (g->wanted[0]) gradient_give(g, 0, share);
    if (g->wanted[1]) gradient_give(g, 1, UN(NEG, BIN(MUL, share, gradient_out(g, 0))));
}

/* minimum and maximum: half for each where both are the result, nothing for the one that lost, all for the rest: that
 * is the winner, and with NaN, which wins and loses against nothing, both. */
PCO_GRADIENT(extremum)
{
    uint32_t dy = gradient_upstream(g, 0), a = gradient_in(g, 0), b = gradient_in(g, 1);
    uint32_t tie = BIN(EQ, a, b), half = BINS(MUL, dy, 0.5);
    for (uint32_t i = 0; i < 2; i++) {
        if (!g->wanted[i]) continue;
        const int below = (g->node.op == PCO_OP_MAXIMUM) == (i == 0); /* where a < b operand i has lost */
        uint32_t lost = below ? BIN(LT, a, b) : BIN(GT, a, b);
        gradient_give(g, i, pco_where(g->graph, lost, ZERO, pco_where(g->graph, tie, half, dy)));
    }
}

/* d a^b / da = b a^(b-1), 0 for b = 0; d a^b / db = a^b log a, 0 where a = 0 and b >= 0. */
PCO_GRADIENT(pow)
{
    uint32_t dy = gradient_upstream(g, 0), a = gradient_in(g, 0), b = gradient_in(g, 1);
    if (g->wanted[0]) {
        uint32_t slope = BIN(MUL, b, BIN(POW, a, BINS(SUB, b, 1)));
        gradient_give(g, 0, pco_where(g->graph, BINS(EQ, b, 0), ZERO, BIN(MUL, dy, slope)));
    }
    if (g->wanted[1]) {
        uint32_t flat = BIN(LOGICAL_AND, BINS(EQ, a, 0), BINS(GE, b, 0));
        uint32_t slope = BIN(MUL, gradient_out(g, 0), UN(LOG, a));
        gradient_give(g, 1, pco_where(g->graph, flat, ZERO, BIN(MUL, dy, slope)));
    }
}

PCO_GRADIENT(where)
{
    uint32_t dy = gradient_upstream(g, 0), condition = gradient_operand(g, 0);
    if (g->wanted[1]) gradient_give(g, 1, pco_where(g->graph, condition, dy, ZERO));
    if (g->wanted[2]) gradient_give(g, 2, pco_where(g->graph, condition, ZERO, dy));
}

PCO_GRADIENT(neg) { gradient_give(g, 0, UN(NEG, gradient_upstream(g, 0))); }

PCO_GRADIENT(abs) { gradient_give(g, 0, BIN(MUL, gradient_upstream(g, 0), UN(SIGN, gradient_in(g, 0)))); }

PCO_GRADIENT(reciprocal)
{
    uint32_t y = gradient_out(g, 0);
    gradient_give(g, 0, UN(NEG, BIN(MUL, gradient_upstream(g, 0), BIN(MUL, y, y))));
}

/* The limits as the op knows them: rounded to the type. */
PCO_GRADIENT(clamp)
{
    ATTRS(clamp);
    uint32_t x = gradient_operand(g, 0);
    uint32_t inside = BIN(LOGICAL_AND, BINS(GE, x, attrs->min), BINS(LE, x, attrs->max));
    gradient_give(g, 0, pco_where(g->graph, inside, gradient_upstream(g, 0), ZERO));
}

PCO_GRADIENT(exp) { gradient_give(g, 0, BIN(MUL, gradient_upstream(g, 0), gradient_out(g, 0))); }

PCO_GRADIENT(log) { gradient_give(g, 0, BIN(DIV, gradient_upstream(g, 0), gradient_in(g, 0))); }

PCO_GRADIENT(sqrt) { gradient_give(g, 0, BIN(DIV, BINS(MUL, gradient_upstream(g, 0), 0.5), gradient_out(g, 0))); }

PCO_GRADIENT(rsqrt)
{
    uint32_t y = gradient_out(g, 0), cube = BIN(MUL, BIN(MUL, y, y), y);
    gradient_give(g, 0, BIN(MUL, BINS(MUL, gradient_upstream(g, 0), -0.5), cube));
}

PCO_GRADIENT(sin) { gradient_give(g, 0, BIN(MUL, gradient_upstream(g, 0), UN(COS, gradient_in(g, 0)))); }

PCO_GRADIENT(cos) { gradient_give(g, 0, UN(NEG, BIN(MUL, gradient_upstream(g, 0), UN(SIN, gradient_in(g, 0))))); }

/* 1 - v as v is subtracted from 1, not the other way round: exact zeros at saturation. */
static uint32_t gradient_one_minus(pco_gradient *g, uint32_t v)
{
    return BIN(SUB, pco_scalar(g->graph, PCO_F32, 1), v);
}

PCO_GRADIENT(tanh)
{
    uint32_t y = gradient_out(g, 0);
    gradient_give(g, 0, BIN(MUL, gradient_upstream(g, 0), gradient_one_minus(g, BIN(MUL, y, y))));
}

PCO_GRADIENT(erf)
{
    uint32_t x = gradient_in(g, 0), bell = UN(EXP, UN(NEG, BIN(MUL, x, x)));
    gradient_give(g, 0, BIN(MUL, gradient_upstream(g, 0), BINS(MUL, bell, 1.12837916709551257390))); /* 2/sqrt(pi) */
}

PCO_GRADIENT(sigmoid)
{
    uint32_t y = gradient_out(g, 0);
    gradient_give(g, 0, BIN(MUL, gradient_upstream(g, 0), BIN(MUL, y, gradient_one_minus(g, y))));
}

/* To another float type: the gradient goes back in the operand's type. */
PCO_GRADIENT(cast) { gradient_give(g, 0, g->upstream[0]); }

PCO_GRADIENT(relu)
{
    uint32_t off = BINS(LE, gradient_out(g, 0), 0); /* not "> 0 on": NaN lets the gradient through */
    gradient_give(g, 0, pco_where(g->graph, off, ZERO, gradient_upstream(g, 0)));
}

/* Phi(x) + x phi(x); tanh form: 0.5 (1 + t) + 0.5 x (1 - t^2) sqrt(2/pi) (1 + 3 * 0.044715 x^2). */
PCO_GRADIENT(gelu)
{
    ATTRS(gelu);
    uint32_t x = gradient_in(g, 0), square = BIN(MUL, x, x), slope;
    if (attrs->approximate) {
        const double root = 0.79788456080286535588; /* sqrt(2 / pi) */
        uint32_t cubic = BINS(ADD, BINS(MUL, square, 0.044715), 1);
        uint32_t t = UN(TANH, BINS(MUL, BIN(MUL, x, cubic), root));
        uint32_t inner = BINS(MUL, BINS(ADD, BINS(MUL, square, 3 * 0.044715), 1), root);
        uint32_t second = BIN(MUL, BIN(MUL, x, gradient_one_minus(g, BIN(MUL, t, t))), inner);
        slope = BINS(MUL, BIN(ADD, BINS(ADD, t, 1), second), 0.5);
    } else {
        uint32_t upper = BINS(MUL, BINS(ADD, UN(ERF, BINS(MUL, x, 0.70710678118654752440)), 1), 0.5);
        uint32_t bell = BINS(MUL, UN(EXP, BINS(MUL, square, -0.5)), 0.39894228040143267794); /* 1/sqrt(2 pi) */
        slope = BIN(ADD, upper, BIN(MUL, x, bell));
    }
    gradient_give(g, 0, BIN(MUL, gradient_upstream(g, 0), slope));
}

/* s (1 + x (1 - s)) with s = sigmoid(x) */
static uint32_t gradient_silu_slope(pco_gradient *g, uint32_t x, uint32_t s)
{
    return BIN(MUL, s, BINS(ADD, BIN(MUL, x, gradient_one_minus(g, s)), 1));
}

PCO_GRADIENT(silu)
{
    uint32_t x = gradient_in(g, 0), s = UN(SIGMOID, x);
    gradient_give(g, 0, BIN(MUL, gradient_upstream(g, 0), gradient_silu_slope(g, x, s)));
}

PCO_GRADIENT(swiglu)
{
    uint32_t inputs[3] = {g->node.inputs[0], gradient_operand(g, 1), g->upstream[0]}, out[PCO_MAX_OUTPUTS];
    pco_graph_add(g->graph, PCO_OP_SWIGLU_BACKWARD, NULL, inputs, 3, out);
    g->result[0] = out[0];
    if (g->wanted[1]) g->result[1] = out[1];
}

/* The same op on the gradient: the same seed, offset and stream give the same mask. */
PCO_GRADIENT(dropout)
{
    uint32_t inputs[3] = {g->upstream[0], gradient_operand(g, 1), gradient_operand(g, 2)};
    gradient_give(g, 0, pco_graph_add(g->graph, PCO_OP_DROPOUT, g->node.attrs, inputs, 3, NULL));
}
