/* Feed-forward networks with ReLU, GELU and SwiGLU (Shazeer 2020), side by side: parameters, memory, time.
 *
 * SwiGLU has three matrices where the others have two, so with the same hidden width it is half as large
 * again; with two thirds of the hidden width it is as large. Gate and up can be one fused projection. */
#include "kit.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { BATCH = 4, LENGTH = 32, WIDTH = 256, HIDDEN = 1024, COUNT = BATCH * LENGTH * WIDTH, KINDS = 5 };

static const struct {
    const char *name;
    pco_nn_ffn_params params;
} kinds[KINDS] = {
    {"ReLU",
     {.size = sizeof(pco_nn_ffn_params),
      .activation = PCO_NN_RELU,
      .fc1 = "relu.fc1",
      .fc2 = "relu.fc2",
      .hidden = HIDDEN}},
    {"GELU",
     {.size = sizeof(pco_nn_ffn_params),
      .activation = PCO_NN_GELU,
      .fc1 = "gelu.fc1",
      .fc2 = "gelu.fc2",
      .hidden = HIDDEN}},
    {"SwiGLU, 2/3",
     {.size = sizeof(pco_nn_ffn_params),
      .activation = PCO_NN_SWIGLU,
      .gate = "thirds.gate",
      .up = "thirds.up",
      .down = "thirds.down",
      .hidden = HIDDEN * 2 / 3}},
    {"SwiGLU, same width",
     {.size = sizeof(pco_nn_ffn_params),
      .activation = PCO_NN_SWIGLU,
      .gate = "full.gate",
      .up = "full.up",
      .down = "full.down",
      .hidden = HIDDEN}},
    {"SwiGLU, 2/3, fused",
     {.size = sizeof(pco_nn_ffn_params),
      .activation = PCO_NN_SWIGLU,
      .gate_up = "fused.gate_up",
      .down = "fused.down",
      .hidden = HIDDEN * 2 / 3}},
};

/* The fused one computes with the weights of the other one of its size. */
static void share_weights(kit *k, uint64_t hidden)
{
    static const char *const matrices[] = {"thirds.gate.weight", "thirds.up.weight"};
    static const char *const biases[] = {"thirds.gate.bias", "thirds.up.bias"};
    kit_join(k, "fused.gate_up.weight", matrices, 2, hidden * WIDTH * sizeof(float));
    kit_join(k, "fused.gate_up.bias", biases, 2, hidden * sizeof(float));
    kit_join(k, "fused.down.weight", (const char *const[]){"thirds.down.weight"}, 1, hidden * WIDTH * sizeof(float));
    kit_join(k, "fused.down.bias", (const char *const[]){"thirds.down.bias"}, 1, WIDTH * sizeof(float));
}

int main(void)
{
    static float x[COUNT], y[KINDS][COUNT];
    int64_t parameters[KINDS];
    kit k;
    kit_open(&k, "ffn");
    kit_random(x, COUNT, 1, 0, 1);
    printf("%-20s %7s %11s %11s %11s %11s %11s %9s\n", "feed-forward", "hidden", "parameters", "weights, B", "arena, B",
           "at least", "transients", "ms");
    for (int i = 0; i < KINDS; i++) {
        pco_nn_ffn_params params = kinds[i].params;
        params.width = WIDTH;
        params.bias = 1;
        kit_begin(&k, NULL);
        uint32_t in = pco_graph_input(k.graph, "x", PCO_F32, 3, (int64_t[]){BATCH, LENGTH, WIDTH});
        pco_graph_output(k.graph, pco_nn_ffn(k.nn, in, &params), "y");
        kit_ready(&k);
        if (params.gate_up) share_weights(&k, (uint64_t)params.hidden);
        kit_map(&k, x, COUNT, y[i], COUNT);
        const pco_executable_stats use = kit_memory(&k);
        parameters[i] = kit_parameters(&k);
        printf("%-20s %7" PRId64 " %11" PRId64 " %11" PRIu64 " %11" PRIu64 " %11" PRIu64 " %11" PRIu64 " %9.3f\n",
               kinds[i].name, params.hidden, parameters[i], use.state_bytes, use.arena_bytes, use.arena_lower_bound,
               use.transient_bytes, 1e3 * kit_seconds(&k));
        kit_check(&k, use.state_bytes >= 4 * (uint64_t)parameters[i], "the weights take 4 bytes a parameter");
        kit_check(&k, use.arena_lower_bound <= use.arena_bytes, "the arena holds what is alive at once");
    }
    printf("\ninput %d x %d x %d; with two thirds of the width, SwiGLU has %.3f times the parameters of ReLU\n", BATCH,
           LENGTH, WIDTH, (double)parameters[2] / (double)parameters[0]);
    kit_check(&k, parameters[0] == 525568 && parameters[1] == 525568, "2 * 256 * 1024 + 1024 + 256 parameters");
    kit_check(&k, parameters[2] == 525396 && parameters[4] == 525396, "3 * 256 * 682 + 2 * 682 + 256 parameters");
    kit_check(&k, parameters[3] == 788736, "3 * 256 * 1024 + 2 * 1024 + 256 parameters");
    /* as the goldens are compared: 1e-5 of an element and of the rms */
    kit_check(&k, kit_difference(y[2], y[4], COUNT) <= 1e-5 * kit_rms(y[2], COUNT), "fused or not, the same result");
    return kit_close(&k);
}
