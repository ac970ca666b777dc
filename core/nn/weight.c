#include "nn/nn.h"

#include "base/dtype.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *pco_nn_name(const pco_nn *nn, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= sizeof text) {
        pco_graph_fail(nn->graph, PCO_ERROR_INVALID, "the name '%.40s...' has more than 255 bytes", text);
        return "";
    }
    const char *copy = pco_arena_text(&nn->graph->arena, text);
    if (copy) return copy;
    pco_graph_fail(nn->graph, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory while building a graph");
    return "";
}

const char *pco_nn_scoped(const pco_nn *nn, const char *name)
{
    return nn->scope ? pco_nn_name(nn, "%s.%s", nn->scope, name) : name;
}

/* The classes of types that a constant of that rank may have as an operand. */
static uint32_t nn_classes(uint32_t rank)
{
    return rank >= 2 ? PCO_DTYPE_FLOAT | PCO_DTYPE_QUANTISED : PCO_DTYPE_FLOAT;
}

/* The tensor in the file, checked; NULL after a kept error. */
static const pco_weight *nn_find(const pco_nn *nn, const char *name, uint32_t rank, const int64_t *shape)
{
    char wanted[160], found[160];
    const char *file = nn->weights->label;
    const pco_weight *weight = pco_weights_find(nn->weights, name);
    pco_shape_text(rank, shape, wanted, sizeof wanted);
    if (!weight) {
        pco_graph_fail(nn->graph, PCO_ERROR_NOT_FOUND, "%s has no tensor '%s', which should have shape %s", file, name,
                       wanted);
        return NULL;
    }
    if (weight->dtype < 0 || !(pco_dtype_class_of((uint32_t)weight->dtype) & nn_classes(rank))) {
        char types[PCO_DTYPE_LIST];
        pco_graph_fail(nn->graph, PCO_ERROR_UNSUPPORTED, "tensor '%s' is %s, which Portico cannot run; use %s", name,
                       weight->type_name, pco_dtype_list(nn_classes(rank), "or", types, sizeof types));
        return NULL;
    }
    if (weight->rank != rank || memcmp(weight->shape, shape, rank * sizeof *shape) != 0) {
        pco_graph_fail(nn->graph, PCO_ERROR_FORMAT, "tensor '%s' of %s has shape %s and should have %s", name, file,
                       pco_shape_text(weight->rank, weight->shape, found, sizeof found), wanted);
        return NULL;
    }
    if (!weight->data) {
        pco_graph_fail(nn->graph, PCO_ERROR_FORMAT, "tensor '%s' of %s has no data", name, file);
        return NULL;
    }
    return weight;
}

/* The constant of that name, when the graph has it already. */
static uint32_t nn_known(const pco_nn *nn, const char *name)
{
    const pco_graph *graph = nn->graph;
    for (uint32_t i = 0; i < graph->n_tensors; i++)
        if (graph->tensors[i].kind == PCO_KIND_CONSTANT && strcmp(graph->tensors[i].name, name) == 0) return i;
    return PCO_NONE;
}

void pco_nn_set_role(const pco_nn *nn, const char *name, pco_nn_role role)
{
    if (!nn || nn->graph->status || !pco_nn_named(nn, __func__, name) || !nn->training) return;
    pco_nn_parameter *parameter = (pco_nn_parameter *)pco_nn_training_find(nn->training, pco_nn_scoped(nn, name));
    if ((uint32_t)role > PCO_NN_ROLE_RESIDUAL)
        pco_graph_fail(nn->graph, PCO_ERROR_INVALID, "'%s': there is no role %d", name, (int)role);
    else if (parameter)
        parameter->role = role;
}

uint32_t pco_nn_activations(const pco_nn *nn, uint32_t x)
{
    if (!nn) return PCO_NONE;
    return nn->training ? pco_cast(nn->graph, x, nn->training->dtype) : x;
}

/* Are weights states? */
static int nn_trains(const pco_nn *nn) { return nn->training && !nn->training->lora; }

uint32_t pco_nn_matrix(const pco_nn *nn, uint32_t weight)
{
    return nn_trains(nn) ? pco_nn_activations(nn, weight) : weight;
}

