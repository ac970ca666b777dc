/* rope and sinusoidal_positions: a turn per position as a 64-bit fraction; position * phase wraps exactly. */
#include "oracle/oracle_eval.h"

#include "base/error.h"

#include <math.h>

static uint64_t oracle_position_turn(const oracle_operand *phase, int64_t pair, double position)
{
    uint64_t low = (uint32_t)(int32_t)phase->value[2 * pair], high = (uint32_t)(int32_t)phase->value[2 * pair + 1];
    return (low | high << 32) * (uint64_t)(int64_t)position;
}

/* y0 = x0 c - x1 s, y1 = x0 s + x1 c, sine and cosine times `scale`. */
pco_status oracle_eval_rope(oracle_node *node, pco_error *err)
{
    (void)err;
    const pco_rope_attrs *attrs = node->attrs;
    const oracle_rules *rules = node->rules;
    const oracle_operand *x = &node->in[0], *positions = &node->in[1], *phase = &node->in[2];
    oracle_output *out = &node->out[0];
    int64_t depth = x->desc->shape[3], half = phase->desc->shape[0], rows = depth ? x->count / depth : 0;
    int64_t length = x->desc->shape[attrs->heads_first ? 2 : 1];
    int64_t batch_rows = x->desc->shape[1] * x->desc->shape[2];
    oracle_ve scale = oracle_constant(rules, attrs->scale);
    for (int64_t row = 0; row < rows; row++) {
        int64_t b = row / batch_rows;
        int64_t s = attrs->heads_first ? row % length : row / x->desc->shape[2] % length;
        double position = positions->value[(positions->desc->shape[0] > 1 ? b * length : 0) + s];
        for (int64_t i = 2 * half; i < depth; i++)
            oracle_put(out, row * depth + i, oracle_read(node, 0, row * depth + i));
        for (int64_t i = 0; i < half; i++) {
            int64_t first = row * depth + (attrs->interleaved ? 2 * i : i);
            int64_t second = first + (attrs->interleaved ? 1 : half);
            oracle_ve sine, cosine, x0 = oracle_read(node, 0, first), x1 = oracle_read(node, 0, second);
            oracle_turn(rules, oracle_position_turn(phase, i, position), &sine, &cosine);
            if (attrs->inverse) sine.v = -sine.v;
            sine = oracle_mul(rules, sine, scale);
            cosine = oracle_mul(rules, cosine, scale);
            oracle_ve minus = oracle_sub(rules, oracle_mul(rules, x0, cosine), oracle_mul(rules, x1, sine));
            oracle_ve plus = oracle_add(rules, oracle_mul(rules, x0, sine), oracle_mul(rules, x1, cosine));
            oracle_finish(out, first, rules, minus);
            oracle_finish(out, second, rules, plus);
        }
    }
    return PCO_OK;
}

pco_status oracle_eval_sinusoidal_positions(oracle_node *node, pco_error *err)
{
    (void)err;
    const pco_sinusoidal_positions_attrs *attrs = node->attrs;
    const oracle_operand *positions = &node->in[0], *phase = &node->in[1];
    int64_t half = phase->desc->shape[0];
    for (int64_t row = 0; row < positions->count; row++) {
        for (int64_t i = 0; i < half; i++) {
            oracle_ve sine, cosine;
            oracle_turn(node->rules, oracle_position_turn(phase, i, positions->value[row]), &sine, &cosine);
            int64_t at = row * 2 * half;
            oracle_finish(&node->out[0], at + (attrs->layout ? i : 2 * i), node->rules, sine);
            oracle_finish(&node->out[0], at + (attrs->layout ? half + i : 2 * i + 1), node->rules, cosine);
        }
    }
    return PCO_OK;
}
