/* Recomputation: the nodes of a block once more behind the loss, in front of the block's backward nodes, so
 * that between the two only what the block was given is kept. */
#include "graph/passes.h"

#include <stdlib.h>
#include <string.h>

typedef struct recompute_state {
    pco_graph *graph;
    uint32_t end;         /* behind the loss: nodes from here on are the backward pass */
    uint32_t first, last; /* the block */
    uint32_t at;          /* the first backward node that reads what is made again */
    unsigned char *kept;  /* per tensor: read by forward nodes behind the block, or by the host */
    unsigned char *again; /* per node of the block: it is to run once more */
    uint32_t *map;        /* per tensor: what stands for it in the backward pass */
} recompute_state;

static int recompute_in_scope(const pco_node *node, const char *scope)
{
    const char *stop = strrchr(node->name, '.');
    const size_t length = strlen(scope);
    return stop && (size_t)(stop - node->name) == length && strncmp(node->name, scope, length) == 0;
}

/* From the first to the last node of the scope. Unfolding an activation leaves nodes of another name between
 * them. */
static int recompute_find(recompute_state *s, const char *scope)
{
    s->first = PCO_NONE;
    for (uint32_t i = 0; i < s->end; i++) {
        if (!recompute_in_scope(&s->graph->nodes[i], scope)) continue;
        if (s->first == PCO_NONE) s->first = i;
        s->last = i;
    }
    return s->first != PCO_NONE;
}

/* Does a backward reader of t want it made again? */
static int recompute_inside(const recompute_state *s, uint32_t t)
{
    if (t == PCO_NONE || s->kept[t]) return 0;
    const uint32_t maker = s->graph->producers[t];
    return maker != PCO_NONE && maker >= s->first && maker <= s->last;
}

/* Marks the nodes that run again, and finds where. */
static void recompute_mark(recompute_state *s)
{
    const pco_graph *graph = s->graph;
    for (uint32_t t = 0; t < graph->n_tensors; t++) s->kept[t] = graph->tensors[t].kind == PCO_KIND_OUTPUT;
    for (uint32_t i = s->last + 1; i < s->end; i++)
        for (uint32_t k = 0; k < graph->nodes[i].n_inputs; k++)
            if (graph->nodes[i].inputs[k] != PCO_NONE) s->kept[graph->nodes[i].inputs[k]] = 1;
    s->at = graph->n_nodes;
    for (uint32_t i = graph->n_nodes; i-- > s->end;)
        for (uint32_t k = 0; k < graph->nodes[i].n_inputs; k++) {
            const uint32_t t = graph->nodes[i].inputs[k];
            if (!recompute_inside(s, t)) continue;
            s->again[graph->producers[t]] = 1;
            s->at = i;
        }
    for (uint32_t i = s->last + 1; i-- > s->first;)
        for (uint32_t k = 0; s->again[i] && k < graph->nodes[i].n_inputs; k++)
            if (recompute_inside(s, graph->nodes[i].inputs[k]))
                s->again[graph->producers[graph->nodes[i].inputs[k]]] = 1;
}

static int recompute_reads(const recompute_state *s, const pco_node *node, uint32_t root)
{
    for (uint32_t k = 0; k < node->n_inputs; k++)
        if (node->inputs[k] != PCO_NONE && pco_graph_root(s->graph, node->inputs[k]) == root) return 1;
    return 0;
}

/* A node that runs later must read what it has read: nothing that it reads may be written in between, and it
 * may write nothing itself. */
static void recompute_check(const recompute_state *s)
{
    pco_graph *graph = s->graph;
    for (uint32_t i = s->first; i < s->at; i++) {
        const pco_node *writer = &graph->nodes[i];
        const pco_op_info *info = pco_node_op(writer);
        for (uint32_t k = 0; k < writer->n_outputs; k++) {
            if (pco_op_written(info, k) == PCO_NONE) continue;
            const uint32_t root = pco_graph_root(graph, writer->outputs[k]);
            for (uint32_t r = s->first; r <= s->last; r++)
                if (s->again[r] && recompute_reads(s, &graph->nodes[r], root)) {
                    pco_graph_fail(graph, PCO_ERROR_UNSUPPORTED,
                                   "node '%s' cannot be computed again: '%s' writes the state '%s' before that",
                                   graph->nodes[r].name, writer->name, graph->tensors[root].name);
                    return;
                }
        }
    }
}

