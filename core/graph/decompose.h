/* Decompositions: each composite op as a graph of primitives. */
#ifndef PCO_GRAPH_DECOMPOSE_H
#define PCO_GRAPH_DECOMPOSE_H

#include "graph/op.h"

#define PCO_DECOMPOSE(name) \
    pco_status decompose_##name(pco_graph *graph, const pco_node *node, uint32_t *out, pco_error *err)
PCO_DECOMPOSE(relu);
PCO_DECOMPOSE(gelu);
PCO_DECOMPOSE(silu);
PCO_DECOMPOSE(swiglu);
PCO_DECOMPOSE(softmax);
PCO_DECOMPOSE(log_softmax);
PCO_DECOMPOSE(logsumexp);
PCO_DECOMPOSE(layer_norm);
PCO_DECOMPOSE(rms_norm);
PCO_DECOMPOSE(rope);
PCO_DECOMPOSE(sinusoidal_positions);
PCO_DECOMPOSE(attention);
PCO_DECOMPOSE(attention_backward);
PCO_DECOMPOSE(dropout);
PCO_DECOMPOSE(cross_entropy);
PCO_DECOMPOSE(cross_entropy_backward);
PCO_DECOMPOSE(adamw);
PCO_DECOMPOSE(sgd);
PCO_DECOMPOSE(softmax_backward);
PCO_DECOMPOSE(layer_norm_backward);
PCO_DECOMPOSE(rms_norm_backward);
PCO_DECOMPOSE(swiglu_backward);

#endif
