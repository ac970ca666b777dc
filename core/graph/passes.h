/* Passes: from the graph that was built to the graph that runs. */
#ifndef PCO_GRAPH_PASSES_H
#define PCO_GRAPH_PASSES_H

#include "graph/graph.h"

/* What the rewriting does with each node of the source. */
typedef struct pco_rewrite_params {
    const unsigned char *decompose; /* per node of the source: 1 replaces it by its decomposition; may be NULL */
    int fuse;                       /* 1: fold bias, activation and residual into matmul */
} pco_rewrite_params;

/* A new graph that computes the same outputs: nodes that nothing needs are dropped, and what params asks for is
 * done. Inputs, run values and outputs keep their names. Constants still point to the source's data. */
pco_status pco_graph_rewrite(const pco_graph *source, const pco_rewrite_params *params, pco_graph **result,
                             pco_error *err) PCO_NODISCARD;

#endif
