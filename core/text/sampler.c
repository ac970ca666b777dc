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
    double score;  /* the logit; then (logit - largest) / temperature */
    double weight; /* exp(score) */
    int32_t id;
    int32_t seen; /* by the penalties; 0 between their passes */
} text_choice;

static pco_status text_check_penalties(const pco_sampler *sampler, pco_error *err)
{
    if (sampler->repeat_penalty != 0 && !(sampler->repeat_penalty >= 0.001 && sampler->repeat_penalty <= 1000))
        return pco_fail(err, PCO_ERROR_INVALID,
                        "repeat_penalty is %g; 0 (none) or a number from 0.001 to 1000 is expected",
                        sampler->repeat_penalty);
    if (!(fabs(sampler->presence_penalty) <= 1000))
        return pco_fail(err, PCO_ERROR_INVALID, "presence_penalty is %g; a number from -1000 to 1000 is expected",
                        sampler->presence_penalty);
    if (!(fabs(sampler->frequency_penalty) <= 1000))
        return pco_fail(err, PCO_ERROR_INVALID, "frequency_penalty is %g; a number from -1000 to 1000 is expected",
                        sampler->frequency_penalty);
    if (sampler->repeat_last_n < 0)
        return pco_fail(err, PCO_ERROR_INVALID,
                        "repeat_last_n is %" PRId64 "; 0 (all) or a positive number is expected",
                        sampler->repeat_last_n);
    return PCO_OK;
}

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
    if (!(sampler->min_p >= 0 && sampler->min_p <= 1))
        return pco_fail(err, PCO_ERROR_INVALID, "min_p is %g; a number from 0 to 1 is expected", sampler->min_p);
    if (!(sampler->typical_p >= 0 && sampler->typical_p <= 1))
        return pco_fail(err, PCO_ERROR_INVALID, "typical_p is %g; a number from 0 to 1 is expected",
                        sampler->typical_p);
    return text_check_penalties(sampler, err);
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

/* ---- the steps; choices[i].id is i until one of them sorts ---- */

static int text_has_penalties(const pco_sampler *sampler)
{
    return (sampler->repeat_penalty != 0 && sampler->repeat_penalty != 1) || sampler->presence_penalty != 0 ||
           sampler->frequency_penalty != 0;
}

/* Each distinct id counts once: `seen` is how often it came, until it was dealt with. */
static void text_penalize(const pco_sampler *sampler, const pco_sampler_history *history, text_choice *choices)
{
    const size_t last = (size_t)sampler->repeat_last_n, window = last && last < history->count ? last : history->count,
                 generated = history->generated < window ? history->generated : window;
    const int32_t *ids = history->ids + history->count;
    const double repeat = sampler->repeat_penalty == 0 ? 1 : sampler->repeat_penalty;
    for (size_t i = 1; i <= window; i++) choices[*(ids - i)].seen++;
    for (size_t i = 1; i <= window; i++) {
        text_choice *choice = &choices[*(ids - i)];
        if (!choice->seen) continue;
        choice->score = choice->score > 0 ? choice->score / repeat : choice->score * repeat;
        choice->seen = 0;
    }
    for (size_t i = 1; i <= generated; i++) choices[*(ids - i)].seen++;
    for (size_t i = 1; i <= generated; i++) {
        text_choice *choice = &choices[*(ids - i)];
        if (!choice->seen) continue;
        choice->score -= sampler->frequency_penalty * choice->seen + sampler->presence_penalty;
        choice->seen = 0;
    }
}

static int64_t text_min_p(text_choice *choices, int64_t count, double min_p)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++) /* the largest weight is exp(0) = 1 */
        if (choices[i].weight >= min_p) choices[kept++] = choices[i];
    return kept;
}

/* Smaller first; the lower index of equals. */
static int text_by_score(const void *a, const void *b)
{
    const text_choice *first = a, *second = b;
    if (first->score != second->score) return first->score < second->score ? -1 : 1;
    return first->id < second->id ? -1 : 1;
}

/* With p = exp(score) / Z, -log p = log Z - score, and the entropy is log Z - sum p score: their distance is
 * |score - sum p score|, in which log Z cancels. */
