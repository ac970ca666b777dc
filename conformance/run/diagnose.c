/* Each clause of the contract is loosened alone. A clause explains a case when loosening it makes every wrong element
 * right; it is named when it explains all failures of the op and variant, those of exact cases too, and the evidence is
 * sharp: a bound that accepts everything explains nothing, and a defect of a kernel (a forgotten tail, a forgotten
 * bias) is a small error as well. So it must show in the cases that were made for it or, where the op has none, in most
 * cases and in more than half of their elements. */
#include "run/diagnose.h"
#include "run/judge.h"

#include "base/dtype.h"
#include "runtime/words.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What may explain a failure: bits of a mask, in the order in which they are named. */
enum {
    CLAUSE_ZEROED,  /* results that are subnormal became zero */
    CLAUSE_SPECIAL, /* NaN or infinity on one side only */
    CLAUSE_FLUSH,
    CLAUSE_ROUND,
    CLAUSE_ACCUMULATE, /* of CLAUSE_TYPES */
    CLAUSE_COMPUTE = CLAUSE_ACCUMULATE + 3,
    CLAUSE_FIGURES = CLAUSE_COMPUTE + 3, /* twice the first figure, twice the second, ... four times the first ... */
    N_FIGURES = 4,
    N_FACTORS = 6, /* 2, 4 ... 64 */
    N_CLAUSES = CLAUSE_FIGURES + N_FIGURES * N_FACTORS,
};

static const uint32_t CLAUSE_TYPES[3] = {PCO_F32, PCO_F16, PCO_BF16};

typedef struct conf_suspicion {
    const conf_problem *problem;
    const pco_contract *contract;
    void *const *got;
} conf_suspicion;

static uint64_t conf_clause(int clause) { return UINT64_C(1) << clause; }

/* Every element that was wrong is right under the other rules. `narrow`: the accumulator that is suspected,
 * or NULL: where its sums may overflow, infinity and NaN fit as well, and where its bound is no bound any
 * more, numbers that it can hold, if the result's type could hold others. */
static bool conf_diagnose_explains(const conf_problem *problem, const conf_problem *other, void *const *got,
                                   const oracle_format *narrow)
{
    for (uint32_t o = 0; o < problem->node.n_outputs; o++) {
        const oracle_output *out = &problem->oracle.out[o], *loose = &other->oracle.out[o];
        uint32_t dtype = out->desc.dtype, step = oracle_block_bytes(dtype);
        for (int64_t i = 0; i < out->count; i++) {
            double y;
            oracle_decode(dtype, (const uint8_t *)got[o] + i * step, &y, 1);
            if (conf_judge_element(out, &problem->rules, i, y) <= 1.0) continue;
            if (!isinf(loose->bound[i])) {
                if (conf_judge_element(loose, &other->rules, i, y) <= 1.0) continue;
                return false;
            }
            bool wider = narrow && pco_dtype_is_float(dtype) && oracle_format_of(dtype).precision > narrow->precision;
            if (narrow && (!isfinite(y) || (wider && y != 0.0 && oracle_representable(*narrow, y)))) continue;
            return false;
        }
    }
    return true;
}

static bool conf_diagnose_try(const conf_suspicion *s, const oracle_rules *rules, const oracle_format *narrow)
{
    conf_problem other;
    pco_error err;
    bool fits = conf_problem_make_with(&other, s->problem, rules, &err) == PCO_OK &&
                conf_diagnose_explains(s->problem, &other, s->got, narrow);
    conf_problem_clear(&other);
    return fits;
}

/* Accumulators and arithmetic of less precision than declared. */
static uint64_t conf_diagnose_precision(const conf_suspicion *s)
{
    uint32_t dtype = s->problem->one->in[0].dtype;
    uint64_t clauses = 0;
    for (int t = 0; t < 3; t++) {
        const oracle_format format = oracle_format_of(CLAUSE_TYPES[t]);
        oracle_rules sums = s->problem->rules, all = s->problem->rules;
        if (pco_dtype_is_float(dtype) && format.precision < sums.accumulate[dtype].precision) {
            sums.accumulate[dtype] = format, sums.narrow = true;
            if (conf_diagnose_try(s, &sums, &format)) clauses |= conf_clause(CLAUSE_ACCUMULATE + t);
        }
        if (format.precision < all.compute.precision) {
            all.compute = format;
            if (conf_diagnose_try(s, &all, NULL)) clauses |= conf_clause(CLAUSE_COMPUTE + t);
        }
    }
    return clauses;
}

static uint64_t conf_diagnose_modes(const conf_suspicion *s)
{
    oracle_rules flushing = s->problem->rules, cutting = s->problem->rules;
    uint64_t clauses = 0;
    flushing.flush = 0x1p-126, cutting.round = 1.0, cutting.exact_casts = false;
    if (s->contract->subnormals && conf_diagnose_try(s, &flushing, NULL)) clauses |= conf_clause(CLAUSE_FLUSH);
    if (s->contract->round_to_nearest && conf_diagnose_try(s, &cutting, NULL)) clauses |= conf_clause(CLAUSE_ROUND);
    return clauses;
}

