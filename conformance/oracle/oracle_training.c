/* The loss and the optimisers, step by step in the order that ops.def gives. Where two orders are usual the
 * worse one bounds both. */
#include "oracle/oracle_eval.h"

#include "base/error.h"

#include <math.h>
#include <stdlib.h>

/* ---- cross-entropy ---- */

typedef enum oracle_row { ROW_CLASS, ROW_IGNORED, ROW_WRONG } oracle_row;

static oracle_row oracle_target(const oracle_node *node, int64_t row, int64_t n, int64_t *target)
{
    /* both ops have the same attributes */
    const pco_cross_entropy_attrs *attrs = node->attrs;
    *target = (int64_t)node->in[1].value[row];
    if (*target == attrs->ignore_index) return ROW_IGNORED;
    return *target >= 0 && *target < n ? ROW_CLASS : ROW_WRONG;
}

static oracle_ve oracle_worse(oracle_ve a, oracle_ve b)
{
    if (b.e > a.e) a.e = b.e;
    return a;
}

/* lse - x: through lse, or as (max - x) + log(sum). */
static oracle_ve oracle_above(const oracle_rules *rules, oracle_ve max, oracle_ve log, oracle_ve x)
{
    oracle_ve whole = oracle_sub(rules, oracle_add(rules, max, log), x);
    return oracle_worse(whole, oracle_add(rules, oracle_sub(rules, max, x), log));
}

static oracle_ve oracle_row_loss(const oracle_node *node, const oracle_ve *score, int64_t n, int64_t target,
                                 oracle_ve sum)
{
    const pco_cross_entropy_attrs *attrs = node->attrs;
    const oracle_rules *rules = node->rules;
    oracle_rules sum_rules = oracle_rules_sum(rules, node->in[0].desc->dtype);
    oracle_ve max = {-INFINITY, 0.0L};
    oracle_sum total = {0};
    for (int64_t j = 0; j < n; j++) {
        if (score[j].v > max.v || isnan(score[j].v)) max.v = score[j].v;
        oracle_sum_add(&total, score[j]);
    }
    if (isinf(max.v)) return (oracle_ve){max.v, INFINITY};
    oracle_ve log = oracle_log(rules, sum), loss = oracle_above(rules, max, log, score[target]);
    if (attrs->label_smoothing <= 0) return loss;
    oracle_ve mean = oracle_handed(&sum_rules, rules, oracle_sum_end(&sum_rules, &total, n, 0.0));
    mean = oracle_quotient(rules, mean, (oracle_ve){n, 0.0L});
    oracle_ve hit = oracle_mul(rules, loss, oracle_constant(rules, 1 - attrs->label_smoothing));
    oracle_ve rest = oracle_above(rules, max, log, mean);
    return oracle_add(rules, hit, oracle_mul(rules, rest, oracle_constant(rules, attrs->label_smoothing)));
}

/* gradient * (p - hit): the class that is right is hit by 1 - e + e/N, the others by e/N. */
static void oracle_row_gradient(oracle_node *node, const oracle_ve *term, int64_t n, int64_t row, int64_t target,
                                oracle_ve sum)
{
    const pco_cross_entropy_backward_attrs *attrs = node->attrs;
    const oracle_rules *rules = node->rules;
    double rest = attrs->label_smoothing / (double)n;
    for (int64_t j = 0; j < n; j++) {
        oracle_ve p = oracle_softmax_weight(rules, term[j], sum);
        oracle_ve hit = oracle_constant(rules, j == target ? 1 - attrs->label_smoothing + rest : rest);
        oracle_ve y = oracle_mul(rules, oracle_sub(rules, p, hit), oracle_read(node, 2, row));
        oracle_finish(&node->out[0], row * n + j, rules, y);
    }
}

static pco_status oracle_cross_entropy(oracle_node *node, bool backward, pco_error *err)
{
    const oracle_operand *x = &node->in[0];
    int64_t n = x->desc->shape[x->desc->rank - 1], rows = node->in[1].count, target;
    oracle_rules sum_rules = oracle_rules_sum(node->rules, x->desc->dtype);
    oracle_ve *score = malloc(sizeof *score * 2 * (size_t)(n + 1)), *term = score + n + 1, sum;
    if (!score) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "oracle: no memory");
    for (int64_t row = 0; row < rows; row++) {
        oracle_row kind = oracle_target(node, row, n, &target);
        double value = kind == ROW_WRONG ? (double)NAN : 0.0;
        for (int64_t j = 0; j < (backward ? n : 1) && kind != ROW_CLASS; j++)
            node->out[0].value[backward ? row * n + j : row] = value;
        if (kind != ROW_CLASS) continue;
        for (int64_t j = 0; j < n; j++) score[j] = oracle_read(node, 0, row * n + j);
        oracle_softmax_terms(node->rules, &sum_rules, score, n, term, &sum);
        if (backward)
            oracle_row_gradient(node, term, n, row, target, sum);
        else
            oracle_finish(&node->out[0], row, node->rules, oracle_row_loss(node, score, n, target, sum));
    }
    free(score);
    return PCO_OK;
}

