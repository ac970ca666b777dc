/* Post-norm blocks (Vaswani et al. 2017: separate projections, ReLU) against pre-norm blocks (Xiong et al.
 * 2020: one fused projection, GELU): parameters, time, and the scale of the activations by depth. */
#include "kit.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { BATCH = 2, LENGTH = 10, DEPTH = 8, HEADS = 8 };

/* `depth` blocks; output "N" is that of block N, the last one "y". */
static void build(kit *k, int before, int64_t width, int64_t hidden, int depth)
{
    const pco_nn_transformer_params block = {.size = sizeof block,
                                             .width = width,
                                             .heads = HEADS,
                                             .hidden = hidden,
                                             .activation = before ? PCO_NN_GELU : PCO_NN_RELU,
                                             .normalize_before = before,
                                             .fused_projection = before};
    kit_begin(k, NULL);
    uint32_t x = pco_graph_input(k->graph, "x", PCO_F32, 3, (int64_t[]){BATCH, LENGTH, width});
    for (int i = 0; i < depth; i++) {
        char name[48], output[16] = "y";
        snprintf(name, sizeof name, "%s%" PRId64 ".%d", before ? "pre" : "post", width, i);
        if (i + 1 < depth) snprintf(output, sizeof output, "%d", i);
        x = pco_nn_encoder_layer(k->nn, x, name, &block, NULL);
        pco_graph_output(k->graph, x, output);
    }
    kit_ready(k);
}

int main(void)
{
    static const char *const names[] = {"post-norm, ReLU", "pre-norm, GELU"};
    static float x[BATCH * LENGTH * 512], y[BATCH * LENGTH * 512];
    double scale[2][DEPTH];
    kit k;
    kit_open(&k, "blocks");
    kit_random(x, BATCH * LENGTH * 512, 3, 0, 1);
    printf("%-16s %14s %12s %9s\n", "block", "output", "parameters", "ms");
    for (int before = 0; before < 2; before++) {
        build(&k, before, 512, 2048, 1);
        kit_map(&k, x, BATCH * LENGTH * 512, y, BATCH * LENGTH * 512);
        int64_t parameters = kit_parameters(&k);
        printf("%-16s    2 x 10 x 512 %12" PRId64 " %9.3f\n", names[before], parameters, 1e3 * kit_seconds(&k));
        kit_check(&k, parameters == 3152384, "3,152,384 parameters");
        kit_check(&k, isfinite(kit_rms(y, BATCH * LENGTH * 512)), "finite activations");
    }
    printf("\nrms by depth    ");
    for (int i = 0; i < DEPTH; i++) printf(" %7d", i + 1);
    for (int before = 0; before < 2; before++) {
        const int64_t count = BATCH * LENGTH * 128;
        build(&k, before, 128, 512, DEPTH);
        kit_map(&k, x, count, y, count);
        printf("\n%-16s", names[before]);
        for (int i = 0; i < DEPTH; i++) {
            char name[16];
            snprintf(name, sizeof name, "%d", i);
            kit_read(&k, i + 1 < DEPTH ? name : "y", y, (uint64_t)count * sizeof *y);
            printf(" %7.3f", scale[before][i] = kit_rms(y, count));
        }
    }
    printf("\n\nwidth 128, hidden 512, fresh weights: a post-norm block ends in a norm, so its scale is 1; "
           "the sum on\n"
           "the residual path of pre-norm blocks grows with the depth, and a last norm follows the stack.\n");
    for (int i = 0; i < DEPTH; i++) {
        /* norm of weight 1 and bias 0, eps 1e-5: the rms of a row is sqrt(var / (var + eps)), 1 - 5e-6 / var, and the
         * variance of x plus a sublayer is not far below the 1 of x: 5e-5 were 0.1. f32 adds 1e-6. */
        kit_check(&k, fabs(scale[0][i] - 1) < 1e-4, "a post-norm block has scale 1");
        kit_check(&k, i == 0 || scale[1][i] > scale[1][i - 1], "pre-norm blocks grow");
    }
    return kit_close(&k);
}
