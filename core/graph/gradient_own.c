/* The gradient of an operation of one's own: what its declaration's function adds to the graph. */
#include "graph/gradient.h"

#include "base/dtype.h"
#include "graph/own.h"

void gradient_own(pco_gradient *g)
{
    const pco_operation *own = pco_node_op(&g->node)->own;
    uint32_t inputs[PCO_MAX_INPUTS], outputs[PCO_MAX_OUTPUTS], upstream[PCO_MAX_OUTPUTS], gradients[PCO_MAX_INPUTS];
    pco_tensor seen[PCO_MAX_INPUTS + PCO_MAX_OUTPUTS]; /* copies: the graph's list moves while nodes are added */
    pco_op_call call = pco_operation_call(own, g->node.attrs);
    call.n_inputs = g->node.n_inputs, call.n_outputs = g->node.n_outputs;
    for (uint32_t i = 0; i < PCO_MAX_INPUTS; i++) {
        inputs[i] = gradients[i] = PCO_NONE;
        if (gradient_operand(g, i) == PCO_NONE) continue;
        seen[i] = gradient_tensor(g->graph, g->node.inputs[i]);
        call.inputs[i] = &seen[i];
        inputs[i] = pco_dtype_is_float(seen[i].dtype) ? gradient_in(g, i) : g->node.inputs[i];
    }
    for (uint32_t i = 0; i < PCO_MAX_OUTPUTS; i++) {
        outputs[i] = upstream[i] = PCO_NONE;
        if (i >= g->node.n_outputs || g->node.outputs[i] == PCO_NONE) continue;
        pco_tensor *y = &seen[PCO_MAX_INPUTS + i];
        *y = gradient_tensor(g->graph, g->node.outputs[i]);
        call.outputs[i] = y;
        outputs[i] = pco_dtype_is_float(y->dtype) ? gradient_out(g, i) : g->node.outputs[i];
        if (g->upstream[i] != PCO_NONE) upstream[i] = gradient_upstream(g, i);
    }
    if (g->graph->status) return;
    own->declaration.gradient(g->graph, &call, inputs, outputs, upstream, gradients);
    for (uint32_t i = 0; i < g->node.n_inputs && !g->graph->status; i++) {
        if (gradients[i] == PCO_NONE || !g->wanted[i]) continue;
        if (gradients[i] < g->graph->n_tensors && pco_dtype_is_float(g->graph->tensors[gradients[i]].dtype))
            gradient_give(g, i, gradients[i]);
        else
            pco_graph_fail(g->graph, PCO_ERROR_INVALID,
                           "op '%s' (%s): its function gradient gives %u for operand %u, which is no float tensor",
                           own->declaration.name, g->node.name, gradients[i], i);
    }
}
