/* The report as one HTML page that needs nothing else: no script, no font, no picture from elsewhere. */
#include "report_html.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

extern const char conf_report_css[];

void conf_html_text(FILE *file, const char *text)
{
    for (; *text; text++) {
        if (*text == '<' || *text == '>' || *text == '&' || *text == '"')
            fprintf(file, "&#%d;", *text);
        else
            fputc((unsigned char)*text < 0x20 && *text != '\n' && *text != '\t' ? '?' : *text, file);
    }
}

const char *conf_html_class(pco_conformance_state state)
{
    if (state == PCO_CASE_PASS) return "pass";
    if (state == PCO_CASE_WAIVED || state == PCO_CASE_MISTRUSTED || state == PCO_CASE_FLAKY) return "warn";
    return pco_conformance_state_is_bad(state) ? "bad" : "";
}

const char *conf_html_ratio(double ratio, char text[32])
{
    snprintf(text, 32,
             isinf(ratio)                   ? "inf"
             : ratio == 0                   ? "0"
             : ratio < 1e-3 || ratio >= 1e5 ? "%.1e"
                                            : "%.3g",
             ratio);
    return text;
}

/* ---- one device ---- */

static const char *conf_html_verdict_class(pco_conformance_verdict verdict)
{
    return verdict == PCO_VERDICT_PASS ? "pass" : verdict == PCO_VERDICT_FAIL ? "bad" : "warn";
}

static void conf_html_states(FILE *file, const pco_conformance_result *result)
{
    fputs("<div class=\"stack\" aria-hidden=\"true\">", file);
    for (int s = 0; s < PCO_CASE_STATES; s++)
        if (result->count[s])
            fprintf(file, "<i class=\"%s\" style=\"flex-grow:%" PRIu32 "\"></i>",
                    conf_html_class((pco_conformance_state)s), result->count[s]);
    fputs("</div><div class=\"legend\">", file);
    for (int s = 0; s < PCO_CASE_STATES; s++)
        if (result->count[s] || s == PCO_CASE_FAIL)
            fprintf(file, "<span><b>%" PRIu32 "</b> %s</span>", result->count[s],
                    pco_conformance_state_name((pco_conformance_state)s));
    fprintf(file, "<span><b>%.1f s</b></span></div>\n", result->seconds);
}

static void conf_html_rounds(FILE *file, const pco_conformance_result *result)
{
    if (!result->rounds) return;
    const pco_conformance_round *last = &result->each_round[result->rounds - 1];
    fprintf(file, "<p class=\"note\">A soak of %" PRIu32 " rounds, seeds %" PRIu64 " to %" PRIu64, result->rounds,
            result->seed, last->seed);
    if (last->cut) {
        fprintf(file, "; the last was cut after %" PRIu32 " cases: ", last->cases);
        conf_html_text(file, last->end);
    }
    fputs(". Counts are of all rounds; of the later ones only what went wrong is listed.</p>\n", file);
}

static void conf_html_op(FILE *file, const pco_conformance_result *result, const pco_conformance_op *op)
{
    char median[32], most[32];
    uint32_t cases = 0, bad = 0;
    for (int s = 0; s < PCO_CASE_STATES; s++) {
        cases += op->count[s];
        if (pco_conformance_state_is_bad((pco_conformance_state)s)) bad += op->count[s];
    }
    uint32_t other = cases - bad - op->count[PCO_CASE_PASS];
    fprintf(file, "<tr><td class=\"op\">%s</td><td class=\"verdict\">", op->name);
    if (bad)
        fprintf(file, "<span class=\"pill bad\">%" PRIu32 " bad</span>", bad);
    else if (op->count[PCO_CASE_WAIVED])
        fprintf(file, "<span class=\"pill warn\">%" PRIu32 " waived</span>", op->count[PCO_CASE_WAIVED]);
    else
        fprintf(file, "<span class=\"pill %s\">%s</span>", op->count[PCO_CASE_PASS] ? "pass" : "",
                op->count[PCO_CASE_PASS] ? "pass" : "not tested");
    fprintf(file,
            "</td><td class=\"n\" data-name=\"cases\">%" PRIu32
            "</td><td class=\"n%s few\" data-name=\"refused\">%" PRIu32
            "</td><td class=\"n\" data-name=\"variants\">%" PRIu32 "</td>",
            cases, other ? "" : " zero", other, op->variants);
    fprintf(file,
            "<td class=\"n%s\" data-name=\"median\">%s</td><td class=\"n%s\" data-name=\"max\">%s</td><td "
            "class=\"plot\">",
            op->median_ratio == 0 ? " zero" : "", conf_html_ratio(op->median_ratio, median),
            !(op->max_ratio <= 1) ? " alert"
            : op->max_ratio == 0  ? " zero"
                                  : "",
            conf_html_ratio(op->max_ratio, most));
    conf_html_plot(file, result, op);
    fputs("</td></tr>\n", file);
}

