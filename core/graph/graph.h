/* Graphs of operations, from the inside: portico/graph.h has all that builds them. */
#ifndef PCO_GRAPH_GRAPH_H
#define PCO_GRAPH_GRAPH_H

#include "base/arena.h"
#include "graph/op.h"
#include "portico/graph.h"
#include "portico/op.h"

struct pco_graph {
    pco_arena arena; /* names, attributes, copied constants */
    uint32_t n_tensors, n_nodes;
    uint32_t tensor_capacity, node_capacity;
    pco_tensor *tensors;
    pco_node *nodes;
    uint32_t *producers;   /* per tensor: the node that writes it, or PCO_NONE */
    uint32_t *originals;   /* per tensor: what it is a copy of (pco_graph_recompute), or PCO_NONE */
    const char *scope;     /* prefix of node names, "" at first */
    struct graph_own *own; /* operations that are no rows of the table, which the graph holds */
    pco_status status;
    pco_error error;
};

/* As pco_graph_add, of any row: `attrs` are the node's, also those of an operation of one's own, which the graph holds
 * from here on. */
uint32_t pco_graph_add_row(pco_graph *graph, const pco_op_info *info, const void *attrs, const uint32_t *inputs,
                           uint32_t n_inputs, uint32_t *outputs);

/* x behind an activation of matmul (0 to 4), as an op of its own; x itself for 0. */
uint32_t pco_graph_activation(pco_graph *graph, uint32_t x, int64_t activation);

/* Moves the nodes from `first` on, as they are, to right behind the last node before them that makes what they read,
 * or that reads or writes a state which they touch: what was appended last then runs as early as it can. */
void pco_graph_hoist(pco_graph *graph, uint32_t first);

/* The tensor whose memory `tensor` shares in the end (itself when it shares none). */
uint32_t pco_graph_root(const pco_graph *graph, uint32_t tensor);

/* May a building function use x? Not if the graph has an error already; if x is no tensor of it, that is its error. */
int pco_graph_has(pco_graph *graph, uint32_t x, const char *function);

#endif
