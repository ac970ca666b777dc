#include "nn/nn.h"

#include <inttypes.h>

uint32_t pco_nn_positions(const pco_nn *nn, int64_t first, int64_t length)
{
    if (!nn || !pco_nn_size(nn, __func__, "length", length)) return PCO_NONE;
    if (first < 0 || first > INT32_MAX - length)
        return pco_graph_fail(nn->graph, PCO_ERROR_INVALID, "%s: first is %" PRId64 ", and is no position", __func__,
                              first);
    return pco_iota(nn->graph, PCO_I32, 1, (double)first, 1, 2, (int64_t[]){1, length});
}

/* `positions`, or 0, 1, ... for each row of x, whose dimension 1 they are. */
static uint32_t positions_of(const pco_nn *nn, uint32_t x, uint32_t positions)
{
    return positions == PCO_NONE ? pco_nn_positions(nn, 0, nn->graph->tensors[x].shape[1]) : positions;
}

uint32_t pco_nn_sinusoidal(const pco_nn *nn, uint32_t x, uint32_t positions, int layout)
{
    if (!nn || !pco_nn_has(nn, __func__, x, 3)) return PCO_NONE;
    pco_graph *graph = nn->graph;
    int64_t width = graph->tensors[x].shape[2];
    if (width <= 0 || width % 2 || width > PCO_NN_MOST)
        return pco_graph_fail(graph, PCO_ERROR_INVALID, "sinusoidal positions need an even width, and it is %lld",
                              (long long)width);
    if (layout < 0 || layout > 2)
        return pco_graph_fail(graph, PCO_ERROR_INVALID, "%s: there is no layout %d", __func__, layout);
    positions = positions_of(nn, x, positions);
    uint32_t phase = pco_sinusoidal_phase(graph, (uint32_t)width, layout == 1);
    pco_sinusoidal_positions_attrs attrs = {.layout = layout != 0, .dtype = PCO_F32};
    uint32_t inputs[] = {positions, phase};
    uint32_t encoding = pco_graph_add(graph, PCO_OP_SINUSOIDAL_POSITIONS, &attrs, inputs, 2, NULL);
    return pco_binary(graph, PCO_OP_ADD, x, encoding);
}

uint32_t pco_nn_learned_positions(const pco_nn *nn, uint32_t x, uint32_t positions, const char *name, int64_t rows)
{
    if (!nn || !pco_nn_has(nn, __func__, x, 3) || !pco_nn_named(nn, __func__, name)) return PCO_NONE;
    const int64_t *shape = nn->graph->tensors[x].shape;
    if (positions == PCO_NONE && rows < shape[1])
        return pco_graph_fail(nn->graph, PCO_ERROR_INVALID,
                              "%s: %" PRId64 " positions are not enough for %" PRId64 " rows", name, rows, shape[1]);
    positions = positions_of(nn, x, positions);
    return pco_binary(nn->graph, PCO_OP_ADD, x, pco_nn_embedding(nn, positions, name, rows, shape[2]));
}

uint32_t pco_nn_rope(const pco_nn *nn, uint32_t x, uint32_t positions, uint32_t phase, int interleaved,
                     double amplitude)
{
    if (!nn || !pco_nn_has(nn, __func__, x, 4)) return PCO_NONE;
    positions = positions_of(nn, x, positions);
    pco_rope_attrs attrs = {.interleaved = interleaved, .scale = amplitude > 0 ? amplitude : 1};
    return pco_graph_add(nn->graph, PCO_OP_ROPE, &attrs, (uint32_t[]){x, positions, phase}, 3, NULL);
}
