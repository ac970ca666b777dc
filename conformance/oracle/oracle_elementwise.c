/* Elementwise ops: arithmetic, comparisons, functions, cast. */
#include "oracle/oracle_eval.h"

#include "base/error.h"

#include <math.h>

/* The smaller (larger) of two: exact, but for subnormals that may be flushed. */
static oracle_ve oracle_elementwise_extreme(oracle_ve a, oracle_ve b, bool larger)
{
    if (isnan(a.v) || isnan(b.v)) return (oracle_ve){NAN, 0.0L};
    oracle_ve y = (larger ? a.v > b.v : a.v < b.v) ? a : b;
    if (y.e == 0.0L && y.v != 0.0L) return y;
    y.e = fmaxl(a.e, b.e);
    return y;
}

pco_status oracle_eval_binary(oracle_node *node, pco_error *err)
{
    (void)err;
    const oracle_rules *rules = node->rules;
    oracle_output *out = &node->out[0];
    for (int64_t i = 0; i < out->count; i++) {
        oracle_ve a = oracle_read(node, 0, oracle_broadcast_index(&out->desc, node->in[0].desc, i));
        oracle_ve b = oracle_read(node, 1, oracle_broadcast_index(&out->desc, node->in[1].desc, i));
        oracle_ve y;
        switch (node->op) {
        case PCO_OP_ADD: y = oracle_add(rules, a, b); break;
        case PCO_OP_SUB: y = oracle_sub(rules, a, b); break;
        case PCO_OP_MUL: y = oracle_mul(rules, a, b); break;
        case PCO_OP_DIV: y = oracle_div(rules, a, b); break;
        case PCO_OP_POW: y = oracle_pow(rules, a, b); break;
        case PCO_OP_MINIMUM: oracle_put(out, i, oracle_elementwise_extreme(a, b, false)); continue;
        default: oracle_put(out, i, oracle_elementwise_extreme(a, b, true)); continue;
        }
        oracle_finish(out, i, rules, y);
    }
    return PCO_OK;
}

static bool oracle_elementwise_compare(uint32_t op, double a, double b)
{
    switch (op) {
    case PCO_OP_EQ: return a == b;
    case PCO_OP_NE: return a != b;
    case PCO_OP_LT: return a < b;
    case PCO_OP_LE: return a <= b;
    case PCO_OP_GT: return a > b;
    case PCO_OP_GE: return a >= b;
    case PCO_OP_LOGICAL_AND: return a != 0 && b != 0;
    default: return a != 0 || b != 0;
    }
}

/* Where a flushed operand would change the answer, either answer is right. */
pco_status oracle_eval_compare(oracle_node *node, pco_error *err)
{
    (void)err;
    oracle_output *out = &node->out[0];
    for (int64_t i = 0; i < out->count; i++) {
        oracle_ve a = oracle_read(node, 0, oracle_broadcast_index(&out->desc, node->in[0].desc, i));
        oracle_ve b = oracle_read(node, 1, oracle_broadcast_index(&out->desc, node->in[1].desc, i));
        double a_seen = (double)a.v, b_seen = (double)b.v;
        double a_zero = a.e > 0 ? 0.0 : a_seen, b_zero = b.e > 0 ? 0.0 : b_seen;
        bool y = oracle_elementwise_compare(node->op, a_seen, b_seen);
        bool same = oracle_elementwise_compare(node->op, a_zero, b_zero) == y &&
                    oracle_elementwise_compare(node->op, a_zero, b_seen) == y &&
                    oracle_elementwise_compare(node->op, a_seen, b_zero) == y;
        out->value[i] = y;
        out->bound[i] = same ? 0.0 : 1.0;
    }
    return PCO_OK;
}

pco_status oracle_eval_where(oracle_node *node, pco_error *err)
{
    (void)err;
    oracle_output *out = &node->out[0];
    out->sign_of_zero = true;
    for (int64_t i = 0; i < out->count; i++) {
        bool condition = node->in[0].value[oracle_broadcast_index(&out->desc, node->in[0].desc, i)] != 0;
        const oracle_operand *in = &node->in[condition ? 1 : 2];
        out->value[i] = in->value[oracle_broadcast_index(&out->desc, in->desc, i)];
    }
    return PCO_OK;
}

