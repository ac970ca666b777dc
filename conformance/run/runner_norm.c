/* A case as other suites run it, for comparison only: the device's own variant, one run, one norm, and nothing looked
 * at but the result. Nothing that this suite says of a device rests on it; scripts/mutants measures what it lets
 * through. */
#include "cases/case_build.h"
#include "run/runner.h"

#include <math.h>
#include <stdio.h>

/* Is there such a case in a suite of that kind? Random data, and types that keep below the threshold. The gradient of
 * a norm over one element is nothing but rounding, which a right device fails. */
static bool conf_norm_takes(const conf_case *one)
{
    const bool norm = one->op == PCO_OP_LAYER_NORM_BACKWARD || one->op == PCO_OP_RMS_NORM_BACKWARD;
    if (one->regime != CONF_RANDOM || one->large) return false;
    if (norm && one->in[0].shape[one->in[0].rank - 1] == 1) return false;
    for (uint32_t i = 0; i < one->n_inputs; i++)
        if (one->in[i].present && one->in[i].dtype == PCO_BF16) return false;
    return true;
}

/* The case with uniform operands in [-1, 1], where its op allows that for what it reads first. */
static conf_case conf_norm_case(const conf_case *one)
{
    conf_case uniform = *one;
    const bool positive = pco_op_domain(one->op, 0) == PCO_DOMAIN_POSITIVE;
    for (uint32_t i = 0; i < one->n_inputs; i++) {
        conf_operand *operand = &uniform.in[i];
        const bool real = operand->dtype == PCO_F32 || operand->dtype == PCO_F16;
        if (!operand->present || !real || operand->fill != CONF_FILL_DEFAULT || positive) continue;
        operand->low = -1.0, operand->high = 1.0;
    }
    /* a mask is what `where` is most used for: the third operand hides with -infinity */
    if (one->op == PCO_OP_WHERE && (one->in[2].dtype == PCO_F32 || one->in[2].dtype == PCO_F16)) {
        const double hidden = -INFINITY;
        conf_cases_list(&uniform.in[2], 1, &hidden);
    }
    return uniform;
}

/* sum (got - expected)^2 / sum expected^2; *mismatch: a NaN or infinity that is not where it should be. With
 * infinities that match it is NaN, and no threshold finds fault with that. */
static double conf_norm_of(const oracle_output *out, const void *data, bool *mismatch)
{
    const uint32_t step = oracle_block_bytes(out->desc.dtype);
    double difference = 0.0, size = 0.0;
    *mismatch = false;
    for (int64_t i = 0; i < out->count; i++) {
        double got, expected = out->value[i];
        unsigned char rounded[8]; /* the other side of such a comparison is a result as well, of the same type */
        oracle_encode(out->desc.dtype, &expected, rounded, 1);
        oracle_decode(out->desc.dtype, rounded, &expected, 1);
        oracle_decode(out->desc.dtype, (const uint8_t *)data + i * step, &got, 1);
        *mismatch |= isnan(got) != isnan(expected);
        *mismatch |= (isinf(got) || isinf(expected)) && got != expected;
        difference += (got - expected) * (got - expected);
        size += expected * expected;
    }
    return difference / size;
}

static void conf_norm_judge(const conf_run_state *run, double threshold, pco_conformance_case *result)
{
    const conf_problem *problem = run->problem;
    result->state = PCO_CASE_PASS;
    for (uint32_t i = 0; i < problem->node.n_outputs; i++) {
        const oracle_output *out = &problem->oracle.out[i];
        bool mismatch;
        if (out->count == 0 || out->desc.dtype == PCO_BF16) continue;
        const double norm = conf_norm_of(out, run->first[i], &mismatch);
        result->ratio = fmax(result->ratio, norm / threshold);
        result->elements += out->count;
        if (!mismatch && !(norm > threshold)) continue;
        result->state = PCO_CASE_FAIL;
        snprintf(result->detail, sizeof result->detail, "NMSE of '%s' is %.3g, above %.3g%s",
                 problem->tensors[problem->node.outputs[i]].name, norm, threshold,
                 mismatch ? ", or a NaN or infinity is out of place" : "");
    }
}

pco_status conf_run_norm(const pco_conformance_device *device, const conf_case *one,
                         const pco_conformance_options *options, const pco_conformance_case *blank,
                         conf_report_fn report, void *user, pco_error *err)
{
    const bool loose = options->judging == PCO_JUDGE_FIELD &&
                       (one->op == PCO_OP_MATMUL || one->op == PCO_OP_SCALED_DOT_PRODUCT_ATTENTION);
    if (!conf_norm_takes(one)) return PCO_OK;
    const conf_case uniform = conf_norm_case(one);
    pco_conformance_case result = *blank;
    conf_problem problem;
    pco_status status = conf_problem_make(&problem, &uniform, options->seed, &device->info->contract, err);
    conf_run_state run = conf_run_start(device, &problem);
    run.bare = true;
    if (!status) status = pco_trial_supports(&run.trial, err);
    if (!status) status = conf_run_propose(&run, err);
    if (!status) status = conf_run_times(&run, PCO_NONE, 1, NULL, err);
    if (status) {
        result.state = status == PCO_ERROR_UNSUPPORTED ? PCO_CASE_UNSUPPORTED : PCO_CASE_FAIL;
        snprintf(result.detail, sizeof result.detail, "%.511s", err->message);
    } else {
        conf_norm_judge(&run, loose ? 5e-4 : 1e-7, &result);
    }
    conf_run_clear(&run);
    conf_problem_clear(&problem);
    report(user, &result);
    return status == PCO_ERROR_DEVICE_LOST || status == PCO_ERROR_OUT_OF_HOST_MEMORY ? status : PCO_OK;
}
