/* Runs the case of a self-test as a trial, and compares two results. */
#include "runtime/selftest_internal.h"

#include "base/dtype.h"
#include "base/error.h"
#include "graph/work.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

pco_trial selftest_trial(const pco_open_device *on, const selftest_case *one, uint32_t variant, pco_node *node)
{
    *node = one->graph->nodes[0];
    node->variant = variant;
    const pco_part part = {.size = sizeof part,
                           .n_tensors = one->graph->n_tensors,
                           .n_nodes = 1,
                           .tensors = one->graph->tensors,
                           .nodes = node,
                           .window = one->window};
    return pco_trial_of(on, &part);
}

pco_status selftest_proposed(const pco_open_device *on, const selftest_case *one, uint32_t *variant)
{
    pco_node node;
    pco_trial trial = selftest_trial(on, one, PCO_NONE, &node);
    pco_error why;
    pco_status status = pco_trial_propose(&trial, &why);
    *variant = trial.nodes[0].variant;
    return status;
}

void selftest_results_free(void **results)
{
    for (uint32_t k = 0; k < PCO_MAX_OUTPUTS; k++) {
        free(results[k]);
        results[k] = NULL;
    }
}

static pco_status selftest_results(const pco_trial_memory *memory, void **results, pco_error *err)
{
    const pco_part *part = &memory->trial->part;
    for (uint32_t k = 0; k < part->nodes->n_outputs; k++) {
        const uint32_t t = part->nodes->outputs[k];
        if (t == PCO_NONE) continue;
        const uint64_t bytes = part->tensors[t].bytes;
        if (!(results[k] = calloc(1, bytes + 8)))
            return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the self-test");
        if (memory->regions[t].bytes) memcpy(results[k], pco_trial_memory_result(memory, t), bytes);
    }
    return PCO_OK;
}

pco_status selftest_run(const pco_open_device *on, const selftest_case *one, uint32_t variant, int in_place,
                        int *was_in_place, void **results, pco_error *err)
{
    /* in one buffer, full of NaN (of every float type) */
    static const pco_trial_placement placement = {.single = 1, .alignment = 16, .around = {0xff, 0xff, 0xff, 0xff}};
    pco_node node;
    pco_trial trial = selftest_trial(on, one, variant, &node);
    pco_trial_memory memory;
    pco_program *program = NULL;
    for (uint32_t k = 0; k < PCO_MAX_OUTPUTS; k++) results[k] = NULL;
    *was_in_place = 0;
    pco_status status = pco_trial_propose(&trial, err);
    if (status) return status;
    const uint32_t giver = in_place ? pco_trial_giver(&trial) : PCO_NONE;
    *was_in_place = giver != PCO_NONE;
    if (in_place && !*was_in_place) return PCO_OK;
    status = pco_trial_convert(&trial, err);
    pco_trial_lay_out(&trial, &placement, (const void *const *)one->data, &memory);
    if (*was_in_place) pco_trial_share(&memory, node.outputs[0], giver);
    if (!status) status = pco_trial_memory_create(&memory, err);
    if (!status) status = pco_trial_memory_write(&memory, err);
    if (!status) status = pco_trial_prepare(&trial, &memory, &program, err);
    if (!status) status = pco_trial_run(&trial, program, on->plugin->program->segments(program), UINT64_MAX, err);
    if (!status) status = pco_trial_memory_read(&memory, err);
    if (!status) status = selftest_results(&memory, results, err);
    if (program) on->plugin->program->destroy(on->device, program);
    pco_trial_memory_destroy(&memory);
    pco_trial_clear(&trial);
    if (status) selftest_results_free(results);
    return status;
}

/* ---- comparing ---- */

/* A whole unit in the last place, relative to the number: twice the rounding error to nearest. */
static double selftest_unit(uint32_t type)
{
    switch (type) {
    case PCO_CONTRACT_F64: return 0x1p-52;
    case PCO_F16: return 0x1p-10;
    case PCO_BF16: return 0x1p-7;
    default: return 0x1p-23;
    }
}

