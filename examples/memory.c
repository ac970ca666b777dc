/* Memory of a transformer block by kind, for several lengths: what the plan takes for activations and
 * workspace, beside the least that any plan could take and what it were without one. */
#include "kit.h"

#include <inttypes.h>
#include <stdio.h>

enum { WIDTH = 512, HEADS = 8, HIDDEN = 2048 };

int main(void)
{
    static const int64_t lengths[] = {16, 64, 256};
    pco_nn_layer_params layer = {.normalize_before = 1,
                                 .norm = {sizeof layer.norm, PCO_NN_LAYER_NORM, PCO_NN_VAR_EPS, 1e-5, WIDTH},
                                 .self_attention_norm = "block.norm1",
                                 .ffn_norm = "block.norm2",
                                 .self_attention = kit_causal(WIDTH, HEADS),
                                 .ffn = {.size = sizeof layer.ffn,
                                         .activation = PCO_NN_GELU,
                                         .fc1 = "block.fc1",
                                         .fc2 = "block.fc2",
                                         .width = WIDTH,
                                         .hidden = HIDDEN,
                                         .bias = 1}};
    const pco_nn_attention_operands none = PCO_NN_NO_OPERANDS;
    kit k;
    layer.self_attention.fused = "block.qkv";
    layer.self_attention.output = "block.proj";
    kit_open(&k, "memory");
    kit_layer(&k, &layer, 0);
    printf("%6s %12s %12s %12s %12s %12s %12s %12s\n", "length", "weights", "activations", "workspace", "arena",
           "at least", "unplanned", "in and out");
    for (int i = 0; i < 3; i++) {
        pco_memory_total totals[PCO_MEMORY_DEVICES];
        kit_begin(&k);
        uint32_t x = pco_graph_input(k.nn.graph, "x", PCO_F32, 3, (int64_t[]){1, lengths[i], WIDTH});
        pco_graph_output(k.nn.graph, pco_nn_self_layer(&k.nn, x, &layer, &none), "y");
        kit_ready(&k);
        const pco_memory_use use = kit_memory(&k);
        printf("%6" PRId64 " %12" PRIu64 " %12" PRIu64 " %12" PRIu64 " %12" PRIu64 " %12" PRIu64 " %12" PRIu64
               " %12" PRIu64 "\n",
               lengths[i], use.weights, use.activations, use.workspace, use.arena, use.lower_bound, use.unplanned,
               use.io);
        /* bytes: a parameter has 4, an input or output row WIDTH of 4 */
        kit_check(&k, use.weights >= 4 * (uint64_t)kit_parameters(&k, "block."), "weights");
        kit_check(&k, use.io >= 2 * 4 * WIDTH * (uint64_t)lengths[i], "inputs and outputs");
        kit_check(&k, use.activations >= 4 * HIDDEN * (uint64_t)lengths[i], "the hidden activations are alive");
        kit_check(&k, use.lower_bound <= use.arena && use.lower_bound <= use.unplanned, "arena and lower bound");
        uint32_t devices = pco_session_totals(k.session, totals);
        uint64_t sum = 0;
        for (uint32_t d = 0; d < devices; d++) sum += totals[d].total;
        kit_check(&k, sum == pco_session_memory(k.session, NULL), "the kinds add up to what the device holds");
    }
    printf("\nbytes; a pre-norm block of width %d, %d heads, hidden width %d: %" PRId64 " parameters\n", WIDTH, HEADS,
           HIDDEN, kit_parameters(&k, "block."));
    return kit_close(&k);
}
