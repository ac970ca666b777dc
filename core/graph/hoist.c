/* Moving nodes that were appended last to where they can run first. */
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

static int hoist_is_state(const pco_graph *graph, uint32_t tensor)
{
    return tensor != PCO_NONE && graph->tensors[pco_graph_root(graph, tensor)].kind == PCO_KIND_STATE;
}

static int hoist_touches(const pco_graph *graph, const pco_node *node, uint32_t state)
{
    for (uint32_t k = 0; k < node->n_inputs; k++)
        if (node->inputs[k] != PCO_NONE && pco_graph_root(graph, node->inputs[k]) == state) return 1;
    for (uint32_t k = 0; k < node->n_outputs; k++)
        if (node->outputs[k] != PCO_NONE && pco_graph_root(graph, node->outputs[k]) == state) return 1;
    return 0;
}

/* The place behind what an operand needs, among the nodes before `first`; `at` or later. */
static uint32_t hoist_behind(const pco_graph *graph, uint32_t first, uint32_t tensor, uint32_t at)
{
    if (tensor == PCO_NONE) return at;
    const uint32_t producer = graph->producers[tensor];
    if (producer != PCO_NONE && producer < first && producer + 1 > at) at = producer + 1;
    if (!hoist_is_state(graph, tensor)) return at;
    const uint32_t state = pco_graph_root(graph, tensor);
    for (uint32_t n = first; n > at; n--)
        if (hoist_touches(graph, &graph->nodes[n - 1], state)) return n;
    return at;
}

void pco_graph_hoist(pco_graph *graph, uint32_t first)
{
    if (graph->status || first >= graph->n_nodes) return;
    const uint32_t count = graph->n_nodes - first;
    uint32_t at = 0;
    for (uint32_t n = first; n < graph->n_nodes; n++)
        for (uint32_t k = 0; k < graph->nodes[n].n_inputs; k++)
            at = hoist_behind(graph, first, graph->nodes[n].inputs[k], at);
    pco_node *moved = malloc(count * sizeof *moved);
    if (!moved) {
        pco_graph_fail(graph, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory while building a graph");
        return;
    }
    memcpy(moved, graph->nodes + first, count * sizeof *moved);
    memmove(graph->nodes + at + count, graph->nodes + at, (first - at) * sizeof *moved);
    memcpy(graph->nodes + at, moved, count * sizeof *moved);
    free(moved);
    for (uint32_t n = at; n < graph->n_nodes; n++)
        for (uint32_t k = 0; k < graph->nodes[n].n_outputs; k++)
            if (graph->nodes[n].outputs[k] != PCO_NONE) graph->producers[graph->nodes[n].outputs[k]] = n;
}
