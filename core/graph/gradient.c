/* What the rules of differentiation are written with. */
#include "graph/gradient.h"

#include <string.h>

pco_tensor gradient_tensor(const pco_graph *graph, uint32_t t)
{
    if (graph->status || t == PCO_NONE) return (pco_tensor){.dtype = PCO_F32, .alias = PCO_NONE, .name = ""};
    return graph->tensors[t];
}

uint32_t gradient_operand(const pco_gradient *g, uint32_t i)
{
    return i < g->node.n_inputs ? g->node.inputs[i] : PCO_NONE;
}

uint32_t gradient_in(pco_gradient *g, uint32_t i) { return pco_cast(g->graph, gradient_operand(g, i), PCO_F32); }

uint32_t gradient_out(pco_gradient *g, uint32_t i) { return pco_cast(g->graph, g->node.outputs[i], PCO_F32); }

uint32_t gradient_upstream(pco_gradient *g, uint32_t i) { return pco_cast(g->graph, g->upstream[i], PCO_F32); }

uint32_t gradient_unbroadcast(pco_graph *graph, uint32_t value, uint32_t rank, const int64_t *shape)
{
    pco_tensor have = gradient_tensor(graph, value);
    pco_sum_attrs sum = {0};
    if (graph->status || value == PCO_NONE) return PCO_NONE;
    for (uint32_t i = 0; i < have.rank; i++) {
        int64_t want = i + rank >= have.rank ? shape[i + rank - have.rank] : 1;
        if (want != have.shape[i] || i + rank < have.rank) sum.axes[sum.n_axes++] = i;
    }
    if (sum.n_axes) value = pco_graph_add(graph, PCO_OP_SUM, &sum, &value, 1, NULL);
    have = gradient_tensor(graph, value);
    int same = have.rank == rank && memcmp(have.shape, shape, rank * sizeof *shape) == 0;
    return same ? value : pco_reshape(graph, value, rank, shape);
}

void gradient_give(pco_gradient *g, uint32_t i, uint32_t value)
{
    if (g->graph->status || value == PCO_NONE) return;
    pco_tensor operand = gradient_tensor(g->graph, g->node.inputs[i]);
    value = gradient_unbroadcast(g->graph, value, operand.rank, operand.shape);
    g->result[i] = pco_cast(g->graph, value, (pco_dtype)operand.dtype);
}

PCO_GRADIENT(decomposed) { g->decomposed = 1; }
