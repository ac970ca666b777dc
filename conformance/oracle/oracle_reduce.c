/* Sums and their relatives, and random numbers. A sum of n terms in any order: gamma_{n-1}(u) sum |x|. */
#include "oracle/oracle_eval.h"

#include "base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Shape of x with the reduced dimensions set to 1; *terms: elements per result. */
static pco_tensor oracle_reduce_kept(const pco_tensor *x, int64_t n_axes, const int64_t *axes, int64_t *terms)
{
    pco_tensor kept = *x;
    *terms = 1;
    for (int64_t a = 0; a < n_axes; a++) {
        *terms *= x->shape[axes[a]];
        kept.shape[axes[a]] = 1;
    }
    return kept;
}

/* mean: the sum divided by n, or multiplied by the rounded 1/n. */
static oracle_ve oracle_reduce_mean(const oracle_rules *rules, oracle_ve sum, int64_t n)
{
    if (n == 0) return (oracle_ve){NAN, 0.0L};
    return oracle_quotient(rules, sum, oracle_rounded(rules, (oracle_ve){n, 0.0L}));
}

static void oracle_reduce_amax(oracle_node *node, const pco_tensor *kept)
{
    oracle_output *out = &node->out[0];
    const oracle_operand *x = &node->in[0];
    for (int64_t i = 0; i < out->count; i++) out->value[i] = out->desc.dtype == PCO_I32 ? INT32_MIN : -INFINITY;
    for (int64_t i = 0; i < x->count; i++) {
        int64_t at = oracle_broadcast_index(x->desc, kept, i);
        oracle_ve v = oracle_read(node, 0, i);
        if (isnan(out->value[at]) || isnan(v.v)) {
            out->value[at] = NAN;
        } else if ((double)v.v > out->value[at]) {
            out->value[at] = (double)v.v;
            out->bound[at] = (double)v.e;
        } else if (v.e > 0.0L && out->value[at] <= 0.0) {
            out->bound[at] = fmax(out->bound[at], (double)v.e); /* flushed to 0, it may win */
        }
    }
}

#define REDUCE_reduce              ORACLE_LISTED
#define REDUCE(NAME, name, family) ORACLE_IF(REDUCE_##family, NAME)
typedef enum oracle_reduce_op { PCO_OPERATIONS(REDUCE) } oracle_reduce_op;

pco_status oracle_eval_reduce(oracle_node *node, pco_error *err)
{
    const pco_sum_attrs *attrs = node->attrs; /* mean and amax have the same fields */
    oracle_output *out = &node->out[0];
    const oracle_operand *x = &node->in[0];
    int64_t terms;
    pco_tensor kept = oracle_reduce_kept(x->desc, attrs->n_axes, attrs->axes, &terms);
    switch ((oracle_reduce_op)node->op) {
    case ORACLE_AMAX: oracle_reduce_amax(node, &kept); return PCO_OK;
    case ORACLE_SUM:
    case ORACLE_MEAN: break;
    }
    oracle_rules rules = oracle_rules_sum(node->rules, x->desc->dtype);
    oracle_sum *sums = calloc((size_t)out->count + 1, sizeof *sums);
    if (!sums) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "oracle: no memory");
    for (int64_t i = 0; i < x->count; i++)
        oracle_sum_add(&sums[oracle_broadcast_index(x->desc, &kept, i)], oracle_read(node, 0, i));
    for (int64_t i = 0; i < out->count; i++) {
        oracle_ve y = oracle_sum_end(&rules, &sums[i], terms - 1, x->quantum);
        if (node->op == PCO_OP_MEAN) {
            y = oracle_reduce_mean(node->rules, oracle_handed(&rules, node->rules, y), terms);
            oracle_finish(out, i, node->rules, y);
        } else {
            oracle_finish(out, i, &rules, y);
        }
    }
    free(sums);
    return PCO_OK;
}

static int32_t oracle_wrapped_sum(int32_t a, int32_t b)
{
    int64_t sum = ((int64_t)a + b) & 0xffffffff;
    return (int32_t)(sum > INT32_MAX ? sum - ((int64_t)1 << 32) : sum);
}

