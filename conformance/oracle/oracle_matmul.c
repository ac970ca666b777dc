/* matmul, alone and behind a norm, and conv1d: K products and K - 1 sums, so gamma_K(u) sum |a||b|; one more rounding
 * per term for quantised weights, whose scale may be applied to the block's sum. Conversions of f16, bf16 and quantised
 * inputs are exact. */
#include "oracle/oracle_eval.h"
#include "oracle/oracle_norm.h"

#include "base/error.h"

#include <math.h>
#include <stdlib.h>

static oracle_ve oracle_matmul_activate(const oracle_rules *rules, int64_t activation, oracle_ve y)
{
    switch (activation) {
    case 1: return y.v > 0.0L || isnan(y.v) ? y : (oracle_ve){0.0L, fmaxl(y.v + y.e, 0.0L)};
    case 2: return oracle_gelu(rules, y, false);
    case 3: return oracle_gelu(rules, y, true);
    case 4: return oracle_silu(rules, y);
    default: return y;
    }
}

/* An f16 accumulator where the node allows it (`narrow`), unless the contract promises a wider one for f32 inputs. */
static oracle_rules oracle_matmul_rules(const oracle_node *node, bool narrow)
{
    uint32_t a_type = node->in[0].desc->dtype;
    oracle_rules rules = oracle_rules_sum(node->rules, a_type);
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

/* How far a product may be off because a device may read subnormal factors as 0; infinity where the other factor is. */
static oracle_real oracle_matmul_flushed(const oracle_node *node, const oracle_rules *rules, double a, double b)
{
    const oracle_real a_e = oracle_input(rules, node->in[0].desc->dtype, a).e;
    const oracle_real b_e = oracle_input(rules, node->in[1].desc->dtype, b).e;
    return (a_e > 0.0L ? a_e * fabsl((oracle_real)b) : 0.0L) + (b_e > 0.0L ? b_e * fabsl((oracle_real)a) : 0.0L);
}

static oracle_ve oracle_matmul_dot(const oracle_node *node, const oracle_rules *rules, const oracle_matmul_shape *s,
                                   const double *a, const double *b, double quantum)
{
    oracle_real v = 0.0L, magnitude = 0.0L, flushed = 0.0L;
    bool tiny = rules->flush > 0 && (node->in[0].tiny || node->in[1].tiny);
    for (int64_t k = 0; k < s->k; k++) {
        oracle_real x = a[k * s->a_step], w = b[k * s->b_step], product = x * w;
        v += product;
        magnitude += fabsl(product);
        if (tiny) flushed += oracle_matmul_flushed(node, rules, (double)x, (double)w);
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
    oracle_rules sum_rules = oracle_matmul_rules(node, attrs->accumulate == PCO_F16);
    oracle_matmul_shape s = oracle_matmul_read_shape(node);
    double quantum = node->in[0].quantum * node->in[1].quantum;
    bool bare = !oracle_present(node, 2) && !oracle_present(node, 3) && attrs->activation == 0;
    for (int64_t i = 0; i < out->count; i++) {
        int64_t batch = i / (s.m * s.n), row = i / s.n % s.m, column = i % s.n;
        const double *a = node->in[0].value + oracle_matmul_batch(&out->desc, node->in[0].desc, batch) + row * s.a_row;
        const double *b =
            node->in[1].value + oracle_matmul_batch(&out->desc, node->in[1].desc, batch) + column * s.b_column;
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

/* Row `row` of x, normalised as by layer_norm or rms_norm and not yet rounded to be stored. */
static void oracle_norm_matmul_row(const oracle_node *node, int64_t row, int64_t k, oracle_ve *to)
{
    const pco_norm_matmul_attrs *attrs = node->attrs;
    const oracle_rules *rules = node->rules, sums = oracle_rules_sum(rules, node->in[0].desc->dtype);
    oracle_norm_row r =
        attrs->norm ? oracle_norm_moments(node, row, k, 0, &sums) : oracle_norm_squares(node, row, k, &sums);
    oracle_norm_finish(rules, &r, attrs->eps, false);
    for (int64_t i = 0; i < k; i++) {
        oracle_ve x = oracle_read(node, 0, row * k + i);
        if (attrs->norm) x = oracle_sub(rules, x, r.mean);
        to[i] = oracle_norm_scaled(rules, x, &r);
        if (oracle_present(node, 3)) to[i] = oracle_mul(rules, to[i], oracle_read(node, 3, i));
        if (oracle_present(node, 4)) to[i] = oracle_add(rules, to[i], oracle_read(node, 4, i));
    }
}

/* As the ops of a composite: errors of the norm go through the product. */
pco_status oracle_eval_norm_matmul(oracle_node *node, pco_error *err)
{
    const pco_norm_matmul_attrs *attrs = node->attrs;
    const oracle_rules *rules = node->rules, sum_rules = oracle_matmul_rules(node, false);
    const int64_t n = node->in[1].desc->shape[0], k = node->in[1].desc->shape[1];
    oracle_output *out = &node->out[0];
    oracle_ve *normal = malloc((size_t)k * sizeof *normal);
    if (!normal) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a row of norm_matmul");
    for (int64_t i = 0; i < out->count; i++) {
        if (i % n == 0) oracle_norm_matmul_row(node, i / n, k, normal);
        oracle_sum sum = {0};
        for (int64_t j = 0; j < k; j++) {
            const oracle_ve x = normal[j], w = oracle_read(node, 1, i % n * k + j);
            oracle_sum_add(&sum, (oracle_ve){x.v * w.v, fabsl(x.v) * w.e + fabsl(w.v) * x.e + x.e * w.e});
        }
        oracle_ve y = oracle_handed(&sum_rules, rules, oracle_sum_end(&sum_rules, &sum, k, 0.0));
        if (oracle_present(node, 2)) y = oracle_add(rules, y, oracle_read(node, 2, i % n));
        oracle_finish(out, i, rules, oracle_matmul_activate(rules, attrs->activation, y));
    }
    free(normal);
    return PCO_OK;
}

/* Rows of the matrix that an index has chosen; zeros where it has chosen none. */
pco_status oracle_eval_indexed_matmul(oracle_node *node, pco_error *err)
{
    (void)err;
    const pco_indexed_matmul_attrs *attrs = node->attrs;
    const pco_tensor *x = node->in[0].desc, *w = node->in[1].desc, *indices = node->in[2].desc;
    const oracle_rules rules = oracle_matmul_rules(node, false);
    const double quantum = node->in[0].quantum * node->in[1].quantum;
    oracle_output *out = &node->out[0];
    const int64_t n = w->shape[0] / attrs->matrices, k = w->shape[1];
    const int64_t each = x->rank > indices->rank ? 1 : indices->shape[indices->rank - 1];
    const oracle_matmul_shape shape = {.k = k, .a_step = 1, .b_step = 1};
    for (int64_t i = 0; i < out->count; i++) {
        const int64_t choice = i / n, matrix = (int64_t)node->in[2].value[choice];
        if (matrix < 0 || matrix >= attrs->matrices) {
            oracle_put(out, i, (oracle_ve){0.0L, 0.0L});
            continue;
        }
        oracle_finish(out, i, &rules,
                      oracle_matmul_dot(node, &rules, &shape, node->in[0].value + choice / each * k,
                                        node->in[1].value + (matrix * n + i % n) * k, quantum));
    }
    return PCO_OK;
}

/* Weights that lie on x, K at most; x is 0 elsewhere, and a product with 0 is exact. Nothing is promised where a weight
 * there, or one beside a subnormal that may be read as 0, is infinite or NaN. */
static oracle_ve oracle_conv1d_sum(const oracle_node *node, const oracle_rules *rules, int64_t x, int64_t weight,
                                   int64_t t)
{
    const pco_conv1d_attrs *attrs = node->attrs;
    const pco_tensor *in = node->in[0].desc, *w = node->in[1].desc;
    const int64_t length = in->shape[in->rank - 1], taps = w->shape[2];
    const bool tiny = rules->flush > 0 && (node->in[0].tiny || node->in[1].tiny);
    oracle_sum sum = {0};
    bool promised = true;
    for (int64_t i = 0; i < w->shape[1]; i++)
        for (int64_t k = 0; k < taps; k++) {
            const int64_t at = t * attrs->stride + k * attrs->dilation - attrs->padding;
            const double b = node->in[1].value[weight + i * taps + k];
            if (at < 0 || at >= length) {
                promised = promised && isfinite(b);
                continue;
            }
            const double a = node->in[0].value[x + i * length + at];
            oracle_ve term = {(oracle_real)a * (oracle_real)b, 0.0L};
            if (tiny) term.e = oracle_matmul_flushed(node, rules, a, b);
            promised = promised && isfinite(term.e); /* 0 times infinity would be NaN */
            oracle_sum_add(&sum, term);
        }
    oracle_ve y = oracle_sum_end(rules, &sum, sum.n, node->in[0].quantum * node->in[1].quantum);
    return promised ? y : (oracle_ve){0.0L, INFINITY};
}

pco_status oracle_eval_conv1d(oracle_node *node, pco_error *err)
{
    (void)err;
    const oracle_rules *rules = node->rules;
    const pco_tensor *x = node->in[0].desc, *w = node->in[1].desc;
    oracle_output *out = &node->out[0];
    const oracle_rules sum_rules = oracle_matmul_rules(node, false);
    const int64_t channels = w->shape[0], positions = out->desc.shape[out->desc.rank - 1];
    const int64_t c = x->shape[x->rank - 2], l = x->shape[x->rank - 1], each = w->shape[1];
    for (int64_t i = 0; i < out->count; i++) {
        const int64_t sample = i / positions / channels, o = i / positions % channels;
        const int64_t group = o / (channels * each / c); /* c / each groups */
        oracle_ve y =
            oracle_conv1d_sum(node, &sum_rules, (sample * c + group * each) * l, o * each * w->shape[2], i % positions);
        if (oracle_present(node, 2)) {
            y = oracle_add(rules, oracle_handed(&sum_rules, rules, y), oracle_read(node, 2, o));
            oracle_finish(out, i, rules, y);
        } else {
            oracle_finish(out, i, &sum_rules, y);
        }
    }
    return PCO_OK;
}
