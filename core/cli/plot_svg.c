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
    SVG_HEIGHT = 480, /* without the legend, which stands below */
    SVG_LEFT = 70,
    SVG_RIGHT = 20,
    SVG_TOP = 20,
    SVG_BOTTOM = 50,
    SVG_ROW = 18,   /* of the legend */
    SVG_NAME = 100, /* most characters of a name there */
    SVG_POINTS = 2000
};

/* Colours that stay apart for most eyes (Okabe & Ito 2008), and lighter ones of the same hues on a dark page. */
static const struct {
    const char *light, *dark;
} svg_colours[PLOT_RUNS] = {{"#0072B2", "#4AA8E0"}, {"#D55E00", "#FF8F45"}, {"#009E73", "#2CC9A0"},
                            {"#CC79A7", "#E6A5C8"}, {"#E69F00", "#F7C04A"}, {"#56B4E9", "#A5DBFA"},
                            {"#000000", "#F0F0F0"}, {"#999999", "#8A8A8A"}};

static double svg_x(const plot_figure *figure, double step)
{
    return SVG_LEFT + (step - figure->low[0]) / (figure->high[0] - figure->low[0]) * (SVG_WIDTH - SVG_LEFT - SVG_RIGHT);
}

static double svg_y(const plot_figure *figure, double height)
{
    return SVG_TOP +
           (figure->high[1] - height) / (figure->high[1] - figure->low[1]) * (SVG_HEIGHT - SVG_TOP - SVG_BOTTOM);
}

static void svg_text(pco_writer *out, double x, double y, const char *anchor, const char *text)
{
    pco_print(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    pco_write_xml(out, text);
    pco_write_text(out, "</text>\n");
}

/* The same page for readers in light and in dark mode. */
static void svg_style(pco_writer *out)
{
    pco_write_text(out, "<style>\n.page{fill:#fff}text{fill:#222}.grid{stroke:#ddd;fill:none}\n"
                        ".curve{fill:none;stroke-width:1.3}.raw{opacity:.25}\n"
                        ".validation{fill:none;stroke-width:2;stroke-dasharray:6 4}\n");
    for (int r = 0; r < PLOT_RUNS; r++) pco_print(out, ".run%d{stroke:%s}\n", r, svg_colours[r].light);
    pco_write_text(out, "@media (prefers-color-scheme: dark){\n"
                        ".page{fill:#0d1117}text{fill:#e6edf3}.grid{stroke:#30363d}\n");
    for (int r = 0; r < PLOT_RUNS; r++) pco_print(out, ".run%d{stroke:%s}\n", r, svg_colours[r].dark);
    pco_write_text(out, "}\n</style>\n<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n");
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

/* What a line shows. */
typedef enum svg_kind {
    SVG_RAW, /* behind a smoothed one */
    SVG_LOSS,
    SVG_VALIDATION,
    SVG_KINDS
} svg_kind;

static const char *const svg_classes[SVG_KINDS] = {"curve raw", "curve", "validation"};

static double svg_value(const plot_run *run, uint32_t i, svg_kind kind)
{
    if (kind == SVG_VALIDATION) return run->records[i].validation_loss;
    return kind == SVG_LOSS && run->smooth ? run->smooth[i] : run->records[i].loss;
}

/* A line through the records; of very long logs through every so many. A single point is drawn as one. */
static void svg_curve(const plot_figure *figure, uint32_t run, svg_kind kind, pco_writer *out)
{
    const plot_run *r = &figure->runs[run];
    const uint32_t stride = kind == SVG_VALIDATION ? 1 : r->count / SVG_POINTS + 1;
    uint32_t points = 0;
    double x = 0, y = 0;
    if (kind == SVG_RAW && !r->smooth) return;
    pco_print(out, "<polyline class=\"%s run%u\" points=\"", svg_classes[kind], run);
    for (uint32_t i = 0; i < r->count; i++) {
        double value = svg_value(r, i, kind);
        if (!isfinite(value) || (i % stride && i + 1 < r->count)) continue;
        x = svg_x(figure, (double)r->records[i].step);
        y = svg_y(figure, plot_height(figure, value));
        pco_print(out, "%s%.1f,%.1f", points++ ? " " : "", x, y);
    }
    pco_write_text(out, "\"/>\n");
    if (points == 1) pco_print(out, "<circle class=\"curve run%u\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\"/>\n", run, x, y);
}

static int svg_has_validation(const plot_figure *figure)
{
    for (uint32_t r = 0; r < figure->n_runs; r++)
        for (uint32_t i = 0; i < figure->runs[r].count; i++)
            if (isfinite(figure->runs[r].records[i].validation_loss)) return 1;
    return 0;
}

/* The end of a name that is too long for a line of the legend. */
static const char *svg_name(const char *name)
{
    size_t length = strlen(name);
    if (length <= SVG_NAME) return name;
    for (name += length - SVG_NAME; ((unsigned char)*name & 0xc0) == 0x80;) name++; /* not from within a character */
    return name;
}

/* Below the axes, where no curve can be: a row for each run, and one that says what the kinds of lines are. */
static void svg_legend(const plot_figure *figure, pco_writer *out)
{
    double y = SVG_HEIGHT + 10, x = SVG_LEFT;
    for (uint32_t r = 0; r < figure->n_runs; r++, y += SVG_ROW) {
        pco_print(out, "<path d=\"M%.1f %.1f h24\" class=\"curve run%u\"/>\n", x, y - 4, r);
        svg_text(out, x + 32, y, "start", svg_name(figure->runs[r].name));
    }
    char text[96] = "";
    size_t used = 0;
    if (figure->smoothing > 0)
        cli_append(text, sizeof text, &used, "smoothed with %g, faint: each step", figure->smoothing);
    if (svg_has_validation(figure)) cli_append(text, sizeof text, &used, "%sdashed: validation", used ? "; " : "");
    svg_text(out, x + 32, y, "start", text);
}

int plot_svg(const plot_figure *figure, const char *path)
{
    pco_error err;
    pco_writer text = {0}, *out = &text;
    const int height = SVG_HEIGHT + SVG_ROW * ((int)figure->n_runs + 1) + 4;
    pco_print(out,
              "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
              "font-family=\"sans-serif\" font-size=\"12\">\n",
              SVG_WIDTH, height, SVG_WIDTH, height);
    svg_style(out);
    svg_axes(figure, out);
    for (svg_kind kind = 0; kind < SVG_KINDS; kind++)
        for (uint32_t r = 0; r < figure->n_runs; r++) svg_curve(figure, r, kind, out);
    svg_legend(figure, out);
    pco_write_text(out, "</svg>\n");
    const int good = pco_writer_save(&text, path, &err) == PCO_OK;
    if (!good) cli_error("%s", err.message);
    pco_writer_release(&text);
    return good;
}
