/* The coverage table of one device: which of op x type x variant x width x regime was tested. */
#include "report/report_html.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

enum { CONF_COVER_TYPES = 16, CONF_COVER_REGIMES = 8, CONF_COVER_ROWS = 128 };

typedef struct conf_cover_cell {
    uint32_t tested, bad, unsupported;
} conf_cover_cell;

typedef struct conf_cover {
    uint32_t n_types, n_regimes, n_rows, tested;
    const char *types[CONF_COVER_TYPES], *regimes[CONF_COVER_REGIMES];
    struct {
        const char *variant;
        uint32_t width;
    } rows[CONF_COVER_ROWS];
    conf_cover_cell cells[CONF_COVER_ROWS][CONF_COVER_TYPES][CONF_COVER_REGIMES];
} conf_cover;

typedef struct conf_cover_total {
    uint32_t tested, unsupported, holes;
} conf_cover_total;

/* The place of `name` in a list, appended when it is new; the last place once the list is full. */
static uint32_t conf_cover_name(const char **names, uint32_t *count, uint32_t capacity, const char *name)
{
    for (uint32_t i = 0; i < *count; i++)
        if (strcmp(names[i], name) == 0) return i;
    if (*count == capacity) return capacity - 1;
    names[*count] = name;
    return (*count)++;
}

/* The op's regimes in the suite's order, whatever came first. */
static void conf_cover_regimes(conf_cover *cover, const pco_conformance_result *result, uint32_t op)
{
    for (int f = 0; f < CONF_REGIMES; f++) {
        const char *name = conf_regime_name((conf_regime)f);
        for (uint32_t i = 0; i < result->n_cases; i++)
            if (result->cases[i].op == op && strcmp(result->cases[i].regime, name) == 0) {
                conf_cover_name(cover->regimes, &cover->n_regimes, CONF_COVER_REGIMES, name);
                break;
            }
    }
}

/* The head of a regime's column: as many letters as tell it from the regimes before it ("r", and "re" for real). */
static size_t conf_cover_letters(const char *regime)
{
    size_t letters = 1;
    for (int f = 0; f < CONF_REGIMES && strcmp(conf_regime_name((conf_regime)f), regime) != 0; f++)
        while (strncmp(conf_regime_name((conf_regime)f), regime, letters) == 0) letters++;
    return letters;
}

/* "exact, random ...", the letters of each head bold. */
static void conf_cover_legend(pco_writer *out)
{
    for (int f = 0; f < CONF_REGIMES; f++) {
        const char *name = conf_regime_name((conf_regime)f);
        const size_t letters = conf_cover_letters(name);
        pco_print(out, "%s<b>%.*s</b>%s", f ? ", " : "", (int)letters, name, name + letters);
    }
}

static uint32_t conf_cover_row(conf_cover *cover, const pco_conformance_case *one)
{
    for (uint32_t i = 0; i < cover->n_rows; i++)
        if (cover->rows[i].width == one->width && strcmp(cover->rows[i].variant, one->variant) == 0) return i;
    if (cover->n_rows == CONF_COVER_ROWS) return CONF_COVER_ROWS - 1;
    cover->rows[cover->n_rows].variant = one->variant;
    cover->rows[cover->n_rows].width = one->width;
    return cover->n_rows++;
}

static void conf_cover_make(conf_cover *cover, const pco_conformance_result *result, uint32_t op)
{
    memset(cover, 0, sizeof *cover);
    conf_cover_regimes(cover, result, op);
    for (uint32_t i = 0; i < result->n_cases; i++) {
        const pco_conformance_case *one = &result->cases[i];
        if (one->op != op) continue;
        uint32_t type = conf_cover_name(cover->types, &cover->n_types, CONF_COVER_TYPES, one->dtype);
        uint32_t regime = conf_cover_name(cover->regimes, &cover->n_regimes, CONF_COVER_REGIMES, one->regime);
        conf_cover_cell *cell = &cover->cells[conf_cover_row(cover, one)][type][regime];
        bool bad = pco_conformance_state_is_bad(one->state);
        cell->bad += bad;
        if (bad || pco_conformance_state_is_judged(one->state))
            cell->tested++, cover->tested++;
        else
            cell->unsupported++;
    }
}

