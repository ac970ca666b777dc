/* The backward ops of softmax, the norms and swiglu, by the formulas of ops.def. */
#include "oracle/oracle_eval.h"
#include "oracle/oracle_norm.h"

#include "base/error.h"

#include <math.h>
#include <stdlib.h>

static oracle_ve oracle_worse(oracle_ve a, oracle_ve b)
{
    if (b.e > a.e) a.e = b.e;
    return a;
}

/* y (dy - s), s = sum dy y: products and sums of n terms. */
pco_status oracle_eval_softmax_backward(oracle_node *node, pco_error *err)
{
    (void)err;
    const oracle_rules *rules = node->rules;
    const oracle_operand *y = &node->in[0], *dy = &node->in[1];
    int64_t outer, n, inner;
    oracle_axis(y->desc, ((const pco_softmax_backward_attrs *)node->attrs)->axis, &outer, &n, &inner);
    oracle_rules sum_rules = oracle_rules_sum(rules, y->desc->dtype);
    for (int64_t row = 0; row < outer * inner; row++) {
        int64_t base = row / inner * n * inner + row % inner;
        oracle_sum sum = {0};
        for (int64_t j = 0; j < n; j++) {
            oracle_ve a = oracle_read(node, 0, base + j * inner), b = oracle_read(node, 1, base + j * inner);
            oracle_sum_add(&sum, (oracle_ve){a.v * b.v, a.e * fabsl(b.v) + b.e * fabsl(a.v) + a.e * b.e});
        }
        oracle_ve along = oracle_sum_end(&sum_rules, &sum, n, y->quantum * dy->quantum);
        along = oracle_handed(&sum_rules, rules, along);
        for (int64_t j = 0; j < n; j++) {
            int64_t i = base + j * inner;
            oracle_ve rest = oracle_sub(rules, oracle_read(node, 1, i), along);
            oracle_finish(&node->out[0], i, rules, oracle_mul(rules, oracle_read(node, 0, i), rest));
        }
    }
    return PCO_OK;
}

typedef struct oracle_norm_backward {
    bool rms, form1;
    int64_t n, divisor;
    double eps;
} oracle_norm_backward;

/* n and u of the row, and from their sums the gradient. */
static void oracle_norm_backward_row(oracle_node *node, const oracle_norm_backward *b, int64_t row, oracle_ve *normal,
                                     oracle_ve *u)
{
    const oracle_rules *rules = node->rules;
    oracle_rules sum_rules = oracle_rules_sum(rules, node->in[0].desc->dtype);
    int64_t n = b->n;
    oracle_norm_row r = b->rms ? oracle_norm_squares(node, row, n, &sum_rules)
                               : oracle_norm_moments(node, row, n, n - b->divisor, &sum_rules);
    oracle_norm_finish(rules, &r, b->eps, b->form1);
    oracle_sum sum = {0}, product = {0};
    for (int64_t i = 0; i < n; i++) {
        oracle_ve x = oracle_read(node, 0, row * n + i);
        normal[i] = oracle_norm_scaled(rules, b->rms ? x : oracle_sub(rules, x, r.mean), &r);
        u[i] = oracle_read(node, 1, row * n + i);
        if (oracle_present(node, 2)) u[i] = oracle_mul(rules, u[i], oracle_read(node, 2, i));
        oracle_sum_add(&sum, u[i]);
        oracle_sum_add(&product, oracle_mul(rules, u[i], normal[i]));
    }
    oracle_ve mean = oracle_handed(&sum_rules, rules, oracle_sum_end(&sum_rules, &sum, n, 0.0));
    mean = oracle_quotient(rules, mean, (oracle_ve){n, 0.0L});
    oracle_ve share = oracle_handed(&sum_rules, rules, oracle_sum_end(&sum_rules, &product, n, 0.0));
    share = oracle_quotient(rules, share, (oracle_ve){b->divisor, 0.0L});
    if (b->form1) {
        oracle_ve root = oracle_sqrt(rules, r.variance);
        share = r.variance.v == 0.0L && r.variance.e == 0.0L ? (oracle_ve){0.0L, 0.0L}
                                                             : oracle_quotient(rules, share, root);
    } else {
        share = oracle_worse(oracle_mul(rules, share, r.rstd), oracle_div(rules, share, r.deviation));
    }
    for (int64_t i = 0; i < n; i++) {
        oracle_ve rest = oracle_norm_scaled(rules, b->rms ? u[i] : oracle_sub(rules, u[i], mean), &r);
        oracle_finish(&node->out[0], row * n + i, rules, oracle_sub(rules, rest, oracle_mul(rules, normal[i], share)));
    }
}

#define NORM_BACKWARD_norm_backward       ORACLE_LISTED
#define NORM_BACKWARD(NAME, name, family) ORACLE_IF(NORM_BACKWARD_##family, NAME)
typedef enum oracle_norm_backward_op { PCO_OPERATIONS(NORM_BACKWARD) } oracle_norm_backward_op;

pco_status oracle_eval_norm_backward(oracle_node *node, pco_error *err)
{
    const oracle_operand *x = &node->in[0];
    oracle_norm_backward b = {.n = x->desc->shape[x->desc->rank - 1]};
    b.divisor = b.n;
    const pco_layer_norm_backward_attrs *layer = node->attrs;
    switch ((oracle_norm_backward_op)node->op) {
    case ORACLE_RMS_NORM_BACKWARD:
        b.rms = true;
        b.eps = ((const pco_rms_norm_backward_attrs *)node->attrs)->eps;
        break;
    case ORACLE_LAYER_NORM_BACKWARD:
        b.eps = layer->eps, b.form1 = layer->form == 1, b.divisor -= layer->correction;
        break;
    }
    oracle_ve *normal = malloc(sizeof *normal * 2 * (size_t)(b.n + 1)), *u = normal + b.n + 1;
    if (!normal) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "oracle: no memory");
    for (int64_t row = 0; row < (b.n ? x->count / b.n : 0); row++) oracle_norm_backward_row(node, &b, row, normal, u);
    free(normal);
    return PCO_OK;
}

/* dy up s (1 + g (1 - s)) and dy g s; 1 - s may also be sigmoid(-g), whose error is smaller. */
pco_status oracle_eval_swiglu_backward(oracle_node *node, pco_error *err)
{
    (void)err;
    const oracle_rules *rules = node->rules;
    const oracle_ve one = {1.0L, 0.0L};
    bool joined = !oracle_present(node, 1);
    const oracle_operand *dy = &node->in[2];
    int64_t n = dy->desc->rank ? dy->desc->shape[dy->desc->rank - 1] : 1, gate_at = 0;
    for (int64_t i = 0; i < dy->count; i++, gate_at++) {
        if (joined && i && i % n == 0) gate_at += n; /* past the up of the row that ends here */
        oracle_ve gate = oracle_read(node, 0, gate_at), d = oracle_read(node, 2, i);
        oracle_ve up = joined ? oracle_read(node, 0, gate_at + n) : oracle_read(node, 1, i);
        oracle_ve s = oracle_sigmoid(rules, gate), rest = oracle_sub(rules, one, s);
        oracle_ve slope = oracle_mul(rules, s, oracle_add(rules, oracle_mul(rules, gate, rest), one));
        oracle_finish(&node->out[0], gate_at, rules, oracle_mul(rules, oracle_mul(rules, d, up), slope));
        oracle_ve other = oracle_mul(rules, d, oracle_mul(rules, gate, s));
        oracle_finish(&node->out[joined ? 0 : 1], joined ? gate_at + n : i, rules, other);
    }
    return PCO_OK;
}