static int64_t text_typical(text_choice *choices, int64_t count, double typical_p)
{
    double total = 0, mean = 0;
    for (int64_t i = 0; i < count; i++) {
        total += choices[i].weight;
        if (choices[i].weight > 0) mean += choices[i].weight * choices[i].score;
    }
    mean /= total;
    for (int64_t i = 0; i < count; i++) choices[i].score = fabs(choices[i].score - mean);
    qsort(choices, (size_t)count, sizeof *choices, text_by_score);
    return text_nucleus(choices, count, typical_p);
}

/* Steps 1 to 7, into choices[count]: how many of the first ones are left. */
static int64_t text_filter(const pco_sampler *sampler, const float *logits, int64_t count,
                           const pco_sampler_history *history, text_choice *choices)
{
    int64_t kept = count, best = 0;
    for (int64_t i = 0; i < count; i++) choices[i] = (text_choice){.score = (double)logits[i], .id = (int32_t)i};
    if (history && text_has_penalties(sampler)) text_penalize(sampler, history, choices);
    for (int64_t i = 1; i < count; i++)
        if (choices[i].score > choices[best].score) best = i;
    if (sampler->temperature == 0) {
        choices[0] = (text_choice){.weight = 1, .id = (int32_t)best};
        return 1;
    }
    const double largest = choices[best].score;
    for (int64_t i = 0; i < count; i++) {
        choices[i].score = (choices[i].score - largest) / sampler->temperature;
        choices[i].weight = text_exp(choices[i].score);
    }
    if ((sampler->top_k && sampler->top_k < count) || sampler->top_p < 1) {
        qsort(choices, (size_t)count, sizeof *choices, text_by_weight);
        if (sampler->top_k && sampler->top_k < count) kept = sampler->top_k;
        if (sampler->top_p < 1) kept = text_nucleus(choices, kept, sampler->top_p);
    }
    if (sampler->min_p > 0) kept = text_min_p(choices, kept, sampler->min_p);
    if (sampler->typical_p > 0 && sampler->typical_p < 1) kept = text_typical(choices, kept, sampler->typical_p);
    return kept;
}

/* In *id the largest logit. */
static pco_status text_check(const pco_sampler *sampler, const float *logits, int64_t count,
                             const pco_sampler_history *history, int32_t *id, pco_error *err)
{
    pco_status status = pco_sampler_check(sampler, err);
    if (!status) status = text_largest(logits, count, id, err);
    for (size_t i = 0; !status && history && i < history->count; i++)
        if (history->ids[i] < 0 || history->ids[i] >= count)
            status =
                pco_fail(err, PCO_ERROR_INVALID, "token %d of the text so far is outside of a vocabulary of %" PRId64,
                         history->ids[i], count);
    return status;
}

size_t pco_sampler_workspace(int64_t count) { return count > 0 ? (size_t)count * sizeof(text_choice) : 0; }

pco_status pco_sampler_draw(const pco_sampler *sampler, const float *logits, int64_t count,
                            const pco_sampler_history *history, uint64_t step, void *workspace, int32_t *id,
                            pco_error *err)
{
    pco_status status = text_check(sampler, logits, count, history, id, err);
    if (status || (sampler->temperature == 0 && !text_has_penalties(sampler))) return status;
    text_choice *choices = workspace ? workspace : malloc(pco_sampler_workspace(count));
    if (!choices) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory to choose a token");
    const int64_t kept = text_filter(sampler, logits, count, history, choices);
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

pco_status pco_sampler_probabilities(const pco_sampler *sampler, const float *logits, int64_t count,
                                     const pco_sampler_history *history, double *probabilities, pco_error *err)
{
    int32_t id;
    double total = 0;
    pco_status status = text_check(sampler, logits, count, history, &id, err);
    if (status) return status;
    text_choice *choices = malloc(pco_sampler_workspace(count));
    if (!choices) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for probabilities");
    const int64_t kept = text_filter(sampler, logits, count, history, choices);
    for (int64_t i = 0; i < count; i++) probabilities[i] = 0;
    for (int64_t i = 0; i < kept; i++) total += choices[i].weight;
    for (int64_t i = 0; i < kept; i++) probabilities[choices[i].id] = choices[i].weight / total;
    free(choices);
    return PCO_OK;
}