/* Sums of k terms, each as a sum of its own: gamma_{k-1} sum |x| over its own terms. */
pco_status oracle_eval_cumsum(oracle_node *node, pco_error *err)
{
    (void)err;
    const pco_cumsum_attrs *attrs = node->attrs;
    oracle_output *out = &node->out[0];
    const oracle_operand *x = &node->in[0];
    oracle_rules rules = oracle_rules_sum(node->rules, x->desc->dtype);
    int64_t outer, n, inner;
    oracle_axis(x->desc, attrs->axis, &outer, &n, &inner);
    for (int64_t row = 0; row < outer * inner; row++) {
        oracle_sum sum = {0};
        int32_t whole = 0;
        for (int64_t k = 0; k < n; k++) {
            int64_t at = (row / inner * n + (attrs->reverse ? n - 1 - k : k)) * inner + row % inner;
            oracle_sum before = sum;
            int32_t whole_before = whole;
            if (out->desc.dtype == PCO_I32)
                whole = oracle_wrapped_sum(whole, (int32_t)x->value[at]);
            else
                oracle_sum_add(&sum, oracle_read(node, 0, at));
            const oracle_sum *y = attrs->exclusive ? &before : &sum;
            if (out->desc.dtype == PCO_I32)
                out->value[at] = attrs->exclusive ? whole_before : whole;
            else
                oracle_finish(out, at, &rules, oracle_sum_end(&rules, y, y->n - 1, x->quantum));
        }
    }
    return PCO_OK;
}

/* x + updates: as many additions as indices hit the slice. */
pco_status oracle_eval_scatter_add(oracle_node *node, pco_error *err)
{
    oracle_output *out = &node->out[0];
    const oracle_operand *x = &node->in[0], *indices = &node->in[1], *updates = &node->in[2];
    oracle_rules rules = oracle_rules_sum(node->rules, x->desc->dtype);
    int64_t outer, n, inner;
    oracle_axis(x->desc, ((const pco_scatter_add_attrs *)node->attrs)->axis, &outer, &n, &inner);
    oracle_sum *sums = calloc((size_t)x->count + 1, sizeof *sums);
    if (!sums) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "oracle: no memory");
    for (int64_t i = 0; i < x->count; i++) oracle_sum_add(&sums[i], oracle_read(node, 0, i));
    for (int64_t u = 0; u < updates->count; u++) {
        int64_t index = (int64_t)indices->value[u / inner % indices->count];
        if (index < 0 || index >= n) continue;
        oracle_sum_add(&sums[(u / inner / indices->count * n + index) * inner + u % inner], oracle_read(node, 2, u));
    }
    double quantum =
        x->quantum != 0.0 && (updates->quantum == 0.0 || x->quantum < updates->quantum) ? x->quantum : updates->quantum;
    for (int64_t i = 0; i < x->count; i++) {
        if (sums[i].n == 1)
            oracle_put(out, i, oracle_read(node, 0, i));
        else
            oracle_finish(out, i, &rules, oracle_sum_end(&rules, &sums[i], sums[i].n - 1, quantum));
    }
    free(sums);
    return PCO_OK;
}

pco_status oracle_eval_argmax(oracle_node *node, pco_error *err)
{
    (void)err;
    const pco_argmax_attrs *attrs = node->attrs;
    oracle_output *out = &node->out[0];
    const oracle_operand *x = &node->in[0];
    int64_t outer, n, inner;
    oracle_axis(x->desc, attrs->axis, &outer, &n, &inner);
    for (int64_t i = 0; i < out->count; i++) {
        const double *row = x->value + i / inner * n * inner + i % inner;
        int64_t best = 0;
        for (int64_t k = 1; k < n && !isnan(row[best * inner]); k++)
            if (isnan(row[k * inner]) || row[k * inner] > row[best * inner]) best = k;
        out->value[i] = (double)best;
    }
    return PCO_OK;
}

/* Does element i of a row come before element j among the largest (or the smallest)? */
static bool oracle_top_k_before(const oracle_node *node, const double *row, int64_t inner, int64_t i, int64_t j)
{
    const double a = row[i * inner], b = row[j * inner];
    if (isnan(a) || isnan(b)) {
        if (isnan(a) && isnan(b)) return i < j;
        return isnan(a) == (((const pco_top_k_attrs *)node->attrs)->largest != 0);
    }
    if (a == b) return i < j;
    return (a > b) == (((const pco_top_k_attrs *)node->attrs)->largest != 0);
}