static void conf_html_ops(FILE *file, const pco_conformance_result *result)
{
    fputs("<h3>Verdict per operation</h3><p class=\"note\">Error &divide; bound of the worst element of each "
          "case, on a "
          "logarithmic scale: the dashed line is the bound, the dark line the median; grey at the left are "
          "results "
          "that are exactly the expected ones, red is beyond the bound.</p><table class=\"list "
          "ops\"><thead><tr>"
          "<th>operation</th><th>verdict</th><th class=\"n\">cases</th><th class=\"n\">refused</th>"
          "<th class=\"n\">variants</th><th class=\"n\">median</th><th class=\"n\">max</th>"
          "<th class=\"plot\"><span class=\"what\">error &divide; bound</span>",
          file);
    conf_html_axis(file);
    fputs("</th></tr></thead><tbody>\n", file);
    for (uint32_t i = 0; i < result->n_ops; i++) conf_html_op(file, result, &result->ops[i]);
    fputs("</tbody></table>\n", file);
}

/* Bounds that may be wider than they need be. */
static pco_status conf_html_low(FILE *file, const pco_conformance_result *result,
                                const pco_contract *contract, pco_error *err)
{
    bool any = false;
    for (uint32_t i = 0; i < result->n_ops; i++) {
        conf_figures figures;
        char median[32], most[32];
        pco_status status = conf_figures_make(result, result->ops[i].op, contract, &figures, err);
        if (status) return status;
        if (!figures.low) continue;
        if (!any)
            fputs("<h3>Medians below 0.01</h3><p class=\"note\">A bound that is never nearly reached may be "
                  "too wide to "
                  "find faults. Counted over cases whose bound is not zero.</p><div class=\"scroll\">"
                  "<table class=\"list\"><thead><tr><th>operation</th><th class=\"n\">cases</th>"
                  "<th class=\"n\">median</th><th class=\"n\">max</th><th>why</th></tr></thead><tbody>\n",
                  file);
        any = true;
        fprintf(file,
                "<tr><td class=\"op\">%s</td><td class=\"n\">%" PRIu32 "</td><td class=\"n\">%s</td>"
                "<td class=\"n\">%s</td><td><span class=\"pill%s\">%.*s</span>%s</td></tr>\n",
                result->ops[i].name, figures.bounded, conf_html_ratio(figures.median, median),
                conf_html_ratio(figures.max, most), figures.explained ? "" : " warn",
                (int)strcspn(figures.why, ":"), figures.why, strchr(figures.why, ':') + 1);
    }
    if (any) fputs("</tbody></table></div>\n", file);
    return PCO_OK;
}

static pco_status conf_html_device(FILE *file, const pco_conformance_report *report,
                                   const pco_conformance_comparison *comparison, uint32_t device,
                                   pco_error *err)
{
    const pco_conformance_result *result = &report->results[device];
    const pco_device_info *info = report->devices[device].info;
    pco_conformance_verdict verdict = pco_conformance_judge(result, 1);
    fprintf(file, "<section class=\"device\" id=\"device%" PRIu32 "\"><div class=\"title\"><h2>", device);
    conf_html_text(file, report->devices[device].id);
    fputs(": ", file);
    conf_html_text(file, info->name);
    fprintf(file, "</h2><span class=\"pill %s\">%s</span></div>\n", conf_html_verdict_class(verdict),
            verdict == PCO_VERDICT_PASS   ? "passed"
            : verdict == PCO_VERDICT_FAIL ? "failed"
                                          : "nothing tested");
    if (result->status) {
        fprintf(file, "<p><span class=\"pill bad\">%s</span> ", result->not_opened ? "not opened" : "stopped");
        conf_html_text(file, result->message);
        fputs("</p>\n", file);
    }
    conf_html_states(file, result);
    conf_html_rounds(file, result);
    conf_html_facts(file, info);
    pco_status status = conf_html_failures(file, result, err);
    if (comparison) conf_html_changes(file, report, comparison, device);
    if (result->n_ops) conf_html_ops(file, result);
    if (!status) status = conf_html_low(file, result, &info->contract, err);
    if (!status) status = conf_html_worst(file, result, err);
    if (!status) status = conf_html_coverage(file, result, err);
    conf_html_constants(file, result);
    conf_html_unsupported(file, result);
    conf_html_waived(file, result);
    fputs("</section>\n", file);
    return status;
}

/* ---- all devices ---- */

static const pco_conformance_op *conf_html_find(const pco_conformance_result *result, uint32_t op)
{
    for (uint32_t i = 0; i < result->n_ops; i++)
        if (result->ops[i].op == op) return &result->ops[i];
    return NULL;
}

