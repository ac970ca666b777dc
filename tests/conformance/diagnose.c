/* Each clause of the contract is loosened alone; the one whose loosening explains every wrong element is
 * named. The evidence must be sharp: a bound that accepts everything explains nothing, and outside the cases
 * made for it more than half of the elements must be wrong, because a defect of a kernel (a forgotten tail)
 * is small as well. */
#include "diagnose.h"

#include "runtime/words.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct conf_suspicion {
    const conf_problem *problem;
    const pco_contract *contract;
    void *const *got;
    char *text;
    size_t size;
} conf_suspicion;

__attribute__((format(printf, 2, 3))) static void conf_diagnose_say(const conf_suspicion *s,
                                                                    const char *format, ...)
{
    size_t length = strlen(s->text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(s->text + length, s->size - length, format, arguments);
    va_end(arguments);
}

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
            bool wider = narrow && dtype <= PCO_BF16 && oracle_format_of(dtype).precision > narrow->precision;
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

/* Accumulators of less precision than declared, the best that explains it. */
static bool conf_diagnose_accumulator(const conf_suspicion *s)
{
    static const uint32_t TYPES[] = {PCO_F32, PCO_F16, PCO_BF16};
    uint32_t dtype = s->problem->one->in[0].dtype;
    uint32_t declared = dtype == PCO_F16    ? s->contract->accumulate_f16
                        : dtype == PCO_BF16 ? s->contract->accumulate_bf16
                                            : s->contract->accumulate_f32;
    for (int t = 0; t < 3; t++) {
        oracle_format format = oracle_format_of(TYPES[t]);
        oracle_rules rules = s->problem->rules;
        if (dtype > PCO_BF16 || format.precision >= rules.accumulate[dtype].precision) continue;
        rules.accumulate[dtype] = format, rules.narrow = true;
        if (!conf_diagnose_try(s, &rules, &format)) continue;
        conf_diagnose_say(s, "; behaves like %s accumulation, and the contract declares %s (accumulate_%s)",
                          pco_accumulator_word(TYPES[t]), pco_accumulator_word(declared),
                          oracle_dtype_name(dtype));
        return true;
    }
    return false;
}

static bool conf_diagnose_compute(const conf_suspicion *s)
{
    static const uint32_t TYPES[] = {PCO_F32, PCO_F16, PCO_BF16};
    for (int t = 0; t < 3; t++) {
        oracle_rules rules = s->problem->rules;
        if (oracle_format_of(TYPES[t]).precision >= rules.compute.precision) continue;
        rules.compute = oracle_format_of(TYPES[t]);
        if (!conf_diagnose_try(s, &rules, NULL)) continue;
        conf_diagnose_say(s, "; behaves like arithmetic in %s, and the contract declares %s (compute)",
                          pco_accumulator_word(TYPES[t]), pco_accumulator_word(s->contract->compute));
        return true;
    }
    return false;
}

static bool conf_diagnose_modes(const conf_suspicion *s)
{
    oracle_rules flushing = s->problem->rules, cutting = s->problem->rules;
    flushing.flush = 0x1p-126, cutting.round = 1.0, cutting.exact_casts = false;
    if (s->contract->subnormals && conf_diagnose_try(s, &flushing, NULL)) {
        conf_diagnose_say(s, "; flushes subnormals to zero, and the contract keeps them (subnormals)");
        return true;
    }
    if (s->contract->round_to_nearest && conf_diagnose_try(s, &cutting, NULL)) {
        conf_diagnose_say(s, "; does not round to nearest even as the contract says (round_to_nearest)");
        return true;
    }
    return false;
}

/* How many times the declared figure it would take, for divisions, roots and functions. */
static bool conf_diagnose_figures(const conf_suspicion *s)
{
    enum { DIV, SQRT, RSQRT, FUNCTION, N_FIGURES };
    static const char *const NAMES[N_FIGURES] = {"div_ulp", "sqrt_ulp", "rsqrt_ulp", "function_ulp"};
    const float declared[N_FIGURES] = {s->contract->div_ulp, s->contract->sqrt_ulp, s->contract->rsqrt_ulp,
                                       s->contract->function_ulp};
    for (int times = 2; times <= 64; times *= 2) {
        for (int f = 0; f < N_FIGURES; f++) {
            oracle_rules rules = s->problem->rules;
            double *figures[N_FIGURES] = {&rules.div, &rules.sqrt, &rules.rsqrt, &rules.function};
            *figures[f] = times * (*figures[f] > 0.5 ? *figures[f] : 0.5);
            if (!conf_diagnose_try(s, &rules, NULL)) continue;
            conf_diagnose_say(s, "; within %g ulp, and the contract declares %g (%s)",
                              times * (double)declared[f], (double)declared[f], NAMES[f]);
            return true;
        }
    }
    return false;
}

/* All wrong elements have NaN or infinity on one side only, or are subnormal numbers that became zero. */
static bool conf_diagnose_patterns(const conf_suspicion *s)
{
    bool special = true, flushed = true;
    for (uint32_t o = 0; o < s->problem->node.n_outputs; o++) {
        const oracle_output *out = &s->problem->oracle.out[o];
        uint32_t dtype = out->desc.dtype;
        if (dtype > PCO_BF16) return false;
        double normal = ldexp(1.0, oracle_format_of(dtype).emin);
        for (int64_t i = 0; i < out->count; i++) {
            double y, v = out->value[i];
            oracle_decode(dtype, (const uint8_t *)s->got[o] + i * oracle_block_bytes(dtype), &y, 1);
            if (conf_judge_element(out, &s->problem->rules, i, y) <= 1.0) continue;
            special &= !isfinite(v) || !isfinite(y);
            flushed &= y == 0.0 && v != 0.0 && fabs(v) < normal;
        }
    }
    if (flushed)
        conf_diagnose_say(s, "; flushes subnormals of %s to zero",
                          oracle_dtype_name(s->problem->oracle.out[0].desc.dtype));
    else if (special && s->contract->nan_inf && s->problem->one->regime == CONF_SPECIAL)
        conf_diagnose_say(
            s, "; NaN or infinity is not what IEEE 754 says, and the contract promises that (nan_inf)");
    return flushed || (special && s->problem->one->regime == CONF_SPECIAL);
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

void conf_diagnose(const conf_problem *problem, const pco_contract *contract, void *const *got,
                   char *text, size_t size)
{
    conf_suspicion s = {problem, contract, got, text, size};
    int64_t elements, wrong = conf_diagnose_count(problem, got, &elements);
    bool sharp = problem->one->regime == CONF_CONTRACT;
    if (conf_diagnose_patterns(&s)) return;
    if (problem->oracle.out[0].desc.dtype > PCO_BF16 || (!sharp && wrong * 2 <= elements)) return;
    if (conf_diagnose_modes(&s) || conf_diagnose_accumulator(&s) || conf_diagnose_compute(&s)) return;
    if (!sharp) (void)conf_diagnose_figures(&s);
}

bool conf_diagnose_fuses(const conf_problem *problem, const pco_contract *contract, void *const *got,
                         char *text, size_t size)
{
    const oracle_output *out = &problem->oracle.out[0];
    if (problem->one->regime != CONF_CONTRACT || problem->one->op != PCO_OP_MATMUL || contract->contraction ||
        problem->rules.accumulate[PCO_F32].precision != 24 || problem->tensors[0].shape[1] != 2)
        return false;
    for (int64_t i = 0; i < out->count; i++) {
        float y;
        memcpy(&y, (const uint8_t *)got[0] + 4 * i, 4);
        if (y == 0.0f) continue;
        snprintf(
            text, size,
            "element %lld is %.9g: products are fused with sums, and the contract says that they are not "
            "(contraction)",
            (long long)i, (double)y);
        return true;
    }
    return false;
}