pco_status oracle_eval_cross_entropy(oracle_node *node, pco_error *err)
{
    return oracle_cross_entropy(node, false, err);
}

pco_status oracle_eval_cross_entropy_backward(oracle_node *node, pco_error *err)
{
    return oracle_cross_entropy(node, true, err);
}

/* ---- optimisers ---- */

/* A scale that is not finite: the states stay what they are, bit for bit. Returns whether that is so. */
static bool oracle_skipped(oracle_node *node, uint32_t scale)
{
    if (!oracle_present(node, scale) || isfinite(node->in[scale].value[0])) return false;
    for (uint32_t k = 0; k < node->n_outputs; k++) {
        node->out[k].sign_of_zero = true;
        for (int64_t i = 0; i < node->out[k].count; i++) node->out[k].value[i] = node->in[k].value[i];
    }
    return true;
}

static oracle_ve oracle_scaled(const oracle_node *node, uint32_t gradient, uint32_t scale, int64_t i)
{
    oracle_ve g = oracle_read(node, gradient, i);
    return oracle_present(node, scale) ? oracle_mul(node->rules, g, oracle_read(node, scale, 0)) : g;
}

/* param - param * (rate * lambda), or param * (1 - rate * lambda). */
static oracle_ve oracle_decayed(const oracle_rules *rules, oracle_ve param, oracle_ve rate, double lambda)
{
    if (lambda == 0) return param;
    oracle_ve factor = oracle_mul(rules, rate, oracle_constant(rules, lambda)), one = {1.0L, 0.0L};
    oracle_ve direct = oracle_mul(rules, param, oracle_sub(rules, one, factor));
    return oracle_worse(oracle_sub(rules, param, oracle_mul(rules, param, factor)), direct);
}

pco_status oracle_eval_adamw(oracle_node *node, pco_error *err)
{
    (void)err;
    const pco_adamw_attrs *attrs = node->attrs;
    const oracle_rules *rules = node->rules;
    if (oracle_skipped(node, 5)) return PCO_OK;
    oracle_ve b1 = oracle_constant(rules, attrs->beta1), c1 = oracle_constant(rules, 1 - attrs->beta1);
    oracle_ve b2 = oracle_constant(rules, attrs->beta2), c2 = oracle_constant(rules, 1 - attrs->beta2);
    oracle_ve rate = oracle_read(node, 4, 0), eps = oracle_constant(rules, attrs->eps);
    oracle_ve factor = oracle_quotient(rules, rate, oracle_read(node, 4, 1));
    oracle_ve root = oracle_sqrt(rules, oracle_read(node, 4, 2));
    for (int64_t i = 0; i < node->out[0].count; i++) {
        oracle_ve g = oracle_scaled(node, 3, 5, i);
        oracle_ve m = oracle_add(rules, oracle_mul(rules, oracle_read(node, 1, i), b1), oracle_mul(rules, g, c1));
        oracle_ve square = oracle_mul(rules, oracle_mul(rules, g, c2), g);
        oracle_ve v = oracle_add(rules, oracle_mul(rules, oracle_read(node, 2, i), b2), square);
        oracle_ve deviation = oracle_add(rules, oracle_quotient(rules, oracle_sqrt(rules, v), root), eps);
        oracle_ve step = oracle_mul(rules, factor, oracle_quotient(rules, m, deviation));
        oracle_ve param = oracle_decayed(rules, oracle_read(node, 0, i), rate, attrs->weight_decay);
        oracle_finish(&node->out[0], i, rules, oracle_sub(rules, param, step));
        oracle_finish(&node->out[1], i, rules, m);
        oracle_finish(&node->out[2], i, rules, v);
    }
    return PCO_OK;
}

pco_status oracle_eval_sgd(oracle_node *node, pco_error *err)
{
    (void)err;
    const pco_sgd_attrs *attrs = node->attrs;
    const oracle_rules *rules = node->rules;
    if (oracle_skipped(node, 4)) return PCO_OK;
    oracle_ve rate = oracle_read(node, 3, 0), momentum = oracle_constant(rules, attrs->momentum);
    oracle_ve lambda = oracle_constant(rules, attrs->weight_decay);
    for (int64_t i = 0; i < node->out[0].count; i++) {
        oracle_ve param = oracle_read(node, 0, i), g = oracle_scaled(node, 2, 4, i);
        if (attrs->weight_decay != 0) g = oracle_add(rules, g, oracle_mul(rules, param, lambda));
        oracle_ve velocity = oracle_add(rules, oracle_mul(rules, oracle_read(node, 1, i), momentum), g),
                  step = velocity;
        if (attrs->nesterov) step = oracle_add(rules, g, oracle_mul(rules, velocity, momentum));
        oracle_finish(&node->out[0], i, rules, oracle_sub(rules, param, oracle_mul(rules, rate, step)));
        oracle_finish(&node->out[1], i, rules, velocity);
    }
    return PCO_OK;
}