static void conf_html_matrix_cell(FILE *file, const pco_conformance_op *op)
{
    char most[32];
    uint32_t bad = 0;
    for (int s = 0; op && s < PCO_CASE_STATES; s++)
        if (pco_conformance_state_is_bad((pco_conformance_state)s)) bad += op->count[s];
    if (!op)
        fputs("<td class=\"c-hole\"></td>", file);
    else if (bad)
        fprintf(file, "<td class=\"c-bad\">%" PRIu32 " bad</td>", bad);
    else if (op->count[PCO_CASE_WAIVED])
        fprintf(file, "<td><span class=\"pill warn\">%" PRIu32 " waived</span></td>",
                op->count[PCO_CASE_WAIVED]);
    else if (op->count[PCO_CASE_PASS])
        fprintf(file, "<td class=\"c-tested\">%s</td>", conf_html_ratio(op->max_ratio, most));
    else
        fputs("<td class=\"c-unsupported\">refused</td>", file);
}

static void conf_html_matrix(FILE *file, const pco_conformance_report *report)
{
    fputs("<section class=\"device\"><h2>All devices</h2><p class=\"note\">The largest error &divide; bound "
          "per "
          "operation.</p><div class=\"scroll\"><table class=\"list matrix\"><thead><tr><th>operation</th>",
          file);
    for (uint32_t d = 0; d < report->n_devices; d++) {
        pco_conformance_verdict verdict = pco_conformance_judge(&report->results[d], 1);
        fprintf(file, "<th><a href=\"#device%" PRIu32 "\">", d);
        conf_html_text(file, report->devices[d].id);
        fprintf(file, "</a><br><span class=\"pill %s\">%s</span></th>", conf_html_verdict_class(verdict),
                conf_verdict_name(verdict));
    }
    fputs("</tr></thead><tbody>\n", file);
    for (uint32_t d = 0; d < report->n_devices; d++)
        for (uint32_t i = 0; i < report->results[d].n_ops; i++) {
            const pco_conformance_op *op = &report->results[d].ops[i];
            bool seen = false;
            for (uint32_t e = 0; e < d && !seen; e++)
                seen = conf_html_find(&report->results[e], op->op) != NULL;
            if (seen) continue;
            fprintf(file, "<tr><td class=\"op\">%s</td>", op->name);
            for (uint32_t e = 0; e < report->n_devices; e++)
                conf_html_matrix_cell(file, conf_html_find(&report->results[e], op->op));
            fputs("</tr>\n", file);
        }
    fputs("</tbody></table></div></section>\n", file);
}

static void conf_html_top(FILE *file, const pco_conformance_report *report)
{
    const pco_conformance_options *options = &report->options;
    char scope[PCO_CONFORMANCE_SCOPE_TEXT];
    pco_conformance_verdict verdict = pco_conformance_judge(report->results, report->n_devices);
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
          "<meta name=\"generator\" content=\"portico conformance\"><title>Conformance: ",
          file);
    for (uint32_t d = 0; d < report->n_devices && d < 3; d++) {
        if (d) fputs(", ", file);
        conf_html_text(file, report->devices[d].id);
    }
    fprintf(file,
            " (%s)</title>\n<style>\n%s</style></head>\n<body><header class=\"top\"><div class=\"title\"><h1>"
            "Conformance report</h1><span class=\"pill %s\">%s</span></div><p class=\"dim\">",
            conf_verdict_name(verdict), conf_report_css, conf_html_verdict_class(verdict),
            verdict == PCO_VERDICT_PASS   ? "passed"
            : verdict == PCO_VERDICT_FAIL ? "failed"
                                          : "nothing tested");
    fprintf(file, "Portico %s, tier %s, seed %" PRIu64 ", operations ", report->program,
            pco_conformance_scope(options->tier, options->slice, scope), options->seed);
    conf_html_text(file, options->ops ? options->ops : "all");
    if (options->variant) {
        fputs(", variants ", file);
        conf_html_text(file, options->variant);
    }
    fprintf(file, "; %s; suite version %" PRIu32 ", <span class=\"mono\">%.12s</span></p></header>\n<main>\n",
            report->written, report->suite_version, report->suite_hash);
}

pco_status conf_html_write(const pco_conformance_report *report, const pco_conformance_comparison *comparison,
                           FILE *file, pco_error *err)
{
    pco_status status = PCO_OK;
    conf_html_top(file, report);
    if (report->n_devices > 1) conf_html_matrix(file, report);
    for (uint32_t d = 0; d < report->n_devices && !status; d++)
        status = conf_html_device(file, report, comparison, d, err);
    fputs(
        "</main><footer>Every element is compared with a result computed in double; the bound follows from "
        "the "
        "device&rsquo;s numeric contract. <code>portico conformance --verify DIR</code> checks that this "
        "report is "
        "complete and was not altered; <code>--rerun N</code> repeats N of its cases on the device.</footer>"
        "</body></html>\n",
        file);
    return status;
}
