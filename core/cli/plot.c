/* portico plot: loss curves of training logs. */
#include "cli/plot.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static void plot_grow(plot_figure *figure, double step, double loss)
{
    const double point[2] = {step, plot_height(figure, loss)};
    for (int i = 0; i < 2 && isfinite(loss); i++) {
        if (point[i] < figure->low[i]) figure->low[i] = point[i];
        if (point[i] > figure->high[i]) figure->high[i] = point[i];
    }
}

static void plot_limits(plot_figure *figure)
{
    for (int i = 0; i < 2; i++) {
        figure->low[i] = INFINITY;
        figure->high[i] = -INFINITY;
    }
    for (uint32_t r = 0; r < figure->n_runs; r++)
        for (uint32_t i = 0; i < figure->runs[r].count; i++) {
            const train_record *record = &figure->runs[r].records[i];
            plot_grow(figure, (double)record->step, record->loss);
            plot_grow(figure, (double)record->step, record->validation_loss);
        }
    if (!figure->logarithmic && figure->low[1] > 0) figure->low[1] = 0;
    for (int i = 0; i < 2; i++) {
        if (!(figure->low[i] <= figure->high[i])) figure->low[i] = 0, figure->high[i] = 1;
        const double size = fmax(1, fmax(fabs(figure->low[i]), fabs(figure->high[i])));
        if (figure->high[i] - figure->low[i] < 1e-9 * size) figure->high[i] = figure->low[i] + size;
    }
}

/* Where the last `parts` parts of a path begin. */
static const char *plot_tail(const char *path, uint32_t parts)
{
    const char *at = path + strlen(path);
    while (at > path) {
        if (at[-1] == '/' && --parts == 0) return at;
        at--;
    }
    return path;
}

/* Names the runs: of each path as many parts from its end as no other path ends in. */
static void plot_name(plot_figure *figure)
{
    for (uint32_t r = 0; r < figure->n_runs; r++) {
        const char *path = figure->runs[r].path;
        int alone = 0;
        for (uint32_t parts = 1; !alone; parts++) {
            const char *name = plot_tail(path, parts);
            alone = 1;
            for (uint32_t other = 0; other < figure->n_runs && alone; other++)
                alone = strcmp(figure->runs[other].path, path) == 0 ||
                        strcmp(plot_tail(figure->runs[other].path, parts), name) != 0;
            alone = alone || name == path;
            figure->runs[r].name = name;
        }
    }
}

/* The exponential moving average of the losses, s = w s + (1 - w) loss from s = 0, divided by 1 - w^n, which takes out
 * that start (Kingma & Ba 2015, section 3). TensorBoard smooths its curves so. What is not finite is passed over.
 * 0 without memory. */
static int plot_smooth(plot_run *run, double weight)
{
    double sum = 0, mass = 0;
    run->smooth = malloc((run->count + 1) * sizeof *run->smooth);
    for (uint32_t i = 0; run->smooth && i < run->count; i++) {
        const double loss = run->records[i].loss;
        run->smooth[i] = loss;
        if (!isfinite(loss)) continue;
        sum = weight * sum + (1 - weight) * loss;
        mass = weight * mass + (1 - weight); /* 1 - w^n, after n losses */
        run->smooth[i] = sum / mass;
    }
    return run->smooth != NULL;
}

/* ---- the terminal ---- */

enum { PLOT_COLUMNS = 72, PLOT_LINES = 17 }; /* 17: labels stand at every fourth, the last among them */

/* Where a point lies, or 0 outside. */
static int plot_cell(const plot_figure *figure, double step, double loss, int *x, int *y)
{
    if (!isfinite(loss)) return 0;
    *x = (int)((step - figure->low[0]) / (figure->high[0] - figure->low[0]) * (PLOT_COLUMNS - 1) + 0.5);
    *y = (int)((figure->high[1] - plot_height(figure, loss)) / (figure->high[1] - figure->low[1]) * (PLOT_LINES - 1) +
               0.5);
    return *x >= 0 && *x < PLOT_COLUMNS && *y >= 0 && *y < PLOT_LINES;
}

/* Each run has a letter, a capital one for its validation loss. Of many points in a column the mean is drawn.
 */
static void plot_draw(const plot_figure *figure, uint32_t run, char cells[PLOT_LINES][PLOT_COLUMNS + 1])
{
    double sum[PLOT_COLUMNS] = {0}, steps[PLOT_COLUMNS] = {0};
    uint32_t count[PLOT_COLUMNS] = {0};
    int x, y;
    const plot_run *r = &figure->runs[run];
    for (uint32_t i = 0; i < r->count; i++) {
        const double loss = r->smooth ? r->smooth[i] : r->records[i].loss;
        if (!plot_cell(figure, (double)r->records[i].step, loss, &x, &y)) continue;
        sum[x] += loss;
        steps[x] += (double)r->records[i].step;
        count[x]++;
    }
    for (int c = 0; c < PLOT_COLUMNS; c++)
        if (count[c] && plot_cell(figure, steps[c] / count[c], sum[c] / count[c], &x, &y))
            cells[y][c] = (char)('a' + run);
    for (uint32_t i = 0; i < r->count; i++)
        if (plot_cell(figure, (double)r->records[i].step, r->records[i].validation_loss, &x, &y))
            cells[y][x] = (char)('A' + run);
}