/* How many times the declared figure it would take, for divisions, roots and functions: if the largest factor does not
 * explain it, no smaller one does. */
static uint64_t conf_diagnose_figures(const conf_suspicion *s)
{
    uint64_t clauses = 0;
    for (int f = 0; f < N_FIGURES; f++)
        for (int factor = N_FACTORS - 1; factor >= 0; factor--) {
            oracle_rules rules = s->problem->rules;
            double *figures[N_FIGURES] = {&rules.div, &rules.sqrt, &rules.rsqrt, &rules.function};
            *figures[f] = (2 << factor) * (*figures[f] > 0.5 ? *figures[f] : 0.5);
            if (!conf_diagnose_try(s, &rules, NULL)) break;
            clauses |= conf_clause(CLAUSE_FIGURES + factor * N_FIGURES + f);
        }
    return clauses;
}

/* All wrong elements have NaN or infinity on one side only, or are subnormal numbers that became zero. */
static uint64_t conf_diagnose_patterns(const conf_suspicion *s)
{
    bool special = s->problem->one->regime == CONF_SPECIAL && s->contract->nan_inf, zeroed = true;
    for (uint32_t o = 0; o < s->problem->node.n_outputs; o++) {
        const oracle_output *out = &s->problem->oracle.out[o];
        uint32_t dtype = out->desc.dtype;
        if (!pco_dtype_is_float(dtype)) return 0;
        double normal = ldexp(1.0, oracle_format_of(dtype).emin);
        for (int64_t i = 0; i < out->count; i++) {
            double y, v = out->value[i];
            oracle_decode(dtype, (const uint8_t *)s->got[o] + i * oracle_block_bytes(dtype), &y, 1);
            if (conf_judge_element(out, &s->problem->rules, i, y) <= 1.0) continue;
            special &= !isfinite(v) || !isfinite(y);
            zeroed &= y == 0.0 && v != 0.0 && fabs(v) < normal;
        }
    }
    return (zeroed ? conf_clause(CLAUSE_ZEROED) : 0) | (special ? conf_clause(CLAUSE_SPECIAL) : 0);
}

static int64_t conf_diagnose_count(const conf_problem *problem, void *const *got, int64_t *elements)
{
    int64_t wrong = 0;
    *elements = 0;
    for (uint32_t o = 0; o < problem->node.n_outputs; o++) {
        conf_verdict verdict;
        if (problem->oracle.out[o].count == 0) continue;
        conf_judge(&problem->oracle.out[o], &problem->rules, got[o], &verdict);
        wrong += verdict.wrong, *elements += verdict.elements;
    }
    return wrong;
}

void conf_diagnose(const conf_problem *problem, const pco_contract *contract, void *const *got, uint64_t *explains,
                   uint64_t *evidence)
{
    const conf_suspicion s = {problem, contract, got};
    int64_t elements, wrong = conf_diagnose_count(problem, got, &elements);
    bool sharp = problem->one->regime == CONF_CONTRACT;
    *explains = *evidence = conf_diagnose_patterns(&s);
    if (!pco_dtype_is_float(problem->oracle.out[0].desc.dtype)) return;
    const uint64_t loose = conf_diagnose_modes(&s) | conf_diagnose_precision(&s), figures = conf_diagnose_figures(&s);
    *explains |= loose | figures;
    if (sharp || wrong * 2 > elements) *evidence |= loose;
    if (!sharp && wrong * 2 > elements) *evidence |= figures;
}

/* ---- of all failures of an op and variant ---- */

/* What stands behind a failure's text. */
static void conf_clause_text(int clause, const pco_conformance_case *one, const pco_contract *contract, char *text,
                             size_t size)
{
    static const char *const FIGURES[N_FIGURES] = {"div_ulp", "sqrt_ulp", "rsqrt_ulp", "function_ulp"};
    const double declared[N_FIGURES] = {(double)contract->div_ulp, (double)contract->sqrt_ulp,
                                        (double)contract->rsqrt_ulp, (double)contract->function_ulp};
    const uint32_t sums = strcmp(one->dtype, "f16") == 0    ? contract->accumulate_f16
                          : strcmp(one->dtype, "bf16") == 0 ? contract->accumulate_bf16
                                                            : contract->accumulate_f32;
    if (clause == CLAUSE_ZEROED)
        snprintf(text, size, "; flushes subnormals of results to zero");
    else if (clause == CLAUSE_SPECIAL)
        snprintf(text, size, "; NaN or infinity is not what IEEE 754 says, and the contract promises that (nan_inf)");
    else if (clause == CLAUSE_FLUSH)
        snprintf(text, size, "; flushes subnormals to zero, and the contract keeps them (subnormals)");
    else if (clause == CLAUSE_ROUND)
        snprintf(text, size, "; does not round to nearest even as the contract says (round_to_nearest)");
    else if (clause < CLAUSE_COMPUTE)
        snprintf(text, size, "; behaves like %s accumulation, and the contract declares %s (accumulate_%s)",
                 pco_accumulator_word(CLAUSE_TYPES[clause - CLAUSE_ACCUMULATE]), pco_accumulator_word(sums),
                 one->dtype);
    else if (clause < CLAUSE_FIGURES)
        snprintf(text, size, "; behaves like arithmetic in %s, and the contract declares %s (compute)",
                 pco_accumulator_word(CLAUSE_TYPES[clause - CLAUSE_COMPUTE]), pco_accumulator_word(contract->compute));
    else {
        const int figure = (clause - CLAUSE_FIGURES) % N_FIGURES, factor = (clause - CLAUSE_FIGURES) / N_FIGURES;
        snprintf(text, size, "; within %g ulp, and the contract declares %g (%s)", (2 << factor) * declared[figure],
                 declared[figure], FIGURES[figure]);
    }
}

