/* The lists of the page: failures, closest cases, refusals, waivers, changes since the baseline. */
#include "report/report_html.h"

#include "base/dtype.h"
#include "base/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void conf_cards_figures(pco_writer *out, const pco_conformance_case *one)
{
    char got[PCO_NUMBER_TEXT], expected[PCO_NUMBER_TEXT];
    if (one->element < 0) return;
    pco_print(
        out, "<div class=\"figures\">element %" PRId64 " of %" PRId64 ": got <b>%s</b>, expected <b>%s</b>, bound %.3g",
        one->element, one->elements, pco_number_text(one->got, got), pco_number_text(one->expected, expected),
        one->bound);
    if (one->wrong) pco_print(out, "; <b>%" PRId64 "</b> elements outside", one->wrong);
    pco_write_text(out, "</div>");
}

static void conf_cards_case(pco_writer *out, const pco_conformance_case *one, const char *reproducer)
{
    char ratio[32];
    pco_print(out, "<li class=\"%s\"><div class=\"head\"><b>%s</b> <span class=\"mono\">#%08" PRIx32 "</span><span>",
              conf_html_class(one->state), one->op_name, one->id);
    pco_write_xml(out, *one->variant ? one->variant : "refused");
    if (one->width) pco_print(out, ", width %" PRIu32, one->width);
    pco_write_text(out, "</span>");
    if (one->state != PCO_CASE_PASS)
        pco_print(out, "<span class=\"pill %s\">%s</span>", conf_html_class(one->state),
                  pco_conformance_state_name(one->state));
    if (pco_conformance_state_is_judged(one->state))
        pco_print(out, "<span class=\"ratio\">error / bound <b>%s</b></span>", conf_html_ratio(one->ratio, ratio));
    pco_write_text(out, "</div><div class=\"label mono\">");
    pco_write_xml(out, one->label);
    pco_write_text(out, "</div>");
    if (one->detail[0]) {
        pco_write_text(out, "<div>");
        pco_write_xml(out, one->detail);
        pco_write_text(out, "</div>");
    }
    if (pco_conformance_state_is_judged(one->state)) conf_cards_figures(out, one);
    if (one->repeat[0]) {
        pco_write_text(out, "<code class=\"run\">");
        pco_write_xml(out, one->repeat);
        pco_write_text(out, "</code>");
    }
    if (*reproducer) {
        pco_write_text(out, "<div>reproducer: <a href=\"");
        pco_write_xml(out, reproducer);
        pco_write_text(out, "\">");
        pco_write_xml(out, reproducer);
        pco_write_text(out, "</a></div>");
    }
    pco_write_text(out, "</li>\n");
}

