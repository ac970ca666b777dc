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

#define BINARY_binary              ORACLE_LISTED
#define BINARY(NAME, name, family) ORACLE_IF(BINARY_##family, NAME)
typedef enum oracle_binary_op { PCO_OPERATIONS(BINARY) } oracle_binary_op;

pco_status oracle_eval_binary(oracle_node *node, pco_error *err)
{
    (void)err;
    const oracle_rules *rules = node->rules;
    oracle_output *out = &node->out[0];
    for (int64_t i = 0; i < out->count; i++) {
        oracle_ve a = oracle_read(node, 0, oracle_broadcast_index(&out->desc, node->in[0].desc, i));
        oracle_ve b = oracle_read(node, 1, oracle_broadcast_index(&out->desc, node->in[1].desc, i));
        oracle_ve y = {NAN, 0.0L};
        switch ((oracle_binary_op)node->op) {
        case ORACLE_ADD: y = oracle_add(rules, a, b); break;
        case ORACLE_SUB: y = oracle_sub(rules, a, b); break;
        case ORACLE_MUL: y = oracle_mul(rules, a, b); break;
        case ORACLE_DIV: y = oracle_div(rules, a, b); break;
        case ORACLE_POW: y = oracle_pow(rules, a, b); break;
        case ORACLE_MINIMUM: oracle_put(out, i, oracle_elementwise_extreme(a, b, false)); continue;
        case ORACLE_MAXIMUM: oracle_put(out, i, oracle_elementwise_extreme(a, b, true)); continue;
        }
        oracle_finish(out, i, rules, y);
    }
    return PCO_OK;
}

#define COMPARE_compare             ORACLE_LISTED
#define COMPARE_logical             ORACLE_LISTED
#define COMPARE(NAME, name, family) ORACLE_IF(COMPARE_##family, NAME)
typedef enum oracle_compare_op { PCO_OPERATIONS(COMPARE) } oracle_compare_op;

static bool oracle_elementwise_compare(uint32_t op, double a, double b)
{
    switch ((oracle_compare_op)op) {
    case ORACLE_EQ: return a == b;
    case ORACLE_NE: return a != b;
    case ORACLE_LT: return a < b;
    case ORACLE_LE: return a <= b;
    case ORACLE_GT: return a > b;
    case ORACLE_GE: return a >= b;
    case ORACLE_LOGICAL_AND: return a != 0 && b != 0;
    case ORACLE_LOGICAL_OR: return a != 0 || b != 0;
    }
    return false;
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

static oracle_real oracle_elementwise_clamp(const oracle_node *node, oracle_real x)
{
    const pco_clamp_attrs *clamp = node->attrs;
    uint32_t type = node->in[0].desc->dtype;
    double low = oracle_round_to(type, clamp->min), high = oracle_round_to(type, clamp->max);
    if (type == PCO_I32 && isinf(clamp->min)) low = clamp->min;
    if (type == PCO_I32 && isinf(clamp->max)) high = clamp->max;
    if (x < (oracle_real)low) x = low;
    return x > (oracle_real)high ? high : x;
}

#define UNARY_unary               ORACLE_LISTED
#define UNARY_clamp               ORACLE_LISTED
#define UNARY_logical_not         ORACLE_LISTED
#define UNARY(NAME, name, family) ORACLE_IF(UNARY_##family, NAME)
typedef enum oracle_unary_op { PCO_OPERATIONS(UNARY) } oracle_unary_op;

/* Is the result exact? A subnormal that may be read as zero then widens the bound to cover both answers. */
static bool oracle_elementwise_one(const oracle_node *node, oracle_ve x, oracle_ve *y)
{
    const oracle_rules *rules = node->rules;
    const oracle_real step = x.e > 0.0L ? 1.0L : 0.0L; /* sign and floor may jump by one */
    switch ((oracle_unary_op)node->op) {
    case ORACLE_RECIPROCAL: *y = oracle_div(rules, (oracle_ve){1.0L, 0.0L}, x); return false;
    case ORACLE_EXP: *y = oracle_exp(rules, x); return false;
    case ORACLE_LOG: *y = oracle_log(rules, x); return false;
    case ORACLE_SQRT: *y = oracle_sqrt(rules, x); return false;
    case ORACLE_RSQRT: *y = oracle_rsqrt(rules, x); return false;
    case ORACLE_SIN: *y = oracle_sin(rules, x); return false;
    case ORACLE_COS: *y = oracle_cos(rules, x); return false;
    case ORACLE_TANH: *y = oracle_tanh(rules, x); return false;
    case ORACLE_ERF: *y = oracle_erf(rules, x); return false;
    case ORACLE_SIGMOID: *y = oracle_sigmoid(rules, x); return false;
    case ORACLE_SILU: *y = oracle_silu(rules, x); return false;
    case ORACLE_GELU: *y = oracle_gelu(rules, x, ((const pco_gelu_attrs *)node->attrs)->approximate != 0); return false;
    case ORACLE_NEG: *y = (oracle_ve){-x.v, x.e}; return true;
    case ORACLE_ABS: *y = (oracle_ve){fabsl(x.v), x.e}; return true;
    case ORACLE_SIGN: *y = (oracle_ve){isnan(x.v) ? x.v : (x.v > 0) - (x.v < 0), step}; return true;
    case ORACLE_FLOOR: *y = (oracle_ve){floorl(x.v), x.v < 0 ? step : 0.0L}; return true;
    case ORACLE_ISFINITE: *y = (oracle_ve){isfinite(x.v) != 0, 0.0L}; return true;
    case ORACLE_LOGICAL_NOT: *y = (oracle_ve){x.v == 0.0L, 0.0L}; return true;
    case ORACLE_RELU: *y = isnan(x.v) || x.v > 0.0L ? x : (oracle_ve){0.0L, 0.0L}; return true;
    case ORACLE_CLAMP: *y = (oracle_ve){oracle_elementwise_clamp(node, x.v), x.e}; return true;
    }
    return true;
}

pco_status oracle_eval_unary(oracle_node *node, pco_error *err)
{
    (void)err;
    oracle_output *out = &node->out[0];
    out->sign_of_zero = (node->op == PCO_OP_NEG || node->op == PCO_OP_ABS) && node->rules->nan_inf;
    for (int64_t i = 0; i < out->count; i++) {
        oracle_ve y = {NAN, 0.0L};
        if (oracle_elementwise_one(node, oracle_read(node, 0, i), &y))
            oracle_put(out, i, y);
        else
            oracle_finish(out, i, node->rules, y);
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
