/* What the functions of portico/nn.h ask of their arguments. */
#include "nn/nn.h"

#include "base/dtype.h"
#include "base/error.h"

#include <inttypes.h>
#include <string.h>

int pco_nn_take(const pco_nn *nn, const char *function, void *known, size_t size, const void *params)
{
    pco_error err = {""};
    size_t given;
    if (!nn || nn->graph->status) return 0;
    if (!params) {
        pco_graph_fail(nn->graph, PCO_ERROR_INVALID, "%s: params is NULL", function);
        return 0;
    }
    memcpy(&given, params, sizeof given);
    memset(known, 0, size);
    if (!pco_copy_sized(known, size, params, given, &err)) return 1;
    pco_graph_fail(nn->graph, PCO_ERROR_INVALID, "%s: %s", function, err.message);
    return 0;
}

int pco_nn_take_operands(const pco_nn *nn, const char *function, pco_nn_attention_operands *known,
                         const pco_nn_attention_operands *operands)
{
    pco_error err = {""};
    *known = PCO_NN_NO_OPERANDS;
    if (!operands || !pco_copy_sized(known, sizeof *known, operands, operands->size, &err)) return 1;
    pco_graph_fail(nn->graph, PCO_ERROR_INVALID, "%s: operands: %s; start from PCO_NN_NO_OPERANDS", function,
                   err.message);
    return 0;
}

int pco_nn_has(const pco_nn *nn, const char *function, uint32_t x, uint32_t rank)
{
    char shape[160];
    pco_graph *graph = nn->graph;
    if (!pco_graph_has(graph, x, function)) return 0;
    const pco_tensor *tensor = &graph->tensors[x];
    if (tensor->rank == rank) return 1;
    pco_graph_fail(graph, PCO_ERROR_INVALID, "%s: '%s' has shape %s, and should have %" PRIu32 " dimensions", function,
                   tensor->name ? tensor->name : "", pco_shape_text(tensor->rank, tensor->shape, shape, sizeof shape),
                   rank);
    return 0;
}

int pco_nn_size(const pco_nn *nn, const char *function, const char *what, int64_t size)
{
    if (nn->graph->status) return 0;
    if (size >= 1 && size <= PCO_NN_MOST) return 1;
    pco_graph_fail(nn->graph, PCO_ERROR_INVALID, "%s: %s is %" PRId64 ", and must be from 1 to %d", function, what,
                   size, PCO_NN_MOST);
    return 0;
}

int pco_nn_named(const pco_nn *nn, const char *function, const char *name)
{
    if (nn->graph->status) return 0;
    if (name && *name) return 1;
    pco_graph_fail(nn->graph, PCO_ERROR_INVALID, "%s: a weight has no name", function);
    return 0;
}
