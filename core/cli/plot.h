/* Curves of training logs: what the terminal's picture and the SVG have in common. */
#ifndef PCO_CLI_PLOT_H
#define PCO_CLI_PLOT_H

#include "cli/train_log.h"

enum { PLOT_RUNS = 8 };

typedef struct plot_run {
    const char *path;
    const char *name; /* the end of the path that tells it from the other runs' */
    train_record *records;
    double *smooth; /* of each record's loss; NULL: not asked for */
    uint32_t count;
} plot_run;

typedef struct plot_figure {
    plot_run runs[PLOT_RUNS];
    uint32_t n_runs;
    int logarithmic;        /* of the loss */
    double smoothing;       /* weight of what came before in the moving average: 0 (none) to below 1 */
    double low[2], high[2]; /* limits of step and loss (its logarithm when logarithmic) */
} plot_figure;

/* The height of a loss in the figure. */
double plot_height(const plot_figure *figure, double loss);

/* A round distance between ticks, so that about `ticks` of them fill `span`. */
double plot_tick(double span, int ticks);

/* Writes the figure as SVG. 0 after a message. */
int plot_svg(const plot_figure *figure, const char *path);

#endif
