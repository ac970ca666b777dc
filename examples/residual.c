/* A stack of pre-norm feed-forward blocks with the residual connection, x + f(norm(x)), and without,
 * f(norm(x)): how much of the input is left by depth, and how far a small change of it reaches. */
#include "kit.h"

#include <math.h>
#include <stdio.h>

enum { LENGTH = 10, WIDTH = 128, HIDDEN = 512, COUNT = LENGTH * WIDTH, DEPTH = 8 };

static const pco_nn_norm_params norm = {sizeof norm, PCO_NN_LAYER_NORM, PCO_NN_VAR_EPS, 1e-5, WIDTH};

/* Output "N" is that of block N. With the residual connection or without, the weights are the same. */
static void build(kit *k, int residual)
{
    const pco_nn_ffn_params ffn = {
        .size = sizeof ffn, .name = "ffn", .activation = PCO_NN_GELU, .width = WIDTH, .hidden = HIDDEN, .bias = 1};
    kit_begin(k, NULL);
    uint32_t x = pco_graph_input(k->graph, "x", PCO_F32, 3, (int64_t[]){1, LENGTH, WIDTH});
    for (int i = 0; i < DEPTH; i++) {
        char name[16];
        pco_nn_scope(k->nn, "block%d", i);
        const uint32_t y = pco_nn_ffn(k->nn, pco_nn_norm(k->nn, x, "norm", &norm), &ffn);
        x = residual ? pco_add(k->graph, x, y) : y;
        snprintf(name, sizeof name, "%d", i);
        pco_graph_output(k->graph, x, name);
    }
    kit_ready(k);
}

static double cosine(const float *a, const float *b)
{
    double dot = 0;
    for (int i = 0; i < COUNT; i++) dot += (double)a[i] * (double)b[i];
    return dot / COUNT / kit_rms(a, COUNT) / kit_rms(b, COUNT);
}

static void run(kit *k, const float *x, float y[DEPTH][COUNT])
{
    char name[16];
    kit_write(k, "x", x, COUNT * sizeof *x);
    kit_run(k);
    for (int i = 0; i < DEPTH; i++) {
        snprintf(name, sizeof name, "%d", i);
        kit_read(k, name, y[i], sizeof y[i]);
    }
}

int main(void)
{
    static const char *const names[] = {"without", "with"};
    static float x[2][COUNT], y[2][DEPTH][COUNT], change[COUNT];
    double kept[2][DEPTH], reach[2][DEPTH];
    kit k;
    kit_open(&k, "residual");
    kit_random(x[0], COUNT, 11, 0, 1);
    kit_random(change, COUNT, 12, 0, 0.01f);
    for (int i = 0; i < COUNT; i++) x[1][i] = x[0][i] + change[i];
    for (int residual = 1; residual >= 0; residual--) {
        build(&k, residual);
        for (int i = 0; i < 2; i++) run(&k, x[i], y[i]);
        for (int d = 0; d < DEPTH; d++) {
            kept[residual][d] = cosine(y[0][d], x[0]);
            for (int i = 0; i < COUNT; i++) change[i] = y[1][d][i] - y[0][d][i];
            reach[residual][d] = kit_rms(change, COUNT) / kit_rms(y[0][d], COUNT) / 0.01;
        }
        printf("residual connection: %s\n  %-26s", names[residual], "depth");
        for (int d = 0; d < DEPTH; d++) printf(" %6d", d + 1);
        printf("\n  %-26s", "cosine with the input");
        for (int d = 0; d < DEPTH; d++) printf(" %6.3f", kept[residual][d]);
        printf("\n  %-26s", "change out / change in");
        for (int d = 0; d < DEPTH; d++) printf(" %6.3f", reach[residual][d]);
        printf("\n\n");
    }
    printf("%d tokens of width %d; the change of the input is 1 %% of it, both are measured relative to "
           "their scale\n",
           LENGTH, WIDTH);
    /* vectors of 1280 elements that know nothing of each other have a cosine of some 1280^-1/2 = 0.03 */
    kit_check(&k, kept[1][DEPTH - 1] > 0.7, "with it, the input comes through");
    kit_check(&k, fabs(kept[0][DEPTH - 1]) < 0.2, "without it, little is left");
    kit_check(&k, reach[1][DEPTH - 1] > 0.5, "with it, a change comes through");
    return kit_close(&k);
}
