/* Outputs of ops that make and move data. */
#include "graph/infer_parts.h"

#include "base/dtype.h"

#include <inttypes.h>
#include <string.h>

/* -1: more than can be counted. */
static int64_t infer_elements(const pco_tensor *tensor)
{
    pco_error ignored;
    int64_t count;
    return pco_shape_count(tensor->rank, tensor->shape, &count, &ignored) ? -1 : count;
}

PCO_INFER(cast)
{
    ATTRS(cast);
    if (!infer_is_plain(attrs->dtype)) FAIL("dtype %" PRId64 " is not a type to cast to", attrs->dtype);
    context->outputs[0].dtype = (uint32_t)attrs->dtype;
    return PCO_OK;
}

PCO_INFER(fill)
{
    ATTRS(fill);
    if (!infer_is_plain(attrs->dtype)) FAIL("dtype %" PRId64 " is not a type to fill with", attrs->dtype);
    context->outputs[0].dtype = (uint32_t)attrs->dtype;
    return infer_shape_attr(context, attrs->shape, attrs->n_shape, err);
}

PCO_INFER(iota)
{
    ATTRS(iota);
    if (!infer_is_plain(attrs->dtype) || attrs->dtype == PCO_BOOL)
        FAIL("dtype %" PRId64 " is not a type to count in", attrs->dtype);
    context->outputs[0].dtype = (uint32_t)attrs->dtype;
    pco_status status = infer_shape_attr(context, attrs->shape, attrs->n_shape, err);
    if (status) return status;
    if (attrs->axis < 0 || attrs->axis >= attrs->n_shape)
        FAIL("axis %" PRId64 " does not exist in a shape of rank %" PRId64, attrs->axis, attrs->n_shape);
    return PCO_OK;
}

PCO_INFER(broadcast_to)
{
    ATTRS(broadcast_to);
    const pco_tensor *x = INPUT(0);
    pco_status status = infer_shape_attr(context, attrs->shape, attrs->n_shape, err);
    if (status) return status;
    char from[128], to[128];
    const pco_tensor *out = &context->outputs[0];
    int fits = x->rank <= out->rank;
    for (uint32_t i = 0; fits && i < x->rank; i++) {
        int64_t have = x->shape[x->rank - 1 - i], want = out->shape[out->rank - 1 - i];
        fits = have == want || have == 1;
    }
    if (!fits)
        FAIL("'%s' of shape %s cannot be broadcast to %s", x->name, pco_tensor_shape_text(x, from),
             pco_tensor_shape_text(out, to));
    return PCO_OK;
}

PCO_INFER(reshape)
{
    ATTRS(reshape);
    pco_status status = infer_shape_attr(context, attrs->shape, attrs->n_shape, err);
    if (status) return status;
    char from[128], to[128];
    if (infer_elements(INPUT(0)) != infer_elements(&context->outputs[0]))
        FAIL("'%s' of shape %s has not the number of elements of %s", INPUT(0)->name,
             pco_tensor_shape_text(INPUT(0), from), pco_tensor_shape_text(&context->outputs[0], to));
    return PCO_OK;
}

PCO_INFER(permute)
{
    ATTRS(permute);
    const pco_tensor *x = INPUT(0);
    uint32_t seen = 0;
    if (attrs->n_dims != x->rank) FAIL("dims has %" PRId64 " entries for rank %u", attrs->n_dims, x->rank);
    context->outputs[0].rank = x->rank;
    for (uint32_t i = 0; i < x->rank; i++) {
        int64_t dim = attrs->dims[i];
        if (dim < 0 || dim >= (int64_t)x->rank || (seen >> dim & 1))
            FAIL("dims is not an order of 0..%u: entry %u is %" PRId64, x->rank - 1, i, dim);
        seen |= 1u << dim;
        context->outputs[0].shape[i] = x->shape[dim];
    }
    return PCO_OK;
}

