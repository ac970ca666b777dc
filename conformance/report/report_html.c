/* The report as one HTML page that needs nothing else: no script, no font, no picture from elsewhere. */
#include "report/report_html.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

extern const char conf_report_css[];

/* ---- one device ---- */

static const char *conf_html_verdict_class(pco_conformance_verdict verdict)
{
    return verdict == PCO_VERDICT_PASS ? "pass" : verdict == PCO_VERDICT_FAIL ? "bad" : "warn";
}

/* "265 of 1628 tested": a verdict says nothing of what was refused. */
static void conf_html_tested(pco_writer *out, const pco_conformance_result *results, uint32_t count)
{
    uint32_t all, tested = pco_conformance_tested(results, count, &all);
    pco_print(out, "<span class=\"dim\">%" PRIu32 " of %" PRIu32 " cases tested</span>", tested, all);
}

static void conf_html_states(pco_writer *out, const pco_conformance_result *result)
{
    pco_write_text(out, "<div class=\"stack\" aria-hidden=\"true\">");
    for (int s = 0; s < PCO_CASE_STATES; s++)
        if (result->count[s])
            pco_print(out, "<i class=\"%s\" style=\"flex-grow:%" PRIu32 "\"></i>",
                      conf_html_class((pco_conformance_state)s), result->count[s]);
    pco_write_text(out, "</div><div class=\"legend\">");
    for (int s = 0; s < PCO_CASE_STATES; s++)
        if (result->count[s] || s == PCO_CASE_FAIL)
            pco_print(out, "<span><b>%" PRIu32 "</b> %s</span>", result->count[s],
                      pco_conformance_state_name((pco_conformance_state)s));
    pco_print(out, "<span><b>%.1f s</b></span></div>\n", result->seconds);
    const pco_conformance_replays *replays = &result->replays;
    if (replays->executions)
        pco_print(out,
                  "<p class=\"note\">%" PRIu64 " replays: %" PRIu64 " differed, %" PRIu64
                  " were wrong. With 95 %% confidence at most %.3g %% of executions differ.</p>\n",
                  replays->executions, replays->differed, replays->wrong,
                  100 * pco_conformance_flake_bound(replays->differed, replays->executions));
}

static void conf_html_rounds(pco_writer *out, const pco_conformance_result *result)
{
    if (!result->rounds) return;
    const pco_conformance_round *last = &result->each_round[result->rounds - 1];
    pco_print(out, "<p class=\"note\">A soak of %" PRIu32 " rounds, seeds %" PRIu64 " to %" PRIu64, result->rounds,
              result->seed, last->seed);
    if (last->cut) {
        pco_print(out, "; the last was cut after %" PRIu32 " cases: ", last->cases);
        pco_write_xml(out, last->end);
    }
    pco_write_text(out, ". Counts are of all rounds; of the later ones only what went wrong is listed.</p>\n");
}

static void conf_html_op(pco_writer *out, const pco_conformance_result *result, const pco_conformance_op *op)
{
    char median[32], most[32];
    uint32_t cases = 0, bad = 0;
    for (int s = 0; s < PCO_CASE_STATES; s++) {
        cases += op->count[s];
        if (pco_conformance_state_is_bad((pco_conformance_state)s)) bad += op->count[s];
    }
    uint32_t other = cases - bad - op->count[PCO_CASE_PASS];
    pco_print(out, "<tr><td class=\"op\">%s</td><td class=\"verdict\">", op->name);
    if (bad)
        pco_print(out, "<span class=\"pill bad\">%" PRIu32 " bad</span>", bad);
    else if (op->count[PCO_CASE_WAIVED])
        pco_print(out, "<span class=\"pill warn\">%" PRIu32 " waived</span>", op->count[PCO_CASE_WAIVED]);
    else
        pco_print(out, "<span class=\"pill %s\">%s</span>", op->count[PCO_CASE_PASS] ? "pass" : "",
                  op->count[PCO_CASE_PASS] ? "pass" : "not tested");
    pco_print(out,
              "</td><td class=\"n\" data-name=\"cases\">%" PRIu32
              "</td><td class=\"n%s few\" data-name=\"refused\">%" PRIu32
              "</td><td class=\"n\" data-name=\"variants\">%" PRIu32 "</td>",
              cases, other ? "" : " zero", other, op->variants);
    pco_print(out,
              "<td class=\"n%s\" data-name=\"median\">%s</td><td class=\"n%s\" data-name=\"max\">%s</td><td "
              "class=\"plot\">",
              op->median_ratio == 0 ? " zero" : "", conf_html_ratio(op->median_ratio, median),
              !(op->max_ratio <= 1) ? " alert"
              : op->max_ratio == 0  ? " zero"
                                    : "",
              conf_html_ratio(op->max_ratio, most));
    conf_html_plot(out, result, op);
    pco_write_text(out, "</td></tr>\n");
}

