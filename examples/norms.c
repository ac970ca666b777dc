/* LayerNorm, LayerNorm in the "std + eps" form, and RMSNorm on the same rows: means, deviations, time, and
 * what eps does to rows that are nearly 0. */
#include "kit.h"

#include <math.h>
#include <stdio.h>

enum { ROWS = 20, WIDTH = 128, COUNT = ROWS * WIDTH, NORMS = 3, SCALES = 3 };

static const struct {
    const char *name, *weights;
    pco_nn_norm_params params;
} norms[NORMS] = {
    {"LayerNorm", "layer", {sizeof(pco_nn_norm_params), PCO_NN_LAYER_NORM, PCO_NN_VAR_EPS, 1e-6, WIDTH}},
    {"LayerNorm, std + eps", "std", {sizeof(pco_nn_norm_params), PCO_NN_LAYER_NORM, PCO_NN_STD_EPS, 1e-6, WIDTH}},
    {"RMSNorm", "rms", {sizeof(pco_nn_norm_params), PCO_NN_RMS_NORM, PCO_NN_VAR_EPS, 1e-6, WIDTH}},
};

static void moments(const float *x, double *mean, double *square)
{
    *mean = *square = 0;
    for (int i = 0; i < WIDTH; i++) *mean += (double)x[i] / WIDTH;
    for (int i = 0; i < WIDTH; i++) *square += (double)x[i] * (double)x[i] / WIDTH;
}

/* The formulas, in double. */
static void reference(const float *x, const pco_nn_norm_params *params, float *y)
{
    double mean, square, variance = 0, divisor;
    moments(x, &mean, &square);
    for (int i = 0; i < WIDTH; i++) variance += ((double)x[i] - mean) * ((double)x[i] - mean) / WIDTH;
    if (params->type == PCO_NN_RMS_NORM)
        mean = 0, divisor = sqrt(square + params->eps);
    else if (params->form == PCO_NN_STD_EPS)
        divisor = sqrt(variance * WIDTH / (WIDTH - 1)) + params->eps;
    else
        divisor = sqrt(variance + params->eps);
    for (int i = 0; i < WIDTH; i++) y[i] = (float)(((double)x[i] - mean) / divisor);
}

int main(void)
{
    static const float scales[SCALES] = {2, 1e-3f, 1e-6f};
    static float x[SCALES][COUNT], y[COUNT], want[COUNT];
    double deviations[NORMS][SCALES], means[NORMS], seconds[NORMS];
    kit k;
    kit_open(&k, "norms");
    for (int s = 0; s < SCALES; s++) kit_random(x[s], COUNT, 7, 1.5f * scales[s], scales[s]);
    for (int i = 0; i < NORMS; i++) {
        kit_begin(&k, NULL);
        uint32_t in = pco_graph_input(k.graph, "x", PCO_F32, 2, (int64_t[]){ROWS, WIDTH});
        pco_graph_output(k.graph, pco_nn_norm(k.nn, in, norms[i].weights, &norms[i].params), "y");
        kit_ready(&k);
        for (int s = 0; s < SCALES; s++) {
            double mean, square, sum = 0, squares = 0;
            kit_map(&k, x[s], COUNT, y, COUNT);
            for (int row = 0; row < ROWS; row++) {
                reference(x[s] + row * WIDTH, &norms[i].params, want + row * WIDTH);
                moments(y + row * WIDTH, &mean, &square);
                sum += mean / ROWS;
                squares += square / ROWS;
            }
            if (s == 0) means[i] = sum;
            deviations[i][s] = sqrt(squares - sum * sum);
            /* as the goldens are compared */
            kit_check(&k, kit_difference(y, want, COUNT) <= 1e-5 * kit_rms(want, COUNT), norms[i].name);
        }
        seconds[i] = kit_seconds(&k);
    }
    printf("%-22s %10s %10s %10s %12s %12s\n", "norm", "mean", "deviation", "us", "of rows 1e-3", "of rows 1e-6");
    for (int i = 0; i < NORMS; i++)
        printf("%-22s %10.6f %10.6f %10.1f %12.6f %12.6f\n", norms[i].name, means[i], deviations[i][0],
               1e6 * seconds[i], deviations[i][1], deviations[i][2]);
    printf("\n%d rows of %d with mean 3 and deviation 2. RMSNorm keeps the mean. With sqrt(var + eps) small "
           "rows stay\n"
           "small; with std + eps they are blown up to a deviation near 1 until std itself is as small as "
           "eps.\n",
           ROWS, WIDTH);
    /* One row: its sum of WIDTH terms near 3 rises to 400; added one by one in f32 (lanes are better) each step is off
     * by up to 2^-16 at the end, 2^-17 on the whole, at random: sqrt(128) 2^-17 / sqrt(3) / 128 = 4e-7 of the mean,
     * half of it after the division by the deviation 2. The rows are averaged, which makes that smaller still. */
    kit_check(&k, fabs(means[0]) < 1e-6 && fabs(means[1]) < 1e-6, "LayerNorm takes the mean away");
    kit_check(&k, fabs(means[2]) > 0.5, "RMSNorm keeps it");
    /* the unbiased deviation is larger by sqrt(N / (N - 1)); eps 1e-6 changes less than 1e-6 at deviation 2
     */
    kit_check(&k, fabs(deviations[0][0] / deviations[1][0] - sqrt(128.0 / 127)) < 1e-5, "biased and unbiased");
    kit_check(&k, deviations[1][1] > 0.9 && deviations[0][1] < 0.8, "the two forms differ in small rows");
    return kit_close(&k);
}