PCO_INFER(slice)
{
    ATTRS(slice);
    const pco_tensor *x = INPUT(0);
    char text[128];
    if (attrs->n_starts != x->rank || attrs->n_sizes != x->rank || attrs->n_steps != x->rank)
        FAIL("starts, sizes and steps need %u entries each for '%s'", x->rank, x->name);
    context->outputs[0].rank = x->rank;
    for (uint32_t i = 0; i < x->rank; i++) {
        int64_t start = attrs->starts[i], size = attrs->sizes[i], step = attrs->steps[i];
        int fits = start >= 0 && size >= 0 && step >= 1;
        if (fits && size > 0) fits = start < x->shape[i] && size - 1 <= (x->shape[i] - 1 - start) / step;
        if (!fits)
            FAIL("%" PRId64 " elements from %" PRId64 " by %" PRId64 " do not lie in dimension %u of '%s', shape %s",
                 size, start, step, i, x->name, pco_tensor_shape_text(x, text));
        context->outputs[0].shape[i] = size;
    }
    return PCO_OK;
}

PCO_INFER(concat)
{
    ATTRS(concat);
    const pco_tensor *first = INPUT(0);
    uint32_t axis;
    char left[128], right[128];
    pco_status status = infer_resolve(context, first, attrs->axis, &axis, err);
    if (status) return status;
    infer_like(context, 0, first);
    for (uint32_t k = 1; k < context->n_inputs; k++) {
        const pco_tensor *x = INPUT(k);
        if (!x) continue;
        int fits = x->rank == first->rank;
        for (uint32_t i = 0; fits && i < x->rank; i++) fits = i == axis || x->shape[i] == first->shape[i];
        if (!fits)
            FAIL("'%s' of shape %s cannot follow '%s' of shape %s along axis %u", x->name,
                 pco_tensor_shape_text(x, left), first->name, pco_tensor_shape_text(first, right), axis);
        int64_t *sum = &context->outputs[0].shape[axis];
        if (__builtin_add_overflow(*sum, x->shape[axis], sum)) FAIL("the result is too long along axis %u", axis);
    }
    return PCO_OK;
}

PCO_INFER(pad)
{
    ATTRS(pad);
    const pco_tensor *x = INPUT(0);
    if (attrs->n_before != x->rank || attrs->n_after != x->rank)
        FAIL("before and after need %u entries each for '%s'", x->rank, x->name);
    context->outputs[0].rank = x->rank;
    for (uint32_t i = 0; i < x->rank; i++) {
        int64_t *sum = &context->outputs[0].shape[i];
        if (attrs->before[i] < 0 || attrs->after[i] < 0) FAIL("padding of dimension %u is below 0", i);
        if (__builtin_add_overflow(x->shape[i], attrs->before[i], sum) ||
            __builtin_add_overflow(*sum, attrs->after[i], sum))
            FAIL("dimension %u is too long with its padding", i);
    }
    return PCO_OK;
}

/* x.shape[:axis] + indices.shape + x.shape[axis+1:] into *shape. */
static pco_status infer_gathered(pco_shape_context *context, const pco_tensor *x, const pco_tensor *indices, int64_t at,
                                 pco_tensor *shape, pco_error *err)
{
    uint32_t axis;
    pco_status status = infer_resolve(context, x, at, &axis, err);
    if (status) return status;
    if (x->rank - 1 + indices->rank > PCO_MAX_RANK)
        FAIL("the result would have %u dimensions, more than %d", x->rank - 1 + indices->rank, PCO_MAX_RANK);
    shape->rank = 0;
    for (uint32_t i = 0; i < axis; i++) shape->shape[shape->rank++] = x->shape[i];
    for (uint32_t i = 0; i < indices->rank; i++) shape->shape[shape->rank++] = indices->shape[i];
    for (uint32_t i = axis + 1; i < x->rank; i++) shape->shape[shape->rank++] = x->shape[i];
    return PCO_OK;
}

