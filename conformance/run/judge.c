/* The acceptance interval of an element is [v - e, v + e]; infinity and NaN stand for themselves. */
#include "run/judge.h"

#include <math.h>
#include <string.h>

static double conf_judge_float(const oracle_output *out, const oracle_rules *rules, double v, double e, double got)
{
    oracle_format format = oracle_format_of(out->desc.dtype);
    /* the first number that rounds to infinity; without a promised mode, all beyond the largest */
    double edge = format.max + (rules->round < 1.0 ? (double)oracle_ulp(format, format.max) / 2 : 0.0);
    if (isnan(v)) return isnan(got) ? 0.0 : INFINITY;
    if (!rules->nan_inf && !isinf(v) && fabs(v) + e >= edge) return 0.0; /* overflow: nothing is promised */
    if (isnan(got)) return INFINITY;
    if (got == v) return out->sign_of_zero && v == 0.0 && signbit(got) != signbit(v) ? INFINITY : 0.0;
    if (isinf(v)) return INFINITY;
    if (isinf(got)) return (got > 0 ? v + e : e - v) >= edge ? 0.0 : INFINITY;
    if (e == 0.0) return INFINITY;
    return fabs(got - v) / e;
}

double conf_judge_element(const oracle_output *out, const oracle_rules *rules, int64_t i, double got)
{
    double v = out->value[i], e = out->bound[i];
    if (isinf(e)) return 0.0;
    if (out->desc.dtype == PCO_I32 || out->desc.dtype == PCO_BOOL)
        return got == v ? 0.0 : e == 0.0 ? INFINITY : fabs(got - v) / e;
    return conf_judge_float(out, rules, v, e, got);
}

void conf_judge(const oracle_output *out, const oracle_rules *rules, const void *data, conf_verdict *verdict)
{
    uint32_t dtype = out->desc.dtype, step = oracle_block_bytes(dtype);
    memset(verdict, 0, sizeof *verdict);
    verdict->elements = out->count;
    verdict->element = -1;
    for (int64_t i = 0; i < out->count; i++) {
        double got, size = fabs(out->value[i]);
        oracle_decode(dtype, (const uint8_t *)data + i * step, &got, 1);
        double ratio = conf_judge_element(out, rules, i, got);
        if (dtype == PCO_BOOL && got > 1.0) ratio = INFINITY; /* a bool is 0 or 1 */
        if (ratio > 1.0) verdict->wrong++;
        if (got == 0.0) verdict->zeros++;
        if (size == 0.0) verdict->expected_zeros++;
        if (size > 0.0 && !isinf(out->bound[i])) {
            verdict->judged++;
            verdict->blind += out->bound[i] >= size;
        }
        if (ratio > verdict->ratio || verdict->element < 0) {
            verdict->ratio = ratio;
            verdict->element = i;
            verdict->expected = out->value[i], verdict->got = got, verdict->bound = out->bound[i];
        }
    }
}

const char *conf_judge_mistrust(const conf_verdict *verdict)
{
    if (verdict->elements < 16) return NULL;
    if (verdict->zeros * 20 > verdict->elements * 19 && verdict->expected_zeros * 20 <= verdict->elements * 19)
        return "more than 95 % of the result is zero, and that is not expected";
    if (verdict->judged == 0 && verdict->expected_zeros < verdict->elements) return "no element has a finite bound";
    if (verdict->judged >= 16 && verdict->blind * 20 > verdict->judged * 19)
        return "the bound cannot tell more than 95 % of the result from zero";
    return NULL;
}
