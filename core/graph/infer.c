/* What the functions of infer_*.c share. */
#include "graph/infer_parts.h"

#include "base/dtype.h"

#include <inttypes.h>
#include <string.h>

int infer_is_plain(int64_t dtype)
{
    return dtype >= 0 && (pco_dtype_class_of((uint32_t)dtype) & (PCO_DTYPE_FLOAT | PCO_DTYPE_WHOLE)) != 0;
}

int infer_is_float(int64_t dtype) { return dtype >= 0 && pco_dtype_is_float((uint32_t)dtype); }

void infer_like(pco_shape_context *context, uint32_t output, const pco_tensor *tensor)
{
    context->outputs[output].dtype = tensor->dtype;
    context->outputs[output].rank = tensor->rank;
    memcpy(context->outputs[output].shape, tensor->shape, sizeof tensor->shape);
}

pco_status infer_shape_attr(pco_shape_context *context, const int64_t *shape, int64_t rank, pco_error *err)
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
pco_status infer_resolve(const pco_shape_context *context, const pco_tensor *x, int64_t axis, uint32_t *resolved,
                         pco_error *err)
{
    char text[128];
    if (axis < -(int64_t)x->rank || axis >= (int64_t)x->rank)
        FAIL("axis %" PRId64 " does not exist in '%s' of shape %s", axis, x->name, pco_tensor_shape_text(x, text));
    *resolved = (uint32_t)(axis < 0 ? axis + x->rank : axis);
    return PCO_OK;
}

/* Shape of x without the dimensions of `mask`, or with size 1 there. */
void infer_drop(pco_shape_context *context, const pco_tensor *x, uint32_t mask, int64_t keepdims)
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
