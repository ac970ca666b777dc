/* Outputs of the ops whose signatures letters cannot say: one function each, named in ops.def. */
#include "graph/infer.h"

#include "base/dtype.h"

#include <inttypes.h>
#include <string.h>

#define ATTRS(name) const pco_##name##_attrs *attrs = context->attrs
#define INPUT(i)    (context->inputs[i])
#define FAIL(...)   return pco_infer_fail(context, err, __VA_ARGS__)

static int infer_is_plain(int64_t dtype)
{
    return dtype >= 0 && (pco_dtype_class_of((uint32_t)dtype) & (PCO_DTYPE_FLOAT | PCO_DTYPE_WHOLE)) != 0;
}

static int infer_is_float(int64_t dtype) { return dtype >= 0 && pco_dtype_is_float((uint32_t)dtype); }

static void infer_like(pco_shape_context *context, uint32_t output, const pco_tensor *tensor)
{
    context->outputs[output].dtype = tensor->dtype;
    context->outputs[output].rank = tensor->rank;
    memcpy(context->outputs[output].shape, tensor->shape, sizeof tensor->shape);
}

static pco_status infer_shape_attr(pco_shape_context *context, const int64_t *shape, int64_t rank, pco_error *err)
{
    pco_tensor *out = &context->outputs[0];
    if (rank < 0 || rank > PCO_MAX_RANK) FAIL("rank %" PRId64 " is not between 0 and %d", rank, PCO_MAX_RANK);
    out->rank = (uint32_t)rank;
    for (int64_t i = 0; i < rank; i++) {
        if (shape[i] < 0) FAIL("dimension %" PRId64 " of the shape is %" PRId64 ", below 0", i, shape[i]);
        out->shape[i] = shape[i];
    }
    return PCO_OK;
}

/* Resolves an axis that may count from the end. */
static pco_status infer_resolve(const pco_shape_context *context, const pco_tensor *x, int64_t axis, uint32_t *resolved,
                                pco_error *err)
{
    char text[128];
    if (axis < -(int64_t)x->rank || axis >= (int64_t)x->rank)
        FAIL("axis %" PRId64 " does not exist in '%s' of shape %s", axis, x->name, pco_tensor_shape_text(x, text));
    *resolved = (uint32_t)(axis < 0 ? axis + x->rank : axis);
    return PCO_OK;
}

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

static pco_status infer_matmul_batch(pco_shape_context *context, const pco_tensor *a, const pco_tensor *b,
                                     pco_error *err)
{
    pco_tensor *out = &context->outputs[0];
    char left[128], right[128];
    uint32_t rank = (a->rank > b->rank ? a->rank : b->rank) - 2;
    for (uint32_t i = 0; i < rank; i++) {
        int64_t from_a = i + a->rank >= rank + 2 ? a->shape[i + a->rank - rank - 2] : 1;
        int64_t from_b = i + b->rank >= rank + 2 ? b->shape[i + b->rank - rank - 2] : 1;
        if (from_a != from_b && from_a != 1 && from_b != 1)
            FAIL("leading dimensions of '%s' %s and '%s' %s cannot be broadcast", a->name,
                 pco_tensor_shape_text(a, left), b->name, pco_tensor_shape_text(b, right));
        out->shape[i] = from_a == 1 ? from_b : from_a;
    }
    out->rank = rank + 2;
    return PCO_OK;
}

