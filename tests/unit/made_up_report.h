/* A report of a run that never was: results are made up, of the suite's own cases, so that every state occurs. */
#ifndef PCO_TESTS_MADE_UP_REPORT_H
#define PCO_TESTS_MADE_UP_REPORT_H

#include "check.h"

#include "graph/op.h"
#include "report/report_parts.h"
#include "reproduce/reproduce_internal.h"

#include <math.h>

typedef struct made_up {
    pco_conformance_result *result;
    bool faulty;
    uint32_t capacity;
} made_up;

static void made_up_figures(pco_conformance_case *one, bool faulty)
{
    uint32_t at = one->id % 97;
    one->ratio = strcmp(one->regime, "exact") == 0 ? 0 : (double)(at + 1) / 98 * 0.9;
    one->bound = strcmp(one->regime, "exact") == 0 ? 0 : 1.25e-7;
    one->element = at, one->elements = 1000 + at;
    one->expected = at == 5 ? -0.0 : 0.1 * at, one->got = one->expected * (1 + 1e-7);
    one->seconds = at / 1e6;
    if (at % 2) one->replays = (pco_conformance_replays){100, (uint64_t)at % 3, (uint64_t)at % 2, 1 + (uint64_t)at % 3};
    if (!faulty) return;
    one->state = at * 7 % 23 < PCO_CASE_STATES ? (pco_conformance_state)(at * 7 % 23) : PCO_CASE_PASS;
    if (one->state == PCO_CASE_PASS) return;
    snprintf(one->detail, sizeof one->detail, "made up: <%s> & \"quoted\"\t\x01 \xC3\xA4\n",
             pco_conformance_state_name(one->state));
    snprintf(one->repeat, sizeof one->repeat, "portico conformance --devices toy:0 --case %08x", one->id);
    if (one->state == PCO_CASE_FAIL || one->state == PCO_CASE_WAIVED || one->state == PCO_CASE_FLAKY) {
        one->wrong = at + 1;
        one->ratio = at % 2 ? (double)INFINITY : 1.5 + at;
        one->got = at % 2 ? (double)NAN : (double)-INFINITY;
    }
    if (!pco_conformance_state_is_judged(one->state)) {
        one->ratio = one->expected = one->got = one->bound = 0;
        one->output = 0, one->element = -1, one->wrong = 0;
    }
    if (one->state == PCO_CASE_WAIVED) one->waiver = strdup("driver bug 1234, fixed in 25.1");
}

static bool made_up_case(void *user, const conf_case *one)
{
    made_up *run = user;
    pco_conformance_result *result = run->result;
    for (int variant = 0; variant < 1 + (one->op == PCO_OP_MATMUL); variant++) {
        assert_true(result->n_cases < run->capacity);
        pco_conformance_case *at = &result->cases[result->n_cases++];
        *at = (pco_conformance_case){.op = one->op,
                                     .id = one->id,
                                     .op_name = pco_op_find(one->op)->name,
                                     .regime = conf_regime_name(one->regime),
                                     .dtype = conf_case_dtype(one),
                                     .label = strdup(one->label),
                                     .variant = strdup(variant ? "tiled" : "plain"),
                                     .width = variant ? 32 : 0,
                                     .seed = result->seed};
        made_up_figures(at, run->faulty);
        result->count[at->state]++;
        pco_conformance_op *row = &result->ops[result->n_ops ? result->n_ops - 1 : 0];
        if (result->n_ops == 0 || row->op != one->op) {
            row = &result->ops[result->n_ops++];
            *row = (pco_conformance_op){.op = one->op, .name = at->op_name, .median_ratio = 0.25};
        }
        row->count[at->state]++;
        row->variants = 1 + (one->op == PCO_OP_MATMUL);
        if (pco_conformance_state_is_judged(at->state) && at->ratio > row->max_ratio) row->max_ratio = at->ratio;
        if (at->state == PCO_CASE_UNSUPPORTED) snprintf(row->reason, sizeof row->reason, "no such unit");
    }
    return true;
}

/* Of two kernels: with a name and two values, without and with one value, and with as many as there is room for. */
static void made_up_constants(pco_conformance_result *result)
{
    static const pco_conformance_constant CONSTANTS[] = {
        {.kernel = "matmul <f32>", .name = "rows & columns", .number = 3, .n_values = 2, .values = {16, 32}},
        {.kernel = "matmul <f32>", .number = 4, .n_values = 1, .values = {-1}},
        {.kernel = "neg",
         .n_values = PCO_CONSTANT_VALUES,
         .values = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}}};
    result->n_constants = sizeof CONSTANTS / sizeof *CONSTANTS;
    result->constants = malloc(sizeof CONSTANTS);
    memcpy(result->constants, CONSTANTS, sizeof CONSTANTS);
}

static pco_conformance_report make_report(const char *ops, uint32_t devices, bool faulty)
{
    enum { CAPACITY = 4096 };
    static const char *const IDS[] = {"toy:0", "toy:1"};
    pco_conformance_report report = {.options = {.tier = PCO_CONFORMANCE_TINY, .ops = ops, .seed = UINT64_MAX},
                                     .n_devices = devices};
    pco_device_info *infos = report.infos = calloc(devices, sizeof *infos);
    report.devices = calloc(devices, sizeof *report.devices);
    report.results = calloc(devices, sizeof *report.results);
    for (uint32_t i = 0; i < devices; i++) {
        pco_conformance_result *result = &report.results[i];
        infos[i] = (pco_device_info){.size = sizeof infos[i],
                                     .type = PCO_DEVICE_DISCRETE,
                                     .name = "Toy <3>",
                                     .driver = "toy 1.0 \"beta\"",
                                     .uuid = {1, 0xAB, 255},
                                     .memory = UINT64_MAX,
                                     .max_allocation = (UINT64_C(1) << 53) + 1,
                                     .max_binding = 128 << 20,
                                     .features = PCO_FEATURE_SUBGROUPS | PCO_FEATURE_F64,
                                     .subgroup_min = 8,
                                     .subgroup_max = 32,
                                     .contract = {.accumulate_f16 = PCO_F16,
                                                  .compute = PCO_CONTRACT_F64,
                                                  .div_ulp = 2.5f,
                                                  .rsqrt_ulp = 0.1f,
                                                  .function_ulp = 16},
                                     .vendor_id = 0x1AE0,
                                     .device_id = 0xC0DE5,
                                     .api = "Vulkan 1.3.230 <a>",
                                     .driver_version = "0.0.1 <v>",
                                     .driver_file = "/usr/lib/lib<toy>.so"};
        report.devices[i] = (pco_conformance_device){.info = &infos[i], .id = IDS[i]};
        *result = (pco_conformance_result){.device_id = IDS[i],
                                           .tier = PCO_CONFORMANCE_TINY,
                                           .seed = UINT64_MAX,
                                           .seconds = 0.125,
                                           .ops = calloc(100, sizeof *result->ops),
                                           .cases = calloc(CAPACITY, sizeof *result->cases)};
        made_up_constants(result);
        made_up run = {.result = result, .faulty = faulty, .capacity = CAPACITY};
        conf_cases_visit(PCO_CONFORMANCE_TINY, ops, made_up_case, &run);
        assert_true(result->n_cases > 5);
    }
    return report;
}

#endif