/* How far apart two right results of an operation of the table may be, as a part of |y| + the largest |y|. For a
 * contract with unit u of its arithmetic it is the sum of
 *
 *   2 u_out: both results are rounded to their type;
 *   4 * 16 sqrt(n) u: rounding errors in a sum of n terms grow like a random walk and pass lambda sqrt(n) u
 * with a probability of 2 exp(-lambda^2 / 2) (Higham & Mary 2019, SIAM J. Sci. Comput. 41(5)). lambda = 16; 4
 *     for attention, which has three sums in a row;
 *   16 F u: functions are right to F ulps, the largest figure of the contract; up to four of them stand in a
 *     row, and condition numbers are at most 4 on our operands (pow: |b ln a| <= 2.8).
 *
 * The largest |y| counts as 1 at least where terms can cancel. In f32 with F = 4 and n = 128 that is 9e-5; a
 * wrong tile, mask or lane is wrong by about 1. It is never above 1/4, so that zeros are found whatever a
 * contract declares: with sums in f16 too, since our operands' products are multiples of 1/64, which f16 adds
 * without error up to 16. */
static double selftest_tolerance(const selftest_case *one, const pco_tensor *y, const pco_contract *c)
{
    const pco_node *node = &one->graph->nodes[0];
    const pco_op_info *info = pco_node_op(node);
    int converts = 0;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (node->inputs[i] != PCO_NONE && pco_dtype_is_quantised(one->graph->tensors[node->inputs[i]].dtype))
            converts = 1;
    if (y->dtype == PCO_I32 || y->dtype == PCO_BOOL || (info->bound == PCO_BOUND_EXACT && !converts)) return 0;
    double sums = selftest_unit(c->accumulate_f32), figure = 0.5;
    if (selftest_unit(c->accumulate_f16) > sums) sums = selftest_unit(c->accumulate_f16);
    if (selftest_unit(c->accumulate_bf16) > sums) sums = selftest_unit(c->accumulate_bf16);
    if (selftest_unit(c->compute) > sums) sums = selftest_unit(c->compute);
    if (node->op == PCO_OP_MATMUL && ((const pco_matmul_attrs *)node->attrs)->accumulate == PCO_F16) sums = 0x1p-10;
    const float figures[] = {c->div_ulp, c->sqrt_ulp, c->rsqrt_ulp, c->function_ulp};
    for (int i = 0; i < 4; i++)
        if ((double)figures[i] > figure) figure = (double)figures[i];
    const double functions = selftest_unit(c->compute == PCO_CONTRACT_F64 ? PCO_F32 : c->compute);
    return fmin(0.25, 2 * selftest_unit(y->dtype) + 4 * 16 * sqrt(pco_node_terms(one->graph->tensors, node)) * sums +
                          16 * figure * functions);
}

/* Sums that cancel have terms of order 1, whatever is left: a gradient of a norm over one element is nothing
 * but rounding. */
static double selftest_largest(const selftest_case *one, const float *want, int64_t count)
{
    const uint32_t bound = (uint32_t)pco_node_op(&one->graph->nodes[0])->bound;
    double largest = bound == PCO_BOUND_SUM || bound == PCO_BOUND_COMPOSITE ? 1 : 0;
    for (int64_t i = 0; i < count; i++)
        if (isfinite(want[i]) && fabs((double)want[i]) > largest) largest = fabs((double)want[i]);
    return largest;
}

/* How far each element may be from `want`. */
static pco_status selftest_bounds(const selftest_case *one, uint32_t output, const pco_contract *contract,
                                  const float *want, int64_t count, double *bound, pco_error *err)
{
    const pco_node *node = &one->graph->nodes[0];
    const pco_tensor *y = &one->graph->tensors[node->outputs[output]];
    if (PCO_OP_IS_OWN(node->op))
        return selftest_own_bounds(one, output, selftest_unit(contract->compute), selftest_unit(y->dtype), want, count,
                                   bound, err);
    const double tolerance = selftest_tolerance(one, y, contract), largest = selftest_largest(one, want, count);
    for (int64_t i = 0; i < count; i++) bound[i] = tolerance * (fabs((double)want[i]) + largest);
    return PCO_OK;
}

