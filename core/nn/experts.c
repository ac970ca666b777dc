/* Mixtures of experts (Shazeer et al. 2017; Fedus et al. 2022): each row goes through a few of many feed-forward
 * blocks. Matrices of all experts lie one behind the other, in any type, and only those that a row has chosen are
 * multiplied with it. */
#include "nn/nn.h"

/* x [B,S,width] -> the experts that each row takes, i32 [B,S,used], and the part of each, f32 [B,S,used]: the largest
 * of the softmax of the router's product. */
static uint32_t nn_route(const pco_nn *nn, uint32_t x, const pco_nn_ffn_params *params, uint32_t *chosen)
{
    pco_graph *graph = nn->graph;
    const pco_nn_linear_params router = {
        .size = sizeof router, .name = params->router, .in_features = params->width, .out_features = params->experts};
    const uint32_t parts = pco_softmax(graph, pco_cast(graph, pco_nn_linear(nn, x, &router), PCO_F32), -1);
    const pco_top_k_attrs attrs = {.axis = -1, .k = params->experts_used, .largest = 1};
    uint32_t top[PCO_MAX_OUTPUTS];
    pco_graph_add(graph, PCO_OP_TOP_K, &attrs, &parts, 1, top);
    if (graph->status) return PCO_NONE;
    *chosen = top[1];
    if (!params->experts_normalized) return top[0];
    return pco_binary(graph, PCO_OP_DIV, top[0], pco_reduce(graph, PCO_OP_SUM, top[0], 2, 1));
}

/* x [B,S,in], or [B,S,used,in], times the matrices [experts,out,in] of that name which were chosen: [B,S,used,out]. */
static uint32_t nn_project(const pco_nn *nn, uint32_t x, uint32_t chosen, const char *name, int64_t experts,
                           int64_t out, int64_t in)
{
    if (!pco_nn_named(nn, "experts", name)) return PCO_NONE;
    const pco_indexed_matmul_attrs attrs = {.matrices = experts};
    const uint32_t weight =
        pco_nn_weight_stack(nn, pco_nn_name(nn, "%s.weight", name), (int64_t[]){experts, out, in}, 0, experts * out);
    const uint32_t y = pco_graph_add(nn->graph, PCO_OP_INDEXED_MATMUL, &attrs,
                                     (uint32_t[]){x, pco_nn_matrix(nn, weight), chosen}, 3, NULL);
    if (nn->graph->status || !pco_nn_adapted(nn, name)) return y;
    return pco_binary(nn->graph, PCO_OP_ADD, y, pco_nn_expert_adapter(nn, x, chosen, name, experts, out, in));
}

uint32_t pco_nn_experts(const pco_nn *nn, uint32_t x, const pco_nn_ffn_params *params)
{
    pco_graph *graph = nn->graph;
    const int64_t experts = params->experts, hidden = params->hidden, width = params->width;
    if (!pco_nn_has(nn, "experts", x, 3) || !pco_nn_named(nn, "experts", params->down)) return PCO_NONE;
    uint32_t chosen = PCO_NONE;
    const uint32_t parts = nn_route(nn, x, params, &chosen);
    const uint32_t pair[2] = {nn_project(nn, x, chosen, params->gate, experts, hidden, width),
                              nn_project(nn, x, chosen, params->up, experts, hidden, width)};
    uint32_t inner = pco_graph_add(graph, PCO_OP_SWIGLU, NULL, pair, 2, NULL);
    if (graph->status) return PCO_NONE;
    const int64_t *shape = graph->tensors[inner].shape;
    const uint32_t factor = pco_reshape(graph, parts, 4, (int64_t[]){shape[0], shape[1], shape[2], 1});
    inner = pco_binary(graph, PCO_OP_MUL, inner, pco_cast(graph, factor, (pco_dtype)graph->tensors[inner].dtype));
    const uint32_t outer = nn_project(nn, inner, chosen, params->down, experts, width, hidden);
    return pco_reduce(graph, PCO_OP_SUM, outer, 2, 0);
}