static void conf_cover_cell_write(pco_writer *out, const conf_cover_cell *cell, conf_cover_total *total)
{
    if (cell->bad)
        pco_print(out, "<td class=\"c-bad\">%u/%u", cell->bad, cell->tested);
    else if (cell->tested)
        pco_print(out, "<td class=\"c-tested\">%u", cell->tested);
    else if (cell->unsupported)
        pco_print(out, "<td class=\"c-unsupported\">%u", cell->unsupported);
    else
        pco_write_text(out, "<td class=\"c-hole\">");
    total->tested += cell->tested > 0;
    total->unsupported += cell->tested == 0 && cell->unsupported;
    total->holes += cell->tested == 0 && cell->unsupported == 0;
    pco_write_text(out, "</td>");
}

static void conf_cover_op(pco_writer *out, const conf_cover *cover, const char *name, conf_cover_total *total)
{
    pco_print(out, "<div><h4>%s <small>%u tested</small></h4><table><thead><tr><th></th>", name, cover->tested);
    for (uint32_t type = 0; type < cover->n_types; type++) {
        pco_print(out, "<th class=\"type\" colspan=\"%u\">", cover->n_regimes);
        pco_write_xml(out, *cover->types[type] ? cover->types[type] : "none");
        pco_write_text(out, "</th>");
    }
    pco_write_text(out, "</tr><tr><th></th>");
    for (uint32_t type = 0; type < cover->n_types; type++)
        for (uint32_t regime = 0; regime < cover->n_regimes; regime++) {
            pco_write_text(out, "<th title=\"");
            pco_write_xml(out, cover->regimes[regime]);
            pco_print(out, "\">%.*s</th>", (int)conf_cover_letters(cover->regimes[regime]), cover->regimes[regime]);
        }
    pco_write_text(out, "</tr></thead><tbody>");
    for (uint32_t row = 0; row < cover->n_rows; row++) {
        pco_write_text(out, "<tr><th class=\"row\">");
        pco_write_xml(out, *cover->rows[row].variant ? cover->rows[row].variant : "refused");
        if (cover->rows[row].width) pco_print(out, ", width %u", cover->rows[row].width);
        pco_write_text(out, "</th>");
        for (uint32_t type = 0; type < cover->n_types; type++)
            for (uint32_t regime = 0; regime < cover->n_regimes; regime++)
                conf_cover_cell_write(out, &cover->cells[row][type][regime], total);
        pco_write_text(out, "</tr>");
    }
    pco_write_text(out, "</tbody></table></div>\n");
}

pco_status conf_html_coverage(pco_writer *out, const pco_conformance_result *result, pco_error *err)
{
    conf_cover_total total = {0};
    conf_cover *cover = malloc(sizeof *cover);
    if (!cover) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the report");
    pco_write_text(out,
                   "<h3>Coverage</h3><p class=\"note\">Cases per kernel variant and subgroup width (rows), operand "
                   "type and "
                   "regime (columns: ");
    conf_cover_legend(out);
    pco_write_text(out,
                   "). <span class=\"key c-tested\">8</span> tested, <span class=\"key c-bad\">2/8</span> two of eight "
                   "bad, "
                   "<span class=\"key c-unsupported\">3</span> refused or not promised, "
                   "<span class=\"key c-hole\">&nbsp;</span> a hole: no such case.</p><div class=\"coverage\">\n");
    for (uint32_t i = 0; i < result->n_ops; i++) {
        conf_cover_make(cover, result, result->ops[i].op);
        conf_cover_op(out, cover, result->ops[i].name, &total);
    }
    pco_print(out,
              "</div><p class=\"note\">%u combinations of operation, type, variant, width and regime tested, "
              "%u only "
              "refused or not promised, %u holes.</p>\n",
              total.tested, total.unsupported, total.holes);
    free(cover);
    return PCO_OK;
}
