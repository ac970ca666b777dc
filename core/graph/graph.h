/* Graphs of operations, and how to build them.
 *
 * A graph is a list of tensors and a list of nodes in execution order; building appends, so the order in which
 * ops are added is an order in which they can run. State is changed only by ops with an effect order
 * (state_write): the op returns the state after the write, and later readers take that.
 *
 * Building functions return a tensor id. The first error is kept in the graph: from then on every building
 * function returns PCO_NONE and does nothing, and pco_graph_check tells. So a model is built without a check
 * after each line, and nothing is lost. A graph is used by one thread at a time. */
#ifndef PCO_GRAPH_GRAPH_H
#define PCO_GRAPH_GRAPH_H

#include "base/arena.h"
#include "graph/op.h"

struct pco_graph {
    pco_arena arena; /* names, attributes, copied constants */
    uint32_t n_tensors, n_nodes;
    uint32_t tensor_capacity, node_capacity;
    pco_tensor *tensors;
    pco_node *nodes;
    uint32_t *producers; /* per tensor: the node that writes it, or PCO_NONE */
    uint32_t *originals; /* per tensor: what it is a copy of (pco_graph_recompute), or PCO_NONE */
    const char *scope;   /* prefix of node names, "" at first */
    pco_status status;
    pco_error error;
};

/* An empty graph; NULL when the host has no memory. */
pco_graph *pco_graph_create(void);
void pco_graph_destroy(pco_graph *graph);

/* The first error of building, or OK. */
pco_status pco_graph_check(const pco_graph *graph, pco_error *err) PCO_NODISCARD;

/* Keeps an error in the graph (if there is none yet); returns PCO_NONE. */
uint32_t pco_graph_fail(pco_graph *graph, pco_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Names of the nodes added from now on get "scope." in front. The text is copied. */
void pco_graph_scope(pco_graph *graph, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Tensors that are not made by nodes. `data` of a constant is borrowed until every program made from the graph
 * is destroyed (weights stay in the file's map); pco_graph_constant_copy copies it into the graph. States are
 * known by name: graphs that run in one session share the state of a name. */
uint32_t pco_graph_constant(pco_graph *graph, const char *name, pco_dtype dtype, uint32_t rank, const int64_t *shape,
                            const void *data);
uint32_t pco_graph_constant_copy(pco_graph *graph, const char *name, pco_dtype dtype, uint32_t rank,
                                 const int64_t *shape, const void *data);
uint32_t pco_graph_input(pco_graph *graph, const char *name, pco_dtype dtype, uint32_t rank, const int64_t *shape);
uint32_t pco_graph_value(pco_graph *graph, const char *name, pco_dtype dtype, uint32_t rank, const int64_t *shape);
uint32_t pco_graph_state(pco_graph *graph, const char *name, pco_dtype dtype, uint32_t rank, const int64_t *shape);

/* Marks a tensor as an output, which the host can read after a run, under a name of its own. Returns its id
 * (another one when the tensor was an input, a constant or a state: these are copied). */
uint32_t pco_graph_output(pco_graph *graph, uint32_t tensor, const char *name);

/* Adds a node: `attrs` is the op's struct (copied), NULL for defaults or for an op without attributes;
 * inputs[i] may be PCO_NONE for an absent optional operand. Output ids go to outputs (PCO_MAX_OUTPUTS long,
 * may be NULL); the first is returned. Errors (kept): INVALID from inference. */
uint32_t pco_graph_add(pco_graph *graph, pco_op op, const void *attrs, const uint32_t *inputs, uint32_t n_inputs,
                       uint32_t *outputs);

/* Moves the nodes from `first` on, as they are, to right behind the last node before them that makes what they read,
 * or that reads or writes a state which they touch: what was appended last then runs as early as it can. */
void pco_graph_hoist(pco_graph *graph, uint32_t first);

/* The tensor whose memory `tensor` shares in the end (itself when it shares none). */
uint32_t pco_graph_root(const pco_graph *graph, uint32_t tensor);

/* The tensor of that name, or PCO_NONE. */
uint32_t pco_graph_find(const pco_graph *graph, const char *name);

/* Number of elements of a tensor. */
int64_t pco_tensor_elements(const pco_tensor *tensor);

#endif
