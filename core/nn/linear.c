#include "nn/nn.h"

#include <inttypes.h>
#include <string.h>

/* "name.weight", or "name_weight" for a name that ends in '_'. */
static const char *nn_part(const pco_nn *nn, const char *name, const char *part)
{
    size_t size = strlen(name);
    return pco_nn_name(nn, "%s%s%s", name, size && name[size - 1] == '_' ? "" : ".", part);
}

static int linear_good(const pco_nn *nn, const pco_nn_linear_params *params, int64_t rows)
{
    if (!pco_nn_named(nn, "pco_nn_linear", params->name) ||
        !pco_nn_size(nn, params->name, "in_features", params->in_features) ||
        !pco_nn_size(nn, params->name, "out_features", params->out_features))
        return 0;
    const int64_t first = params->first_row;
    if (first < 0 || rows < params->out_features || first > rows - params->out_features)
        pco_graph_fail(nn->graph, PCO_ERROR_INVALID, "%s: rows %" PRId64 " to %" PRId64 " are not all of %" PRId64,
                       params->name, first, first + params->out_features, rows);
    else if ((uint32_t)params->activation > PCO_NN_SILU && params->activation != PCO_NN_QUICK_GELU)
        pco_graph_fail(nn->graph, PCO_ERROR_INVALID, "%s: a projection has no activation %d", params->name,
                       (int)params->activation);
    return !nn->graph->status;
}

/* What matmul does with its attribute of that name, and what it has none for. */
static uint32_t linear_activation(const pco_nn *nn, uint32_t x, pco_nn_activation activation)
{
    const pco_gelu_attrs gelu = {.approximate = activation == PCO_NN_GELU_TANH};
    switch (activation) {
    case PCO_NN_RELU: return pco_unary(nn->graph, PCO_OP_RELU, x);
    case PCO_NN_SILU: return pco_unary(nn->graph, PCO_OP_SILU, x);
    case PCO_NN_GELU:
    case PCO_NN_GELU_TANH: return pco_graph_add(nn->graph, PCO_OP_GELU, &gelu, &x, 1, NULL);
    case PCO_NN_QUICK_GELU:
        return pco_binary(nn->graph, PCO_OP_MUL, x,
                          pco_unary(nn->graph, PCO_OP_SIGMOID, pco_binary_scalar(nn->graph, PCO_OP_MUL, x, 1.702)));
    default: return x;
    }
}

uint32_t pco_nn_linear(const pco_nn *nn, uint32_t x, const pco_nn_linear_params *params)
{
    pco_nn_linear_params known;
    if (!pco_nn_take(nn, __func__, &known, sizeof known, params)) return PCO_NONE;
    params = &known;
    int64_t rows = params->total_rows ? params->total_rows : params->out_features;
    const int64_t shape[2] = {rows, params->in_features};
    if (!linear_good(nn, params, rows)) return PCO_NONE;
    const char *weight_name = nn_part(nn, params->name, "weight");
    const char *bias_name = params->bias ? nn_part(nn, params->name, "bias") : NULL;
    uint32_t weight, bias = PCO_NONE;
    if (rows == params->out_features) {
        weight = pco_nn_weight(nn, weight_name, 2, shape);
        if (bias_name) bias = pco_nn_weight(nn, bias_name, 1, shape);
    } else {
        weight = pco_nn_weight_rows(nn, weight_name, 2, shape, params->first_row, params->out_features);
        if (bias_name) bias = pco_nn_weight_rows(nn, bias_name, 1, shape, params->first_row, params->out_features);
    }
    if (params->role != PCO_NN_ROLE_PLAIN) pco_nn_set_role(nn, weight_name, params->role);
    if (nn->graph->status) return PCO_NONE;
    x = pco_nn_activations(nn, x);
    const int adapted = pco_nn_adapted(nn, params->name);
    if (!adapted && params->activation != PCO_NN_QUICK_GELU)
        return pco_linear(nn->graph, x, pco_nn_matrix(nn, weight), bias, params->activation);
    uint32_t y = pco_linear(nn->graph, x, pco_nn_matrix(nn, weight), bias, PCO_NN_IDENTITY);
    if (adapted)
        y = pco_binary(nn->graph, PCO_OP_ADD, y,
                       pco_nn_adapter(nn, x, params->name, rows, params->first_row, params->out_features));
    return linear_activation(nn, y, params->activation);
}

uint32_t pco_nn_embedding(const pco_nn *nn, uint32_t ids, const char *name, int64_t vocab, int64_t width)
{
    if (!nn || !pco_nn_named(nn, __func__, name) || !pco_nn_size(nn, name, "vocab", vocab) ||
        !pco_nn_size(nn, name, "width", width))
        return PCO_NONE;
    uint32_t table = pco_nn_weight(nn, name, 2, (int64_t[]){vocab, width});
    pco_nn_set_role(nn, name, PCO_NN_ROLE_EMBEDDING);
    return pco_cast(nn->graph, pco_gather(nn->graph, table, ids, 0), PCO_F32);
}

/* The ids that mean nothing are never among the classes, so that their rows are cross_entropy's zeros. */
uint32_t pco_nn_cross_entropy(const pco_nn *nn, uint32_t logits, uint32_t labels, double smoothing)
{
    if (!nn || nn->graph->status) return PCO_NONE;
    pco_graph *graph = nn->graph;
    const pco_cross_entropy_attrs attrs = {.ignore_index = -100, .label_smoothing = smoothing};
    const uint32_t rows = pco_cross_entropy(graph, logits, labels, &attrs);
    const uint32_t counted = pco_cast(graph, pco_binary_scalar(graph, PCO_OP_NE, labels, -100), PCO_F32);
    const int64_t all[1] = {-1};
    const uint32_t sum = pco_reduce(graph, PCO_OP_SUM, pco_reshape(graph, rows, 1, all), 0, 1);
    const uint32_t count = pco_reduce(graph, PCO_OP_SUM, pco_reshape(graph, counted, 1, all), 0, 1);
    return pco_binary(graph, PCO_OP_DIV, sum, pco_binary_scalar(graph, PCO_OP_MAXIMUM, count, 1));
}
