#include "nn/nn.h"

uint32_t pco_nn_positions(const pco_nn *nn, int64_t first, int64_t length)
{
    return pco_iota(nn->graph, PCO_I32, 1, (double)first, 1, 2, (int64_t[]){1, length});
}

uint32_t pco_nn_sinusoidal(const pco_nn *nn, uint32_t x, uint32_t positions, int layout)
{
    pco_graph *graph = nn->graph;
    if (graph->status || x == PCO_NONE) return PCO_NONE;
    const pco_tensor *tensor = &graph->tensors[x];
    int64_t width = tensor->rank ? tensor->shape[tensor->rank - 1] : 0;
    if (width <= 0 || width % 2)
        return pco_graph_fail(graph, PCO_ERROR_INVALID, "sinusoidal positions need an even width, and it is %lld",
                              (long long)width);
    uint32_t phase = pco_sinusoidal_phase(graph, (uint32_t)width, layout == 1);
    pco_sinusoidal_positions_attrs attrs = {.layout = layout != 0, .dtype = PCO_F32};
    uint32_t inputs[] = {positions, phase};
    uint32_t encoding = pco_graph_add(graph, PCO_OP_SINUSOIDAL_POSITIONS, &attrs, inputs, 2, NULL);
    return pco_binary(graph, PCO_OP_ADD, x, encoding);
}

uint32_t pco_nn_rope(const pco_nn *nn, uint32_t x, uint32_t positions, uint32_t phase, int interleaved,
                     double amplitude)
{
    pco_rope_attrs attrs = {.interleaved = interleaved, .scale = amplitude > 0 ? amplitude : 1};
    return pco_graph_add(nn->graph, PCO_OP_ROPE, &attrs, (uint32_t[]){x, positions, phase}, 3, NULL);
}