uint32_t pco_nn_dropout(const pco_nn *nn, uint32_t x)
{
    if (!nn) return PCO_NONE;
    return nn->training ? pco_nn_dropout_by(nn, x, nn->training->dropout) : x;
}

uint32_t pco_nn_dropout_by(const pco_nn *nn, uint32_t x, double p)
{
    pco_nn_training *training = nn->training;
    if (!training || p <= 0) return x;
    pco_dropout_attrs attrs = {.p = p, .stream = training->streams++};
    uint32_t inputs[] = {x, training->seed, training->offset};
    return pco_graph_add(nn->graph, PCO_OP_DROPOUT, &attrs, inputs, 3, NULL);
}

uint32_t pco_nn_weight(const pco_nn *nn, const char *name, uint32_t rank, const int64_t *shape)
{
    if (!nn || nn->graph->status || !pco_nn_named(nn, __func__, name)) return PCO_NONE;
    if (!shape || rank < 1 || rank > PCO_MAX_RANK)
        return pco_graph_fail(nn->graph, PCO_ERROR_INVALID, "'%s': a weight has a shape of 1 to %d dimensions", name,
                              PCO_MAX_RANK);
    name = pco_nn_scoped(nn, name);
    if (nn->graph->status) return PCO_NONE;
    if (nn_trains(nn)) return pco_nn_parameter_state(nn, name, rank, shape);
    const pco_weight *weight = nn_find(nn, name, rank, shape);
    if (!weight) return PCO_NONE;
    uint32_t known = nn_known(nn, name);
    if (known != PCO_NONE) return known;
    return pco_graph_constant(nn->graph, name, (pco_dtype)weight->dtype, rank, shape, weight->data);
}

/* Rows of the tensor as a constant of that shape, whose first dimension counts them; `rows` is how many the whole has.
 */
static uint32_t nn_rows(const pco_nn *nn, const pco_weight *weight, int64_t rows, uint32_t rank, const int64_t *shape,
                        int64_t first)
{
    const char *part = pco_nn_name(nn, "%s[%" PRId64 ":%" PRId64 "]", weight->name, first, first + shape[0]);
    uint32_t known = nn_known(nn, part);
    if (known != PCO_NONE) return known;
    uint64_t row_bytes = rows ? weight->bytes / (uint64_t)rows : 0;
    const char *data = (const char *)weight->data + (uint64_t)first * row_bytes;
    return pco_graph_constant(nn->graph, part, (pco_dtype)weight->dtype, rank, shape, data);
}

uint32_t pco_nn_weight_rows(const pco_nn *nn, const char *name, uint32_t rank, const int64_t *shape, int64_t first,
                            int64_t count)
{
    name = pco_nn_scoped(nn, name);
    if (nn->graph->status) return PCO_NONE;
    if (nn_trains(nn)) return pco_slice_axis(nn->graph, pco_nn_parameter_state(nn, name, rank, shape), 0, first, count);
    const pco_weight *weight = nn_find(nn, name, rank, shape);
    if (!weight) return PCO_NONE;
    int64_t part_shape[PCO_MAX_RANK];
    memcpy(part_shape, shape, rank * sizeof *shape);
    part_shape[0] = count;
    return nn_rows(nn, weight, shape[0], rank, part_shape, first);
}

uint32_t pco_nn_weight_stack(const pco_nn *nn, const char *name, const int64_t shape[3], int64_t first, int64_t count)
{
    const int64_t rows = shape[0] * shape[1];
    name = pco_nn_scoped(nn, name);
    if (nn->graph->status) return PCO_NONE;
    if (nn_trains(nn)) {
        const uint32_t all = pco_nn_parameter_stack(nn, name, shape);
        return count == rows ? all : pco_slice_axis(nn->graph, all, 0, first, count);
    }
    const pco_weight *weight = nn_find(nn, name, 3, shape);
    return weight ? nn_rows(nn, weight, rows, 2, (int64_t[]){count, shape[2]}, first) : PCO_NONE;
}
