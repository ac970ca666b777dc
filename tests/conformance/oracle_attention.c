/* Attention: scores (a dot product, scaled, capped, masked), softmax as in oracle_softmax.c, then a sum of
 * values weighted by p: T products and sums, and one more for a running rescale. */
#include "oracle.h"

#include "base/error.h"

#include <math.h>
#include <stdlib.h>

typedef struct oracle_attention_shape {
    int64_t b, h, g, s, t, d, e; /* batch, heads, key heads, queries, keys, depth, depth of values */
    bool heads_first;
    oracle_ve scale;
} oracle_attention_shape;

static oracle_attention_shape oracle_attention_read_shape(const oracle_node *node)
{
    const pco_scaled_dot_product_attention_attrs *attrs = node->attrs;
    const pco_tensor *q = node->in[0].desc, *k = node->in[1].desc, *v = node->in[2].desc;
    int head = attrs->heads_first ? 1 : 2, row = 3 - head;
    oracle_attention_shape a = {.b = q->shape[0],
                                .h = q->shape[head],
                                .g = k->shape[head],
                                .s = q->shape[row],
                                .t = k->shape[row],
                                .d = q->shape[3],
                                .e = v->shape[3],
                                .heads_first = attrs->heads_first != 0};
    double scale = attrs->scale != 0.0 ? attrs->scale : 1.0 / sqrt((double)a.d);
    a.scale = oracle_constant(node->rules, scale);
    return a;
}

static int64_t oracle_attention_offset(const oracle_attention_shape *a, int64_t b, int64_t head, int64_t row,
                                       int64_t heads, int64_t rows, int64_t depth)
{
    return (a->heads_first ? (b * heads + head) * rows + row : (b * rows + row) * heads + head) * depth;
}

static double oracle_attention_mask(const oracle_node *node, int64_t b, int64_t h, int64_t s, int64_t t)
{
    const pco_tensor *m = node->in[3].desc;
    int64_t at[4] = {b, h, s, t}, offset = 0;
    for (uint32_t d = 0; d < m->rank; d++) {
        int64_t index = at[4 - m->rank + d];
        offset = offset * m->shape[d] + (m->shape[d] == 1 ? 0 : index);
    }
    return node->in[3].value[offset];
}

static bool oracle_attention_sees(const oracle_node *node, int64_t b, int64_t s, int64_t t)
{
    const pco_scaled_dot_product_attention_attrs *attrs = node->attrs;
    int64_t p = s + (oracle_present(node, 5) ? (int64_t)node->in[5].value[b] : 0);
    if (oracle_present(node, 4) && t >= (int64_t)node->in[4].value[b]) return false;
    if (attrs->causal && t > p) return false;
    return attrs->window <= 0 || (t > p - attrs->window && t < p + attrs->window);
}

/* One score. The scale may go onto the query first: one rounding per term more, so gamma_{D+1}, then one
 * product. Capping: a quotient, a tanh and a product. A float mask is one sum. */
static oracle_ve oracle_attention_score(const oracle_node *node, const oracle_rules *sum_rules,
                                        const oracle_attention_shape *a, const double *q, const double *k)
{
    const oracle_rules *rules = node->rules;
    double softcap = ((const pco_scaled_dot_product_attention_attrs *)node->attrs)->softcap;
    oracle_sum sum = {0};
    for (int64_t i = 0; i < a->d; i++) {
        oracle_real product = (oracle_real)q[i] * k[i];
        sum.v += product;
        sum.magnitude += fabsl(product);
    }
    double quantum = node->in[0].quantum * node->in[1].quantum;
    int mantissa;
    bool power_of_two = frexp((double)a->scale.v, &mantissa) == 0.5;
    oracle_ve y =
        oracle_sum_end(sum_rules, &sum, a->d + (power_of_two ? 0 : 1), power_of_two ? quantum : 0.0);
    y = oracle_mul(rules, oracle_handed(sum_rules, rules, y), a->scale);
    if (softcap > 0.0) {
        oracle_ve cap = oracle_constant(rules, softcap);
        y = oracle_mul(rules, cap, oracle_tanh(rules, oracle_quotient(rules, y, cap)));
    }
    return y;
}

