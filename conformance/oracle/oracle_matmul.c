/* matmul: K products and K - 1 sums, so gamma_K(u) sum |a||b|; one more rounding per term for quantised
 * weights, whose scale may be applied to the block's sum. Conversions of f16, bf16 and quantised inputs are
 * exact. */
#include "oracle/oracle.h"

#include "base/error.h"

#include <math.h>

static oracle_ve oracle_matmul_activate(const oracle_rules *rules, int64_t activation, oracle_ve y)
{
    switch (activation) {
    case 1:
        return y.v > 0.0L || isnan(y.v) ? y : (oracle_ve){0.0L, fmaxl(y.v + y.e, 0.0L)};
    case 2:
        return oracle_gelu(rules, y, false);
    case 3:
        return oracle_gelu(rules, y, true);
    case 4:
        return oracle_silu(rules, y);
    default:
        return y;
    }
}

/* An f16 accumulator where the node allows it, unless the contract promises a wider one for f32 inputs. */
static oracle_rules oracle_matmul_rules(const oracle_node *node)
{
    uint32_t a_type = node->in[0].desc->dtype;
    oracle_rules rules = oracle_rules_sum(node->rules, a_type);
    bool narrow = ((const pco_matmul_attrs *)node->attrs)->accumulate == PCO_F16;
    oracle_format wanted = oracle_format_of(narrow ? PCO_F16 : PCO_F32);
    if (rules.narrow) return rules;
    if (narrow || rules.compute.precision < wanted.precision) rules.compute = wanted;
    return rules;
}

/* Offset of the matrix that belongs to batch i of the output. */
static int64_t oracle_matmul_batch(const pco_tensor *out, const pco_tensor *in, int64_t i)
{
    pco_tensor out_lead = *out, in_lead = *in;
    out_lead.rank = out->rank > 2 ? out->rank - 2 : 0;
    in_lead.rank = in->rank > 2 ? in->rank - 2 : 0;
    return oracle_broadcast_index(&out_lead, &in_lead, i) * in->shape[in->rank - 1] * in->shape[in->rank - 2];
}

typedef struct oracle_matmul_shape {
    int64_t m, n, k;
    int64_t a_row, a_step, b_column, b_step;
} oracle_matmul_shape;

static oracle_matmul_shape oracle_matmul_read_shape(const oracle_node *node)
{
    const pco_matmul_attrs *attrs = node->attrs;
    const pco_tensor *a = node->in[0].desc, *b = node->in[1].desc, *y = &node->out[0].desc;
    oracle_matmul_shape s = {.m = y->shape[y->rank - 2], .n = y->shape[y->rank - 1]};
    s.k = a->shape[attrs->transpose_a ? a->rank - 2 : a->rank - 1];
    s.a_row = attrs->transpose_a ? 1 : s.k, s.a_step = attrs->transpose_a ? s.m : 1;
    s.b_column = attrs->transpose_b ? s.k : 1, s.b_step = attrs->transpose_b ? 1 : s.n;
    (void)b;
    return s;
}

static oracle_ve oracle_matmul_dot(const oracle_node *node, const oracle_rules *rules,
                                   const oracle_matmul_shape *s, const double *a, const double *b,
                                   double quantum)
{
    oracle_real v = 0.0L, magnitude = 0.0L, flushed = 0.0L;
    bool tiny = rules->flush > 0 && (node->in[0].tiny || node->in[1].tiny);
    for (int64_t k = 0; k < s->k; k++) {
        oracle_real x = a[k * s->a_step], w = b[k * s->b_step], product = x * w;
        v += product;
        magnitude += fabsl(product);
        if (!tiny) continue;
        oracle_real x_e = oracle_input(rules, node->in[0].desc->dtype, (double)x).e;
        oracle_real w_e = oracle_input(rules, node->in[1].desc->dtype, (double)w).e;
        flushed += x_e * fabsl(w) + w_e * fabsl(x);
    }
    oracle_sum sum = {.v = v, .magnitude = magnitude, .e = flushed, .n = s->k};
    bool quantised = oracle_block_count(node->in[1].desc->dtype) > 1;
    return oracle_sum_end(rules, &sum, s->k + (quantised ? 1 : 0), quantum);
}

pco_status oracle_eval_matmul(oracle_node *node, pco_error *err)
{
    (void)err;
    const pco_matmul_attrs *attrs = node->attrs;
    const oracle_rules *rules = node->rules;
    oracle_output *out = &node->out[0];
    oracle_rules sum_rules = oracle_matmul_rules(node);
    oracle_matmul_shape s = oracle_matmul_read_shape(node);
    double quantum = node->in[0].quantum * node->in[1].quantum;
    bool bare = !oracle_present(node, 2) && !oracle_present(node, 3) && attrs->activation == 0;
    for (int64_t i = 0; i < out->count; i++) {
        int64_t batch = i / (s.m * s.n), row = i / s.n % s.m, column = i % s.n;
        const double *a =
            node->in[0].value + oracle_matmul_batch(&out->desc, node->in[0].desc, batch) + row * s.a_row;
        const double *b = node->in[1].value + oracle_matmul_batch(&out->desc, node->in[1].desc, batch) +
                          column * s.b_column;
        oracle_ve y = oracle_matmul_dot(node, &sum_rules, &s, a, b, quantum);
        if (bare) {
            oracle_finish(out, i, &sum_rules, y);
            continue;
        }
        y = oracle_handed(&sum_rules, rules, y);
        if (oracle_present(node, 2)) y = oracle_add(rules, y, oracle_read(node, 2, column));
        y = oracle_matmul_activate(rules, attrs->activation, y);
        if (oracle_present(node, 3)) y = oracle_add(rules, y, oracle_read(node, 3, i));
        oracle_finish(out, i, rules, y);
    }
    return PCO_OK;
}
