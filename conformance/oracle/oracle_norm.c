/* layer_norm and rms_norm. The error of the mean is one shift d common to all elements of a row, so that it
 * changes the sum of squares by n d^2 only (the linear terms add up to zero); the rounding of each difference
 * changes it by a relative 2u. */
#include "oracle/oracle_eval.h"
#include "oracle/oracle_norm.h"

#include "base/error.h"

#include <math.h>
#include <stdlib.h>

/* Mean, and sum of (x - mean)^2 / (n - correction) as computed in two passes. A device may correct or update its
 * mean on the way, so that the sum counts one rounding more and is never taken as exact. */
oracle_norm_row oracle_norm_moments(const oracle_node *node, int64_t row, int64_t n, int64_t correction,
                                    const oracle_rules *sum_rules)
{
    const oracle_rules *rules = node->rules;
    oracle_norm_row r = {.mean = {0.0L, 0.0L}};
    oracle_sum sum = {0}, squares = {0};
    for (int64_t i = 0; i < n; i++) oracle_sum_add(&sum, oracle_read(node, 0, row * n + i));
    r.mean = oracle_handed(sum_rules, rules, oracle_sum_end(sum_rules, &sum, n, 0.0));
    r.mean = oracle_quotient(rules, r.mean, (oracle_ve){n, 0.0L});
    for (int64_t i = 0; i < n; i++) {
        oracle_ve v = oracle_read(node, 0, row * n + i);
        oracle_ve d = {v.v - r.mean.v, v.e};
        oracle_real shifted = fabsl(d.v) + r.mean.e;
        oracle_real rounding = oracle_rounded(rules, (oracle_ve){shifted, r.mean.e + v.e}).e - r.mean.e;
        oracle_ve square = {d.v * d.v, 2.0L * shifted * rounding + rounding * rounding};
        oracle_sum_add(&squares, square);
    }
    squares.e += (oracle_real)n * r.mean.e * r.mean.e;
    oracle_ve total = oracle_sum_end(sum_rules, &squares, n, 0.0);
    total = oracle_handed(sum_rules, rules, total);
    r.variance = oracle_quotient(rules, total, (oracle_ve){n - correction, 0.0L});
    return r;
}

/* 1 / deviation, and the deviation. */
void oracle_norm_finish(const oracle_rules *rules, oracle_norm_row *r, double eps, bool form1)
{
    oracle_ve one = {1.0L, 0.0L}, small = oracle_constant(rules, eps);
    if (form1) {
        r->deviation = oracle_add(rules, oracle_sqrt(rules, r->variance), small);
        r->rstd = oracle_div(rules, one, r->deviation);
    } else {
        oracle_ve sum = oracle_add(rules, r->variance, small);
        r->deviation = oracle_sqrt(rules, sum);
        r->rstd = oracle_rsqrt(rules, sum);
    }
}

/* d * rstd or d / deviation, whichever is worse. */
oracle_ve oracle_norm_scaled(const oracle_rules *rules, oracle_ve d, const oracle_norm_row *r)
{
    oracle_ve y = oracle_mul(rules, d, r->rstd), quotient = oracle_div(rules, d, r->deviation);
    if (quotient.e > y.e) y.e = quotient.e;
    return y;
}

pco_status oracle_eval_layer_norm(oracle_node *node, pco_error *err)
{
    (void)err;
    const pco_layer_norm_attrs *attrs = node->attrs;
    const oracle_rules *rules = node->rules;
    const oracle_operand *x = &node->in[0];
    oracle_rules sum_rules = oracle_rules_sum(rules, x->desc->dtype);
    int64_t n = x->desc->shape[x->desc->rank - 1], rows = n ? x->count / n : 0;
    for (int64_t row = 0; row < rows; row++) {
        oracle_norm_row r = oracle_norm_moments(node, row, n, attrs->correction, &sum_rules);
        oracle_norm_finish(rules, &r, attrs->eps, attrs->form == 1);
        for (int64_t i = 0; i < n; i++) {
            oracle_ve y = oracle_norm_scaled(rules, oracle_sub(rules, oracle_read(node, 0, row * n + i), r.mean), &r);
            if (oracle_present(node, 1)) y = oracle_mul(rules, y, oracle_read(node, 1, i));
            if (oracle_present(node, 2)) y = oracle_add(rules, y, oracle_read(node, 2, i));
            oracle_finish(&node->out[0], row * n + i, rules, y);
        }
        if (node->n_outputs > 1) oracle_finish(&node->out[1], row, rules, r.mean);
        if (node->n_outputs > 2) oracle_finish(&node->out[2], row, rules, r.rstd);
    }
    return PCO_OK;
}

/* Sum of squares: n products, n - 1 sums. */
oracle_norm_row oracle_norm_squares(const oracle_node *node, int64_t row, int64_t n, const oracle_rules *sum_rules)
{
    const oracle_operand *x = &node->in[0];
    oracle_norm_row r = {.mean = {0.0L, 0.0L}};
    oracle_sum squares = {0};
    for (int64_t i = 0; i < n; i++) {
        oracle_ve v = oracle_read(node, 0, row * n + i);
        oracle_sum_add(&squares, (oracle_ve){v.v * v.v, 2.0L * fabsl(v.v) * v.e});
    }
    oracle_ve total = oracle_sum_end(sum_rules, &squares, n, x->quantum * x->quantum);
    total = oracle_handed(sum_rules, node->rules, total);
    r.variance = oracle_quotient(node->rules, total, (oracle_ve){n, 0.0L});
    return r;
}

pco_status oracle_eval_rms_norm(oracle_node *node, pco_error *err)
{
    (void)err;
    const pco_rms_norm_attrs *attrs = node->attrs;
    const oracle_rules *rules = node->rules;
    const oracle_operand *x = &node->in[0];
    oracle_rules sum_rules = oracle_rules_sum(rules, x->desc->dtype);
    int64_t n = x->desc->shape[x->desc->rank - 1], rows = n ? x->count / n : 0;
    for (int64_t row = 0; row < rows; row++) {
        oracle_norm_row r = oracle_norm_squares(node, row, n, &sum_rules);
        oracle_norm_finish(rules, &r, attrs->eps, false);
        for (int64_t i = 0; i < n; i++) {
            oracle_ve y = oracle_norm_scaled(rules, oracle_read(node, 0, row * n + i), &r);
            if (oracle_present(node, 1)) y = oracle_mul(rules, y, oracle_read(node, 1, i));
            oracle_finish(&node->out[0], row * n + i, rules, y);
        }
        if (node->n_outputs > 1) oracle_finish(&node->out[1], row, rules, r.rstd);
    }
    return PCO_OK;
}