/* 32-bit integers wrap; division truncates, by zero gives zero. */
static int32_t oracle_elementwise_wrap(uint32_t op, int32_t a, int32_t b)
{
    uint32_t ua = (uint32_t)a, ub = (uint32_t)b;
    switch (op) {
    case PCO_OP_ADD: return (int32_t)(ua + ub);
    case PCO_OP_SUB: return (int32_t)(ua - ub);
    case PCO_OP_MUL: return (int32_t)(ua * ub);
    case PCO_OP_MINIMUM: return a < b ? a : b;
    case PCO_OP_MAXIMUM: return a > b ? a : b;
    case PCO_OP_NEG: return (int32_t)(0u - ua);
    case PCO_OP_ABS: return a < 0 ? (int32_t)(0u - ua) : a;
    default: return b == 0 ? 0 : b == -1 ? (int32_t)(0u - ua) : a / b;
    }
}

static void oracle_integer_sum(oracle_node *node)
{
    const pco_sum_attrs *attrs = node->attrs;
    const oracle_operand *x = &node->in[0];
    pco_tensor kept = *x->desc; /* the result's shape with keepdims */
    for (int64_t a = 0; a < attrs->n_axes; a++) kept.shape[attrs->axes[a]] = 1;
    for (int64_t i = 0; i < x->count; i++) {
        double *y = &node->out[0].value[oracle_broadcast_index(x->desc, &kept, i)];
        *y = oracle_elementwise_wrap(PCO_OP_ADD, (int32_t)*y, (int32_t)x->value[i]);
    }
}

static void oracle_integer_scatter_add(oracle_node *node)
{
    const oracle_operand *x = &node->in[0], *indices = &node->in[1], *updates = &node->in[2];
    int64_t outer, n, inner;
    oracle_axis(x->desc, ((const pco_scatter_add_attrs *)node->attrs)->axis, &outer, &n, &inner);
    for (int64_t i = 0; i < x->count; i++) node->out[0].value[i] = x->value[i];
    for (int64_t u = 0; u < updates->count; u++) {
        int64_t k = u / inner % indices->count, index = (int64_t)indices->value[k];
        if (index < 0 || index >= n) continue;
        double *y = &node->out[0].value[(u / inner / indices->count * n + index) * inner + u % inner];
        *y = oracle_elementwise_wrap(PCO_OP_ADD, (int32_t)*y, (int32_t)updates->value[u]);
    }
}

pco_status oracle_eval_integer(oracle_node *node, pco_error *err)
{
    (void)err;
    oracle_output *out = &node->out[0];
    if (node->op == PCO_OP_SUM || node->op == PCO_OP_SCATTER_ADD) {
        (node->op == PCO_OP_SUM ? oracle_integer_sum : oracle_integer_scatter_add)(node);
        return PCO_OK;
    }
    for (int64_t i = 0; i < out->count; i++) {
        const oracle_operand *a = &node->in[0], *b = &node->in[node->n_inputs > 1 ? 1 : 0];
        out->value[i] =
            oracle_elementwise_wrap(node->op, (int32_t)a->value[oracle_broadcast_index(&out->desc, a->desc, i)],
                                    (int32_t)b->value[oracle_broadcast_index(&out->desc, b->desc, i)]);
    }
    return PCO_OK;
}

/* Ops with one operand whose result is exact. A subnormal that may be read as zero widens the bound to cover
 * both answers. */
static oracle_ve oracle_elementwise_exact(const oracle_node *node, oracle_ve x)
{
    const pco_clamp_attrs *clamp = node->attrs;
    uint32_t type = node->in[0].desc->dtype;
    oracle_real step = x.e > 0.0L ? 1.0L : 0.0L; /* sign and floor may jump by one */
    switch (node->op) {
    case PCO_OP_NEG: return (oracle_ve){-x.v, x.e};
    case PCO_OP_ABS: return (oracle_ve){fabsl(x.v), x.e};
    case PCO_OP_SIGN: return (oracle_ve){isnan(x.v) ? x.v : (x.v > 0) - (x.v < 0), step};
    case PCO_OP_FLOOR: return (oracle_ve){floorl(x.v), x.v < 0 ? step : 0.0L};
    case PCO_OP_ISFINITE: return (oracle_ve){isfinite(x.v) != 0, 0.0L};
    case PCO_OP_LOGICAL_NOT: return (oracle_ve){x.v == 0.0L, 0.0L};
    case PCO_OP_RELU: return isnan(x.v) || x.v > 0.0L ? x : (oracle_ve){0.0L, 0.0L};
    default: break;
    }
    double low = oracle_round_to(type, clamp->min), high = oracle_round_to(type, clamp->max);
    if (type == PCO_I32 && isinf(clamp->min)) low = clamp->min;
    if (type == PCO_I32 && isinf(clamp->max)) high = clamp->max;
    if (x.v < (oracle_real)low) x.v = low;
    if (x.v > (oracle_real)high) x.v = high;
    return x;
}