PCO_INFER(gather)
{
    ATTRS(gather);
    const pco_tensor *x = INPUT(0);
    context->outputs[0].dtype = x->dtype;
    if (pco_dtype_is_quantised(x->dtype)) {
        if (x->rank != 2 || attrs->axis != 0) FAIL("quantised '%s' needs rank 2 and axis 0", x->name);
        if (!infer_is_float(attrs->dtype)) FAIL("dtype %" PRId64 " is not a float type", attrs->dtype);
        context->outputs[0].dtype = (uint32_t)attrs->dtype;
    }
    return infer_gathered(context, x, INPUT(1), attrs->axis, &context->outputs[0], err);
}

PCO_INFER(gather_along_axis)
{
    ATTRS(gather_along_axis);
    const pco_tensor *x = INPUT(0), *indices = INPUT(1);
    uint32_t axis;
    char left[128], right[128];
    pco_status status = infer_resolve(context, x, attrs->axis, &axis, err);
    if (status) return status;
    int fits = x->rank == indices->rank;
    for (uint32_t i = 0; fits && i < x->rank; i++) fits = i == axis || x->shape[i] == indices->shape[i];
    if (!fits)
        FAIL("'%s' of shape %s and indices '%s' of shape %s differ outside axis %u", x->name,
             pco_tensor_shape_text(x, left), indices->name, pco_tensor_shape_text(indices, right), axis);
    uint32_t dtype = x->dtype;
    infer_like(context, 0, indices);
    context->outputs[0].dtype = dtype;
    return PCO_OK;
}

PCO_INFER(scatter_add)
{
    ATTRS(scatter_add);
    const pco_tensor *x = INPUT(0), *updates = INPUT(2);
    pco_tensor want = {0};
    char left[128], right[128];
    pco_status status = infer_gathered(context, x, INPUT(1), attrs->axis, &want, err);
    if (status) return status;
    if (want.rank != updates->rank || memcmp(want.shape, updates->shape, want.rank * sizeof(int64_t)) != 0)
        FAIL("updates '%s' have shape %s, and must have %s", updates->name, pco_tensor_shape_text(updates, left),
             pco_tensor_shape_text(&want, right));
    infer_like(context, 0, x);
    return PCO_OK;
}

PCO_INFER(state_write)
{
    ATTRS(state_write);
    const pco_tensor *state = INPUT(0), *x = INPUT(1), *index = INPUT(2);
    uint32_t axis;
    char left[128], right[128];
    pco_status status = infer_resolve(context, state, attrs->axis, &axis, err);
    if (status) return status;
    if (axis == 0) FAIL("the axis cannot be 0, the dimension of sequences");
    if (x->dtype != state->dtype && !(infer_is_float(x->dtype) && infer_is_float(state->dtype)))
        FAIL("'%s' is %s and state '%s' is %s", x->name, pco_dtype_name(x->dtype), state->name,
             pco_dtype_name(state->dtype));
    int fits = x->rank == state->rank;
    for (uint32_t i = 0; fits && i < x->rank; i++) fits = i == axis || x->shape[i] == state->shape[i];
    if (!fits)
        FAIL("'%s' of shape %s does not fit into state '%s' of shape %s along axis %u", x->name,
             pco_tensor_shape_text(x, left), state->name, pco_tensor_shape_text(state, right), axis);
    if (index->rank != 1 || (index->shape[0] != 1 && index->shape[0] != state->shape[0]))
        FAIL("index '%s' has shape %s, and must have [%" PRId64 "] or [1]", index->name,
             pco_tensor_shape_text(index, left), state->shape[0]);
    infer_like(context, 0, state);
    return PCO_OK;
}

PCO_INFER(random_bits)
{
    ATTRS(random_bits);
    return infer_shape_attr(context, attrs->shape, attrs->n_shape, err);
}
