/* The output of conv1d, and its products. */
#include "graph/graph.h"
#include "graph/infer_parts.h"
#include "graph/work.h"

#include <inttypes.h>

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

/* The weights of a channel for each element of the result. */
PCO_PRODUCTS(conv1d)
{
    const pco_tensor *weight = pco_work_input(tensors, node, 1);
    return (double)pco_tensor_elements(pco_work_output(tensors, node, 0)) *
           (double)(weight->shape[1] * weight->shape[2]);
}
