/* Short forms for the files whose functions add nodes by rule: decompositions, and the rules of differentiation. They
 * define RULE_GRAPH (pco_graph *) and RULE_NODE (const pco_node *) as their functions call them, before this file. */
#ifndef PCO_GRAPH_RULES_H
#define PCO_GRAPH_RULES_H

#include "graph/graph.h"

#define ATTRS(name)    const pco_##name##_attrs *attrs = (RULE_NODE)->attrs
#define INPUT(i)       ((i) < (RULE_NODE)->n_inputs ? (RULE_NODE)->inputs[i] : PCO_NONE)
#define TYPE(t)        ((pco_dtype)(RULE_GRAPH)->tensors[t].dtype)
#define SHAPE(...)     ((const int64_t[]){__VA_ARGS__})
#define BIN(op, a, b)  pco_binary(RULE_GRAPH, PCO_OP_##op, a, b)
#define BINS(op, a, v) pco_binary_scalar(RULE_GRAPH, PCO_OP_##op, a, v)
#define UN(op, a)      pco_unary(RULE_GRAPH, PCO_OP_##op, a)

#endif
