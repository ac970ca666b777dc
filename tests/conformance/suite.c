/* The whole run: cases in turn, results added up. */
#include "runner.h"

#include "base/error.h"
#include "graph/op.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const STATES[PCO_CASE_STATES] = {"pass", "fail", "unsupported", "not promised",
                                                    "mistrusted"};
static const char *const TIERS[] = {"quick", "standard", "tiny"};

const char *pco_conformance_state_name(pco_conformance_state state)
{
    return (unsigned)state < PCO_CASE_STATES ? STATES[state] : "?";
}

const char *pco_conformance_tier_name(pco_conformance_tier tier)
{
    return (unsigned)tier < 3 ? TIERS[tier] : "?";
}

int pco_conformance_tier_parse(const char *name, pco_conformance_tier *tier)
{
    for (int i = 0; i < 3; i++)
        if (strcmp(name, TIERS[i]) == 0) {
            *tier = (pco_conformance_tier)i;
            return 1;
        }
    return 0;
}

/* ---- counting ---- */

typedef struct conf_suite_count {
    uint32_t case_id, count;
} conf_suite_count;

static bool conf_suite_count_one(void *user, const conf_case *one)
{
    conf_suite_count *count = user;
    if (count->case_id == 0 || count->case_id == one->id) count->count++;
    return true;
}

uint32_t pco_conformance_count(const pco_conformance_options *options)
{
    conf_suite_count count = {.case_id = options->case_id};
    conf_cases_visit(options->tier, options->ops, conf_suite_count_one, &count);
    return count.count;
}

/* ---- running ---- */

typedef struct conf_suite_ratio {
    uint32_t op;
    double ratio;
} conf_suite_ratio;

typedef struct conf_suite_run {
    const pco_conformance_options *options;
    const pco_conformance_device *device;
    pco_conformance_result *result;
    uint32_t done, total, max_failures;
    uint32_t variants; /* of the case under way */
    conf_suite_ratio *ratios;
    size_t n_ratios, ratio_capacity;
    pco_status status;
    pco_error *err;
} conf_suite_run;

static pco_conformance_op *conf_suite_row(conf_suite_run *run, uint32_t op)
{
    pco_conformance_result *result = run->result;
    for (uint32_t i = result->n_ops; i-- > 0;)
        if (result->ops[i].op == op) return &result->ops[i];
    pco_conformance_op *row = &result->ops[result->n_ops++];
    *row = (pco_conformance_op){.op = op, .name = pco_op_find(op)->name};
    return row;
}

