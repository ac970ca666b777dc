/* Outputs, and products, of matmul, of reductions and of what picks along an axis. */
#include "graph/graph.h"
#include "graph/infer_parts.h"
#include "graph/work.h"

#include "base/dtype.h"

#include <inttypes.h>
#include <string.h>

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

static pco_status infer_activation(const pco_shape_context *context, int64_t activation, pco_error *err)
{
    if (activation < 0 || activation > 4) FAIL("activation %" PRId64 " does not exist", activation);
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
    if (attrs->accumulate != PCO_F32 && attrs->accumulate != PCO_F16)
        FAIL("accumulate %" PRId64 " is neither f32 nor f16", attrs->accumulate);
    if (attrs->dtype != -1 && !infer_is_float(attrs->dtype))
        FAIL("dtype %" PRId64 " is not a float type", attrs->dtype);
    pco_status status = infer_activation(context, attrs->activation, err);
    if (!status) status = infer_matmul_batch(context, a, b, err);
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

PCO_INFER(indexed_matmul)
{
    ATTRS(indexed_matmul);
    const pco_tensor *x = INPUT(0), *weight = INPUT(1), *indices = INPUT(2);
    pco_tensor *y = &context->outputs[0];
    char left[128], right[128];
    const uint32_t lead = x->rank ? x->rank - 1 : 0; /* dimensions of x in front of K */
    int fits = x->rank > 0 && indices->rank > 0 && indices->rank < PCO_MAX_RANK &&
               (lead == indices->rank || lead + 1 == indices->rank);
    for (uint32_t i = 0; fits && i < lead; i++) fits = x->shape[i] == indices->shape[i];
    if (!fits)
        FAIL("x '%s' of shape %s does not go with indices '%s' of shape %s: to indices [..,U] it is [..,K] or [..,U,K]",
             x->name, pco_tensor_shape_text(x, left), indices->name, pco_tensor_shape_text(indices, right));
    if (x->shape[lead] != weight->shape[1])
        FAIL("x '%s' of shape %s has K = %" PRId64 ", but weight '%s' of shape %s has K = %" PRId64, x->name,
             pco_tensor_shape_text(x, left), x->shape[lead], weight->name, pco_tensor_shape_text(weight, right),
             weight->shape[1]);
    if (attrs->matrices < 1 || attrs->matrices > INT32_MAX || weight->shape[0] % attrs->matrices)
        FAIL("weight '%s' of shape %s is not %" PRId64 " matrices", weight->name, pco_tensor_shape_text(weight, right),
             attrs->matrices);
    infer_like(context, 0, indices);
    y->dtype = x->dtype;
    y->shape[y->rank++] = weight->shape[0] / attrs->matrices;
    return PCO_OK;
}

PCO_INFER(norm_matmul)
{
    ATTRS(norm_matmul);
    const pco_tensor *x = INPUT(0);
    if (attrs->norm < 0 || attrs->norm > 1) FAIL("norm %" PRId64 " is neither 0 nor 1", attrs->norm);
    if (x->rank < 2) FAIL("'%s' needs at least 2 dimensions", x->name);
    if (x->shape[x->rank - 1] == 0) FAIL("'%s' has no values to normalise", x->name);
    if (!attrs->norm && context->n_inputs > 4 && INPUT(4))
        FAIL("rms_norm takes no norm_bias, and '%s' is one", INPUT(4)->name);
    return infer_activation(context, attrs->activation, err);
}

/* With weights [N,K] as operand 1: K for each element of the result. */
static double products_by_rows(const pco_tensor *tensors, const pco_node *node)
{
    return (double)pco_tensor_elements(pco_work_output(tensors, node, 0)) *
           (double)pco_work_input(tensors, node, 1)->shape[1];
}

PCO_PRODUCTS(norm_matmul) { return products_by_rows(tensors, node); }

PCO_PRODUCTS(indexed_matmul) { return products_by_rows(tensors, node); }

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

PCO_PRODUCTS(matmul)
{
    const pco_matmul_attrs *attrs = node->attrs;
    const pco_tensor *a = pco_work_input(tensors, node, 0);
    return (double)pco_tensor_elements(pco_work_output(tensors, node, 0)) *
           (double)a->shape[a->rank - (attrs->transpose_a ? 2 : 1)];
}
