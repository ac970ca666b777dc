/* What all oracles use: operands, results, indices and sums. */
#include "oracle/oracle_eval.h"
#include "oracle/oracle_power.h"

#include "base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

pco_status oracle_operand_load(oracle_operand *operand, const pco_tensor *desc, const void *data, pco_error *err)
{
    memset(operand, 0, sizeof *operand);
    int64_t count = oracle_count(desc);
    double *value = malloc(sizeof *value * (size_t)(count + 1));
    if (!value)
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "oracle: no memory for %lld values", (long long)count);
    oracle_decode(desc->dtype, data, value, count);
    double quantum = 0.0;
    for (int64_t i = 0; i < count; i++) {
        double q = oracle_quantum(value[i]), size = fabs(value[i]);
        if (q != 0.0 && (quantum == 0.0 || q < quantum)) quantum = q;
        if (size > operand->largest) operand->largest = size;
        if (size != 0.0 && size < 0x1p-126) operand->tiny = true;
    }
    operand->desc = desc, operand->value = value, operand->count = count, operand->quantum = quantum;
    return PCO_OK;
}

void oracle_operand_clear(oracle_operand *operand)
{
    free((void *)(uintptr_t)operand->value);
    memset(operand, 0, sizeof *operand);
}

void oracle_node_clear(oracle_node *node)
{
    for (uint32_t i = 0; i < PCO_MAX_INPUTS; i++) oracle_operand_clear(&node->in[i]);
    for (uint32_t i = 0; i < PCO_MAX_OUTPUTS; i++) {
        free(node->out[i].value);
        free(node->out[i].bound);
        node->out[i].value = node->out[i].bound = NULL;
    }
}

/* The bound also covers the oracle's own rounding of v to double. */
void oracle_put(oracle_output *out, int64_t i, oracle_ve y)
{
    out->value[i] = (double)y.v;
    if (y.e != 0.0L) out->bound[i] = (double)(y.e + fabsl(y.v) * 0x1p-52L);
    if (isnan(y.e)) out->bound[i] = INFINITY;
}

void oracle_finish(oracle_output *out, int64_t i, const oracle_rules *rules, oracle_ve y)
{
    oracle_put(out, i, oracle_narrowed(rules, out->desc.dtype, y));
}

oracle_ve oracle_read(const oracle_node *node, uint32_t input, int64_t i)
{
    return oracle_input(node->rules, node->in[input].desc->dtype, node->in[input].value[i]);
}

void oracle_unravel(const pco_tensor *desc, int64_t i, int64_t *index)
{
    for (uint32_t d = desc->rank; d-- > 0;) {
        index[d] = i % desc->shape[d];
        i /= desc->shape[d];
    }
}

int64_t oracle_ravel(const pco_tensor *desc, const int64_t *index)
{
    int64_t i = 0;
    for (uint32_t d = 0; d < desc->rank; d++) i = i * desc->shape[d] + index[d];
    return i;
}

int64_t oracle_broadcast_index(const pco_tensor *out, const pco_tensor *in, int64_t i)
{
    int64_t at = 0, stride = 1;
    for (uint32_t d = 0; d < in->rank; d++) {
        int64_t size = out->shape[out->rank - 1 - d], own = in->shape[in->rank - 1 - d];
        if (own != 1) at += i % size * stride;
        stride *= own;
        i /= size;
    }
    return at;
}

void oracle_axis(const pco_tensor *desc, int64_t axis, int64_t *outer, int64_t *n, int64_t *inner)
{
    *outer = *inner = 1;
    for (int64_t d = 0; d < axis; d++) *outer *= desc->shape[d];
    for (int64_t d = axis + 1; d < (int64_t)desc->rank; d++) *inner *= desc->shape[d];
    *n = desc->rank ? desc->shape[axis] : 1;
}

void oracle_sum_add(oracle_sum *sum, oracle_ve term)
{
    sum->v += term.v;
    sum->magnitude += fabsl(term.v);
    sum->e += term.e;
    sum->n++;
}

oracle_ve oracle_sum_end(const oracle_rules *rules, const oracle_sum *sum, int64_t roundings, double quantum)
{
    oracle_ve y = {sum->v, sum->e};
    if (!isfinite(sum->v)) return (oracle_ve){sum->v, 0.0L};
    if (sum->magnitude > (oracle_real)rules->compute.max) return (oracle_ve){sum->v, INFINITY};
    bool exact = quantum > 0.0 && sum->e == 0.0L && quantum >= (double)oracle_power(rules->compute.emin) &&
                 sum->magnitude <= (oracle_real)quantum * oracle_power(rules->compute.precision);
    if (exact || sum->magnitude == 0.0L || roundings <= 0) return y;
    y.e += oracle_gamma(rules, roundings) * (sum->magnitude + sum->e);
    /* products and partial sums below the normal range: flushed, or rounded to the smallest subnormal */
    oracle_real step =
        rules->flush > 0 ? (oracle_real)rules->flush : oracle_ulp(rules->compute, 0.0L) * (oracle_real)rules->round;
    y.e += (oracle_real)roundings * step;
    return y;
}
