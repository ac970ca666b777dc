/* Causal multi-head self-attention with its weights: a row of weights sums to 1, and no token sees a later
 * one. */
#include "kit.h"

#include <math.h>
#include <stdio.h>

enum { LENGTH = 6, WIDTH = 64, HEADS = 4, COUNT = LENGTH * WIDTH };

int main(void)
{
    const pco_nn_attention_params attention = {.size = sizeof attention,
                                               .name = "attention",
                                               .width = WIDTH,
                                               .heads = HEADS,
                                               .bias = 1,
                                               .output_bias = 1,
                                               .causal = 1};
    const pco_nn_params params = {.size = sizeof params, .keep_attention = 1}; /* [B,H,S,T] becomes an output */
    static float x[COUNT], y[2][COUNT], weights[HEADS][LENGTH][LENGTH];
    double worst = 0;
    int sees_later = 0;
    kit k;
    kit_open(&k, "attention");
    kit_random(x, COUNT, 9, 0, 2);
    kit_begin(&k, &params);
    uint32_t in = pco_graph_input(k.graph, "x", PCO_F32, 3, (int64_t[]){1, LENGTH, WIDTH});
    pco_graph_output(k.graph, pco_nn_attention(k.nn, in, &attention, NULL), "y");
    kit_ready(&k);
    kit_map(&k, x, COUNT, y[0], COUNT);
    kit_read(&k, "attention:attention.out_proj", weights, sizeof weights);
    for (int row = 0; row < LENGTH; row++) {
        if (row == 0) printf("%-7s %-*s %s\n", "token", 7 * LENGTH + 1, "head 0", "head 1");
        printf("%-7d", row);
        for (int head = 0; head < 2; head++) {
            for (int key = 0; key < LENGTH; key++) printf(" %6.3f", (double)weights[head][row][key]);
            printf(head ? "\n" : "  ");
        }
    }
    for (int i = 0; i < HEADS * LENGTH; i++) {
        double sum = 0;
        for (int key = 0; key < LENGTH; key++) {
            sum += (double)weights[i / LENGTH][i % LENGTH][key];
            sees_later |= key > i % LENGTH && weights[i / LENGTH][i % LENGTH][key] != 0;
        }
        if (!(fabs(sum - 1) <= worst)) worst = fabs(sum - 1);
    }
    kit_check(&k, !sees_later, "no token sees a later one");
    /* each weight is rounded to f32, and so is their sum: some 2^-22 for 6 of them */
    kit_check(&k, worst < 1e-6, "a row of weights sums to 1");
    for (int i = 0; i < WIDTH; i++) x[COUNT - 1 - i] += 1; /* the last token */
    kit_map(&k, x, COUNT, y[1], COUNT);
    const int64_t before = COUNT - WIDTH;
    double early = kit_difference(y[0], y[1], before), late = kit_difference(y[0] + before, y[1] + before, WIDTH);
    printf("\nrows sum to 1 within %.1e; another last token changes earlier rows by %g, its own by %.3f\n", worst,
           early, late);
    kit_check(&k, early == 0 && late > 0, "an earlier row does not depend on a later token");
    return kit_close(&k);
}
