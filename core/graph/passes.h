/* Passes: from the graph that was built to the graph that runs. */
#ifndef PCO_GRAPH_PASSES_H
#define PCO_GRAPH_PASSES_H

#include "graph/graph.h"

/* What the rewriting does with each node of the source. */
typedef struct pco_rewrite_params {
    const unsigned char *decompose; /* per node of the source: 1 replaces it by its decomposition; may be NULL */
    int fuse;                       /* 1: nodes that match a pattern become one (graph/fusion.h), */
    const unsigned char *apart;     /* but where this is 1, per node of the source; may be NULL */
    uint32_t *fused; /* per node of the result, of which there are at most twice as many: the node of the source for
                      * which apart[] would have left it as it was, or PCO_NONE where it is; may be NULL */
} pco_rewrite_params;

/* A new graph that computes the same outputs: nodes that nothing needs are dropped, and what params asks for is
 * done. Inputs, run values and outputs keep their names. Constants still point to the source's data. */
pco_status pco_graph_rewrite(const pco_graph *source, const pco_rewrite_params *params, pco_graph **result,
                             pco_error *err) PCO_NODISCARD;

/* Trades work for memory (Chen et al. 2016, arXiv 1604.06174) in a graph that pco_gradients has extended. The nodes
 * in front of `loss` from the first to the last whose scope is `scope` are a block. What its backward nodes read of
 * it is computed once more, by copies of its nodes right in front of them, so that only what the block reads, and
 * what other forward nodes read of it, stays alive in between. The copies are the same ops on the same operands in
 * the same order: gradients are equal bit for bit, dropout too, whose mask follows from its counters. Copies
 * are called as their nodes, with "_again" behind.
 *
 * Returns how many nodes were added. Errors (kept in the graph): INVALID when no node has that scope, or no node makes
 * the loss; UNSUPPORTED when a state that the block reads is written before its backward nodes. */
uint32_t pco_graph_recompute(pco_graph *graph, uint32_t loss, const char *scope);

#endif
