/* Plots of error / bound as inline SVG, without script. Horizontally, in hundredths of the width: a column
 * for exact results, six decades from 1e-4 to 100, a column for infinity. */
#include "report/report_html.h"

#include <math.h>

enum { CONF_PLOT_BINS = 72, CONF_PLOT_HEIGHT = 20 };
static const double CONF_PLOT_LEFT = 8, CONF_PLOT_DECADE = 14, CONF_PLOT_LEAST = -4;

/* What one op's strip counts. */
typedef struct conf_plot {
    uint32_t bins[CONF_PLOT_BINS], zero, infinite, count, most;
} conf_plot;

static double conf_plot_x(double ratio)
{
    double decades = log10(ratio) - CONF_PLOT_LEAST;
    if (!(decades > 0)) decades = 0;
    if (decades > 6) decades = 6;
    return CONF_PLOT_LEFT + CONF_PLOT_DECADE * decades;
}

static void conf_plot_count(conf_plot *plot, const pco_conformance_result *result, uint32_t op)
{
    const double width = 6 * CONF_PLOT_DECADE / CONF_PLOT_BINS;
    for (uint32_t i = 0; i < result->n_cases; i++) {
        const pco_conformance_case *one = &result->cases[i];
        if (one->op != op || !pco_conformance_state_is_judged(one->state)) continue;
        plot->count++;
        uint32_t *count = &plot->zero;
        if (one->ratio > 0 && isfinite(one->ratio)) {
            /* a bin's right edge belongs to it, so that 1 lies within the bound */
            int bin = (int)ceil((conf_plot_x(one->ratio) - CONF_PLOT_LEFT) / width - 1e-9) - 1;
            count = &plot->bins[bin < 0 ? 0 : bin >= CONF_PLOT_BINS ? CONF_PLOT_BINS - 1 : bin];
        } else if (!(one->ratio == 0)) {
            count = &plot->infinite;
        }
        ++*count;
    }
    for (int bin = 0; bin < CONF_PLOT_BINS; bin++)
        if (plot->bins[bin] > plot->most) plot->most = plot->bins[bin];
    if (plot->infinite > plot->most) plot->most = plot->infinite;
}

static double conf_plot_top(uint32_t count, uint32_t most)
{
    double part = most ? sqrt((double)count / most) : 0;
    return CONF_PLOT_HEIGHT * (1 - (part > 1 ? 1 : part < 0.25 ? 0.25 : part));
}

static void conf_plot_bars(pco_writer *out, const conf_plot *plot, bool over)
{
    const double width = 6 * CONF_PLOT_DECADE / CONF_PLOT_BINS;
    bool any = false;
    for (int bin = 0; bin < CONF_PLOT_BINS; bin++) {
        if (plot->bins[bin] == 0 || (bin >= CONF_PLOT_BINS * 4 / 6) != over) continue;
        if (!any) pco_print(out, "<path class=\"%s\" d=\"", over ? "over" : "bars");
        any = true;
        pco_print(out, "M%.1f 20V%.1fh%.2fV20z", CONF_PLOT_LEFT + width * bin,
                  conf_plot_top(plot->bins[bin], plot->most), width - 0.1);
    }
    if (any) pco_write_text(out, "\"/>");
}

void conf_html_plot(pco_writer *out, const pco_conformance_result *result, const pco_conformance_op *op)
{
    conf_plot plot = {.count = 0};
    char median[32], most[32];
    conf_plot_count(&plot, result, op->op);
    if (plot.count == 0) return;
    pco_print(out,
              "<svg viewBox=\"0 0 100 20\" preserveAspectRatio=\"none\" role=\"img\"><title>%s, %u cases: %u "
              "exact, "
              "median %s, largest %s</title>",
              op->name, plot.count, plot.zero, conf_html_ratio(op->median_ratio, median),
              conf_html_ratio(op->max_ratio, most));
    pco_write_text(out, "<path class=\"grid\" d=\"M8 0V20M22 0V20M36 0V20M50 0V20M78 0V20M92 0V20M0 20H100\"/>");
    if (plot.zero)
        pco_print(out, "<path class=\"zeros\" d=\"M0 20V%.1fh5V20z\"/>", conf_plot_top(plot.zero, plot.count));
    conf_plot_bars(out, &plot, false);
    conf_plot_bars(out, &plot, true);
    if (plot.infinite)
        pco_print(out, "<path class=\"over\" d=\"M95 20V%.1fh5V20z\"/>", conf_plot_top(plot.infinite, plot.most));
    pco_write_text(out, "<path class=\"one\" stroke-dasharray=\"3 2\" d=\"M64 0V20\"/>");
    if (op->median_ratio > 0 && isfinite(op->median_ratio))
        pco_print(out, "<path class=\"median\" stroke-width=\"2\" d=\"M%.1f 0V20\"/>", conf_plot_x(op->median_ratio));
    pco_write_text(out, "</svg>");
}

void conf_html_axis(pco_writer *out)
{
    pco_write_text(out, "<div class=\"axis\"><span style=\"left:0\">exact</span><span style=\"left:22%\">0.001</span>"
                        "<span style=\"left:36%\">0.01</span><span style=\"left:50%\">0.1</span>"
                        "<span class=\"one\" style=\"left:64%\">1</span><span style=\"left:78%\">10</span>"
                        "<span style=\"left:100%\">&infin;</span></div>");
}
