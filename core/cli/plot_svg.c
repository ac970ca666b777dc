/* Loss curves as SVG. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/writer.h"
#include "cli/cli.h"
#include "cli/plot.h"

enum {
    SVG_WIDTH = 800,
    SVG_HEIGHT = 480,
    SVG_LEFT = 70,
    SVG_RIGHT = 20,
    SVG_TOP = 20,
    SVG_BOTTOM = 50,
    SVG_POINTS = 2000
};

/* Colours that stay apart for most eyes (Okabe & Ito 2008). */
static const char *const svg_colours[PLOT_RUNS] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                                   "#E69F00", "#56B4E9", "#000000", "#999999"};

static double svg_x(const plot_figure *figure, double step)
{
    return SVG_LEFT +
           (step - figure->low[0]) / (figure->high[0] - figure->low[0]) * (SVG_WIDTH - SVG_LEFT - SVG_RIGHT);
}

static double svg_y(const plot_figure *figure, double height)
{
    return SVG_TOP + (figure->high[1] - height) / (figure->high[1] - figure->low[1]) *
                         (SVG_HEIGHT - SVG_TOP - SVG_BOTTOM);
}

static void svg_text(pco_writer *out, double x, double y, const char *anchor, const char *text)
{
    pco_print(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    for (; *text; text++) {
        if (*text == '&')
            pco_write_text(out, "&amp;");
        else if (*text == '<')
            pco_write_text(out, "&lt;");
        else if (*text == '>')
            pco_write_text(out, "&gt;");
        else
            pco_write_char(out, *text);
    }
    pco_write_text(out, "</text>\n");
}

static void svg_axes(const plot_figure *figure, pco_writer *out)
{
    char text[32];
    const double right = SVG_WIDTH - SVG_RIGHT, bottom = SVG_HEIGHT - SVG_BOTTOM;
    double step = plot_tick(figure->high[0] - figure->low[0], 6),
           height = plot_tick(figure->high[1] - figure->low[1], 6);
    for (double v = ceil(figure->low[0] / step) * step; v <= figure->high[0] * (1 + 1e-12); v += step) {
        pco_print(out, "<path d=\"M%.1f %d V%.1f\" class=\"grid\"/>\n", svg_x(figure, v), SVG_TOP, bottom);
        snprintf(text, sizeof text, "%g", v);
        svg_text(out, svg_x(figure, v), bottom + 18, "middle", text);
    }
    for (double v = ceil(figure->low[1] / height) * height; v <= figure->high[1] + 1e-12; v += height) {
        pco_print(out, "<path d=\"M%d %.1f H%.1f\" class=\"grid\"/>\n", SVG_LEFT, svg_y(figure, v), right);
        snprintf(text, sizeof text, "%.3g", figure->logarithmic ? pow(10, v) : fabs(v) < 1e-12 ? 0 : v);
        svg_text(out, SVG_LEFT - 8, svg_y(figure, v) + 4, "end", text);
    }
    svg_text(out, (SVG_LEFT + right) / 2, SVG_HEIGHT - 12, "middle", "step");
    pco_print(out, "<text transform=\"translate(16 %.1f) rotate(-90)\" text-anchor=\"middle\">loss</text>\n",
              (SVG_TOP + bottom) / 2);
}

static double svg_value(const train_record *record, int validation)
{
    return validation ? record->validation_loss : record->loss;
}

/* A line through the records; of very long logs through every so many. */
static void svg_curve(const plot_figure *figure, uint32_t run, int validation, pco_writer *out)
{
    const plot_run *r = &figure->runs[run];
    const uint32_t stride = validation ? 1 : r->count / SVG_POINTS + 1;
    uint32_t points = 0;
    pco_print(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%s\"%s points=\"", svg_colours[run],
              validation ? "2" : "1.2", validation ? " stroke-dasharray=\"6 4\"" : "");
    for (uint32_t i = 0; i < r->count; i++) {
        double value = svg_value(&r->records[i], validation);
        if (!isfinite(value) || (i % stride && i + 1 < r->count)) continue;
        pco_print(out, "%s%.1f,%.1f", points++ ? " " : "", svg_x(figure, (double)r->records[i].step),
                  svg_y(figure, plot_height(figure, value)));
    }
    pco_write_text(out, "\"/>\n");
}

static void svg_legend(const plot_figure *figure, pco_writer *out)
{
    for (uint32_t r = 0; r < figure->n_runs; r++) {
        const double y = SVG_TOP + 18 + 18 * (double)r, x = SVG_WIDTH - SVG_RIGHT - 10;
        const char *slash = strrchr(figure->runs[r].path, '/');
        pco_print(out, "<path d=\"M%.1f %.1f h-24\" stroke=\"%s\" stroke-width=\"2\"/>\n", x, y - 4,
                  svg_colours[r]);
        svg_text(out, x - 30, y, "end", slash ? slash + 1 : figure->runs[r].path);
    }
    svg_text(out, SVG_WIDTH - SVG_RIGHT - 10, SVG_TOP + 18 + 18 * (double)figure->n_runs, "end",
             "dashed: validation");
}

int plot_svg(const plot_figure *figure, const char *path)
{
    pco_error err;
    pco_writer text = {0}, *out = &text;
    pco_print(out,
              "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
              "font-family=\"sans-serif\" font-size=\"12\">\n<style>.grid{stroke:#ddd;fill:none}</style>\n"
              "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
              SVG_WIDTH, SVG_HEIGHT, SVG_WIDTH, SVG_HEIGHT);
    svg_axes(figure, out);
    for (uint32_t r = 0; r < figure->n_runs; r++)
        for (int validation = 0; validation < 2; validation++) svg_curve(figure, r, validation, out);
    svg_legend(figure, out);
    pco_write_text(out, "</svg>\n");
    const int good = pco_writer_save(&text, path, &err) == PCO_OK;
    if (!good) cli_error("%s", err.message);
    pco_writer_release(&text);
    return good;
}