static void conf_html_ops(pco_writer *out, const pco_conformance_result *result)
{
    pco_write_text(out,
                   "<h3>Verdict per operation</h3><p class=\"note\">Error &divide; bound of the worst element of each "
                   "case, on a "
                   "logarithmic scale: the dashed line is the bound, the dark line the median; grey at the left are "
                   "results "
                   "that are exactly the expected ones, red is beyond the bound.</p><table class=\"list "
                   "ops\"><thead><tr>"
                   "<th>operation</th><th>verdict</th><th class=\"n\">cases</th><th class=\"n\">refused</th>"
                   "<th class=\"n\">variants</th><th class=\"n\">median</th><th class=\"n\">max</th>"
                   "<th class=\"plot\"><span class=\"what\">error &divide; bound</span>");
    conf_html_axis(out);
    pco_write_text(out, "</th></tr></thead><tbody>\n");
    uint32_t refused = 0;
    for (uint32_t i = 0; i < result->n_ops; i++) {
        if (pco_conformance_op_tested(&result->ops[i]))
            conf_html_op(out, result, &result->ops[i]);
        else
            refused++;
    }
    pco_write_text(out, "</tbody></table>\n");
    if (refused)
        pco_print(out, "<p class=\"note\">%" PRIu32 " more operation%s only refused, or not promised: see below.</p>\n",
                  refused, refused == 1 ? " was" : "s were");
}

/* Bounds that may be wider than they need be. */
static pco_status conf_html_low(pco_writer *out, const pco_conformance_result *result, const pco_contract *contract,
                                pco_error *err)
{
    bool any = false;
    for (uint32_t i = 0; i < result->n_ops; i++) {
        conf_figures figures;
        char median[32], most[32];
        pco_status status = conf_figures_make(result, result->ops[i].op, contract, &figures, err);
        if (status) return status;
        if (!figures.low) continue;
        if (!any)
            pco_write_text(out,
                           "<h3>Medians below 0.01</h3><p class=\"note\">A bound that is never nearly reached may be "
                           "too wide to "
                           "find faults. Counted over cases whose bound is not zero.</p><div class=\"scroll\">"
                           "<table class=\"list\"><thead><tr><th>operation</th><th class=\"n\">cases</th>"
                           "<th class=\"n\">median</th><th class=\"n\">max</th><th>why</th></tr></thead><tbody>\n");
        any = true;
        pco_print(out,
                  "<tr><td class=\"op\">%s</td><td class=\"n\">%" PRIu32 "</td><td class=\"n\">%s</td>"
                  "<td class=\"n\">%s</td><td><span class=\"pill%s\">%.*s</span>%s</td></tr>\n",
                  result->ops[i].name, figures.bounded, conf_html_ratio(figures.median, median),
                  conf_html_ratio(figures.max, most), figures.explained ? "" : " warn", (int)strcspn(figures.why, ":"),
                  figures.why, strchr(figures.why, ':') + 1);
    }
    if (any) pco_write_text(out, "</tbody></table></div>\n");
    return PCO_OK;
}