PCO_INFER(matmul)
{
    ATTRS(matmul);
    const pco_tensor *a = INPUT(0), *b = INPUT(1);
    const pco_tensor *bias = context->n_inputs > 2 ? INPUT(2) : NULL, *c = context->n_inputs > 3 ? INPUT(3) : NULL;
    char left[128], right[128];
    if (a->rank < 2 || b->rank < 2)
        FAIL("'%s' %s and '%s' %s need at least 2 dimensions each", a->name, pco_tensor_shape_text(a, left), b->name,
             pco_tensor_shape_text(b, right));
    int64_t m = a->shape[a->rank - (attrs->transpose_a ? 1 : 2)], k = a->shape[a->rank - (attrs->transpose_a ? 2 : 1)];
    int64_t n = b->shape[b->rank - (attrs->transpose_b ? 2 : 1)];
    int64_t bk = b->shape[b->rank - (attrs->transpose_b ? 1 : 2)];
    if (k != bk)
        FAIL("'%s' %s%s has K = %" PRId64 ", but '%s' %s%s has K = %" PRId64, a->name, pco_tensor_shape_text(a, left),
             attrs->transpose_a ? " (transposed)" : "", k, b->name, pco_tensor_shape_text(b, right),
             attrs->transpose_b ? " (transposed)" : "", bk);
    if (pco_dtype_is_quantised(b->dtype) && (!attrs->transpose_b || b->rank != 2))
        FAIL("quantised '%s' needs rank 2 and transpose_b = 1", b->name);
    if (attrs->activation < 0 || attrs->activation > 4)
        FAIL("activation %" PRId64 " does not exist", attrs->activation);
    if (attrs->accumulate != PCO_F32 && attrs->accumulate != PCO_F16)
        FAIL("accumulate %" PRId64 " is neither f32 nor f16", attrs->accumulate);
    if (attrs->dtype != -1 && !infer_is_float(attrs->dtype))
        FAIL("dtype %" PRId64 " is not a float type", attrs->dtype);
    pco_status status = infer_matmul_batch(context, a, b, err);
    if (status) return status;
    pco_tensor *out = &context->outputs[0];
    out->shape[out->rank - 2] = m;
    out->shape[out->rank - 1] = n;
    out->dtype = attrs->dtype < 0 ? a->dtype : (uint32_t)attrs->dtype;
    if (bias && bias->shape[0] != n)
        FAIL("bias '%s' has shape %s, and must have [%" PRId64 "]", bias->name, pco_tensor_shape_text(bias, left), n);
    if (c && (c->rank != out->rank || memcmp(c->shape, out->shape, out->rank * sizeof(int64_t)) != 0 ||
              c->dtype != out->dtype))
        FAIL("c '%s' has shape %s, and must have the result's type and shape %s", c->name,
             pco_tensor_shape_text(c, left), pco_tensor_shape_text(out, right));
    return PCO_OK;
}

/* The attributes of conv1d, and sizes that go with them: no sum of them leaves 31 bits. */
static pco_status infer_conv1d_sizes(pco_shape_context *context, const pco_tensor *x, const pco_tensor *weight,
                                     pco_error *err)
{
    ATTRS(conv1d);
    const int64_t channels = x->shape[x->rank - 2], length = x->shape[x->rank - 1], taps = weight->shape[2];
    char left[128], right[128];
    if (attrs->stride < 1 || attrs->stride > INT32_MAX) FAIL("stride %" PRId64 " is not at least 1", attrs->stride);
    if (attrs->dilation < 1 || attrs->dilation > INT32_MAX)
        FAIL("dilation %" PRId64 " is not at least 1", attrs->dilation);
    if (attrs->groups < 1 || channels % attrs->groups || weight->shape[0] % attrs->groups ||
        weight->shape[1] != channels / attrs->groups)
        FAIL("x '%s' of shape %s and weight '%s' of shape %s do not go with %" PRId64
             " groups: they have to be [..,C,L] and [O,C/groups,K], with whole groups of C and O",
             x->name, pco_tensor_shape_text(x, left), weight->name, pco_tensor_shape_text(weight, right),
             attrs->groups);
    if (channels == 0 || length == 0 || weight->shape[0] == 0 || taps == 0)
        FAIL("x '%s' of shape %s or weight '%s' of shape %s is empty", x->name, pco_tensor_shape_text(x, left),
             weight->name, pco_tensor_shape_text(weight, right));
    if (attrs->padding < 0 || attrs->padding > INT32_MAX / 4 || length > INT32_MAX / 2)
        FAIL("padding %" PRId64 " of %" PRId64 " positions is below 0 or too long", attrs->padding, length);
    if (taps > INT32_MAX || (taps - 1) * attrs->dilation >= length + 2 * attrs->padding)
        FAIL("%" PRId64 " weights, %" PRId64 " apart, reach beyond the %" PRId64 " positions of '%s' and its padding",
             taps, attrs->dilation, length, x->name);
    return PCO_OK;
}

