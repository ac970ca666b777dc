/* Attention: scores (a dot product, scaled, capped, masked), softmax as in oracle_softmax.c, then a sum of
 * values weighted by p: T products and sums, and one more for a running rescale. */
#include "oracle/oracle_eval.h"

#include "base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    return attrs->window <= 0 || (p - t < attrs->window && t - p < attrs->window);
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
    oracle_ve y = oracle_sum_end(sum_rules, &sum, a->d + (power_of_two ? 0 : 1), power_of_two ? quantum : 0.0);
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
        const double *v = node->in[2].value + oracle_attention_offset(&a, at[0], at[1] / (a.h / a.g), 0, a.g, a.t, a.e);
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

/* ---- its gradients ---- */

/* The sums of a key head: D and E of them for each key. */
typedef struct oracle_attention_back {
    oracle_attention_shape a;
    oracle_rules sum_rules;
    oracle_ve *score, *weight, *u; /* of a row */
    oracle_sum *key, *value;
} oracle_attention_back;

/* p u (u exact: a sum of E products) and d = sum p u, with a rescale as in attention; then w = p (u - d). */
static void oracle_attention_slopes(const oracle_node *node, oracle_attention_back *k, const int64_t *at,
                                    const double *dy)
{
    const oracle_rules *rules = node->rules;
    const oracle_attention_shape *a = &k->a;
    int64_t group = at[1] / (a->h / a->g);
    oracle_sum along = {0};
    for (int64_t t = 0; t < a->t; t++) {
        oracle_ve p = k->weight[t];
        k->u[t] = (oracle_ve){0.0L, 0.0L};
        if (p.v == 0.0L && p.e == 0.0L) continue;
        const double *v = node->in[2].value + oracle_attention_offset(a, at[0], group, t, a->g, a->t, a->e);
        oracle_sum sum = {0};
        for (int64_t e = 0; e < a->e; e++) oracle_sum_add(&sum, (oracle_ve){(oracle_real)dy[e] * v[e], 0.0L});
        oracle_ve u = oracle_sum_end(&k->sum_rules, &sum, a->e, node->in[2].quantum * node->in[6].quantum);
        k->u[t] = u = oracle_handed(&k->sum_rules, rules, u);
        oracle_sum_add(&along, (oracle_ve){p.v * u.v, p.e * fabsl(u.v) + u.e * fabsl(p.v) + p.e * u.e});
    }
    oracle_ve d = oracle_handed(&k->sum_rules, rules, oracle_sum_end(&k->sum_rules, &along, along.n + 1, 0.0));
    for (int64_t t = 0; t < a->t; t++)
        if (k->weight[t].v != 0.0L || k->weight[t].e != 0.0L)
            k->u[t] = oracle_mul(rules, k->weight[t], oracle_sub(rules, k->u[t], d));
}

/* A row's gradient, and its part in those of the keys and values that it sees. */
static void oracle_attention_back_row(oracle_node *node, const oracle_node *forward, oracle_attention_back *k,
                                      const int64_t *at)
{
    const oracle_attention_shape *a = &k->a;
    int64_t q_at = oracle_attention_offset(a, at[0], at[1], at[2], a->h, a->s, a->d), group = at[1] / (a->h / a->g);
    const double *q = node->in[0].value + q_at, *key = node->in[1].value;
    const double *dy = node->in[6].value + oracle_attention_offset(a, at[0], at[1], at[2], a->h, a->s, a->e);
    oracle_ve sum;
    oracle_attention_row(forward, &k->sum_rules, a, at, k->score);
    oracle_softmax_terms(node->rules, &k->sum_rules, k->score, a->t, k->weight, &sum);
    for (int64_t t = 0; t < a->t; t++) k->weight[t] = oracle_softmax_weight(node->rules, k->weight[t], sum);
    oracle_attention_slopes(node, k, at, dy);
    for (int64_t d = 0; d < a->d; d++) {
        oracle_sum total = {0};
        for (int64_t t = 0; t < a->t; t++) {
            oracle_ve p = k->weight[t], w = k->u[t];
            if (p.v == 0.0L && p.e == 0.0L) continue;
            oracle_real x = key[oracle_attention_offset(a, at[0], group, t, a->g, a->t, a->d) + d];
            oracle_sum_add(&total, (oracle_ve){w.v * x, w.e * fabsl(x)});
            oracle_sum_add(&k->key[t * a->d + d], (oracle_ve){w.v * q[d], w.e * fabsl((oracle_real)q[d])});
        }
        oracle_ve y = oracle_sum_end(&k->sum_rules, &total, total.n + 1, 0.0);
        y = oracle_mul(node->rules, oracle_handed(&k->sum_rules, node->rules, y), a->scale);
        oracle_finish(&node->out[0], q_at + d, node->rules, y);
    }
    for (int64_t t = 0; t < a->t; t++)
        for (int64_t e = 0; e < a->e && (k->weight[t].v != 0.0L || k->weight[t].e != 0.0L); e++)
            oracle_sum_add(&k->value[t * a->e + e],
                           (oracle_ve){k->weight[t].v * dy[e], k->weight[t].e * fabsl((oracle_real)dy[e])});
}

