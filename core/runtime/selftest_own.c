/* What the declaration of an operation of one's own allows its kernel. */
#include "runtime/selftest_internal.h"

#include "base/dtype.h"
#include "base/error.h"
#include "graph/own.h"

#include <math.h>
#include <stdlib.h>

/* What `magnitude` is called with: operands and results as doubles. */
typedef struct own_values {
    double *in[PCO_MAX_INPUTS], *out[PCO_MAX_OUTPUTS];
} own_values;

static pco_status own_no_memory(pco_error *err)
{
    return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the self-test");
}

/* Operand t as doubles: those of floats have been f32 or less before, and whole numbers are exact in f64. */
static pco_status own_load(const selftest_case *one, uint32_t t, double **values, pco_error *err)
{
    const pco_tensor *x = &one->graph->tensors[t];
    const int64_t count = pco_tensor_elements(x);
    float *narrow = malloc(((size_t)count + 1) * sizeof *narrow);
    *values = malloc(((size_t)count + 1) * sizeof **values);
    pco_status status = narrow && *values ? PCO_OK : own_no_memory(err);
    if (!status && x->dtype != PCO_I32) status = pco_dtype_to_f32(x->dtype, one->data[t], count, narrow, err);
    for (int64_t i = 0; !status && i < count; i++)
        (*values)[i] = x->dtype == PCO_I32 ? (double)((const int32_t *)one->data[t])[i] : (double)narrow[i];
    free(narrow);
    return status;
}

static pco_status own_magnitude(const selftest_case *one, const pco_op_info *info, own_values *values, pco_error *err)
{
    const pco_node *node = &one->graph->nodes[0];
    const pco_op_declaration *declaration = &info->own->declaration;
    pco_op_call call = pco_operation_call(info->own, node->attrs);
    const double *in[PCO_MAX_INPUTS] = {NULL};
    pco_status status = PCO_OK;
    call.n_inputs = node->n_inputs, call.n_outputs = node->n_outputs;
    for (uint32_t i = 0; i < node->n_inputs && !status; i++) {
        if (node->inputs[i] == PCO_NONE) continue;
        call.inputs[i] = &one->graph->tensors[node->inputs[i]];
        status = own_load(one, node->inputs[i], &values->in[i], err);
        in[i] = values->in[i];
    }
    for (uint32_t i = 0; i < node->n_outputs && !status; i++) {
        if (node->outputs[i] == PCO_NONE) continue;
        call.outputs[i] = &one->graph->tensors[node->outputs[i]];
        values->out[i] = calloc((size_t)pco_tensor_elements(call.outputs[i]) + 1, sizeof **values->out);
        if (!values->out[i]) status = own_no_memory(err);
    }
    return status ? status : declaration->magnitude(&call, in, values->out, err);
}

/* |got - want| is at most ulps u m (plugin.h), for a device whose unit u is half of `unit`; then both results are
 * rounded to their type, each by half a unit of it at most, and below its least normal number by less than that, or to
 * 0. Of m at most a quarter, so that zeros are found whatever is declared. */
pco_status selftest_own_bounds(const selftest_case *one, uint32_t output, double unit, double unit_of_result,
                               const float *want, int64_t count, double *bound, pco_error *err)
{
    const pco_node *node = &one->graph->nodes[0];
    const pco_op_info *info = pco_node_op(node);
    const pco_op_declaration *declaration = &info->own->declaration;
    const double part = fmin(declaration->ulps * unit / 2, 0.25);
    const double least = one->graph->tensors[node->outputs[output]].dtype == PCO_F16 ? 0x1p-14 : 0x1p-126;
    own_values values = {{NULL}, {NULL}};
    pco_status status = declaration->magnitude ? own_magnitude(one, info, &values, err) : PCO_OK;
    for (int64_t i = 0; i < count && !status; i++) {
        const double size = fabs((double)want[i]), m = values.out[output] ? fabs(values.out[output][i]) : size;
        bound[i] = part * m + unit_of_result * size + least;
    }
    for (uint32_t i = 0; i < PCO_MAX_INPUTS; i++) free(values.in[i]);
    for (uint32_t i = 0; i < PCO_MAX_OUTPUTS; i++) free(values.out[i]);
    return status;
}