/* Appends a node's copy, which reads copies. */
static void recompute_copy(recompute_state *s, uint32_t i)
{
    pco_graph *graph = s->graph;
    const pco_node node = graph->nodes[i];
    uint32_t inputs[PCO_MAX_INPUTS], outputs[PCO_MAX_OUTPUTS];
    for (uint32_t k = 0; k < node.n_inputs; k++)
        inputs[k] = node.inputs[k] == PCO_NONE ? PCO_NONE : s->map[node.inputs[k]];
    const size_t length = strlen(node.name);
    char *name = pco_arena_allocate(&graph->arena, length + sizeof "_again");
    if (!name) {
        pco_graph_fail(graph, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for recomputation");
        return;
    }
    memcpy(name, node.name, length);
    memcpy(name + length, "_again", sizeof "_again");
    pco_graph_add_row(graph, pco_node_op(&node), node.attrs, inputs, node.n_inputs, outputs);
    if (graph->status) return;
    graph->nodes[graph->n_nodes - 1].name = name;
    graph->nodes[graph->n_nodes - 1].variant = node.variant;
    for (uint32_t k = 0; k < node.n_outputs; k++) {
        if (node.outputs[k] == PCO_NONE) continue;
        s->map[node.outputs[k]] = outputs[k];
        graph->originals[outputs[k]] = node.outputs[k];
        if (k == 0) graph->tensors[outputs[k]].name = name;
    }
}

/* Moves the nodes from `from` on to s->at, and lets the backward pass read what they make. */
static void recompute_move(const recompute_state *s, uint32_t from)
{
    pco_graph *graph = s->graph;
    const uint32_t added = graph->n_nodes - from;
    pco_node *copies = malloc((added + 1) * sizeof *copies);
    if (!copies) {
        pco_graph_fail(graph, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for recomputation");
        return;
    }
    memcpy(copies, &graph->nodes[from], added * sizeof *copies);
    memmove(&graph->nodes[s->at + added], &graph->nodes[s->at], (from - s->at) * sizeof *copies);
    memcpy(&graph->nodes[s->at], copies, added * sizeof *copies);
    free(copies);
    for (uint32_t i = s->at + added; i < graph->n_nodes; i++)
        for (uint32_t k = 0; k < graph->nodes[i].n_inputs; k++)
            if (recompute_inside(s, graph->nodes[i].inputs[k]))
                graph->nodes[i].inputs[k] = s->map[graph->nodes[i].inputs[k]];
    for (uint32_t i = s->at; i < graph->n_nodes; i++)
        for (uint32_t k = 0; k < graph->nodes[i].n_outputs; k++)
            if (graph->nodes[i].outputs[k] != PCO_NONE) graph->producers[graph->nodes[i].outputs[k]] = i;
}

static void recompute_block(recompute_state *s)
{
    pco_graph *graph = s->graph;
    recompute_mark(s);
    if (s->at == graph->n_nodes) return; /* the backward pass reads nothing of it */
    recompute_check(s);
    if (graph->status) return;
    const uint32_t from = graph->n_nodes, tensors = graph->n_tensors;
    for (uint32_t t = 0; t < tensors; t++) s->map[t] = t;
    for (uint32_t i = s->first; i <= s->last && !graph->status; i++)
        if (s->again[i]) recompute_copy(s, i);
    if (!graph->status) recompute_move(s, from);
}

uint32_t pco_graph_recompute(pco_graph *graph, uint32_t loss, const char *scope)
{
    if (graph->status) return 0;
    const uint32_t before = graph->n_nodes, tensors = 2 * graph->n_tensors + 1; /* with room for all copies */
    if (loss >= graph->n_tensors || graph->producers[loss] == PCO_NONE) {
        pco_graph_fail(graph, PCO_ERROR_INVALID, "recomputation: the loss is made by no node of this graph");
        return 0;
    }
    recompute_state s = {.graph = graph, .end = graph->producers[loss] + 1};
    if (!recompute_find(&s, scope)) {
        pco_graph_fail(graph, PCO_ERROR_INVALID, "recomputation: no node in front of the loss has the scope '%s'",
                       scope);
        return 0;
    }
    s.kept = calloc(tensors, 1);
    s.again = calloc(before + 1, 1);
    s.map = calloc(tensors, sizeof *s.map);
    if (s.kept && s.again && s.map)
        recompute_block(&s);
    else
        pco_graph_fail(graph, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for recomputation");
    free(s.kept);
    free(s.again);
    free(s.map);
    return graph->n_nodes - before;
}