PCO_INFER(conv1d)
{
    ATTRS(conv1d);
    const pco_tensor *x = INPUT(0), *weight = INPUT(1), *bias = context->n_inputs > 2 ? INPUT(2) : NULL;
    char left[128];
    if (x->rank < 2 || weight->rank != 3)
        FAIL("x '%s' and weight '%s' have %u and %u dimensions, and need at least 2, [..,C,L], and 3, [O,C/groups,K]",
             x->name, weight->name, x->rank, weight->rank);
    pco_status status = infer_conv1d_sizes(context, x, weight, err);
    if (status) return status;
    if (bias && bias->shape[0] != weight->shape[0])
        FAIL("bias '%s' has shape %s, and there are %" PRId64 " channels", bias->name,
             pco_tensor_shape_text(bias, left), weight->shape[0]);
    pco_tensor *y = &context->outputs[0];
    infer_like(context, 0, x);
    y->shape[x->rank - 2] = weight->shape[0];
    y->shape[x->rank - 1] =
        (x->shape[x->rank - 1] + 2 * attrs->padding - attrs->dilation * (weight->shape[2] - 1) - 1) / attrs->stride + 1;
    return PCO_OK;
}

/* Shape of x without the dimensions of `mask`, or with size 1 there. */
static void infer_drop(pco_shape_context *context, const pco_tensor *x, uint32_t mask, int64_t keepdims)
{
    pco_tensor *out = &context->outputs[0];
    out->rank = 0;
    for (uint32_t i = 0; i < x->rank; i++) {
        if (!(mask >> i & 1))
            out->shape[out->rank++] = x->shape[i];
        else if (keepdims)
            out->shape[out->rank++] = 1;
    }
}

PCO_INFER(reduce)
{
    ATTRS(sum); /* mean and amax have the same struct */
    const pco_tensor *x = INPUT(0);
    uint32_t mask = 0;
    if (attrs->n_axes < 0 || attrs->n_axes > PCO_MAX_RANK) FAIL("%" PRId64 " axes are too many", attrs->n_axes);
    for (int64_t i = 0; i < attrs->n_axes; i++) {
        uint32_t axis;
        pco_status status = infer_resolve(context, x, attrs->axes[i], &axis, err);
        if (status) return status;
        if (mask >> axis & 1) FAIL("axis %" PRId64 " is named twice", attrs->axes[i]);
        mask |= 1u << axis;
    }
    infer_drop(context, x, mask, attrs->keepdims);
    return PCO_OK;
}

PCO_INFER(argmax)
{
    ATTRS(argmax);
    uint32_t axis;
    pco_status status = infer_resolve(context, INPUT(0), attrs->axis, &axis, err);
    if (status) return status;
    if (INPUT(0)->shape[axis] == 0) FAIL("axis %u of '%s' is empty", axis, INPUT(0)->name);
    if (INPUT(0)->shape[axis] > INT32_MAX) FAIL("axis %u of '%s' is longer than 2^31 - 1", axis, INPUT(0)->name);
    infer_drop(context, INPUT(0), 1u << axis, attrs->keepdims);
    return PCO_OK;
}

PCO_INFER(top_k)
{
    ATTRS(top_k);
    const pco_tensor *x = INPUT(0);
    uint32_t axis;
    pco_status status = infer_resolve(context, x, attrs->axis, &axis, err);
    if (status) return status;
    if (x->shape[axis] > INT32_MAX) FAIL("axis %u of '%s' is longer than 2^31 - 1", axis, x->name);
    if (attrs->k < 0 || attrs->k > x->shape[axis])
        FAIL("k %" PRId64 " is not between 0 and the %" PRId64 " elements along axis %u of '%s'", attrs->k,
             x->shape[axis], axis, x->name);
    for (uint32_t i = 0; i < 2; i++) {
        infer_like(context, i, x);
        context->outputs[i].shape[axis] = attrs->k;
    }
    context->outputs[1].dtype = PCO_I32;
    return PCO_OK;
}

PCO_INFER(logsumexp)
{
    ATTRS(logsumexp);
    uint32_t axis;
    pco_status status = infer_resolve(context, INPUT(0), attrs->axis, &axis, err);
    if (status) return status;
    infer_drop(context, INPUT(0), 1u << axis, attrs->keepdims);
    return PCO_OK;
}

