/* Sinusoidal positions (Vaswani et al. 2017) swapped for RoPE (Su et al. 2021) in a causal self-attention:
 * what changes when the same tokens stand later in the text. RoPE sees distances only, so nothing does. */
#include "kit.h"

#include <inttypes.h>
#include <stdio.h>

enum { LENGTH = 12, WIDTH = 64, HEADS = 4, COUNT = LENGTH * WIDTH, SHIFTS = 4 };

typedef enum positions { NONE, SINUSOIDAL, ROPE, KINDS } positions;

static void build(kit *k, positions kind)
{
    const pco_nn_attention_params attention = {.size = sizeof attention,
                                               .name = "attention", /* the three share their weights */
                                               .width = WIDTH,
                                               .heads = HEADS,
                                               .bias = 1,
                                               .output_bias = 1,
                                               .causal = 1};
    pco_nn_attention_operands self = PCO_NN_NO_OPERANDS;
    kit_begin(k, NULL);
    pco_graph *graph = k->graph;
    uint32_t x = pco_graph_input(graph, "x", PCO_F32, 3, (int64_t[]){1, LENGTH, WIDTH});
    uint32_t at = pco_graph_value(graph, "positions", PCO_I32, 2, (int64_t[]){1, LENGTH});
    if (kind == SINUSOIDAL) x = pco_nn_sinusoidal(k->nn, x, at, 0);
    if (kind == ROPE) {
        self.phase = pco_rope_phase(graph, 10000, WIDTH / HEADS, NULL);
        self.positions = at;
    }
    pco_graph_output(graph, pco_nn_attention(k->nn, x, &attention, &self), "y");
    kit_ready(k);
}

int main(void)
{
    static const char *const names[KINDS] = {"none", "sinusoidal", "RoPE"};
    static const int32_t shifts[SHIFTS] = {0, 1, 100, 4000};
    static float x[COUNT], y[KINDS][SHIFTS][COUNT];
    double change[KINDS][SHIFTS];
    kit k;
    kit_open(&k, "positions");
    kit_random(x, COUNT, 5, 0, 1);
    printf("%-12s", "positions");
    for (int s = 1; s < SHIFTS; s++) printf("  %4d later", shifts[s]);
    printf(" %10s\n", "ms");
    for (int kind = 0; kind < KINDS; kind++) {
        build(&k, (positions)kind);
        printf("%-12s", names[kind]);
        for (int s = 0; s < SHIFTS; s++) {
            int32_t at[LENGTH];
            for (int i = 0; i < LENGTH; i++) at[i] = shifts[s] + i;
            if (kind != NONE) kit_write(&k, "positions", at, sizeof at);
            kit_map(&k, x, COUNT, y[kind][s], COUNT);
            change[kind][s] = kit_difference(y[kind][s], y[kind][0], COUNT) / kit_rms(y[kind][0], COUNT);
            if (s) printf(" %11.1e", change[kind][s]);
        }
        printf(" %10.3f\n", 1e3 * kit_seconds(&k));
    }
    printf("\nlargest change of the result, as a share of its rms; %d tokens, width %d, %d heads\n", LENGTH, WIDTH,
           HEADS);
    for (int s = 1; s < SHIFTS; s++) {
        kit_check(&k, change[NONE][s] == 0, "without positions nothing depends on them");
        /* the vectors that are added change by up to 2 in a channel, the result by a share of its rms that is far above
         * what rounding does (the next line): halfway between the two, on a scale of powers of ten */
        kit_check(&k, change[SINUSOIDAL][s] > 1e-3, "sinusoidal positions are absolute");
        /* angles keep 2^-32 of a turn at any position; what is left is the rounding of sine, cosine and the
         * sums in f32: some 2^-20 of scores of order 1, hence of the weights */
        kit_check(&k, change[ROPE][s] < 1e-5, "RoPE depends on distances alone");
    }
    /* as above: rounding is 1e-5 at most, and turned queries and keys have other scores by a share of order 1 */
    kit_check(&k, kit_difference(y[ROPE][0], y[NONE][0], COUNT) > 1e-3, "RoPE does something");
    return kit_close(&k);
}