static void plot_terminal(const plot_figure *figure)
{
    char cells[PLOT_LINES][PLOT_COLUMNS + 1];
    memset(cells, ' ', sizeof cells);
    for (uint32_t r = 0; r < figure->n_runs; r++) plot_draw(figure, r, cells);
    for (int y = 0; y < PLOT_LINES; y++) {
        double height = figure->high[1] - (figure->high[1] - figure->low[1]) * y / (PLOT_LINES - 1);
        cells[y][PLOT_COLUMNS] = 0;
        if (y % 4 == 0 || y == PLOT_LINES - 1)
            printf("%9.4g |%s\n", figure->logarithmic ? pow(10, height) : height, cells[y]);
        else
            printf("%9s |%s\n", "", cells[y]);
    }
    printf("%9s +", "");
    for (int x = 0; x < PLOT_COLUMNS; x++) putchar('-');
    printf("\n%10s %-*.0f%*.0f\n", "", PLOT_COLUMNS / 2, figure->low[0], PLOT_COLUMNS / 2, figure->high[0]);
    for (uint32_t r = 0; r < figure->n_runs; r++) {
        const train_record *last = &figure->runs[r].records[figure->runs[r].count - 1];
        double best = INFINITY;
        for (uint32_t i = 0; i < figure->runs[r].count; i++)
            if (figure->runs[r].records[i].validation_loss < best) best = figure->runs[r].records[i].validation_loss;
        printf("  %c  ", 'a' + (int)r);
        cli_text(stdout, figure->runs[r].name);
        printf(": step %" PRId64 ", loss %.5g", last->step, last->loss);
        if (figure->runs[r].smooth) printf(", smoothed %.5g", figure->runs[r].smooth[figure->runs[r].count - 1]);
        if (isfinite(best)) printf("; %c  validation loss, %.5g at best", 'A' + (int)r, best);
        putchar('\n');
    }
}

typedef struct plot_arguments {
    plot_figure figure;
    const char *out;
} plot_arguments;

static int plot_log(void *arguments, const char *option, const char *path)
{
    plot_figure *figure = &((plot_arguments *)arguments)->figure;
    (void)option;
    if (figure->n_runs == PLOT_RUNS) {
        cli_error("plot: at most %d logs fit into one figure", PLOT_RUNS);
        return 0;
    }
    figure->runs[figure->n_runs++].path = path;
    return 1;
}

static const cli_option PLOT_OPTIONS[] = {
    {CLI_OPERANDS("a log", plot_log)},
    {CLI_TEXT("--output", plot_arguments, out), .letter = "-o"},
    {CLI_NUMBER("--smooth", plot_arguments, figure.smoothing, 0, 0.9999)},
    {CLI_FLAG("--logarithmic", plot_arguments, figure.logarithmic)},
};

static int plot_run_command(int argc, char **argv)
{
    plot_arguments arguments = {0};
    plot_figure *figure = &arguments.figure;
    int status = cli_parse(&cli_plot, argc, argv, &arguments, NULL);
    for (uint32_t r = 0; r < figure->n_runs && !status; r++)
        if (!train_log_read(figure->runs[r].path, &figure->runs[r].records, &figure->runs[r].count))
            status = CLI_FAILED;
    for (uint32_t r = 0; r < figure->n_runs && !status && figure->smoothing > 0; r++)
        if (!plot_smooth(&figure->runs[r], figure->smoothing)) {
            cli_error("out of host memory for %s", figure->runs[r].path);
            status = CLI_FAILED;
        }
    if (!status) {
        plot_name(figure);
        plot_limits(figure);
        plot_terminal(figure);
        if (arguments.out && !plot_svg(figure, arguments.out)) status = CLI_FAILED;
    }
    for (uint32_t r = 0; r < figure->n_runs; r++) {
        free(figure->runs[r].records);
        free(figure->runs[r].smooth);
    }
    return status;
}

const cli_command cli_plot = {
    .name = "plot",
    .summary = "draws the loss curves of training logs",
    .help = "usage: portico plot LOG... [-o FILE.svg] [--smooth W] [--logarithmic]\n\n"
            "Reads logs of portico train (.csv or .jsonl), up to 8, and draws loss against step on stdout: a "
            "run's\n"
            "loss as a small letter, its validation loss as the capital one. Logs of one name are told apart\n"
            "by their folders.\n\n"
            "  -o, --output FILE   an SVG as well, which follows the light or dark mode of who looks at it\n"
            "  --smooth W          draw the exponential moving average of the loss, as TensorBoard does: the\n"
            "                      weight of what came before, from 0 (default: the loss itself) to 0.9999,\n"
            "                      with the bias of the beginning taken out. The SVG has the loss itself\n"
            "                      faintly behind it\n"
            "  --logarithmic       a logarithmic axis of the loss\n\n"
            "Exit status: 0 done, 1 failed, 2 wrong usage.\n",
    CLI_OPTIONS(PLOT_OPTIONS),
    .run = plot_run_command,
};
