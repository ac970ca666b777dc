/* What patterns ask of nodes. */
#include "models/onnx/merge_internal.h"

#include <string.h>

const pco_node *merge_made(const pco_graph *graph, uint32_t x, pco_op op)
{
    if (x == PCO_NONE || graph->producers[x] == PCO_NONE) return NULL;
    const pco_node *node = &graph->nodes[graph->producers[x]];
    return node->op == op && node->outputs[0] == x ? node : NULL;
}

bool merge_scalar(const pco_graph *graph, uint32_t x, double *value)
{
    if (x == PCO_NONE) return false;
    const pco_tensor *tensor = &graph->tensors[x];
    float number;
    if (tensor->kind != PCO_KIND_CONSTANT || tensor->dtype != PCO_F32 || pco_tensor_elements(tensor) != 1) return false;
    memcpy(&number, tensor->data, sizeof number);
    *value = (double)number;
    return true;
}

bool merge_is(const pco_graph *graph, uint32_t x, double value)
{
    double found;
    return merge_scalar(graph, x, &found) && found == value;
}

uint32_t merge_with_scalar(const pco_graph *graph, uint32_t x, pco_op op, double *value)
{
    const pco_node *node = merge_made(graph, x, op);
    if (!node) return PCO_NONE;
    const bool either = op == PCO_OP_ADD || op == PCO_OP_MUL;
    for (int b = 1; b >= (either ? 0 : 1); b--) {
        const uint32_t other = node->inputs[1 - b];
        if (merge_scalar(graph, node->inputs[b], value) && graph->tensors[other].rank == graph->tensors[x].rank)
            return other;
    }
    return PCO_NONE;
}

uint32_t merge_squared(const pco_graph *graph, uint32_t x)
{
    const pco_node *power = merge_made(graph, x, PCO_OP_POW), *product = merge_made(graph, x, PCO_OP_MUL);
    if (product && product->inputs[0] == product->inputs[1]) return product->inputs[0];
    return power && merge_is(graph, power->inputs[1], 2) ? power->inputs[0] : PCO_NONE;
}

uint32_t merge_mean(const pco_graph *graph, uint32_t x)
{
    const pco_node *node = merge_made(graph, x, PCO_OP_MEAN);
    const pco_mean_attrs *attrs = node ? node->attrs : NULL;
    const int64_t last = node ? (int64_t)graph->tensors[node->inputs[0]].rank - 1 : 0;
    return node && attrs->keepdims && attrs->n_axes == 1 && attrs->axes[0] == last ? node->inputs[0] : PCO_NONE;
}

uint32_t merge_unpermuted(const pco_graph *graph, uint32_t x, int64_t *dims)
{
    for (uint32_t d = 0; d < PCO_MAX_RANK; d++) dims[d] = d;
    for (const pco_node *node; (node = merge_made(graph, x, PCO_OP_PERMUTE)); x = node->inputs[0]) {
        const pco_permute_attrs *attrs = node->attrs;
        int64_t through[PCO_MAX_RANK];
        for (int64_t d = 0; d < attrs->n_dims; d++) through[d] = attrs->dims[dims[d]];
        memcpy(dims, through, (size_t)attrs->n_dims * sizeof *dims);
    }
    return x;
}
