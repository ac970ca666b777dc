/* How ops are decomposed and differentiated: the columns of ops.def that build graphs, and so stand above what graphs
 * are made with. */
#ifndef PCO_GRAPH_OP_RULES_H
#define PCO_GRAPH_OP_RULES_H

#include "graph/decompose.h"
#include "graph/gradient.h"

/* NULL for a primitive. */
pco_decompose_fn *pco_op_decomposition(uint32_t op);
/* NULL: not differentiable. */
pco_gradient_fn *pco_op_gradient(uint32_t op);

#endif