pco_status oracle_eval_unary(oracle_node *node, pco_error *err)
{
    (void)err;
    const oracle_rules *rules = node->rules;
    oracle_output *out = &node->out[0];
    oracle_ve one = {1.0L, 0.0L};
    out->sign_of_zero = (node->op == PCO_OP_NEG || node->op == PCO_OP_ABS) && rules->nan_inf;
    for (int64_t i = 0; i < out->count; i++) {
        oracle_ve x = oracle_read(node, 0, i), y;
        switch (node->op) {
        case PCO_OP_RECIPROCAL: y = oracle_div(rules, one, x); break;
        case PCO_OP_EXP: y = oracle_exp(rules, x); break;
        case PCO_OP_LOG: y = oracle_log(rules, x); break;
        case PCO_OP_SQRT: y = oracle_sqrt(rules, x); break;
        case PCO_OP_RSQRT: y = oracle_rsqrt(rules, x); break;
        case PCO_OP_SIN: y = oracle_sin(rules, x); break;
        case PCO_OP_COS: y = oracle_cos(rules, x); break;
        case PCO_OP_TANH: y = oracle_tanh(rules, x); break;
        case PCO_OP_ERF: y = oracle_erf(rules, x); break;
        case PCO_OP_SIGMOID: y = oracle_sigmoid(rules, x); break;
        case PCO_OP_SILU: y = oracle_silu(rules, x); break;
        case PCO_OP_GELU: y = oracle_gelu(rules, x, ((const pco_gelu_attrs *)node->attrs)->approximate != 0); break;
        default: oracle_put(out, i, oracle_elementwise_exact(node, x)); continue;
        }
        oracle_finish(out, i, rules, y);
    }
    return PCO_OK;
}

/* A conversion has one right result where the contract rounds to nearest even and nothing may be flushed. */
static bool oracle_cast_is_exact(const oracle_rules *rules, uint32_t to, oracle_ve x)
{
    bool flushed = to == PCO_BF16 && x.v != 0.0L && fabsl(x.v) < 2 * rules->flush;
    return rules->exact_casts && (to == PCO_F16 || to == PCO_BF16) && x.e == 0.0L && isfinite(x.v) && !flushed;
}

/* To a narrower float: nearest even (one ulp where the rounding mode is not promised). To i32: toward zero.
 */
pco_status oracle_eval_cast(oracle_node *node, pco_error *err)
{
    (void)err;
    oracle_output *out = &node->out[0];
    uint32_t to = out->desc.dtype, from = node->in[0].desc->dtype;
    oracle_rules rules = *node->rules;
    rules.compute = oracle_format_of(PCO_CONTRACT_F64); /* holds every value: one rounding, on output */
    for (int64_t i = 0; i < out->count; i++) {
        oracle_ve x = oracle_read(node, 0, i);
        if (to == PCO_I32)
            out->value[i] = oracle_round_to(PCO_I32, (double)x.v);
        else if (to == PCO_BOOL)
            out->value[i] = x.v != 0.0L, out->bound[i] = x.e > 0.0L;
        else if (oracle_cast_is_exact(node->rules, to, x))
            out->value[i] = oracle_round_to(to, (double)x.v);
        else
            oracle_put(out, i, to == from ? x : oracle_narrowed(&rules, to, x));
    }
    return PCO_OK;
}

/* silu(gate) * up: one more product. */
pco_status oracle_eval_swiglu(oracle_node *node, pco_error *err)
{
    (void)err;
    oracle_output *out = &node->out[0];
    bool split = !oracle_present(node, 1);
    int64_t n = out->desc.rank ? out->desc.shape[out->desc.rank - 1] : 1;
    for (int64_t i = 0; i < out->count; i++) {
        int64_t row = i / n, column = i % n;
        oracle_ve gate = oracle_read(node, 0, split ? row * 2 * n + column : i);
        oracle_ve up = split ? oracle_read(node, 0, row * 2 * n + n + column) : oracle_read(node, 1, i);
        oracle_finish(out, i, node->rules, oracle_mul(node->rules, oracle_silu(node->rules, gate), up));
    }
    return PCO_OK;
}
