/* The whole run: cases in turn, results added up. */
#include "runner.h"

#include "base/error.h"
#include "graph/op.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const STATES[PCO_CASE_STATES] = {"pass",   "fail",  "unsupported", "not promised", "mistrusted",
                                                    "waived", "flaky", "crashed",     "hung",         "device lost"};
static const char *const TIERS[] = {"quick", "standard", "tiny", "full"};

const char *pco_conformance_state_name(pco_conformance_state state)
{
    return (unsigned)state < PCO_CASE_STATES ? STATES[state] : "?";
}

int pco_conformance_state_is_bad(pco_conformance_state state)
{
    return state == PCO_CASE_FAIL || state == PCO_CASE_MISTRUSTED ||
           (state >= PCO_CASE_FLAKY && state < PCO_CASE_STATES);
}

int pco_conformance_state_is_judged(pco_conformance_state state)
{
    return state == PCO_CASE_PASS || state == PCO_CASE_FAIL || state == PCO_CASE_MISTRUSTED ||
           state == PCO_CASE_WAIVED || state == PCO_CASE_FLAKY;
}

const char *pco_conformance_tier_name(pco_conformance_tier tier)
{
    return (unsigned)tier < sizeof TIERS / sizeof *TIERS ? TIERS[tier] : "?";
}

int pco_conformance_tier_parse(const char *name, pco_conformance_tier *tier)
{
    for (int i = 0; i < (int)(sizeof TIERS / sizeof *TIERS); i++)
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

static uint32_t conf_suite_count_on(const pco_conformance_options *options, const pco_device_info *info)
{
    conf_suite_count count = {.case_id = options->case_id};
    conf_cases_visit_on(info, options->tier, options->ops, conf_suite_count_one, &count);
    return count.count;
}

uint32_t pco_conformance_count(const pco_conformance_options *options)
{
    return conf_suite_count_on(options, NULL);
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
    uint32_t done, total, capacity; /* capacity: of result->cases */
    uint32_t variants;              /* of the case under way */
    double began;                   /* the case or variant under way */
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

static void conf_suite_free_case(pco_conformance_case *one)
{
    free((void *)(uintptr_t)one->label);
    free((void *)(uintptr_t)one->variant);
    free((void *)(uintptr_t)one->waiver);
}

static void conf_suite_keep(conf_suite_run *run, const pco_conformance_case *one)
{
    pco_conformance_result *result = run->result;
    if (result->n_cases == run->capacity) {
        uint32_t capacity = run->capacity ? run->capacity * 2 : 1024;
        pco_conformance_case *grown = realloc(result->cases, capacity * sizeof *grown);
        if (!grown) {
            run->status = pco_fail(run->err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for results");
            return;
        }
        result->cases = grown, run->capacity = capacity;
    }
    pco_conformance_case *kept = &result->cases[result->n_cases];
    *kept = *one;
    kept->label = strdup(one->label);
    kept->variant = strdup(one->variant);
    kept->waiver = one->waiver ? strdup(one->waiver) : NULL;
    if (kept->label && kept->variant && !one->waiver == !kept->waiver) {
        result->n_cases++;
        return;
    }
    conf_suite_free_case(kept);
    run->status = pco_fail(run->err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for results");
}

static double conf_suite_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
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
    double now = conf_suite_now();
    one->seconds = now - run->began, run->began = now;
    conf_suite_keep(run, one);
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
    run->began = conf_suite_now();
    pco_status status = conf_run_case(run->device, one, run->options, conf_suite_report, run, run->err);
    if (status && run->status == PCO_OK) run->status = status;
    return run->status == PCO_OK;
}

static int conf_suite_compare(const void *left, const void *right)
{
    const pco_conformance_case *a = *(const pco_conformance_case *const *)left,
                               *b = *(const pco_conformance_case *const *)right;
    if (a->op != b->op) return a->op < b->op ? -1 : 1;
    return a->ratio < b->ratio ? -1 : a->ratio > b->ratio;
}

static pco_status conf_suite_medians(conf_suite_run *run, pco_error *err)
{
    pco_conformance_result *result = run->result;
    const pco_conformance_case **judged = malloc((result->n_cases + 1) * sizeof *judged);
    if (!judged) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for results");
    uint32_t count = 0;
    for (uint32_t i = 0; i < result->n_cases; i++)
        if (pco_conformance_state_is_judged(result->cases[i].state)) judged[count++] = &result->cases[i];
    qsort(judged, count, sizeof *judged, conf_suite_compare);
    for (uint32_t begin = 0, end; begin < count; begin = end) {
        for (end = begin; end < count && judged[end]->op == judged[begin]->op;) end++;
        pco_conformance_op *row = conf_suite_row(run, judged[begin]->op);
        row->median_ratio = judged[begin + (end - begin) / 2]->ratio;
        row->max_ratio = judged[end - 1]->ratio;
    }
    free(judged);
    return PCO_OK;
}

static pco_status conf_suite_device(const pco_conformance_options *options,
                                    const pco_conformance_device *device, pco_conformance_result *result,
                                    pco_error *err)
{
    uint32_t n_ops;
    pco_op_table(&n_ops);
    conf_suite_run run = {.options = options, .device = device, .result = result, .err = err};
    run.total = conf_suite_count_on(options, device->info);
    *result = (pco_conformance_result){.device_id = device->id, .tier = options->tier, .seed = options->seed};
    result->ops = calloc(n_ops, sizeof *result->ops);
    if (!result->ops)
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for results");
    double start = conf_suite_now();
    conf_cases_visit_on(device->info, options->tier, options->ops, conf_suite_visit, &run);
    if (run.status == PCO_OK || run.status == PCO_ERROR_DEVICE_LOST) {
        pco_status status = conf_suite_medians(&run, err);
        if (status) return status;
    }
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
        for (uint32_t c = 0; c < results[i].n_cases; c++) conf_suite_free_case(&results[i].cases[c]);
        free(results[i].ops);
        free(results[i].cases);
        memset(&results[i], 0, sizeof results[i]);
    }
}

pco_conformance_verdict pco_conformance_judge(const pco_conformance_result *results, uint32_t count)
{
    uint32_t judged = 0, bad = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t here = results[i].count[PCO_CASE_PASS], wrong = 0;
        for (int state = 0; state < PCO_CASE_STATES; state++)
            if (pco_conformance_state_is_bad((pco_conformance_state)state)) wrong += results[i].count[state];
        bad += wrong + (results[i].status != PCO_OK);
        if (here == 0 && wrong == 0) return bad ? PCO_VERDICT_FAIL : PCO_VERDICT_NOTHING_TESTED;
        judged += here;
    }
    if (bad) return PCO_VERDICT_FAIL;
    return judged ? PCO_VERDICT_PASS : PCO_VERDICT_NOTHING_TESTED;
}