static bool conf_is_failure(const pco_conformance_case *one)
{
    return one->state == PCO_CASE_WAIVED ||
           (pco_conformance_state_is_bad(one->state) && one->state != PCO_CASE_MISTRUSTED);
}

static bool conf_is_alike(const pco_conformance_case *a, const pco_conformance_case *b)
{
    return a->op == b->op && strcmp(a->variant, b->variant) == 0;
}

/* The records of an op and variant, added up. */
typedef struct conf_evidence {
    uint64_t explains;       /* all failures */
    uint64_t probes, others; /* sharp evidence in the contract group, and outside it */
    uint32_t probed;         /* judged cases of the contract group */
    uint32_t random, wrong;  /* judged cases of random data, and those that failed */
} conf_evidence;

static conf_evidence conf_diagnose_gather(const pco_conformance_result *result, const pco_conformance_case *like)
{
    conf_evidence sum = {.explains = UINT64_MAX};
    for (uint32_t i = 0; i < result->n_cases; i++) {
        const pco_conformance_case *one = &result->cases[i];
        if (!conf_is_alike(one, like) || !pco_conformance_state_is_judged(one->state)) continue;
        const bool failed = conf_is_failure(one), probe = strcmp(one->regime, conf_regime_name(CONF_CONTRACT)) == 0;
        sum.probed += probe;
        if (strcmp(one->regime, conf_regime_name(CONF_RANDOM)) == 0) sum.random++, sum.wrong += failed;
        *(probe ? &sum.probes : &sum.others) |= one->evidence;
    }
    for (uint32_t i = 0; i < result->n_cases; i++)
        if (conf_is_failure(&result->cases[i]) && conf_is_alike(&result->cases[i], like))
            sum.explains &= result->cases[i].explains;
    return sum;
}

/* The clause that explains all of it, or N_CLAUSES. What breaks a clause shows in the cases made for that, where the op
 * has any, and in most cases of random data: where those pass, the failures have another cause. */
static int conf_diagnose_clause(const conf_evidence *sum)
{
    const uint64_t patterns = conf_clause(CLAUSE_ZEROED) | conf_clause(CLAUSE_SPECIAL),
                   figures = UINT64_MAX << CLAUSE_FIGURES;
    const uint64_t often = sum->random && 2 * sum->wrong >= sum->random ? sum->others : 0;
    const uint64_t evidence = ((sum->probes | sum->others) & patterns) | (often & figures) |
                              ((sum->probed ? sum->probes : often) & ~patterns & ~figures);
    int clause = 0;
    while (clause < N_CLAUSES && !(sum->explains & evidence & conf_clause(clause))) clause++;
    return clause;
}

void conf_diagnose_name(pco_conformance_result *result, const pco_contract *contract)
{
    for (uint32_t i = 0; i < result->n_cases; i++) {
        pco_conformance_case *first = &result->cases[i];
        if (!first->explains) continue; /* it passed, was named, or is not explained: nor are those like it */
        const conf_evidence sum = conf_diagnose_gather(result, first);
        const int clause = conf_diagnose_clause(&sum);
        for (uint32_t k = result->n_cases; k-- > i;) {
            pco_conformance_case *one = &result->cases[k];
            const size_t length = strlen(one->detail);
            if (!one->explains || !conf_is_alike(one, first)) continue;
            if (clause < N_CLAUSES && one->state != PCO_CASE_FLAKY)
                conf_clause_text(clause, one, contract, one->detail + length, sizeof one->detail - length);
            one->explains = 0; /* it has been said */
        }
    }
}

bool conf_diagnose_fuses(const conf_problem *problem, const pco_contract *contract, void *const *got, char *text,
                         size_t size)
{
    const oracle_output *out = &problem->oracle.out[0];
    if (problem->one->regime != CONF_CONTRACT || problem->one->op != PCO_OP_MATMUL || contract->contraction ||
        problem->rules.accumulate[PCO_F32].precision != 24 || problem->tensors[0].shape[1] != 2)
        return false;
    for (int64_t i = 0; i < out->count; i++) {
        float y;
        char number[PCO_NUMBER_TEXT];
        memcpy(&y, (const uint8_t *)got[0] + 4 * i, 4);
        if (y == 0.0f) continue;
        snprintf(text, size,
                 "element %lld is %s: products are fused with sums, and the contract says that they are not "
                 "(contraction)",
                 (long long)i, pco_number_text((double)y, number));
        return true;
    }
    return false;
}
