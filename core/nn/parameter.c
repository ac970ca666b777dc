/* Weights that are trained: states of the graph, in a list. */
#include "nn/nn.h"

#include "base/dtype.h"

#include <stdlib.h>
#include <string.h>

const pco_nn_parameter *pco_nn_training_find(const pco_nn_training *training, const char *name)
{
    for (uint32_t i = 0; i < training->count; i++)
        if (strcmp(training->items[i].name, name) == 0) return &training->items[i];
    return NULL;
}

void pco_nn_training_release(pco_nn_training *training)
{
    for (uint32_t i = 0; i < training->count; i++) free(training->items[i].name);
    free(training->items);
    *training = (pco_nn_training){0};
}

void pco_nn_training_begin(const pco_nn *nn, pco_dtype dtype, double dropout, double lora_dropout)
{
    pco_nn_training *training = nn->training;
    training->streams = 0;
    training->layers = NULL;
    training->dtype = dtype;
    training->dropout = dropout;
    training->lora_dropout = lora_dropout;
    if (dropout <= 0 && lora_dropout <= 0) return;
    training->seed = pco_graph_value(nn->graph, "dropout_seed", PCO_I32, 1, (int64_t[]){2});
    training->offset = pco_graph_value(nn->graph, "dropout_offset", PCO_I32, 1, (int64_t[]){2});
}

static pco_nn_parameter *parameter_add(pco_nn_training *training, const char *name, uint32_t rank, const int64_t *shape)
{
    if (training->count == training->capacity) {
        uint32_t capacity = training->capacity ? 2 * training->capacity : 64;
        pco_nn_parameter *items = realloc(training->items, capacity * sizeof *items);
        if (!items) return NULL;
        training->items = items;
        training->capacity = capacity;
    }
    pco_nn_parameter *parameter = &training->items[training->count];
    *parameter = (pco_nn_parameter){.rank = rank};
    memcpy(parameter->shape, shape, rank * sizeof *shape);
    if (!(parameter->name = strdup(name))) return NULL;
    training->count++;
    return parameter;
}

int pco_nn_training_copy(pco_nn_training *to, const pco_nn_training *from)
{
    for (uint32_t i = 0; i < from->count; i++) {
        const pco_nn_parameter *p = &from->items[i];
        pco_nn_parameter *copy = parameter_add(to, p->name, p->rank, p->shape);
        if (!copy) {
            pco_nn_training_release(to);
            return 0;
        }
        copy->role = p->role;
        copy->stack = p->stack;
        copy->tensor = PCO_NONE;
    }
    return 1;
}

uint32_t pco_nn_parameter_state(const pco_nn *nn, const char *name, uint32_t rank, const int64_t *shape)
{
    char wanted[160], found[160];
    pco_graph *graph = nn->graph;
    pco_nn_parameter *parameter = (pco_nn_parameter *)pco_nn_training_find(nn->training, name);
    if (parameter && (parameter->rank != rank || memcmp(parameter->shape, shape, rank * sizeof *shape) != 0))
        return pco_graph_fail(graph, PCO_ERROR_INVALID, "parameter '%s' has shape %s, and %s is asked for too", name,
                              pco_shape_text(parameter->rank, parameter->shape, found, sizeof found),
                              pco_shape_text(rank, shape, wanted, sizeof wanted));
    const uint32_t known = pco_graph_find(graph, name);
    const uint32_t tensor = known != PCO_NONE ? known : pco_graph_state(graph, name, PCO_F32, rank, shape);
    if (graph->status) return PCO_NONE;
    const pco_tensor *x = &graph->tensors[tensor];
    if (x->kind != PCO_KIND_STATE || x->dtype != PCO_F32 || x->rank != rank ||
        memcmp(x->shape, shape, rank * sizeof *shape) != 0)
        return pco_graph_fail(graph, PCO_ERROR_INVALID,
                              "parameter '%s' of shape %s cannot be: a tensor of that name is in the graph already",
                              name, pco_shape_text(rank, shape, wanted, sizeof wanted));
    if (!parameter && !(parameter = parameter_add(nn->training, name, rank, shape)))
        return pco_graph_fail(graph, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory while building a graph");
    return parameter->tensor = tensor;
}

uint32_t pco_nn_parameter_stack(const pco_nn *nn, const char *name, const int64_t shape[3])
{
    const uint32_t state = pco_nn_parameter_state(nn, name, 3, shape);
    pco_nn_parameter *parameter = (pco_nn_parameter *)pco_nn_training_find(nn->training, name);
    if (parameter) parameter->stack = 1;
    return pco_reshape(nn->graph, state, 2, (int64_t[]){shape[0] * shape[1], shape[2]});
}
