/* Operations that are declared outside of the table: the declaration's function in double is the value, and its bound
 * is as plugin.h says: |error| <= ulps u m, with u the unit of the device's arithmetic and m the magnitude that the
 * declaration computes, or |y|; then the result is rounded to its type. 2^-50 m is for the function's own roundings in
 * double, eight of 2^-53 m. One that rounds n times is off by n 2^-29 u of f32 beside that: below 2^-10 u for n < 2^19,
 * and an f32 device's bound is a whole u or more; a device in double runs the same function. Where nothing is declared,
 * ulps is 16 (own.c). docs/numerics.md has both. */
#include "oracle/oracle_eval.h"
#include "oracle/oracle_power.h"

#include "base/dtype.h"
#include "base/error.h"

#include <math.h>
#include <stdlib.h>

static pco_status own_call(const oracle_node *node, pco_op_compute_fn compute, double *const *out, pco_error *err)
{
    const pco_own_attrs *attrs = node->attrs;
    const double *in[PCO_MAX_INPUTS] = {NULL};
    pco_op_call call = {.declaration = attrs->declaration,
                        .attrs = attrs + 1,
                        .n_inputs = node->n_inputs,
                        .n_outputs = node->n_outputs};
    for (uint32_t i = 0; i < node->n_inputs; i++) call.inputs[i] = node->in[i].desc, in[i] = node->in[i].value;
    for (uint32_t i = 0; i < node->n_outputs; i++) call.outputs[i] = &node->out[i].desc;
    pco_error why = {""};
    const pco_status status = compute(&call, in, out, &why);
    return status ? pco_fail(err, status, "op '%s': %s", attrs->declaration->name,
                             why.message[0] ? why.message : "its function failed and says no more")
                  : PCO_OK;
}

pco_status oracle_eval_own(oracle_node *node, pco_error *err)
{
    const pco_op_declaration *declaration = ((const pco_own_attrs *)node->attrs)->declaration;
    double *value[PCO_MAX_OUTPUTS] = {NULL}, *magnitude[PCO_MAX_OUTPUTS] = {NULL};
    pco_status status = PCO_OK;
    for (uint32_t i = 0; i < node->n_outputs && !status; i++) {
        value[i] = node->out[i].value;
        magnitude[i] = calloc((size_t)node->out[i].count + 1, sizeof **magnitude);
        if (!magnitude[i]) status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "oracle: no memory");
    }
    if (!status) status = own_call(node, declaration->compute, value, err);
    if (!status && declaration->magnitude) status = own_call(node, declaration->magnitude, magnitude, err);
    const oracle_real unit = oracle_power(-node->rules->compute.precision);
    for (uint32_t o = 0; o < node->n_outputs && !status; o++) {
        oracle_output *out = &node->out[o];
        if (!pco_dtype_is_float(out->desc.dtype)) continue; /* exact */
        for (int64_t i = 0; i < out->count; i++) {
            const oracle_real m = fabsl(declaration->magnitude ? magnitude[o][i] : value[o][i]);
            oracle_finish(out, i, node->rules,
                          (oracle_ve){value[o][i], (declaration->ulps * unit + 0x1p-50L) * m + node->rules->flush});
        }
    }
    for (uint32_t i = 0; i < node->n_outputs; i++) free(magnitude[i]);
    return status;
}