PCO_INFER(random_bits)
{
    ATTRS(random_bits);
    return infer_shape_attr(context, attrs->shape, attrs->n_shape, err);
}

PCO_INFER(swiglu)
{
    const pco_tensor *gate = INPUT(0), *up = context->n_inputs > 1 ? INPUT(1) : NULL;
    char left[128], right[128];
    infer_like(context, 0, gate);
    if (up) {
        if (up->rank != gate->rank || memcmp(up->shape, gate->shape, up->rank * sizeof(int64_t)) != 0)
            FAIL("gate '%s' has shape %s and up '%s' has %s", gate->name, pco_tensor_shape_text(gate, left), up->name,
                 pco_tensor_shape_text(up, right));
        return PCO_OK;
    }
    if (gate->rank == 0 || gate->shape[gate->rank - 1] % 2)
        FAIL("without up, the last dimension of gate '%s' %s must be even", gate->name,
             pco_tensor_shape_text(gate, left));
    context->outputs[0].shape[gate->rank - 1] /= 2;
    return PCO_OK;
}

PCO_INFER(axis)
{
    ATTRS(softmax); /* log_softmax has the same struct */
    uint32_t axis;
    infer_like(context, 0, INPUT(0));
    return infer_resolve(context, INPUT(0), attrs->axis, &axis, err);
}

PCO_INFER(layer_norm)
{
    ATTRS(layer_norm);
    const pco_tensor *x = INPUT(0);
    if (attrs->form < 0 || attrs->form > 1) FAIL("form %" PRId64 " is neither 0 nor 1", attrs->form);
    if (attrs->correction < 0 || attrs->correction > 1)
        FAIL("correction %" PRId64 " is neither 0 nor 1", attrs->correction);
    if (x->shape[x->rank - 1] <= attrs->correction)
        FAIL("'%s' has %" PRId64 " values to normalise, and needs more than %" PRId64, x->name, x->shape[x->rank - 1],
             attrs->correction);
    if (attrs->stats) context->n_outputs = 3;
    return PCO_OK;
}

PCO_INFER(rms_norm)
{
    ATTRS(rms_norm);
    const pco_tensor *x = INPUT(0);
    if (x->shape[x->rank - 1] == 0) FAIL("'%s' has no values to normalise", x->name);
    if (attrs->stats) context->n_outputs = 2;
    return PCO_OK;
}

PCO_INFER(dropout)
{
    ATTRS(dropout);
    if (!(attrs->p >= 0 && attrs->p < 1)) FAIL("p is %g, not in [0, 1)", attrs->p);
    return PCO_OK;
}

PCO_INFER(rope)
{
    ATTRS(rope);
    const pco_tensor *x = INPUT(0), *positions = INPUT(1), *phase = INPUT(2);
    char left[128], right[128];
    if (x->rank != 4) FAIL("'%s' has shape %s, and must have 4 dimensions", x->name, pco_tensor_shape_text(x, left));
    int64_t length = x->shape[attrs->heads_first ? 2 : 1];
    if (positions->rank != 2 || (positions->shape[0] != x->shape[0] && positions->shape[0] != 1) ||
        positions->shape[1] != length)
        FAIL("positions '%s' have shape %s, and must have [%" PRId64 ",%" PRId64 "] or [1,%" PRId64 "] for '%s' %s",
             positions->name, pco_tensor_shape_text(positions, left), x->shape[0], length, length, x->name,
             pco_tensor_shape_text(x, right));
    if (2 * phase->shape[0] > x->shape[3])
        FAIL("phase '%s' rotates %" PRId64 " dimensions, and '%s' has only %" PRId64, phase->name, 2 * phase->shape[0],
             x->name, x->shape[3]);
    infer_like(context, 0, x);
    return PCO_OK;
}

PCO_INFER(sinusoidal_positions)
{
    ATTRS(sinusoidal_positions);
    if (!infer_is_float(attrs->dtype)) FAIL("dtype %" PRId64 " is not a float type", attrs->dtype);
    if (attrs->layout < 0 || attrs->layout > 1) FAIL("layout %" PRId64 " is neither 0 nor 1", attrs->layout);
    infer_like(context, 0, INPUT(0));
    pco_tensor *out = &context->outputs[0];
    if (out->rank >= PCO_MAX_RANK) FAIL("the result would have more than %d dimensions", PCO_MAX_RANK);
    out->dtype = (uint32_t)attrs->dtype;
    out->shape[out->rank++] = 2 * INPUT(1)->shape[0];
    return PCO_OK;
}

