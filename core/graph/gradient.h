/* What the rules of differentiation are written with. One function per op, named in ops.def: it adds the
 * nodes that give the contribution of one node to the gradients of its operands. */
#ifndef PCO_GRAPH_GRADIENT_H
#define PCO_GRAPH_GRADIENT_H

#include "graph/graph.h"

typedef struct pco_gradient {
    pco_graph *graph;
    pco_node node;                        /* a copy: the graph's list moves while nodes are added */
    uint32_t upstream[PCO_MAX_OUTPUTS];   /* gradient of each output, PCO_NONE: the loss does not depend on it */
    unsigned char wanted[PCO_MAX_INPUTS]; /* 1: a gradient of this operand is needed */
    uint32_t result[PCO_MAX_INPUTS];      /* what the rule fills; PCO_NONE: zero */
    int decomposed;                       /* gradient_decomposed was called */
} pco_gradient;

/* Adds what a node contributes to the gradients of its operands. */
typedef void pco_gradient_fn(pco_gradient *g);

#define PCO_GRADIENT(name) void gradient_##name(pco_gradient *g)

/* Those that the table names (what NONE becomes is never defined). */
#define NONE gradient_nothing
#define PCO_OP(id, upper, name, family, signature, types, infer, split, decomposition, gradient, ...) \
    pco_gradient_fn gradient;
#include "graph/ops.def"
#undef NONE
/* Any composite, as a rule or as the end of one: the decomposition of the node is to be added (computed again) and
 * differentiated, which gradients.c does. */
PCO_GRADIENT(decomposed);
/* That of an operation of one's own, which declares one. */
PCO_GRADIENT(own);

/* ---- for the rules ---- */

/* Operand i or PCO_NONE. */
uint32_t gradient_operand(const pco_gradient *g, uint32_t i);

/* Operand i, output i, and the gradient of output i, in f32. */
uint32_t gradient_in(pco_gradient *g, uint32_t i);
uint32_t gradient_out(pco_gradient *g, uint32_t i);
uint32_t gradient_upstream(pco_gradient *g, uint32_t i);

/* Makes `value` (f32) the gradient of operand i: summed over what was broadcast, shaped and typed as the
 * operand. */
void gradient_give(pco_gradient *g, uint32_t i, uint32_t value);

/* value summed over the dimensions in which `shape` has size 1 or is shorter, as broadcasting's adjoint asks.
 */
uint32_t gradient_unbroadcast(pco_graph *graph, uint32_t value, uint32_t rank, const int64_t *shape);

/* The tensor's entry, by value: the table moves while nodes are added. A rank-0 tensor after an error. */
pco_tensor gradient_tensor(const pco_graph *graph, uint32_t t);

#endif