static void conf_html_probe(pco_writer *out, const pco_conformance_probe *probe, const pco_conformance_probe *before)
{
    static const char *const CLASSES[] = {"", "pass", "pass", "bad"};
    if (!probe->n_lines && !probe->message[0]) return;
    pco_print(out, "<details%s><summary>What it does with numbers, seen from outside: fingerprint %016" PRIx64,
              probe->broken ? " open" : "", probe->fingerprint);
    if (before && before->fingerprint && before->fingerprint != probe->fingerprint)
        pco_print(out, ", in the baseline %016" PRIx64, before->fingerprint);
    pco_write_text(out, "</summary>\n");
    if (probe->message[0]) {
        pco_write_text(out, "<p>The probes ended early: ");
        pco_write_xml(out, probe->message);
        pco_write_text(out, "</p>\n");
    }
    pco_write_text(out, "<div class=\"scroll\"><table><thead><tr><th>probe</th><th>found</th><th>the contract</th>"
                        "<th></th><th>in the baseline</th></tr></thead><tbody>\n");
    for (uint32_t i = 0; i < probe->n_lines; i++) {
        const pco_conformance_probe_line *line = &probe->lines[i],
                                         *was = before ? pco_conformance_probe_find(before, line->name) : NULL;
        pco_write_text(out, "<tr><td>");
        pco_write_xml(out, line->name);
        pco_write_text(out, "</td><td>");
        pco_write_xml(out, line->value);
        pco_write_text(out, "</td><td>");
        pco_write_xml(out, line->declared);
        pco_print(out, "</td><td><span class=\"%s\">%s</span></td><td>", CLASSES[line->verdict],
                  pco_conformance_probe_word(line->verdict));
        if (was && (strcmp(was->value, line->value) != 0 || was->bits != line->bits))
            pco_write_xml(out, strcmp(was->value, line->value) != 0 ? was->value : "other bits");
        pco_write_text(out, "</td></tr>\n");
    }
    pco_write_text(out, "</tbody></table></div></details>\n");
}

/* Only of what was compared; a row for each op that has something. */
static void conf_html_invariance(pco_writer *out, const pco_conformance_result *result)
{
    uint32_t rows = 0;
    for (uint32_t i = 0; i < result->n_ops; i++) {
        const pco_conformance_op *op = &result->ops[i];
        uint32_t compared = 0;
        for (int kind = 0; kind < PCO_PIECE_KINDS; kind++) compared += op->invariance.compared[kind];
        if (!compared) continue;
        if (rows++ == 0)
            pco_write_text(out, "<details><summary>The same bits in pieces: how many results of how many</summary>"
                                "<div class=\"scroll\"><table class=\"list\"><thead><tr><th>operation</th>"
                                "<th class=\"n\">a row alone</th><th class=\"n\">in chunks</th>"
                                "<th class=\"n\">2, 3 threads</th></tr></thead><tbody>\n");
        pco_print(out, "<tr><td>%s</td>", op->name);
        for (int kind = 0; kind < PCO_PIECE_KINDS; kind++) {
            const uint32_t all = op->invariance.compared[kind], differed = op->invariance.differed[kind];
            pco_print(out, "<td class=\"n%s\">", differed ? " warn" : "");
            if (all) pco_print(out, "%" PRIu32 " of %" PRIu32, all - differed, all);
            pco_write_text(out, "</td>");
        }
        pco_write_text(out, "</tr>\n");
    }
    if (rows) pco_write_text(out, "</tbody></table></div></details>\n");
}