/* The gradients of a head's keys and values, from sums over the rows that saw them. The scale may go onto the terms. */
static void oracle_attention_back_keys(oracle_node *node, const oracle_attention_back *k, int64_t b, int64_t g)
{
    const oracle_attention_shape *a = &k->a;
    for (int64_t t = 0; t < a->t; t++) {
        int64_t key = oracle_attention_offset(a, b, g, t, a->g, a->t, a->d);
        int64_t value = oracle_attention_offset(a, b, g, t, a->g, a->t, a->e);
        for (int64_t d = 0; d < a->d; d++) {
            const oracle_sum *sum = &k->key[t * a->d + d];
            oracle_ve y = oracle_sum_end(&k->sum_rules, sum, sum->n + 1, 0.0);
            y = oracle_mul(node->rules, oracle_handed(&k->sum_rules, node->rules, y), a->scale);
            oracle_finish(&node->out[1], key + d, node->rules, y);
        }
        for (int64_t e = 0; e < a->e; e++) {
            const oracle_sum *sum = &k->value[t * a->e + e];
            oracle_ve y = oracle_handed(&k->sum_rules, node->rules, oracle_sum_end(&k->sum_rules, sum, sum->n, 0.0));
            oracle_finish(&node->out[2], value + e, node->rules, y);
        }
    }
}

pco_status oracle_eval_attention_backward(oracle_node *node, pco_error *err)
{
    const pco_scaled_dot_product_attention_backward_attrs *attrs = node->attrs;
    const pco_scaled_dot_product_attention_attrs as = {
        .scale = attrs->scale, .causal = attrs->causal, .window = attrs->window, .heads_first = attrs->heads_first};
    oracle_node forward = *node;
    forward.attrs = &as;
    oracle_attention_back k = {.a = oracle_attention_read_shape(&forward),
                               .sum_rules = oracle_rules_sum(node->rules, node->in[0].desc->dtype)};
    const oracle_attention_shape *a = &k.a;
    size_t sums = (size_t)(a->t * (a->d + a->e) + 1);
    k.score = malloc(sizeof *k.score * 3 * (size_t)(a->t + 1));
    k.key = malloc(sizeof *k.key * sums);
    if (!k.score || !k.key) {
        free(k.score);
        free(k.key);
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "oracle: no memory");
    }
    k.weight = k.score + a->t + 1;
    k.u = k.weight + a->t + 1;
    k.value = k.key + a->t * a->d;
    for (int64_t i = 0; i < a->b * a->g; i++) {
        memset(k.key, 0, sizeof *k.key * sums);
        for (int64_t r = 0; r < a->h / a->g * a->s; r++)
            oracle_attention_back_row(node, &forward, &k,
                                      (int64_t[]){i / a->g, i % a->g * (a->h / a->g) + r / a->s, r % a->s});
        oracle_attention_back_keys(node, &k, i / a->g, i % a->g);
    }
    free(k.score);
    free(k.key);
    return PCO_OK;
}
