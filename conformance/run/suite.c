/* The whole run: cases in turn, results added up. */
#include "run/diagnose.h"
#include "run/result.h"
#include "run/runner.h"

#include "base/clock.h"
#include "base/error.h"

#include <string.h>

/* ---- counting ---- */

typedef struct conf_suite_count {
    const pco_conformance_options *options;
    uint32_t count;
} conf_suite_count;

static bool conf_suite_count_one(void *user, const conf_case *one)
{
    conf_suite_count *count = user;
    count->count += conf_case_is_selected(one, count->options);
    return true;
}

uint32_t pco_conformance_count(const pco_conformance_options *options, const pco_device_info *info)
{
    conf_suite_count count = {.options = options};
    conf_cases_visit_all(info, options, conf_suite_count_one, &count);
    return count.count;
}

/* ---- running ---- */

typedef struct conf_suite_run {
    const pco_conformance_options *options;
    const pco_conformance_device *device;
    conf_result_builder builder;
    conf_pipelines_watch pipelines;
    char variant[48]; /* of the case under way */
    uint32_t done, total;
    double began; /* the case or variant under way */
    void *progress_user;
    pco_status status;
    pco_error *err;
} conf_suite_run;

static void conf_suite_report(void *user, pco_conformance_case *one)
{
    conf_suite_run *run = user;
    double now = pco_seconds();
    one->seconds = now - run->began, run->began = now;
    pco_status status = conf_result_add(&run->builder, one, run->err);
    if (status) run->status = status;
    pco_conformance_progress progress = {run->device, run->done, run->total, one};
    if (run->options->progress && !run->options->progress(run->progress_user, &progress))
        run->status = pco_fail(run->err, PCO_ERROR_CANCELLED, "cancelled");
}

/* Where nothing is run: whose pipelines these are. */
static int conf_suite_begin(void *user, const pco_conformance_case *next, int whole)
{
    conf_suite_run *run = user;
    (void)whole;
    run->pipelines.op = next->op_name, run->pipelines.variant = run->variant;
    snprintf(run->variant, sizeof run->variant, "%s", next->variant);
    return 1;
}

static bool conf_suite_visit(void *user, const conf_case *one)
{
    conf_suite_run *run = user;
    if (!conf_case_is_selected(one, run->options)) return true;
    run->done++;
    run->began = pco_seconds();
    pco_status status = conf_run_case(run->device, one, run->options, conf_suite_report, run, run->err);
    if (status && run->status == PCO_OK) run->status = status;
    return run->status == PCO_OK;
}

static pco_status conf_suite_device(const pco_conformance_options *options, const pco_conformance_device *device,
                                    pco_conformance_result *result, pco_error *err)
{
    conf_constants_watch watch = {0};
    pco_conformance_options own = *options;
    conf_suite_run run = {.options = &own, .device = device, .progress_user = options->user, .err = err};
    own.constants = &watch;
    if (options->compile_only) {
        watch.launch = conf_pipelines_launch, watch.launch_user = &run.pipelines;
        run.pipelines.folder = options->code;
        own.begin = conf_suite_begin, own.user = &run;
        conf_inspect(device);
    }
    run.total = pco_conformance_count(options, device->info);
    pco_status status = conf_result_start(&run.builder, options, device->id, result, err);
    if (status) return status;
    double start = pco_seconds();
    if (options->replays) run.status = conf_companions_create(&own.companions, NULL, NULL, err);
    if (!run.status) conf_cases_visit_all(device->info, options, conf_suite_visit, &run);
    conf_companions_destroy(own.companions);
    conf_result_constants(result, &watch.constants);
    conf_result_pipelines(result, &run.pipelines.pipelines);
    if (!run.status && run.pipelines.status) {
        run.status = run.pipelines.status;
        if (err) *err = run.pipelines.err;
    }
    if (run.status == PCO_OK || run.status == PCO_ERROR_DEVICE_LOST) {
        status = conf_result_finish(&run.builder, err);
        if (status) return status;
        conf_diagnose_name(result, &device->info->contract);
    }
    result->seconds = pco_seconds() - start;
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

pco_conformance_verdict pco_conformance_judge(const pco_conformance_result *results, uint32_t count)
{
    uint32_t bad = 0, empty = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t wrong = results[i].status != PCO_OK || results[i].probe.broken ||
                         results[i].probe.message[0]; /* the probes ended early */
        for (uint32_t o = 0; o < results[i].n_ops; o++)
            wrong += results[i].ops[o].invariance.differed[PCO_PIECE_THREADS];
        for (int state = 0; state < PCO_CASE_STATES; state++)
            if (pco_conformance_state_is_bad((pco_conformance_state)state)) wrong += results[i].count[state];
        bad += wrong;
        empty += !wrong && results[i].count[PCO_CASE_PASS] == 0;
    }
    return bad ? PCO_VERDICT_FAIL : empty || !count ? PCO_VERDICT_NOTHING_TESTED : PCO_VERDICT_PASS;
}
