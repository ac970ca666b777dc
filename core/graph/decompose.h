/* Decompositions: each composite op as a graph of primitives. */
#ifndef PCO_GRAPH_DECOMPOSE_H
#define PCO_GRAPH_DECOMPOSE_H

#include "graph/op.h"

/* Builds the node from primitives in `graph`: in[i] are tensor ids or PCO_NONE, out[] are filled. */
typedef pco_status pco_decompose_fn(pco_graph *graph, const pco_node *node, uint32_t *out, pco_error *err);

#define PCO_DECOMPOSE(name) \
    pco_status decompose_##name(pco_graph *graph, const pco_node *node, uint32_t *out, pco_error *err)

/* Those that the table names (what NONE becomes is never defined). */
#define NONE decompose_nothing
#define PCO_OP(id, upper, name, family, signature, types, infer, split, decomposition, ...) \
    pco_decompose_fn decomposition;
#include "graph/ops.def"
#undef NONE

#endif
