/* Making and moving data: exact, the sign of zero included. */
#include "oracle/oracle_eval.h"

#include "base/error.h"

#include <math.h>

pco_status oracle_eval_fill(oracle_node *node, pco_error *err)
{
    (void)err;
    oracle_output *out = &node->out[0];
    for (int64_t i = 0; i < out->count; i++)
        out->value[i] = oracle_round_to(out->desc.dtype, ((const pco_fill_attrs *)node->attrs)->value);
    return PCO_OK;
}

/* start + step * index in f32: both constants rounded, one product, one sum (or both at once). */
pco_status oracle_eval_iota(oracle_node *node, pco_error *err)
{
    (void)err;
    const pco_iota_attrs *attrs = node->attrs;
    oracle_output *out = &node->out[0];
    oracle_rules rules = *node->rules;
    rules.compute = oracle_format_of(PCO_F32);
    int64_t outer, n, inner;
    oracle_axis(&out->desc, attrs->axis, &outer, &n, &inner);
    for (int64_t i = 0; i < out->count; i++) {
        int64_t index = i / inner % n;
        if (out->desc.dtype == PCO_I32) {
            uint32_t start = (uint32_t)(int64_t)attrs->start, step = (uint32_t)(int64_t)attrs->step;
            out->value[i] = (int32_t)(start + step * (uint32_t)index);
            continue;
        }
        oracle_ve product =
            oracle_mul(&rules, oracle_constant(&rules, attrs->step), oracle_rounded(&rules, (oracle_ve){index, 0.0L}));
        oracle_finish(out, i, &rules, oracle_add(&rules, oracle_constant(&rules, attrs->start), product));
    }
    return PCO_OK;
}

/* The input element that output element `index` comes from, or -1 for padding. */
static int64_t oracle_move_source(const oracle_node *node, const pco_tensor *in, const int64_t *index)
{
    int64_t from[PCO_MAX_RANK] = {0};
    const pco_permute_attrs *permute = node->attrs;
    const pco_slice_attrs *slice = node->attrs;
    const pco_pad_attrs *pad = node->attrs;
    for (uint32_t d = 0; d < in->rank; d++) {
        if (node->op == PCO_OP_PERMUTE) {
            from[permute->dims[d]] = index[d];
        } else if (node->op == PCO_OP_SLICE) {
            from[d] = slice->starts[d] + index[d] * (slice->n_steps ? slice->steps[d] : 1);
        } else {
            from[d] = index[d] - pad->before[d];
            if (from[d] < 0 || from[d] >= in->shape[d]) return -1;
        }
    }
    return oracle_ravel(in, from);
}

pco_status oracle_eval_move(oracle_node *node, pco_error *err)
{
    (void)err;
    oracle_output *out = &node->out[0];
    const oracle_operand *x = &node->in[0];
    out->sign_of_zero = true;
    for (int64_t i = 0; i < out->count; i++) {
        int64_t index[PCO_MAX_RANK], from = i;
        oracle_unravel(&out->desc, i, index);
        if (node->op == PCO_OP_BROADCAST_TO)
            from = oracle_broadcast_index(&out->desc, x->desc, i);
        else if (node->op != PCO_OP_RESHAPE)
            from = oracle_move_source(node, x->desc, index);
        out->value[i] =
            from >= 0 ? x->value[from] : oracle_round_to(out->desc.dtype, ((const pco_pad_attrs *)node->attrs)->value);
    }
    return PCO_OK;
}