static pco_status conf_html_device(pco_writer *out, const pco_conformance_report *report,
                                   const pco_conformance_comparison *comparison, uint32_t device, pco_error *err)
{
    const pco_conformance_result *result = &report->results[device];
    const pco_device_info *info = report->devices[device].info;
    pco_conformance_verdict verdict = pco_conformance_judge(result, 1);
    pco_print(out, "<section class=\"device\" id=\"device%" PRIu32 "\"><div class=\"title\"><h2>", device);
    pco_write_xml(out, report->devices[device].id);
    pco_write_text(out, ": ");
    pco_write_xml(out, info->name);
    pco_print(out, "</h2><span class=\"pill %s\">%s</span>", conf_html_verdict_class(verdict),
              verdict == PCO_VERDICT_PASS   ? "passed"
              : verdict == PCO_VERDICT_FAIL ? "failed"
                                            : "nothing tested");
    conf_html_tested(out, result, 1);
    pco_write_text(out, "</div>\n");
    if (result->status) {
        pco_print(out, "<p><span class=\"pill bad\">%s</span> ", result->not_opened ? "not opened" : "stopped");
        pco_write_xml(out, result->message);
        pco_write_text(out, "</p>\n");
    }
    conf_html_states(out, result);
    conf_html_rounds(out, result);
    conf_html_facts(out, info);
    const uint32_t pair = comparison ? comparison->pairs[device] : PCO_NONE;
    conf_html_probe(out, &result->probe, pair == PCO_NONE ? NULL : &comparison->before->results[pair].probe);
    pco_status status = conf_html_failures(out, report, device, err);
    if (comparison) conf_html_changes(out, report, comparison, device);
    if (result->n_ops) conf_html_ops(out, result);
    if (!status) status = conf_html_low(out, result, &info->contract, err);
    if (!status) status = conf_html_worst(out, result, err);
    if (!status) status = conf_html_coverage(out, result, err);
    conf_html_invariance(out, result);
    conf_html_constants(out, result);
    conf_html_unsupported(out, result);
    conf_html_waived(out, result);
    pco_write_text(out, "</section>\n");
    return status;
}

/* ---- all devices ---- */

static const pco_conformance_op *conf_html_find(const pco_conformance_result *result, uint32_t op)
{
    for (uint32_t i = 0; i < result->n_ops; i++)
        if (result->ops[i].op == op) return &result->ops[i];
    return NULL;
}

static void conf_html_matrix_cell(pco_writer *out, const pco_conformance_op *op)
{
    char most[32];
    uint32_t bad = 0;
    for (int s = 0; op && s < PCO_CASE_STATES; s++)
        if (pco_conformance_state_is_bad((pco_conformance_state)s)) bad += op->count[s];
    if (!op)
        pco_write_text(out, "<td class=\"c-hole\"></td>");
    else if (bad)
        pco_print(out, "<td class=\"c-bad\">%" PRIu32 " bad</td>", bad);
    else if (op->count[PCO_CASE_WAIVED])
        pco_print(out, "<td><span class=\"pill warn\">%" PRIu32 " waived</span></td>", op->count[PCO_CASE_WAIVED]);
    else if (op->count[PCO_CASE_PASS])
        pco_print(out, "<td class=\"c-tested\">%s</td>", conf_html_ratio(op->max_ratio, most));
    else
        pco_write_text(out, "<td class=\"c-unsupported\">refused</td>");
}

