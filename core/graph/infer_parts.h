/* What the functions of infer_*.c are written with. */
#ifndef PCO_GRAPH_INFER_PARTS_H
#define PCO_GRAPH_INFER_PARTS_H

#include "graph/infer.h"

#define ATTRS(name) const pco_##name##_attrs *attrs = context->attrs
#define INPUT(i)    (context->inputs[i])
#define FAIL(...)   return pco_infer_fail(context, err, __VA_ARGS__)

/* Is it a type of elements, not of blocks? A float type? */
int infer_is_plain(int64_t dtype);
int infer_is_float(int64_t dtype);

/* Output number `output` has the type and the shape of a tensor. */
void infer_like(pco_shape_context *context, uint32_t output, const pco_tensor *tensor);

/* The first output has the shape of an attribute. Errors: INVALID. */
pco_status infer_shape_attr(pco_shape_context *context, const int64_t *shape, int64_t rank, pco_error *err);

/* Resolves an axis that may count from the end. Errors: INVALID. */
pco_status infer_resolve(const pco_shape_context *context, const pco_tensor *x, int64_t axis, uint32_t *resolved,
                         pco_error *err);

/* The first output has the shape of x without the dimensions of `mask`, or with size 1 there. */
void infer_drop(pco_shape_context *context, const pco_tensor *x, uint32_t mask, int64_t keepdims);

#endif