pco_status oracle_eval_concat(oracle_node *node, pco_error *err)
{
    (void)err;
    oracle_output *out = &node->out[0];
    int64_t axis = ((const pco_concat_attrs *)node->attrs)->axis, outer, n, inner, before = 0;
    oracle_axis(&out->desc, axis, &outer, &n, &inner);
    out->sign_of_zero = true;
    for (uint32_t k = 0; k < node->n_inputs; k++) {
        if (!oracle_present(node, k)) continue;
        const oracle_operand *x = &node->in[k];
        int64_t x_outer, x_n, x_inner;
        oracle_axis(x->desc, axis, &x_outer, &x_n, &x_inner);
        for (int64_t i = 0; i < x->count; i++) {
            int64_t row = i / inner / x_n, at = i / inner % x_n;
            out->value[(row * n + before + at) * inner + i % inner] = x->value[i];
        }
        before += x_n;
    }
    return PCO_OK;
}

/* A quantised row is dequantised in f32, where scale times integer is exact and with a least value added is rounded; to
 * f16 and bf16 it is rounded again. */
pco_status oracle_eval_gather(oracle_node *node, pco_error *err)
{
    (void)err;
    oracle_output *out = &node->out[0];
    const oracle_operand *x = &node->in[0], *indices = &node->in[1];
    bool quantised = oracle_block_count(x->desc->dtype) > 1;
    oracle_rules rules = *node->rules;
    rules.compute = oracle_format_of(PCO_F32);
    int64_t outer, n, inner;
    oracle_axis(x->desc, ((const pco_gather_attrs *)node->attrs)->axis, &outer, &n, &inner);
    out->sign_of_zero = !quantised;
    for (int64_t i = 0; i < out->count; i++) {
        int64_t index = (int64_t)indices->value[i / inner % indices->count];
        int64_t row = i / inner / indices->count;
        double value = index < 0 || index >= n ? 0.0 : x->value[(row * n + index) * inner + i % inner];
        if (quantised)
            oracle_finish(out, i, &rules, oracle_rounded(&rules, (oracle_ve){value, 0.0L}));
        else
            out->value[i] = value;
    }
    return PCO_OK;
}

pco_status oracle_eval_gather_along_axis(oracle_node *node, pco_error *err)
{
    (void)err;
    oracle_output *out = &node->out[0];
    const oracle_operand *x = &node->in[0], *indices = &node->in[1];
    int64_t axis = ((const pco_gather_along_axis_attrs *)node->attrs)->axis, outer, n, inner;
    oracle_axis(x->desc, axis, &outer, &n, &inner);
    out->sign_of_zero = true;
    for (int64_t i = 0; i < out->count; i++) {
        int64_t at[PCO_MAX_RANK] = {0}, index = (int64_t)indices->value[i];
        oracle_unravel(&out->desc, i, at);
        at[axis] = index;
        out->value[i] = index < 0 || index >= n ? 0.0 : x->value[oracle_ravel(x->desc, at)];
    }
    return PCO_OK;
}

/* A float x of another type is converted as cast does. */
pco_status oracle_eval_state_write(oracle_node *node, pco_error *err)
{
    (void)err;
    oracle_output *out = &node->out[0];
    const oracle_operand *state = &node->in[0], *x = &node->in[1], *index = &node->in[2];
    int64_t axis = ((const pco_state_write_attrs *)node->attrs)->axis;
    bool convert = x->desc->dtype != state->desc->dtype;
    oracle_rules rules = *node->rules;
    rules.compute = oracle_format_of(PCO_CONTRACT_F64);
    out->sign_of_zero = !convert;
    for (int64_t i = 0; i < state->count; i++) out->value[i] = state->value[i];
    for (int64_t i = 0; i < x->count; i++) {
        int64_t at[PCO_MAX_RANK];
        oracle_unravel(x->desc, i, at);
        at[axis] += (int64_t)index->value[index->count > 1 ? at[0] : 0];
        if (at[axis] < 0 || at[axis] >= state->desc->shape[axis]) continue;
        int64_t to = oracle_ravel(state->desc, at);
        out->bound[to] = 0.0;
        if (convert)
            oracle_finish(out, to, &rules, oracle_read(node, 1, i));
        else
            out->value[to] = x->value[i];
    }
    return PCO_OK;
}