static int conf_cards_order(const void *left, const void *right)
{
    const pco_conformance_case *a = *(const pco_conformance_case *const *)left,
                               *b = *(const pco_conformance_case *const *)right;
    if (a->ratio != b->ratio) return a->ratio > b->ratio ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

/* Cases that are bad, or that passed with an error, the worst first; the caller frees them. */
static const pco_conformance_case **conf_cards_select(const pco_conformance_result *result, bool bad, uint32_t *count)
{
    const pco_conformance_case **chosen = malloc((result->n_cases + 1) * sizeof *chosen);
    *count = 0;
    for (uint32_t i = 0; chosen && i < result->n_cases; i++) {
        const pco_conformance_case *one = &result->cases[i];
        if (bad ? pco_conformance_state_is_bad(one->state) : one->state == PCO_CASE_PASS && one->ratio > 0)
            chosen[(*count)++] = one;
    }
    if (chosen) qsort(chosen, *count, sizeof *chosen, conf_cards_order);
    return chosen;
}

pco_status conf_html_failures(pco_writer *out, const pco_conformance_report *report, uint32_t device, pco_error *err)
{
    const pco_conformance_result *result = &report->results[device];
    char reproducer[1024];
    uint32_t count;
    const pco_conformance_case **bad = conf_cards_select(result, true, &count);
    if (!bad) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the report");
    if (count) {
        pco_print(out, "<h3>What went wrong <small>%" PRIu32 " cases</small></h3><ul class=\"cards\">\n", count);
        for (uint32_t i = 0; i < count && i < CONF_HTML_SHOWN; i++) {
            (void)conf_origin_reproducer(report, device, bad[i], reproducer, sizeof reproducer);
            conf_cards_case(out, bad[i], reproducer);
        }
        pco_write_text(out, "</ul>\n");
        if (count > CONF_HTML_SHOWN)
            pco_print(out, "<p class=\"note\">And %" PRIu32 " more in report.json.</p>\n", count - CONF_HTML_SHOWN);
    }
    free(bad);
    return PCO_OK;
}

pco_status conf_html_worst(pco_writer *out, const pco_conformance_result *result, pco_error *err)
{
    uint32_t count, shown = 0;
    const pco_conformance_case **close = conf_cards_select(result, false, &count);
    if (!close) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the report");
    if (count) {
        pco_write_text(out, "<h3>Closest to the bound <small>of those that passed, one for each operation</small></h3>"
                            "<ul class=\"cards narrow\">\n");
        for (uint32_t i = 0; i < count && shown < CONF_HTML_WORST; i++) {
            bool seen = false;
            for (uint32_t j = 0; j < i && !seen; j++) seen = close[j]->op == close[i]->op;
            if (seen) continue;
            conf_cards_case(out, close[i], "");
            shown++;
        }
        pco_write_text(out, "</ul>\n");
    }
    free(close);
    return PCO_OK;
}

/* Is this the first case of its op with that reason? Then `count` is how many there are. */
static bool conf_cards_is_first(const pco_conformance_result *result, uint32_t index, pco_conformance_state state,
                                uint32_t *count)
{
    const pco_conformance_case *one = &result->cases[index];
    *count = 0;
    if (one->state != state) return false;
    for (uint32_t i = 0; i < result->n_cases; i++) {
        const pco_conformance_case *other = &result->cases[i];
        if (other->op != one->op || other->state != state || strcmp(other->detail, one->detail) != 0) continue;
        if (i < index) return false;
        ++*count;
    }
    return true;
}

static void conf_cards_reasons(pco_writer *out, const pco_conformance_result *result, pco_conformance_state state,
                               const char *title)
{
    uint32_t count;
    if (result->count[state] == 0) return;
    pco_print(out,
              "<details><summary><b>%s</b> <small>%" PRIu32
              " cases</small></summary><div class=\"scroll\"><table class=\"list\"><thead><tr>"
              "<th>operation</th><th class=\"n\">cases</th><th>why</th></tr></thead><tbody>\n",
              title, result->count[state]);
    for (uint32_t i = 0; i < result->n_cases; i++) {
        if (!conf_cards_is_first(result, i, state, &count)) continue;
        pco_print(out, "<tr><td class=\"op\">%s</td><td class=\"n\">%" PRIu32 "</td><td>", result->cases[i].op_name,
                  count);
        pco_write_xml(out, result->cases[i].detail);
        pco_write_text(out, "</td></tr>\n");
    }
    pco_write_text(out, "</tbody></table></div></details>\n");
}

void conf_html_unsupported(pco_writer *out, const pco_conformance_result *result)
{
    conf_cards_reasons(out, result, PCO_CASE_UNSUPPORTED, "Unsupported");
    conf_cards_reasons(out, result, PCO_CASE_NOT_PROMISED, "Not promised");
}

void conf_html_waived(pco_writer *out, const pco_conformance_result *result)
{
    if (result->count[PCO_CASE_WAIVED] == 0) {
        pco_write_text(out, "<h3>Waivers</h3><p class=\"note\">None was used.</p>\n");
        return;
    }
    pco_print(out, "<h3>Waivers <small>%" PRIu32 " failures that were expected</small></h3><ul class=\"cards\">\n",
              result->count[PCO_CASE_WAIVED]);
    for (uint32_t i = 0, shown = 0; i < result->n_cases && shown < CONF_HTML_SHOWN; i++) {
        const pco_conformance_case *one = &result->cases[i];
        if (one->state != PCO_CASE_WAIVED) continue;
        shown++;
        pco_print(out,
                  "<li class=\"warn\"><div class=\"head\"><b>%s</b> <span class=\"mono\">#%08" PRIx32 "</span><span>",
                  one->op_name, one->id);
        pco_write_xml(out, one->variant);
        pco_write_text(out, "</span></div><div class=\"label mono\">");
        pco_write_xml(out, one->label);
        pco_write_text(out, "</div><div><b>Waived:</b> ");
        pco_write_xml(out, one->waiver ? one->waiver : "no reason was given");
        pco_write_text(out, "</div><div>");
        pco_write_xml(out, one->detail);
        pco_write_text(out, "</div></li>\n");
    }
    pco_write_text(out, "</ul>\n");
}

/* ---- changes ---- */

static void conf_cards_state(pco_writer *out, const pco_conformance_case *one)
{
    char ratio[32];
    if (!one) {
        pco_write_text(out, "<td>&ndash;</td>");
        return;
    }
    pco_print(out, "<td><span class=\"pill %s\">%s</span>", conf_html_class(one->state),
              pco_conformance_state_name(one->state));
    if (pco_conformance_state_is_judged(one->state)) pco_print(out, " %s", conf_html_ratio(one->ratio, ratio));
    pco_write_text(out, "</td>");
}

void conf_html_changes(pco_writer *out, const pco_conformance_report *report,
                       const pco_conformance_comparison *comparison, uint32_t device)
{
    static const char *const TITLES[PCO_CHANGE_KINDS] = {"regression",  "fixed", "grown",
                                                         "other state", "new",   "removed"};
    uint32_t pair = comparison->pairs[device], shown = 0, all = 0;
    pco_write_text(out, "<h3>Against the baseline</h3><p class=\"note\">");
    if (pair == PCO_NONE) {
        pco_write_text(out, "The earlier run has no such device.</p>\n");
        return;
    }
    pco_print(out, "The run of %s, Portico %s, with driver <b>", comparison->before->written,
              comparison->before->program);
    pco_write_xml(out, comparison->before->devices[pair].info->driver);
    pco_write_text(out, "</b>; now <b>");
    pco_write_xml(out, report->devices[device].info->driver);
    pco_print(out, "</b>. Grown: error / bound is above %g times what it was, and above 0.01%s.</p>\n",
              comparison->factor, comparison->same_data ? "" : " (the seeds differ: not compared)");
    for (uint32_t i = 0; i < comparison->n_changes; i++) {
        const pco_conformance_change *change = &comparison->changes[i];
        const pco_conformance_case *one = change->now ? change->now : change->before;
        if (change->device != device || all++ >= CONF_HTML_SHOWN) continue;
        if (shown++ == 0)
            pco_write_text(out, "<div class=\"scroll\"><table "
                                "class=\"list\"><thead><tr><th>change</th><th>case</th><th>variant</th>"
                                "<th>before</th><th>now</th></tr></thead><tbody>\n");
        pco_print(out,
                  "<tr><td><span class=\"pill %s\">%s</span></td><td><b>%s</b> <span class=\"mono\">#%08" PRIx32
                  "</span></td><td>",
                  change->kind == PCO_CHANGE_REGRESSION ? "bad"
                  : change->kind == PCO_CHANGE_FIXED    ? "pass"
                  : change->kind == PCO_CHANGE_GROWN    ? "warn"
                                                        : "",
                  TITLES[change->kind], one->op_name, one->id);
        pco_write_xml(out, one->variant);
        pco_write_text(out, "</td>");
        conf_cards_state(out, change->before);
        conf_cards_state(out, change->now);
        pco_write_text(out, "</tr>\n");
    }
    if (shown) pco_write_text(out, "</tbody></table></div>\n");
    if (all > shown) pco_print(out, "<p class=\"note\">And %" PRIu32 " more in report.json.</p>\n", all - shown);
    if (all == 0) pco_write_text(out, "<p>No difference.</p>\n");
}
