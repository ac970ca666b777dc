/* Mixtures of experts (Shazeer et al. 2017; Fedus et al. 2022): each row goes through a few of many feed-forward
 * blocks.
 *
 * All experts see all rows, and what was not chosen counts 0: matrices of all experts lie one behind the other and are
 * one product, in any type, on any device. It is the right result at the price of a dense model. */
#include "nn/nn.h"

/* x [B,S,width] -> the part of each expert, f32 [B,S,experts]: softmax of the router's product, 0 for all but the
 * `used` largest. */
static uint32_t nn_route(const pco_nn *nn, uint32_t x, const pco_nn_ffn_params *params)
{
    pco_graph *graph = nn->graph;
    const pco_nn_linear_params router = {
        .size = sizeof router, .name = params->router, .in_features = params->width, .out_features = params->experts};
    const uint32_t parts = pco_softmax(graph, pco_cast(graph, pco_nn_linear(nn, x, &router), PCO_F32), -1);
    const pco_top_k_attrs attrs = {.axis = -1, .k = params->experts_used, .largest = 1};
    uint32_t top[PCO_MAX_OUTPUTS];
    pco_graph_add(graph, PCO_OP_TOP_K, &attrs, &parts, 1, top);
    if (graph->status) return PCO_NONE;
    const int64_t *shape = graph->tensors[top[1]].shape;
    const uint32_t index = pco_reshape(graph, top[1], 4, (int64_t[]){shape[0], shape[1], shape[2], 1});
    const uint32_t number = pco_iota(graph, PCO_I32, 3, 0, 1, 4, (int64_t[]){1, 1, 1, params->experts});
    const uint32_t equal = pco_cast(graph, pco_binary(graph, PCO_OP_EQ, index, number), PCO_F32);
    const uint32_t chosen = pco_binary(graph, PCO_OP_MUL, parts, pco_reduce(graph, PCO_OP_SUM, equal, 2, 0));
    if (!params->experts_normalized) return chosen;
    return pco_binary(graph, PCO_OP_DIV, chosen, pco_reduce(graph, PCO_OP_SUM, chosen, 2, 1));
}

/* x times the matrices of all experts: [B,S,experts*hidden]. */
static uint32_t nn_project_all(const pco_nn *nn, uint32_t x, const char *name, const pco_nn_ffn_params *params)
{
    if (!pco_nn_named(nn, "experts", name)) return PCO_NONE;
    const int64_t shape[3] = {params->experts, params->hidden, params->width};
    const uint32_t weight = pco_nn_weight_stack(nn, pco_nn_name(nn, "%s.weight", name), shape, 0, shape[0] * shape[1]);
    return pco_linear(nn->graph, x, pco_nn_matrix(nn, weight), PCO_NONE, PCO_NN_IDENTITY);
}

uint32_t pco_nn_experts(const pco_nn *nn, uint32_t x, const pco_nn_ffn_params *params)
{
    pco_graph *graph = nn->graph;
    const int64_t experts = params->experts, hidden = params->hidden, width = params->width;
    if (!pco_nn_has(nn, "experts", x, 3) || !pco_nn_named(nn, "experts", params->down)) return PCO_NONE;
    const uint32_t parts = nn_route(nn, x, params);
    const uint32_t pair[2] = {nn_project_all(nn, x, params->gate, params), nn_project_all(nn, x, params->up, params)};
    uint32_t inner = pco_graph_add(graph, PCO_OP_SWIGLU, NULL, pair, 2, NULL), sum = PCO_NONE;
    if (graph->status) return PCO_NONE;
    const int64_t batch = graph->tensors[x].shape[0], rows = graph->tensors[x].shape[1];
    const uint32_t dtype = graph->tensors[inner].dtype;
    inner = pco_reshape(graph, inner, 4, (int64_t[]){batch, rows, experts, hidden});
    const uint32_t factor = pco_reshape(graph, parts, 4, (int64_t[]){batch, rows, experts, 1});
    inner = pco_binary(graph, PCO_OP_MUL, inner, pco_cast(graph, factor, (pco_dtype)dtype));
    inner = pco_reshape(graph, inner, 3, (int64_t[]){batch, rows, experts * hidden});
    const char *down = pco_nn_name(nn, "%s.weight", params->down);
    for (int64_t e = 0; e < experts && !graph->status; e++) {
        const uint32_t weight = pco_nn_weight_stack(nn, down, (int64_t[]){experts, width, hidden}, e * width, width);
        const uint32_t part = pco_slice_axis(graph, inner, 2, e * hidden, hidden);
        const uint32_t y = pco_linear(graph, part, pco_nn_matrix(nn, weight), PCO_NONE, PCO_NN_IDENTITY);
        sum = e ? pco_binary(graph, PCO_OP_ADD, y, sum) : y;
    }
    return sum;
}