/* The first k of the elements so far, in order; each next one goes to its position among them. */
pco_status oracle_eval_top_k(oracle_node *node, pco_error *err)
{
    (void)err;
    const pco_top_k_attrs *attrs = node->attrs;
    oracle_output *values = &node->out[0], *indices = &node->out[1];
    const oracle_operand *x = &node->in[0];
    int64_t outer, n, inner, k = attrs->k;
    oracle_axis(x->desc, attrs->axis, &outer, &n, &inner);
    values->sign_of_zero = true;
    for (int64_t row = 0; row < outer * inner && k > 0; row++) {
        const double *from = x->value + row / inner * n * inner + row % inner;
        double *found = indices->value + row / inner * k * inner + row % inner;
        for (int64_t i = 0; i < n; i++) {
            int64_t position = i < k ? i : k;
            while (position > 0 && oracle_top_k_before(node, from, inner, i, (int64_t)found[(position - 1) * inner])) {
                if (position < k) found[position * inner] = found[(position - 1) * inner];
                position--;
            }
            if (position < k) found[position * inner] = (double)i;
        }
        for (int64_t j = 0; j < k; j++)
            values->value[row / inner * k * inner + row % inner + j * inner] = from[(int64_t)found[j * inner] * inner];
    }
    return PCO_OK;
}

/* Ten rounds of Philox 4x32 (Salmon, Moraes, Dror, Shaw 2011), as the op's documentation counts them. */
uint32_t oracle_random_word(uint64_t seed, uint64_t offset, uint32_t stream, uint64_t element)
{
    uint32_t c[4] = {(uint32_t)(element / 4), (uint32_t)(offset >> 32), (uint32_t)offset, stream};
    uint32_t k[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (int i = 0; i < 10; i++) {
        uint64_t left = 0xD2511F53ull * c[0], right = 0xCD9E8D57ull * c[2];
        uint32_t c1 = c[1], c3 = c[3];
        c[0] = (uint32_t)(right >> 32) ^ c1 ^ k[0];
        c[1] = (uint32_t)right;
        c[2] = (uint32_t)(left >> 32) ^ c3 ^ k[1];
        c[3] = (uint32_t)left;
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
    return c[element % 4];
}

/* Two i32 words, the low one first. */
static uint64_t oracle_random_pair(const oracle_node *node, uint32_t input)
{
    if (!oracle_present(node, input)) return 0;
    const double *value = node->in[input].value;
    return (uint32_t)(int32_t)value[0] | (uint64_t)(uint32_t)(int32_t)value[1] << 32;
}

pco_status oracle_eval_random_bits(oracle_node *node, pco_error *err)
{
    (void)err;
    const pco_random_bits_attrs *attrs = node->attrs;
    oracle_output *out = &node->out[0];
    uint64_t seed = oracle_random_pair(node, 0), offset = oracle_random_pair(node, 1);
    for (int64_t i = 0; i < out->count; i++)
        out->value[i] = (int32_t)oracle_random_word(seed, offset, (uint32_t)attrs->stream, (uint64_t)i);
    return PCO_OK;
}

/* x / (1 - p), or x times the rounded 1 / (1 - p); the choice of zeros is exact. */
pco_status oracle_eval_dropout(oracle_node *node, pco_error *err)
{
    (void)err;
    const pco_dropout_attrs *attrs = node->attrs;
    oracle_output *out = &node->out[0];
    uint64_t seed = oracle_random_pair(node, 1), offset = oracle_random_pair(node, 2);
    uint64_t threshold = (uint64_t)llrint(attrs->p * 4294967296.0);
    oracle_ve keep = oracle_constant(node->rules, 1.0 - attrs->p);
    oracle_ve scale = oracle_constant(node->rules, 1.0 / (1.0 - attrs->p));
    for (int64_t i = 0; i < out->count; i++) {
        if (oracle_random_word(seed, offset, (uint32_t)attrs->stream, (uint64_t)i) < threshold) continue;
        oracle_ve x = oracle_read(node, 0, i), y = oracle_mul(node->rules, x, scale);
        oracle_ve quotient = oracle_div(node->rules, x, keep);
        if (quotient.e > y.e) y.e = quotient.e;
        oracle_finish(out, i, node->rules, y);
    }
    return PCO_OK;
}
