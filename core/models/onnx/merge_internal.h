/* For the files that find patterns: what nodes are like. */
#ifndef PCO_MODELS_ONNX_MERGE_INTERNAL_H
#define PCO_MODELS_ONNX_MERGE_INTERNAL_H

#include "graph/graph.h"

#include <stdbool.h>

/* ---- merge_nodes.c ---- */

/* The node that makes x, if it is of this operation. */
const pco_node *merge_made(const pco_graph *graph, uint32_t x, pco_op op);
/* The value of a constant of one element. */
bool merge_scalar(const pco_graph *graph, uint32_t x, double *value);
/* Is it this number, which f32 has exactly? */
bool merge_is(const pco_graph *graph, uint32_t x, double value);
/* x = a op b, with b (of add and mul: either) a number: its other operand, or PCO_NONE. */
uint32_t merge_with_scalar(const pco_graph *graph, uint32_t x, pco_op op, double *value);
/* x = y^2, as a power or a product: y, or PCO_NONE. */
uint32_t merge_squared(const pco_graph *graph, uint32_t x);
/* The mean over the last dimension, which stays: of what, or PCO_NONE. */
uint32_t merge_mean(const pco_graph *graph, uint32_t x);
/* What x is made of by permuting, and how; x itself and no change, where it is not. */
uint32_t merge_unpermuted(const pco_graph *graph, uint32_t x, int64_t *dims);

/* Each: the composite that y is the last node of, or PCO_NONE. */
uint32_t merge_attention(pco_graph *graph, uint32_t y);
uint32_t merge_gelu(pco_graph *graph, uint32_t y);
uint32_t merge_rotary(pco_graph *graph, uint32_t y);

#endif
