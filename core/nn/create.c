/* What the functions of portico/nn.h build with. */
#include "nn/nn.h"

#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* What the caller owns: where to build, and the list of its parameters. */
typedef struct nn_owned {
    pco_nn nn;
    pco_nn_training training;
} nn_owned;

static uint32_t nn_create_fail(pco_graph *graph, const char *what)
{
    return pco_graph_fail(graph, PCO_ERROR_INVALID, "pco_nn_create: %s", what);
}

pco_nn *pco_nn_create(pco_graph *graph, const pco_nn_params *params)
{
    pco_nn_params known = {.size = sizeof known};
    pco_error err = {""};
    if (!graph || graph->status) return NULL;
    if (params && pco_copy_sized(&known, sizeof known, params, params->size, &err)) {
        nn_create_fail(graph, err.message);
        return NULL;
    }
    const int half = known.dtype == PCO_F16 || known.dtype == PCO_BF16;
    if (!half && known.dtype != PCO_F32)
        nn_create_fail(graph, "dtype is none of f32, f16 and bf16");
    else if (!(known.dropout >= 0 && known.dropout < 1))
        nn_create_fail(graph, "dropout is not in [0, 1)");
    else if (known.weights && (half || known.dropout > 0))
        nn_create_fail(graph, "dtype and dropout are for parameters, and these weights are a file's");
    nn_owned *owned = graph->status ? NULL : calloc(1, sizeof *owned);
    if (!owned) {
        pco_graph_fail(graph, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory while building a graph");
        return NULL;
    }
    owned->nn = (pco_nn){.graph = graph, .weights = known.weights, .keep_attention = known.keep_attention != 0};
    if (!known.weights) {
        owned->nn.training = &owned->training;
        pco_nn_training_begin(&owned->nn, known.dtype, known.dropout, 0);
    }
    return &owned->nn;
}

void pco_nn_destroy(pco_nn *nn)
{
    if (!nn) return;
    nn_owned *owned = (nn_owned *)nn;
    pco_nn_training_release(&owned->training);
    free(owned);
}

void pco_nn_scope(pco_nn *nn, const char *format, ...)
{
    char text[256];
    va_list args;
    if (!nn || nn->graph->status) return;
    if (!format) {
        pco_graph_fail(nn->graph, PCO_ERROR_INVALID, "pco_nn_scope: format is NULL");
        return;
    }
    va_start(args, format);
    const int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= sizeof text) {
        pco_graph_fail(nn->graph, PCO_ERROR_INVALID, "pco_nn_scope: '%.40s...' has more than 255 bytes", text);
        return;
    }
    nn->scope = NULL;
    const char *scope = pco_nn_name(nn, "%s", text);
    nn->scope = *scope ? scope : NULL;
    pco_graph_scope(nn->graph, "%s", scope);
}

uint32_t pco_nn_parameters(const pco_nn *nn, uint32_t *tensors, uint32_t capacity)
{
    const pco_nn_training *training = nn ? nn->training : NULL;
    if (!training) return 0;
    for (uint32_t i = 0; tensors && i < training->count && i < capacity; i++) tensors[i] = training->items[i].tensor;
    return training->count;
}
