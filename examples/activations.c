/* ReLU, GELU and SiLU (the gate of SwiGLU), computed on the device and drawn: activations [OUT.svg]. */
#include "kit.h"

#include <math.h>
#include <stdio.h>

enum { POINTS = 1001, CURVES = 4 };

static const char *const names[CURVES] = {"ReLU", "GELU", "GELU (tanh)", "SiLU"};
static const char *const colours[CURVES] = {"#d62728", "#1f77b4", "#9467bd", "#2ca02c"};

static double reference(int curve, double x)
{
    switch (curve) {
    case 0: return x > 0 ? x : 0;
    case 1: return 0.5 * x * (1 + erf(x / sqrt(2)));
    case 2: return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    default: return x / (1 + exp(-x));
    }
}

/* Pixels of a point: x from -5 to 5, y from -1 to 5. */
static double at_x(double x) { return 50 + (x + 5) * 60; }
static double at_y(double y) { return 20 + (5 - y) * 60; }

static int draw(const char *path, const float *x, float y[CURVES][POINTS])
{
    FILE *out = fopen(path, "w");
    if (!out) return 0;
    fprintf(out, "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 680 420' width='680' height='420'\n"
                 "     font-family='sans-serif' font-size='12'>\n<title>Activation functions</title>\n"
                 "<rect width='680' height='420' fill='white'/>\n");
    for (int i = -5; i <= 5; i++) /* the grid */
        fprintf(out, "<path d='M%g 20V380' stroke='%s'/><text x='%g' y='396' text-anchor='middle'>%d</text>\n", at_x(i),
                i ? "#e0e0e0" : "#808080", at_x(i), i);
    for (int i = -1; i <= 5; i++)
        fprintf(out, "<path d='M50 %gH650' stroke='%s'/><text x='42' y='%g' text-anchor='end'>%d</text>\n", at_y(i),
                i ? "#e0e0e0" : "#808080", at_y(i) + 4, i);
    for (int c = 0; c < CURVES; c++) {
        fprintf(out, "<polyline fill='none' stroke='%s' stroke-width='2'%s points='", colours[c],
                c == 2 ? " stroke-dasharray='6 4'" : "");
        for (int i = 0; i < POINTS; i++) fprintf(out, "%.2f,%.2f ", at_x((double)x[i]), at_y((double)y[c][i]));
        fprintf(out, "'/>\n<path d='M70 %dh24' stroke='%s' stroke-width='2'/><text x='100' y='%d'>%s</text>\n",
                40 + 20 * c, colours[c], 44 + 20 * c, names[c]);
    }
    fprintf(out, "</svg>\n");
    return fclose(out) == 0;
}

int main(int argc, char **argv)
{
    static float x[POINTS], y[CURVES][POINTS];
    const char *path = argc > 1 ? argv[1] : "activations.svg";
    kit k;
    kit_open(&k, "activations");
    for (int i = 0; i < POINTS; i++) x[i] = (float)(i - POINTS / 2) / 100;
    kit_begin(&k, NULL);
    pco_graph *graph = k.graph;
    uint32_t in = pco_graph_input(graph, "x", PCO_F32, 1, (int64_t[]){POINTS});
    pco_graph_output(graph, pco_relu(graph, in), names[0]);
    for (int form = 0; form < 2; form++)
        pco_graph_output(graph, pco_gelu(graph, in, &(pco_gelu_attrs){.approximate = form}), names[1 + form]);
    pco_graph_output(graph, pco_silu(graph, in), names[3]);
    kit_ready(&k);
    kit_write(&k, "x", x, sizeof x);
    kit_run(&k);
    for (int c = 0; c < CURVES; c++) kit_read(&k, names[c], y[c], sizeof y[c]);
    printf("%-12s", "x");
    for (int i = 0; i < POINTS; i += 200) printf(" %9g", (double)x[i]);
    printf(" %12s\n", "largest error");
    for (int c = 0; c < CURVES; c++) {
        double error = 0;
        printf("%-12s", names[c]);
        for (int i = 0; i < POINTS; i += 200) printf(" %9.5f", (double)y[c][i]);
        for (int i = 0; i < POINTS; i++) {
            double want = reference(c, (double)x[i]), e = fabs((double)y[c][i] - want) / (fabs(want) + 1);
            if (!(e <= error)) error = e;
        }
        printf(" %12.1e\n", error);
        /* The coarsest functions that a device may have: erf 16 ulp of 2^-23, exp 3 + 2|x|. gelu is x/2 (1 + erf), so
         * |x|/2 * 16 * 2^-23 over |y| + 1, below 1e-6; for silu exp enters by the slope s (1 - s), below 1/4: |x|/4 *
         * (3 + 2|x|) 2^-23 where s (1 - s) is that large, below 1e-6 too. The tanh form: 5 ulp, and four roundings of
         * its argument, of at most 2^-24 |argument|. The roundings of the rest are 2^-24 each. Together below 4e-6. */
        kit_check(&k, error <= 1e-5, names[c]);
    }
    kit_check(&k, draw(path, x, y), "the picture can be written");
    printf("\ndrawn in %s; GELU and its tanh form differ by at most %.1e\n", path, kit_difference(y[1], y[2], POINTS));
    return kit_close(&k);
}