static void conf_html_matrix(pco_writer *out, const pco_conformance_report *report)
{
    pco_write_text(out,
                   "<section class=\"device\"><h2>All devices</h2><p class=\"note\">The largest error &divide; bound "
                   "per "
                   "operation.</p><div class=\"scroll\"><table class=\"list matrix\"><thead><tr><th>operation</th>");
    for (uint32_t d = 0; d < report->n_devices; d++) {
        pco_conformance_verdict verdict = pco_conformance_judge(&report->results[d], 1);
        pco_print(out, "<th><a href=\"#device%" PRIu32 "\">", d);
        pco_write_xml(out, report->devices[d].id);
        pco_print(out, "</a><br><span class=\"pill %s\">%s</span></th>", conf_html_verdict_class(verdict),
                  conf_verdict_name(verdict));
    }
    pco_write_text(out, "</tr></thead><tbody>\n");
    for (uint32_t d = 0; d < report->n_devices; d++)
        for (uint32_t i = 0; i < report->results[d].n_ops; i++) {
            const pco_conformance_op *op = &report->results[d].ops[i];
            bool seen = false;
            for (uint32_t e = 0; e < d && !seen; e++) seen = conf_html_find(&report->results[e], op->op) != NULL;
            if (seen) continue;
            pco_print(out, "<tr><td class=\"op\">%s</td>", op->name);
            for (uint32_t e = 0; e < report->n_devices; e++)
                conf_html_matrix_cell(out, conf_html_find(&report->results[e], op->op));
            pco_write_text(out, "</tr>\n");
        }
    pco_write_text(out, "</tbody></table></div></section>\n");
}

static void conf_html_top(pco_writer *out, const pco_conformance_report *report)
{
    const pco_conformance_options *options = &report->options;
    char scope[PCO_CONFORMANCE_SCOPE_TEXT];
    pco_conformance_verdict verdict = pco_conformance_judge(report->results, report->n_devices);
    pco_write_text(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
                        "<meta name=\"generator\" content=\"portico conformance\"><title>Conformance: ");
    for (uint32_t d = 0; d < report->n_devices && d < 3; d++) {
        if (d) pco_write_text(out, ", ");
        pco_write_xml(out, report->devices[d].id);
    }
    pco_print(out,
              " (%s)</title>\n<style>\n%s</style></head>\n<body><header class=\"top\"><div class=\"title\"><h1>"
              "Conformance report</h1><span class=\"pill %s\">%s</span>",
              conf_verdict_name(verdict), conf_report_css, conf_html_verdict_class(verdict),
              verdict == PCO_VERDICT_PASS   ? "passed"
              : verdict == PCO_VERDICT_FAIL ? "failed"
                                            : "nothing tested");
    conf_html_tested(out, report->results, report->n_devices);
    pco_write_text(out, "</div><p class=\"dim\">");
    pco_print(out, "Portico %s (%s%s), tier %s, seed %" PRIu64 ", operations ", report->program,
              *report->commit ? "commit " : "built from no repository", report->commit,
              pco_conformance_scope(options->tier, options->slice, scope), options->seed);
    pco_write_xml(out, options->ops ? options->ops : "all");
    if (options->variant) {
        pco_write_text(out, ", variants ");
        pco_write_xml(out, options->variant);
    }
    pco_print(out, "; %s; suite version %" PRIu32 ", <span class=\"mono\">%.12s</span></p>", report->written,
              report->suite_version, report->suite_hash);
    pco_write_text(out, "<p class=\"dim\">");
    pco_write_xml(out, report->os);
    pco_write_text(out, ", ");
    pco_write_xml(out, report->kernel);
    pco_write_text(out, "</p>");
    if (report->command) {
        pco_write_text(out, "<code class=\"run\">");
        pco_write_xml(out, report->command);
        pco_write_text(out, "</code>");
    }
    pco_write_text(out, "</header>\n<main>\n");
}

pco_status conf_html_write(const pco_conformance_report *report, const pco_conformance_comparison *comparison,
                           pco_writer *out, pco_error *err)
{
    pco_status status = PCO_OK;
    conf_html_top(out, report);
    if (report->n_devices > 1) conf_html_matrix(out, report);
    for (uint32_t d = 0; d < report->n_devices && !status; d++)
        status = conf_html_device(out, report, comparison, d, err);
    pco_write_text(out,
                   "</main><footer>Every element is compared with a result computed in double; the bound follows from "
                   "the "
                   "device&rsquo;s numeric contract. <code>portico conformance --verify DIR</code> checks that this "
                   "report is "
                   "complete and was not altered; <code>--rerun N</code> repeats N of its cases on the device.</footer>"
                   "</body></html>\n");
    return status;
}
