/* The loss and the optimisers. */
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
    if (backward ? !cpu_same_shape(x, y) : y->count != rows) return cpu_invalid(node, err, "the output has another shape");
    return PCO_OK;
}

/* Operand k and output k have one shape for the `states` first, and so has the gradient; run has `values`. */
static pco_status cpu_parse_optimiser(const cpu_node *node, uint32_t states, int64_t values, pco_error *err)
{
    for (uint32_t i = 0; i <= states; i++)
        if (!cpu_same_shape(&node->in[0], &node->in[i]) || (i < states && !cpu_same_shape(&node->in[0], &node->out[i])))
            return cpu_invalid(node, err, "parameter, gradient and moments differ in shape");
    if (node->in[states + 1].count != values)
        return cpu_invalid(node, err, "run has %lld values, not %lld", (long long)node->in[states + 1].count, (long long)values);
    if (node->in[states + 2].present && node->in[states + 2].count != 1) return cpu_invalid(node, err, "scale is not one number");
    return PCO_OK;
}

CPU_PARSE(adamw)
{
    return cpu_parse_optimiser(node, 3, 3, err);
}

CPU_PARSE(sgd)
{
    return cpu_parse_optimiser(node, 2, 1, err);
}