/* Sizes of an attention: from the layouts of query, key and value. */
typedef struct attention_sizes {
    int64_t batch, heads, rows, keys, groups, depth, value_depth;
} attention_sizes;

static pco_status infer_attention_sizes(pco_shape_context *context, int64_t heads_first, attention_sizes *z,
                                        pco_error *err)
{
    const pco_tensor *q = INPUT(0), *k = INPUT(1), *v = INPUT(2);
    char left[128], right[128];
    if (q->rank != 4 || k->rank != 4 || v->rank != 4) FAIL("query, key and value need 4 dimensions each");
    int head = heads_first ? 1 : 2, row = heads_first ? 2 : 1;
    *z = (attention_sizes){q->shape[0],    q->shape[head], q->shape[row], k->shape[row],
                           k->shape[head], q->shape[3],    v->shape[3]};
    if (k->shape[0] != z->batch || k->shape[3] != z->depth)
        FAIL("query '%s' %s and key '%s' %s differ in batch or head size", q->name, pco_tensor_shape_text(q, left),
             k->name, pco_tensor_shape_text(k, right));
    if (v->shape[0] != z->batch || v->shape[head] != z->groups || v->shape[row] != z->keys)
        FAIL("key '%s' %s and value '%s' %s differ in batch, heads or length", k->name, pco_tensor_shape_text(k, left),
             v->name, pco_tensor_shape_text(v, right));
    if (z->groups == 0 ? z->heads != 0 : z->heads % z->groups != 0)
        FAIL("%" PRId64 " query heads are no multiple of %" PRId64 " key heads", z->heads, z->groups);
    if (z->depth == 0) FAIL("query '%s' %s has head size 0", q->name, pco_tensor_shape_text(q, left));
    return PCO_OK;
}

/* What says which keys are seen: mask, lengths, starts. */
static pco_status infer_attention_masks(pco_shape_context *context, const attention_sizes *z, pco_error *err)
{
    const pco_tensor *mask = context->n_inputs > 3 ? INPUT(3) : NULL;
    char text[128];
    const int64_t full[4] = {z->batch, z->heads, z->rows, z->keys};
    if (mask) {
        int fits = mask->rank == 4;
        for (uint32_t i = 0; fits && i < 4; i++) fits = mask->shape[i] == full[i] || mask->shape[i] == 1;
        if (!fits)
            FAIL("mask '%s' has shape %s, and must fit [%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "]", mask->name,
                 pco_tensor_shape_text(mask, text), full[0], full[1], full[2], full[3]);
    }
    for (uint32_t i = 4; i < 6 && i < context->n_inputs; i++)
        if (INPUT(i) && INPUT(i)->shape[0] != z->batch)
            FAIL("'%s' has shape %s, and must have [%" PRId64 "]", INPUT(i)->name,
                 pco_tensor_shape_text(INPUT(i), text), z->batch);
    return PCO_OK;
}

PCO_INFER(attention)
{
    ATTRS(scaled_dot_product_attention);
    attention_sizes z;
    pco_status status = infer_attention_sizes(context, attrs->heads_first, &z, err);
    if (!status) status = infer_attention_masks(context, &z, err);
    if (status) return status;
    const int64_t full[4] = {z.batch, z.heads, z.rows, z.keys};
    if (attrs->window < 0 || attrs->softcap < 0) FAIL("window and softcap cannot be below 0");
    infer_like(context, 0, INPUT(0));
    context->outputs[0].shape[3] = z.value_depth;
    if (attrs->weights) {
        context->n_outputs = 2;
        context->outputs[1].dtype = INPUT(0)->dtype;
        context->outputs[1].rank = 4;
        memcpy(context->outputs[1].shape, full, sizeof full);
    }
    return PCO_OK;
}

