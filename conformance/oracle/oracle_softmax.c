/* softmax, log_softmax, logsumexp. Each term is exp(s_j - m): the subtraction is rounded, exp has its own
 * error. A device may find the maximum on the way and rescale: we allow R = ceil(n / 32) + ceil(log2 n)
 * rescalings of a term (blocks of 32 or more in sequence, then a tree), each exp(m - m') with the error of
 * one exp and one product; the rounded differences m - m' of all of them telescope, so that they cost no more
 * than the first subtraction again. */
#include "oracle/oracle_eval.h"
#include "oracle/oracle_power.h"

#include "base/error.h"

#include <math.h>
#include <stdlib.h>

static int64_t oracle_softmax_rescalings(int64_t n)
{
    int64_t rescalings = n > 1 ? (n + 31) / 32 : 0;
    for (int64_t lanes = 1; lanes < n; lanes *= 2) rescalings++;
    return rescalings;
}

void oracle_softmax_terms(const oracle_rules *rules, const oracle_rules *sum_rules, const oracle_ve *score, int64_t n,
                          oracle_ve *term, oracle_ve *sum)
{
    oracle_real max = -INFINITY, unit = oracle_power(1 - rules->compute.precision);
    oracle_real rescale = (oracle_real)oracle_softmax_rescalings(n) * (rules->function + rules->round) * unit;
    oracle_sum total = {0};
    for (int64_t j = 0; j < n; j++)
        if (score[j].v > max || isnan(score[j].v)) max = score[j].v;
    for (int64_t j = 0; j < n; j++) {
        if (isinf(score[j].v) && score[j].v < 0 && max > -INFINITY) {
            term[j] = (oracle_ve){0.0L, 0.0L};
            continue;
        }
        if (!isfinite(max) || isnan(max)) {
            term[j] = (oracle_ve){isinf(max) && max < 0 ? 0.0L : (oracle_real)NAN, 0.0L};
        } else {
            oracle_ve difference = oracle_rounded(rules, (oracle_ve){score[j].v - max, score[j].e});
            oracle_real rounding = difference.e - score[j].e;
            term[j] = oracle_exp(rules, (oracle_ve){difference.v, difference.e + rounding});
            term[j].e += (term[j].v + term[j].e) * rescale;
        }
        oracle_sum_add(&total, term[j]);
    }
    *sum = oracle_handed(sum_rules, rules, oracle_sum_end(sum_rules, &total, n - 1, 0.0));
}

oracle_ve oracle_softmax_weight(const oracle_rules *rules, oracle_ve term, oracle_ve sum)
{
    if (sum.v == 0.0L) return (oracle_ve){0.0L, 0.0L};
    return oracle_quotient(rules, term, sum);
}

/* x - max - log(sum), or max + log(sum). */
static void oracle_softmax_logarithm(oracle_node *node, const oracle_ve *score, int64_t n, oracle_ve sum, int64_t base,
                                     int64_t inner)
{
    const oracle_rules *rules = node->rules;
    oracle_real max = -INFINITY;
    for (int64_t j = 0; j < n; j++)
        if (score[j].v > max || isnan(score[j].v)) max = score[j].v;
    oracle_ve log = isfinite(max) ? oracle_log(rules, sum) : (oracle_ve){max, 0.0L};
    if (node->op == PCO_OP_LOGSUMEXP) {
        oracle_ve y = isfinite(max) ? oracle_add(rules, (oracle_ve){max, 0.0L}, log) : log;
        if (isinf(max) && max > 0) y.e = INFINITY; /* infinity - infinity on the way: nothing is promised */
        oracle_finish(&node->out[0], base, rules, y);
        return;
    }
    for (int64_t j = 0; j < n; j++) {
        oracle_ve difference = oracle_rounded(rules, (oracle_ve){score[j].v - max, score[j].e});
        oracle_ve y = isfinite(max) ? oracle_sub(rules, difference, log) : (oracle_ve){NAN, 0.0L};
        oracle_finish(&node->out[0], base + j * inner, rules, y);
    }
}

#define SOFTMAX_softmax             ORACLE_LISTED
#define SOFTMAX(NAME, name, family) ORACLE_IF(SOFTMAX_##family, NAME)
typedef enum oracle_softmax_op { PCO_OPERATIONS(SOFTMAX) } oracle_softmax_op;

pco_status oracle_eval_softmax(oracle_node *node, pco_error *err)
{
    const oracle_operand *x = &node->in[0];
    int64_t outer, n, inner;
    oracle_axis(x->desc, ((const pco_softmax_attrs *)node->attrs)->axis, &outer, &n, &inner);
    oracle_rules sum_rules = oracle_rules_sum(node->rules, x->desc->dtype);
    oracle_ve *score = malloc(sizeof *score * 2 * (size_t)(n + 1)), *term = score + n + 1, sum;
    if (!score) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "oracle: no memory");
    for (int64_t row = 0; row < outer * inner; row++) {
        int64_t base = row / inner * n * inner + row % inner;
        for (int64_t j = 0; j < n; j++) score[j] = oracle_read(node, 0, base + j * inner);
        oracle_softmax_terms(node->rules, &sum_rules, score, n, term, &sum);
        switch ((oracle_softmax_op)node->op) {
        case ORACLE_LOGSUMEXP: oracle_softmax_logarithm(node, score, n, sum, row, inner); break;
        case ORACLE_LOG_SOFTMAX: oracle_softmax_logarithm(node, score, n, sum, base, inner); break;
        case ORACLE_SOFTMAX:
            for (int64_t j = 0; j < n; j++)
                oracle_finish(&node->out[0], base + j * inner, node->rules,
                              oracle_softmax_weight(node->rules, term[j], sum));
        }
    }
    free(score);
    return PCO_OK;
}