/* All scores of a row; -infinity where a key is not seen. */
static void oracle_attention_row(const oracle_node *node, const oracle_rules *sum_rules,
                                 const oracle_attention_shape *a, const int64_t *at, oracle_ve *score)
{
    int64_t group = at[1] / (a->h / a->g);
    const double *q = node->in[0].value + oracle_attention_offset(a, at[0], at[1], at[2], a->h, a->s, a->d);
    for (int64_t t = 0; t < a->t; t++) {
        bool boolean = oracle_present(node, 3) && node->in[3].desc->dtype == PCO_BOOL;
        double mask = oracle_present(node, 3) ? oracle_attention_mask(node, at[0], at[1], at[2], t) : boolean;
        bool seen = oracle_attention_sees(node, at[0], at[2], t) && !(boolean && mask == 0.0);
        score[t] = (oracle_ve){-INFINITY, 0.0L};
        if (!seen || (!boolean && isinf(mask) && mask < 0)) continue;
        const double *k = node->in[1].value + oracle_attention_offset(a, at[0], group, t, a->g, a->t, a->d);
        score[t] = oracle_attention_score(node, sum_rules, a, q, k);
        if (oracle_present(node, 3) && !boolean) {
            oracle_ve added = oracle_input(node->rules, node->in[3].desc->dtype, mask);
            score[t] = oracle_add(node->rules, score[t], added);
        }
    }
}

/* y = sum p v. Taken either as sum(term v) / sum(term), or as a sum of rounded weights; the errors of the
 * terms are relative to the common sum in both. */
static oracle_ve oracle_attention_value(const oracle_rules *rules, const oracle_rules *sum_rules,
                                        const oracle_ve *weight, const double *v, int64_t stride, int64_t n)
{
    oracle_sum total = {0};
    for (int64_t t = 0; t < n; t++) {
        if (weight[t].v == 0.0L && weight[t].e == 0.0L) continue; /* garbage behind the mask has no effect */
        oracle_real x = v[t * stride];
        oracle_sum_add(&total, (oracle_ve){weight[t].v * x, weight[t].e * fabsl(x)});
    }
    if (total.n == 0) return (oracle_ve){0.0L, 0.0L};
    return oracle_handed(sum_rules, rules, oracle_sum_end(sum_rules, &total, total.n + 1, 0.0));
}

pco_status oracle_eval_attention(oracle_node *node, pco_error *err)
{
    const oracle_rules *rules = node->rules;
    oracle_rules sum_rules = oracle_rules_sum(rules, node->in[0].desc->dtype);
    oracle_attention_shape a = oracle_attention_read_shape(node);
    oracle_ve *score = malloc(sizeof *score * 2 * (size_t)(a.t + 1)), *term = score + a.t + 1, sum;
    if (!score) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "oracle: no memory");
    for (int64_t r = 0; r < a.b * a.h * a.s; r++) {
        int64_t at[3] = {r / a.s / a.h, r / a.s % a.h, r % a.s};
        oracle_attention_row(node, &sum_rules, &a, at, score);
        oracle_softmax_terms(rules, &sum_rules, score, a.t, term, &sum);
        int64_t to = oracle_attention_offset(&a, at[0], at[1], at[2], a.h, a.s, a.e);
        int64_t stride = a.heads_first ? a.e : a.g * a.e;
        const double *v =
            node->in[2].value + oracle_attention_offset(&a, at[0], at[1] / (a.h / a.g), 0, a.g, a.t, a.e);
        for (int64_t t = 0; t < a.t; t++) term[t] = oracle_softmax_weight(rules, term[t], sum);
        for (int64_t e = 0; e < a.e; e++)
            oracle_finish(&node->out[0], to + e, rules,
                          oracle_attention_value(rules, &sum_rules, term, v + e, stride, a.t));
        for (int64_t t = 0; t < a.t && node->n_outputs > 1; t++)
            oracle_finish(&node->out[1], r * a.t + t, rules, term[t]);
    }
    free(score);
    return PCO_OK;
}
