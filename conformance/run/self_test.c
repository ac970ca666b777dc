/* The judge judged: right results pass, results moved just outside their bounds are flagged. No device. */
#include "run/runner.h"

#include "base/error.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 24 };

typedef struct conf_self_run {
    const pco_contract *contract;
    uint64_t seed;
    pco_conformance_self_test *result;
    pco_status status;
    pco_error *err;
} conf_self_run;

__attribute__((format(printf, 2, 3))) static void conf_self_note(conf_self_run *run, const char *format, ...)
{
    if (run->result->first[0]) return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(run->result->first, sizeof run->result->first, format, arguments);
    va_end(arguments);
}

/* A value outside the acceptance interval, at most one step of the type beyond twice the bound. Returns false
 * where there is none: nothing is promised, or every value is accepted. */
static bool conf_self_move(const oracle_output *out, const oracle_rules *rules, int64_t i, uint8_t *to)
{
    uint32_t dtype = out->desc.dtype;
    double v = out->value[i], e = out->bound[i], moved;
    if (isinf(e) || (dtype == PCO_BOOL && e > 0.0)) return false;
    oracle_encode(dtype, &v, to, 1);
    if (dtype == PCO_BOOL || dtype == PCO_I32 || (e == 0.0 && isfinite(v))) {
        if (dtype != PCO_BOOL && dtype != PCO_I32 && !rules->nan_inf && fabs(v) >= oracle_format_of(dtype).max)
            return false;
        to[0] ^= 1; /* the lowest bit */
        return true;
    }
    oracle_format format = oracle_format_of(dtype);
    if (!isfinite(v)) {
        moved = 1.0;
        oracle_encode(dtype, &moved, to, 1);
        return true;
    }
    if (fabs(v) + 4.0 * e + 4.0 * (double)oracle_ulp(format, v) >= format.max) return false;
    double direction = v < 0.0 ? -1.0 : 1.0, base;
    moved = v + direction * 2.0 * e;
    oracle_encode(dtype, &moved, to, 1);
    oracle_decode(dtype, to, &base, 1);
    for (int step = 0; fabs(base - v) <= e && step < 4; step++) {
        base += direction * (double)oracle_ulp(format, base);
        oracle_encode(dtype, &base, to, 1);
        oracle_decode(dtype, to, &base, 1);
    }
    return true;
}

static void conf_self_output(conf_self_run *run, const conf_problem *problem, const oracle_output *out)
{
    uint32_t step = oracle_block_bytes(out->desc.dtype);
    uint8_t *data = malloc((size_t)out->count * step + 8), saved[8];
    if (!data) {
        run->status = pco_fail(run->err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory");
        return;
    }
    oracle_encode(out->desc.dtype, out->value, data, out->count);
    conf_verdict verdict;
    conf_judge(out, &problem->rules, data, &verdict);
    const char *doubt = conf_regime_is_random(problem->one->regime) ? conf_judge_mistrust(&verdict) : NULL;
    if (verdict.wrong) {
        run->result->rejected++;
        conf_self_note(run, "%s: element %lld: %.17g is not accepted as %.17g within %.3g", problem->one->label,
                       (long long)verdict.element, verdict.got, verdict.expected, verdict.bound);
    }
    if (doubt) {
        run->result->toothless++;
        conf_self_note(run, "%s: %s", problem->one->label, doubt);
    }
    for (int64_t s = 0; s < SAMPLES && s < out->count; s++) {
        int64_t i = out->count <= SAMPLES ? s : s * (out->count - 1) / (SAMPLES - 1);
        memcpy(saved, data + i * step, step);
        if (conf_self_move(out, &problem->rules, i, data + i * step)) {
            run->result->elements_moved++;
            conf_judge(out, &problem->rules, data, &verdict);
            if (verdict.wrong == 0) {
                run->result->missed++;
                conf_self_note(run, "%s: element %lld: a moved value is accepted as %.17g within %.3g",
                               problem->one->label, (long long)i, out->value[i], out->bound[i]);
            }
        }
        memcpy(data + i * step, saved, step);
    }
    free(data);
}

static bool conf_self_visit(void *user, const conf_case *one)
{
    conf_self_run *run = user;
    conf_problem problem;
    if (one->large || one->chain) return true; /* judged by rows and by nodes, as other cases are */
    if (one->regime == CONF_SPECIAL && !run->contract->nan_inf) return true;
    run->result->cases++;
    run->status = conf_problem_make(&problem, one, run->seed, run->contract, run->err);
    for (uint32_t i = 0; i < problem.node.n_outputs && !run->status; i++)
        conf_self_output(run, &problem, &problem.oracle.out[i]);
    conf_problem_clear(&problem);
    return run->status == PCO_OK;
}

pco_status pco_conformance_test_judge(pco_conformance_tier tier, const char *ops, uint64_t seed,
                                      const pco_contract *contract, pco_conformance_self_test *result, pco_error *err)
{
    memset(result, 0, sizeof *result);
    conf_self_run run = {.contract = contract, .seed = seed, .result = result, .err = err};
    conf_cases_visit(tier, ops, conf_self_visit, &run);
    return run.status;
}
