/* The report as JUnit XML: a suite for each device and op, a test for each case and variant. */
#include "report/report_parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void conf_junit_attribute(pco_writer *out, const char *name, const char *text)
{
    pco_print(out, " %s=\"", name);
    pco_write_xml(out, text);
    pco_write_char(out, '"');
}

typedef struct conf_junit_count {
    uint32_t tests, failures, errors, skipped;
    double seconds;
} conf_junit_count;

/* A failure is a wrong answer; an error is no answer. Waived failures are skipped, with the reason. */
static bool conf_junit_is_error(pco_conformance_state state)
{
    return state == PCO_CASE_CRASHED || state == PCO_CASE_HUNG || state == PCO_CASE_DEVICE_LOST;
}

static bool conf_junit_is_skipped(pco_conformance_state state)
{
    return state != PCO_CASE_PASS && !pco_conformance_state_is_bad(state);
}

static void conf_junit_add(conf_junit_count *count, const pco_conformance_case *one)
{
    count->tests++;
    count->seconds += one->seconds;
    if (conf_junit_is_error(one->state))
        count->errors++;
    else if (conf_junit_is_skipped(one->state))
        count->skipped++;
    else if (one->state != PCO_CASE_PASS)
        count->failures++;
}

static void conf_junit_count_write(pco_writer *out, const conf_junit_count *count)
{
    pco_print(out,
              " tests=\"%" PRIu32 "\" failures=\"%" PRIu32 "\" errors=\"%" PRIu32 "\" skipped=\"%" PRIu32
              "\" time=\"%.6f\"",
              count->tests, count->failures, count->errors, count->skipped, count->seconds);
}

/* `seed`: the run's. */
static void conf_junit_case(pco_writer *out, const char *class, const pco_conformance_case *one, uint64_t seed)
{
    char name[1024], round[40] = "";
    if (one->seed != seed) snprintf(round, sizeof round, ", seed %" PRIu64, one->seed);
    snprintf(name, sizeof name, "%s #%08" PRIx32 " [%s%s%.0u]%s", one->label, one->id, one->variant,
             one->width ? ", width " : "", one->width, round);
    pco_write_text(out, "  <testcase");
    conf_junit_attribute(out, "name", name);
    conf_junit_attribute(out, "classname", class);
    pco_print(out, " time=\"%.6f\"", one->seconds);
    if (one->state == PCO_CASE_PASS) {
        pco_write_text(out, "/>\n");
        return;
    }
    const char *element = conf_junit_is_error(one->state)     ? "error"
                          : conf_junit_is_skipped(one->state) ? "skipped"
                                                              : "failure";
    snprintf(name, sizeof name, "%s%s%s%s%s", pco_conformance_state_name(one->state), *one->detail ? ": " : "",
             one->detail, one->waiver ? "; waived: " : "", one->waiver ? one->waiver : "");
    pco_print(out, ">\n   <%s", element);
    conf_junit_attribute(out, "message", name);
    if (strcmp(element, "skipped") == 0) {
        pco_write_text(out, "/>\n  </testcase>\n");
        return;
    }
    conf_junit_attribute(out, "type", pco_conformance_state_name(one->state));
    snprintf(name, sizeof name, "error / bound %g, %" PRId64 " of %" PRId64 " elements; repeat with: %s", one->ratio,
             one->wrong, one->elements, one->repeat);
    pco_write_char(out, '>');
    pco_write_xml(out, name);
    pco_print(out, "</%s>\n  </testcase>\n", element);
}

static void conf_junit_suite(pco_writer *out, const pco_conformance_report *report, uint32_t device,
                             const pco_conformance_op *op)
{
    const pco_conformance_result *result = &report->results[device];
    char class[160], scope[PCO_CONFORMANCE_SCOPE_TEXT];
    conf_junit_count count = {0};
    for (uint32_t i = 0; i < result->n_cases; i++)
        if (result->cases[i].op == op->op) conf_junit_add(&count, &result->cases[i]);
    snprintf(class, sizeof class, "%.80s.%s", report->devices[device].id, op->name);
    pco_write_text(out, " <testsuite");
    conf_junit_attribute(out, "name", class);
    conf_junit_count_write(out, &count);
    pco_print(out, " timestamp=\"%.19s\"", report->written); /* the format has no time zone */
    pco_write_text(out, ">\n  <properties>\n");
    const char *const properties[][2] = {{"device", report->devices[device].info->name},
                                         {"driver", report->devices[device].info->driver},
                                         {"tier", pco_conformance_scope(result->tier, result->slice, scope)},
                                         {"portico", report->program}};
    for (size_t i = 0; i < sizeof properties / sizeof *properties; i++) {
        pco_write_text(out, "   <property");
        conf_junit_attribute(out, "name", properties[i][0]);
        conf_junit_attribute(out, "value", properties[i][1]);
        pco_write_text(out, "/>\n");
    }
    pco_write_text(out, "  </properties>\n");
    for (uint32_t i = 0; i < result->n_cases; i++)
        if (result->cases[i].op == op->op) conf_junit_case(out, class, &result->cases[i], result->seed);
    pco_write_text(out, " </testsuite>\n");
}

/* A run that ended early, or in which nothing was tested, must not look like one that passed. */
static bool conf_junit_is_broken(const pco_conformance_result *result)
{
    return result->status != PCO_OK || pco_conformance_judge(result, 1) == PCO_VERDICT_NOTHING_TESTED;
}

static void conf_junit_run(pco_writer *out, const pco_conformance_report *report, uint32_t device)
{
    const pco_conformance_result *result = &report->results[device];
    char name[160];
    const char *why = result->status ? result->message : "nothing was tested";
    const char *test = result->not_opened ? "opening the device" : "the run";
    snprintf(name, sizeof name, "%.80s.run", report->devices[device].id);
    pco_write_text(out, " <testsuite");
    conf_junit_attribute(out, "name", name);
    conf_junit_count_write(out, &(conf_junit_count){.tests = 1, .errors = 1});
    pco_print(out, ">\n  <testcase name=\"%s\" time=\"0\"", test);
    conf_junit_attribute(out, "classname", name);
    pco_write_text(out, ">\n   <error type=\"run\"");
    conf_junit_attribute(out, "message", why);
    pco_write_text(out, "/>\n  </testcase>\n </testsuite>\n");
}

void conf_junit_write(const pco_conformance_report *report, pco_writer *out)
{
    conf_junit_count count = {0};
    for (uint32_t d = 0; d < report->n_devices; d++) {
        const pco_conformance_result *result = &report->results[d];
        for (uint32_t i = 0; i < result->n_cases; i++) conf_junit_add(&count, &result->cases[i]);
        if (conf_junit_is_broken(result)) count.tests++, count.errors++;
    }
    pco_write_text(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"portico conformance\"");
    conf_junit_count_write(out, &count);
    pco_write_text(out, ">\n");
    for (uint32_t d = 0; d < report->n_devices; d++) {
        for (uint32_t i = 0; i < report->results[d].n_ops; i++)
            conf_junit_suite(out, report, d, &report->results[d].ops[i]);
        if (conf_junit_is_broken(&report->results[d])) conf_junit_run(out, report, d);
    }
    pco_write_text(out, "</testsuites>\n");
}
