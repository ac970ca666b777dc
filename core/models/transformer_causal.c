/* A decoder alone, run with a cache of keys and values. */
#include "models/transformer.h"

void pco_transformer_build_causal(const pco_nn *nn, const pco_transformer_config *config, int64_t context,
                                  int64_t rows, int all_logits)
{
    pco_graph *graph = nn->graph;
    const int64_t one[1] = {1}, row_shape[2] = {1, rows};
    uint32_t ids = pco_graph_input(graph, "ids", PCO_I32, 2, row_shape);
    pco_transformer_decoder decoder = {.memory = PCO_NONE, .padding = {PCO_NONE, PCO_NONE}};
    decoder.positions = pco_graph_value(graph, "positions", PCO_I32, 2, row_shape);
    decoder.starts = pco_graph_value(graph, "starts", PCO_I32, 1, one);
    decoder.lengths = pco_graph_value(graph, "lengths", PCO_I32, 1, one);
    decoder.key_states = pco_transformer_states(nn, config, context, "cache.key");
    decoder.value_states = pco_transformer_states(nn, config, context, "cache.value");
    if (graph->status) return;
    uint32_t x = pco_transformer_decode_layers(nn, config, ids, &decoder);
    x = pco_reshape(graph, x, 2, (int64_t[]){rows, config->d_model});
    if (!all_logits && rows > 1)
        x = pco_gather(graph, x, pco_graph_value(graph, "row", PCO_I32, 1, (int64_t[]){1}), 0);
    pco_graph_output(graph, pco_transformer_head(nn, config, x), "logits");
}
