/* The loss, the optimisers and the backward ops. */
#include "parse.h"

/* logits [..,N], target [..]; y [..], or as the logits beside the gradient of each row. */
CPU_PARSE(cross_entropy)
{
    const cpu_tensor *x = &node->in[0], *y = &node->out[0];
    bool backward = node->op->op == PCO_OP_CROSS_ENTROPY_BACKWARD;
    double smoothing = node->attrs.cross_entropy.label_smoothing;
    if (!(smoothing >= 0 && smoothing <= 1)) return cpu_invalid(node, err, "label_smoothing is %g", smoothing);
    if (x->rank == 0 || x->shape[x->rank - 1] == 0) return cpu_invalid(node, err, "there is no class");
    node->plan.axis = cpu_split(x, (int)x->rank - 1);
    int64_t rows = node->plan.axis.outer;
    if (node->in[1].count != rows || (backward && node->in[2].count != rows))
        return cpu_invalid(node, err, "targets or gradients are not one per row");
    if (backward ? !cpu_same_shape(x, y) : y->count != rows)
        return cpu_invalid(node, err, "the output has another shape");
    return PCO_OK;
}

/* Operand k and output k have one shape for the `states` first, and so has the gradient; run has `values`. */
static pco_status cpu_parse_optimiser(const cpu_node *node, uint32_t states, int64_t values, pco_error *err)
{
    for (uint32_t i = 0; i <= states; i++)
        if (!cpu_same_shape(&node->in[0], &node->in[i]) || (i < states && !cpu_same_shape(&node->in[0], &node->out[i])))
            return cpu_invalid(node, err, "parameter, gradient and moments differ in shape");
    if (node->in[states + 1].count != values)
        return cpu_invalid(node, err, "run has %lld values, not %lld", (long long)node->in[states + 1].count,
                           (long long)values);
    if (node->in[states + 2].present && node->in[states + 2].count != 1)
        return cpu_invalid(node, err, "scale is not one number");
    return PCO_OK;
}

CPU_PARSE(adamw) { return cpu_parse_optimiser(node, 3, 3, err); }

CPU_PARSE(sgd) { return cpu_parse_optimiser(node, 2, 1, err); }

CPU_PARSE(softmax_backward)
{
    const cpu_tensor *y = &node->in[0];
    int axis;
    if (!cpu_axis_of(y, node->attrs.softmax_backward.axis, &axis))
        return cpu_invalid(node, err, "axis is out of range");
    if (!cpu_same_shape(y, &node->in[1]) || !cpu_same_shape(y, &node->out[0]))
        return cpu_invalid(node, err, "operands and output differ in shape");
    node->plan.axis = cpu_split(y, axis);
    return PCO_OK;
}

CPU_PARSE(norm_backward)
{
    const cpu_tensor *x = &node->in[0], *weight = &node->in[2];
    if (x->rank == 0 || !cpu_same_shape(x, &node->in[1]) || !cpu_same_shape(x, &node->out[0]))
        return cpu_invalid(node, err, "operands and output differ in shape, or have none");
    node->plan.axis = cpu_split(x, (int)x->rank - 1);
    if (weight->present && (weight->rank != 1 || weight->count != node->plan.axis.n))
        return cpu_invalid(node, err, "weight is not a row");
    if (node->op->op == PCO_OP_RMS_NORM_BACKWARD) return PCO_OK;
    int64_t form = node->attrs.layer_norm_backward.form, correction = node->attrs.layer_norm_backward.correction;
    if (form != 0 && form != 1) return cpu_invalid(node, err, "form is %lld", (long long)form);
    if (correction != 0 && correction != 1) return cpu_invalid(node, err, "correction is %lld", (long long)correction);
    return PCO_OK;
}

/* plan.axis: rows of the gradient, and its last dimension. */
CPU_PARSE(swiglu_backward)
{
    const cpu_tensor *gate = &node->in[0], *up = &node->in[1], *gradient = &node->in[2];
    bool joined = !up->present;
    if (!cpu_same_shape(gate, &node->out[0]) || node->out[1].present == joined)
        return cpu_invalid(node, err, "the outputs are not those of its operands");
    if (!joined &&
        (!cpu_same_shape(gate, up) || !cpu_same_shape(gate, gradient) || !cpu_same_shape(gate, &node->out[1])))
        return cpu_invalid(node, err, "gate, up, gradient and outputs differ in shape");
    node->plan.axis = (cpu_axis){1, gradient->count, 1};
    if (!joined) return PCO_OK;
    if (gate->rank == 0 || gate->rank != gradient->rank ||
        memcmp(gate->shape, gradient->shape, (gate->rank - 1) * sizeof gate->shape[0]) ||
        gate->shape[gate->rank - 1] != 2 * gradient->shape[gate->rank - 1])
        return cpu_invalid(node, err, "the last dimension of gate is not twice that of the gradient");
    node->plan.axis = cpu_split(gradient, (int)gradient->rank - 1);
    return PCO_OK;
}