static void conf_suite_keep_ratio(conf_suite_run *run, const pco_conformance_case *one)
{
    if (run->n_ratios == run->ratio_capacity) {
        size_t capacity = run->ratio_capacity ? run->ratio_capacity * 2 : 1024;
        conf_suite_ratio *grown = realloc(run->ratios, capacity * sizeof *grown);
        if (!grown) {
            run->status = pco_fail(run->err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for results");
            return;
        }
        run->ratios = grown, run->ratio_capacity = capacity;
    }
    run->ratios[run->n_ratios++] = (conf_suite_ratio){one->op, one->ratio};
}

static void conf_suite_keep_failure(conf_suite_run *run, const pco_conformance_case *one)
{
    pco_conformance_result *result = run->result;
    if (result->n_failures >= run->max_failures) return;
    pco_conformance_case *kept = &result->failures[result->n_failures];
    *kept = *one;
    kept->label = strdup(one->label);
    kept->variant = strdup(one->variant);
    if (kept->label && kept->variant) {
        result->n_failures++;
        return;
    }
    free((void *)(uintptr_t)kept->label);
    free((void *)(uintptr_t)kept->variant);
    run->status = pco_fail(run->err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for results");
}

static void conf_suite_report(void *user, pco_conformance_case *one)
{
    conf_suite_run *run = user;
    pco_conformance_op *row = conf_suite_row(run, one->op);
    row->count[one->state]++;
    run->result->count[one->state]++;
    if (++run->variants > row->variants) row->variants = run->variants;
    if (one->state == PCO_CASE_UNSUPPORTED && !row->reason[0])
        snprintf(row->reason, sizeof row->reason, "%.255s", one->detail);
    if (one->state == PCO_CASE_FAIL || one->state == PCO_CASE_MISTRUSTED) conf_suite_keep_failure(run, one);
    if (one->state == PCO_CASE_PASS || one->state == PCO_CASE_FAIL || one->state == PCO_CASE_MISTRUSTED)
        conf_suite_keep_ratio(run, one);
    pco_conformance_progress progress = {run->device, run->done, run->total, one};
    if (run->options->progress && !run->options->progress(run->options->user, &progress))
        run->status = pco_fail(run->err, PCO_ERROR_CANCELLED, "cancelled");
}

static bool conf_suite_visit(void *user, const conf_case *one)
{
    conf_suite_run *run = user;
    if (run->options->case_id && run->options->case_id != one->id) return true;
    run->done++;
    run->variants = 0;
    pco_status status = conf_run_case(run->device, one, run->options, conf_suite_report, run, run->err);
    if (status && run->status == PCO_OK) run->status = status;
    return run->status == PCO_OK;
}

static int conf_suite_compare(const void *left, const void *right)
{
    const conf_suite_ratio *a = left, *b = right;
    if (a->op != b->op) return a->op < b->op ? -1 : 1;
    return a->ratio < b->ratio ? -1 : a->ratio > b->ratio;
}

static void conf_suite_medians(conf_suite_run *run)
{
    if (run->n_ratios) qsort(run->ratios, run->n_ratios, sizeof *run->ratios, conf_suite_compare);
    for (size_t begin = 0, end; begin < run->n_ratios; begin = end) {
        for (end = begin; end < run->n_ratios && run->ratios[end].op == run->ratios[begin].op;) end++;
        pco_conformance_op *row = conf_suite_row(run, run->ratios[begin].op);
        row->median_ratio = run->ratios[begin + (end - begin) / 2].ratio;
        row->max_ratio = run->ratios[end - 1].ratio;
    }
}

static double conf_suite_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static pco_status conf_suite_device(const pco_conformance_options *options,
                                    const pco_conformance_device *device, pco_conformance_result *result,
                                    pco_error *err)
{
    uint32_t n_ops;
    pco_op_table(&n_ops);
    conf_suite_run run = {.options = options, .device = device, .result = result, .err = err};
    run.max_failures = options->max_failures ? options->max_failures : 20;
    run.total = pco_conformance_count(options);
    *result = (pco_conformance_result){.device_id = device->id, .tier = options->tier, .seed = options->seed};
    result->ops = calloc(n_ops, sizeof *result->ops);
    result->failures = calloc(run.max_failures, sizeof *result->failures);
    if (!result->ops || !result->failures)
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for results");
    double start = conf_suite_now();
    conf_cases_visit(options->tier, options->ops, conf_suite_visit, &run);
    conf_suite_medians(&run);
    free(run.ratios);
    result->seconds = conf_suite_now() - start;
    result->status = run.status;
    if (run.status) snprintf(result->message, sizeof result->message, "%.255s", err->message);
    return run.status == PCO_ERROR_DEVICE_LOST ? PCO_OK : run.status;
}

pco_status pco_conformance_run(const pco_conformance_options *options, const pco_conformance_device *devices,
                               uint32_t n_devices, pco_conformance_result *results, pco_error *err)
{
    pco_error local;
    if (!err) err = &local;
    memset(results, 0, n_devices * sizeof *results);
    for (uint32_t i = 0; i < n_devices; i++) {
        pco_status status = conf_suite_device(options, &devices[i], &results[i], err);
        if (status) return status;
    }
    return PCO_OK;
}

void pco_conformance_clear(pco_conformance_result *results, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t f = 0; f < results[i].n_failures; f++) {
            free((void *)(uintptr_t)results[i].failures[f].label);
            free((void *)(uintptr_t)results[i].failures[f].variant);
        }
        free(results[i].ops);
        free(results[i].failures);
        memset(&results[i], 0, sizeof results[i]);
    }
}

pco_conformance_verdict pco_conformance_judge(const pco_conformance_result *results, uint32_t count)
{
    uint32_t judged = 0, bad = 0;
    for (uint32_t i = 0; i < count; i++) {
        bad += results[i].count[PCO_CASE_FAIL] + results[i].count[PCO_CASE_MISTRUSTED];
        bad += results[i].status != PCO_OK;
        uint32_t here = results[i].count[PCO_CASE_PASS];
        if (here == 0 && results[i].count[PCO_CASE_FAIL] == 0)
            return bad ? PCO_VERDICT_FAIL : PCO_VERDICT_NOTHING_TESTED;
        judged += here;
    }
    if (bad) return PCO_VERDICT_FAIL;
    return judged ? PCO_VERDICT_PASS : PCO_VERDICT_NOTHING_TESTED;
}
