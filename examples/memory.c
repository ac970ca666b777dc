/* Memory of a transformer block by kind, for several lengths: what the plan takes for activations and workspace, beside
 * the least that any plan could take, and beside activations that have memory of their own each. */
#include "kit.h"

#include <inttypes.h>
#include <stdio.h>

enum { WIDTH = 512, HEADS = 8, HIDDEN = 2048 };

int main(void)
{
    static const int64_t lengths[] = {16, 64, 256};
    const pco_nn_transformer_params block = {.size = sizeof block,
                                             .width = WIDTH,
                                             .heads = HEADS,
                                             .hidden = HIDDEN,
                                             .activation = PCO_NN_GELU,
                                             .normalize_before = 1,
                                             .fused_projection = 1,
                                             .causal = 1};
    kit k;
    kit_open(&k, "memory");
    printf("%6s %12s %12s %12s %12s %12s\n", "length", "weights", "arena", "at least", "transients", "in and out");
    for (int i = 0; i < 3; i++) {
        kit_begin(&k, NULL);
        uint32_t x = pco_graph_input(k.graph, "x", PCO_F32, 3, (int64_t[]){1, lengths[i], WIDTH});
        pco_graph_output(k.graph, pco_nn_encoder_layer(k.nn, x, "block", &block, NULL), "y");
        kit_ready(&k);
        const pco_executable_stats use = kit_memory(&k);
        printf("%6" PRId64 " %12" PRIu64 " %12" PRIu64 " %12" PRIu64 " %12" PRIu64 " %12" PRIu64 "\n", lengths[i],
               use.state_bytes, use.arena_bytes, use.arena_lower_bound, use.transient_bytes, use.io_bytes);
        /* bytes: a parameter has 4, an input or output row WIDTH of 4 */
        kit_check(&k, use.state_bytes >= 4 * (uint64_t)kit_parameters(&k), "weights");
        kit_check(&k, use.io_bytes >= 2 * 4 * WIDTH * (uint64_t)lengths[i], "inputs and outputs");
        kit_check(&k, use.arena_lower_bound >= 4 * HIDDEN * (uint64_t)lengths[i], "the hidden activations are alive");
        kit_check(&k, use.arena_lower_bound <= use.arena_bytes, "the arena holds what is alive at once");
        kit_check(&k,
                  pco_session_memory(k.session, NULL) ==
                      use.constant_bytes + use.state_bytes + use.arena_bytes + use.io_bytes,
                  "the kinds add up to what the session holds");
    }
    printf("\nbytes; a pre-norm block of width %d, %d heads, hidden width %d: %" PRId64 " parameters\n", WIDTH, HEADS,
           HIDDEN, kit_parameters(&k));
    return kit_close(&k);
}