static int selftest_differs(double got, double want, double bound)
{
    if (!isfinite(want)) return 0; /* whatever a device makes of it */
    return !(fabs(got - want) <= bound);
}

/* Result `output` of both devices. *agree: 1 or 0. Errors: OUT_OF_HOST_MEMORY. */
static pco_status selftest_agree_floats(const selftest_case *one, uint32_t output, const pco_contract *contract,
                                        const void *got, const void *want, int *agree, char *seen, size_t size,
                                        pco_error *err)
{
    const pco_tensor *y = &one->graph->tensors[one->graph->nodes[0].outputs[output]];
    const int64_t count = pco_tensor_elements(y);
    float *values = malloc((2 * (size_t)count + 1) * sizeof *values);
    double *bound = malloc(((size_t)count + 1) * sizeof *bound);
    int64_t wrong = 0, first = 0;
    pco_status status =
        values && bound ? PCO_OK : pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the self-test");
    if (!status) status = pco_dtype_to_f32(y->dtype, got, count, values, err);
    if (!status) status = pco_dtype_to_f32(y->dtype, want, count, values + count, err);
    if (!status) status = selftest_bounds(one, output, contract, values + count, count, bound, err);
    for (int64_t i = status ? 0 : count; i-- > 0;)
        if (selftest_differs((double)values[i], (double)values[count + i], bound[i])) wrong++, first = i;
    if (wrong)
        snprintf(seen, size,
                 "%" PRId64 " of %" PRId64 " elements are wrong, element %" PRId64
                 " is %.6g and cpu:reference has %.6g, within %.3g",
                 wrong, count, first, (double)values[first], (double)values[count + first], bound[first]);
    free(values);
    free(bound);
    *agree = wrong == 0;
    return status;
}

static int selftest_agree_whole(const pco_tensor *y, const void *got, const void *want, char *seen, size_t size)
{
    const int64_t count = pco_tensor_elements(y);
    int64_t wrong = 0, first = 0, a = 0, b = 0;
    for (int64_t i = count; i-- > 0;) {
        const int64_t x = y->dtype == PCO_I32 ? ((const int32_t *)got)[i] : ((const unsigned char *)got)[i];
        const int64_t w = y->dtype == PCO_I32 ? ((const int32_t *)want)[i] : ((const unsigned char *)want)[i];
        if (x != w) wrong++, first = i, a = x, b = w;
    }
    if (wrong)
        snprintf(seen, size,
                 "%" PRId64 " of %" PRId64 " elements are wrong, element %" PRId64 " is %" PRId64
                 " and cpu:reference has %" PRId64,
                 wrong, count, first, a, b);
    return wrong == 0;
}

pco_status selftest_agree(const selftest_case *one, const pco_contract *contract, void *const *got, void *const *want,
                          pco_verdict *verdict, char *seen, size_t size, pco_error *err)
{
    const pco_node *node = &one->graph->nodes[0];
    int agree = 1;
    pco_status status = PCO_OK;
    for (uint32_t k = 0; !status && agree && k < node->n_outputs; k++) {
        if (node->outputs[k] == PCO_NONE) continue;
        const pco_tensor *y = &one->graph->tensors[node->outputs[k]];
        if (y->dtype == PCO_I32 || y->dtype == PCO_BOOL)
            agree = selftest_agree_whole(y, got[k], want[k], seen, size);
        else
            status = selftest_agree_floats(one, k, contract, got[k], want[k], &agree, seen, size, err);
    }
    *verdict = agree ? PCO_VERDICT_GOOD : PCO_VERDICT_BAD;
    return status;
}

int selftest_offers(const pco_open_device *on, const selftest_case *one, const pco_variant *variant, uint32_t *forced)
{
    pco_variant variants[PCO_VARIANTS];
    uint32_t count;
    pco_node node;
    pco_error why;
    const pco_trial trial = selftest_trial(on, one, PCO_NONE, &node);
    if (pco_trial_variants(&trial, variants, &count, &why)) return 0;
    const uint32_t i = pco_variant_find(variants, count, variant);
    if (i == PCO_NONE) return 0;
    node.variant = *forced = pco_variant_forced(on, i);
    return pco_trial_supports(&trial, &why) == PCO_OK;
}
