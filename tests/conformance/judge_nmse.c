/* The judge that most suites of the field use, for comparison only: one norm over the whole output. Nothing that
 * this suite says of a device rests on it; scripts/mutants measures what it would have let through. */
#include "judge.h"

#include <math.h>

double conf_judge_nmse(const oracle_output *out, const void *data, bool *mismatch)
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
        if (isnan(got) || isnan(expected)) *mismatch |= !isnan(expected) || !isnan(got);
        if (isinf(got) || isinf(expected)) *mismatch |= got != expected;
        difference += (got - expected) * (got - expected);
        size += expected * expected;
    }
    return difference / size;
}

bool conf_nmse_takes(const conf_case *one)
{
    if (one->regime != CONF_RANDOM) return false;
    for (uint32_t i = 0; i < one->n_inputs; i++)
        if (one->in[i].present && one->in[i].dtype == PCO_BF16) return false;
    return true;
}

conf_case conf_nmse_case(const conf_case *one)
{
    conf_case uniform = *one;
    const bool positive =
        one->op == PCO_OP_LOG || one->op == PCO_OP_SQRT || one->op == PCO_OP_RSQRT || one->op == PCO_OP_POW;
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