PCO_INFER(attention_backward)
{
    ATTRS(scaled_dot_product_attention_backward);
    attention_sizes z;
    pco_status status = infer_attention_sizes(context, attrs->heads_first, &z, err);
    if (!status) status = infer_attention_masks(context, &z, err);
    if (status) return status;
    const pco_tensor *gradient = INPUT(6);
    char text[128];
    int fits = gradient->rank == 4 && gradient->shape[3] == z.value_depth &&
               memcmp(gradient->shape, INPUT(0)->shape, 3 * sizeof(int64_t)) == 0;
    if (!fits)
        FAIL("gradient '%s' has shape %s, and must have that of the attention's result", gradient->name,
             pco_tensor_shape_text(gradient, text));
    if (attrs->window < 0) FAIL("window cannot be below 0");
    for (uint32_t i = 0; i < 3; i++) infer_like(context, i, INPUT(i));
    return PCO_OK;
}

static pco_status infer_loss_attrs(pco_shape_context *context, double label_smoothing, pco_error *err)
{
    const pco_tensor *logits = INPUT(0);
    char text[128];
    if (!(label_smoothing >= 0 && label_smoothing <= 1))
        FAIL("label_smoothing %g is not between 0 and 1", label_smoothing);
    if (logits->shape[logits->rank - 1] == 0)
        FAIL("logits '%s' %s have no class", logits->name, pco_tensor_shape_text(logits, text));
    return PCO_OK;
}

PCO_INFER(cross_entropy)
{
    ATTRS(cross_entropy);
    return infer_loss_attrs(context, attrs->label_smoothing, err);
}

PCO_INFER(cross_entropy_backward)
{
    ATTRS(cross_entropy_backward);
    return infer_loss_attrs(context, attrs->label_smoothing, err);
}

static pco_status infer_same_shape(pco_shape_context *context, const pco_tensor *x, const pco_tensor *gradient,
                                   pco_error *err)
{
    char left[128], right[128];
    if (x->rank != gradient->rank || memcmp(x->shape, gradient->shape, x->rank * sizeof(int64_t)) != 0)
        FAIL("gradient '%s' has shape %s, and must have that of '%s', %s", gradient->name,
             pco_tensor_shape_text(gradient, left), x->name, pco_tensor_shape_text(x, right));
    return PCO_OK;
}

PCO_INFER(softmax_backward)
{
    ATTRS(softmax_backward);
    uint32_t axis;
    infer_like(context, 0, INPUT(0));
    pco_status status = infer_same_shape(context, INPUT(0), INPUT(1), err);
    return status ? status : infer_resolve(context, INPUT(0), attrs->axis, &axis, err);
}

PCO_INFER(layer_norm_backward)
{
    ATTRS(layer_norm_backward);
    const pco_tensor *x = INPUT(0);
    if (attrs->form < 0 || attrs->form > 1) FAIL("form %" PRId64 " is neither 0 nor 1", attrs->form);
    if (attrs->correction < 0 || attrs->correction > 1)
        FAIL("correction %" PRId64 " is neither 0 nor 1", attrs->correction);
    if (x->shape[x->rank - 1] <= attrs->correction)
        FAIL("'%s' has %" PRId64 " values in a row, and needs more than %" PRId64, x->name, x->shape[x->rank - 1],
             attrs->correction);
    return PCO_OK;
}

PCO_INFER(rms_norm_backward)
{
    if (INPUT(0)->shape[INPUT(0)->rank - 1] == 0) FAIL("'%s' has no values in a row", INPUT(0)->name);
    return PCO_OK;
}

PCO_INFER(swiglu_backward)
{
    const pco_tensor *gate = INPUT(0), *up = INPUT(1), *gradient = INPUT(2);
    pco_tensor half = *gate;
    if (!up && (gate->rank == 0 || gate->shape[gate->rank - 1] % 2))
        FAIL("without up, the last dimension of gate '%s' must be even", gate->name);
    if (!up) half.shape[gate->rank - 1] /= 2;
    pco_status status = infer_same_shape(context, &half, gradient, err);
    if (!status && up) status = infer_same_shape(context, gate, up, err);
    infer_like(context, 0, gate);
    if (!up) return status;
    context->n_outputs = 2;
    infer_like(context, 1, gate);
    context->outputs[1].dtype = gate->dtype;
    return status;
}
