/* Outputs of ops over rows and of their gradients. */
#include "graph/infer_parts.h"

#include <inttypes.h>
#include <string.h>

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
