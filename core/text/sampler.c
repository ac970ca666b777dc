#include "text/sampler.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/philox.h"

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF /* the same bits with and without fused multiply-add */
#endif

/* Distinguishes these draws from other uses of the same seed. */
#define TEXT_SAMPLER_STREAM 0x5A4Du

typedef struct text_choice {
    double weight;
    int32_t id;
} text_choice;

pco_status pco_sampler_check(const pco_sampler *sampler, pco_error *err)
{
    if (!(sampler->temperature >= 0) || !isfinite(sampler->temperature))
        return pco_fail(err, PCO_ERROR_INVALID, "temperature is %g; 0 or a positive number is expected",
                        sampler->temperature);
    if (!(sampler->top_p > 0 && sampler->top_p <= 1))
        return pco_fail(err, PCO_ERROR_INVALID, "top_p is %g; a number above 0 and up to 1 is expected",
                        sampler->top_p);
    if (sampler->top_k < 0)
        return pco_fail(err, PCO_ERROR_INVALID, "top_k is %" PRId64 "; 0 (all) or a positive number is expected",
                        sampler->top_k);
    return PCO_OK;
}

/* exp(x) for x <= 0, from +, * and scaling by powers of two only, so that every machine gets the same bits.
 * x = n ln 2 + r, |r| <= ln 2 / 2; the Taylor polynomial of degree 13 leaves less than r^14 / 14! < 5e-18. */
static double text_exp(double x)
{
    if (x < -700) return 0;
    double n = floor(x * 1.4426950408889634 + 0.5);
    double r = (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33; /* ln 2 in two parts */
    double sum = 1;
    for (int k = 13; k > 0; k--) sum = 1 + sum * r / k;
    return ldexp(sum, (int)n);
}

/* Larger first; the lower index of equals. */
static int text_by_weight(const void *a, const void *b)
{
    const text_choice *first = a, *second = b;
    if (first->weight != second->weight) return first->weight > second->weight ? -1 : 1;
    return first->id < second->id ? -1 : 1;
}

static pco_status text_largest(const float *logits, int64_t count, int32_t *id, pco_error *err)
{
    int64_t best = 0;
    if (count <= 0 || count > INT32_MAX)
        return pco_fail(err, PCO_ERROR_INVALID, "%" PRId64 " logits are not a vocabulary", count);
    for (int64_t i = 0; i < count; i++) {
        if (isnan(logits[i]) || logits[i] == INFINITY)
            return pco_fail(err, PCO_ERROR_INVALID,
                            "logit %" PRId64 " is %s: the model or the device computed garbage; try another device "
                            "or run the conformance suite on this one",
                            i, isnan(logits[i]) ? "NaN" : "infinite");
        if (logits[i] > logits[best]) best = i;
    }
    if (logits[best] == -INFINITY)
        return pco_fail(err, PCO_ERROR_INVALID, "all %" PRId64 " logits are -infinity: nothing can be chosen", count);
    *id = (int32_t)best;
    return PCO_OK;
}

/* A number in [0, 1) with 53 random bits. */
static double text_uniform(uint64_t seed, uint64_t step)
{
    pco_philox counter = {{(uint32_t)step, (uint32_t)(step >> 32), 0, TEXT_SAMPLER_STREAM}};
    pco_philox bits = pco_philox4x32_10(counter, seed);
    return (double)(((uint64_t)bits.word[0] << 32 | bits.word[1]) >> 11) * 0x1p-53;
}

/* How many of the sorted choices to keep. */
static int64_t text_nucleus(const text_choice *choices, int64_t count, double top_p)
{
    double total = 0, sum = 0;
    for (int64_t i = 0; i < count; i++) total += choices[i].weight;
    for (int64_t i = 0; i < count; i++) {
        sum += choices[i].weight;
        if (sum >= top_p * total) return i + 1;
    }
    return count;
}

size_t pco_sampler_workspace(int64_t count) { return count > 0 ? (size_t)count * sizeof(text_choice) : 0; }

pco_status pco_sampler_draw(const pco_sampler *sampler, const float *logits, int64_t count, uint64_t step,
                            void *workspace, int32_t *id, pco_error *err)
{
    pco_status status = pco_sampler_check(sampler, err);
    if (!status) status = text_largest(logits, count, id, err);
    if (status || sampler->temperature == 0) return status;
    text_choice *choices = workspace ? workspace : malloc(pco_sampler_workspace(count));
    if (!choices) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory to choose a token");
    double largest = (double)logits[*id];
    for (int64_t i = 0; i < count; i++)
        choices[i] = (text_choice){text_exp(((double)logits[i] - largest) / sampler->temperature), (int32_t)i};
    int64_t kept = count;
    if ((sampler->top_k && sampler->top_k < count) || sampler->top_p < 1) {
        qsort(choices, (size_t)count, sizeof *choices, text_by_weight);
        if (sampler->top_k && sampler->top_k < count) kept = sampler->top_k;
        if (sampler->top_p < 1) kept = text_nucleus(choices, kept, sampler->top_p);
    }
    double total = 0, sum = 0;
    for (int64_t i = 0; i < kept; i++) total += choices[i].weight;
    double target = text_uniform(sampler->seed, step) * total;
    for (int64_t i = 0; i < kept; i++) {
        if (choices[i].weight > 0) *id = choices[i].id; /* the last possible one when rounding overshoots */
        sum += choices[i].weight;
        if (sum > target) break;
    }
    if (!workspace) free(choices);
    return PCO_OK;
}
