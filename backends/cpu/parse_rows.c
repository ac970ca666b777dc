/* Reductions, softmax and norms. */
#include "parse.h"

/* The bits of the dimensions to reduce. No axes and another shape: all of them. */
static bool cpu_reduced_dims(const cpu_node *node, uint32_t *dims)
{
    const pco_sum_attrs *attrs = &node->attrs.sum; /* mean and amax have the same */
    const cpu_tensor *x = &node->in[0];
    if (attrs->n_axes < 0 || attrs->n_axes > PCO_MAX_RANK) return false;
    *dims = 0;
    for (int64_t i = 0; i < attrs->n_axes; i++) {
        int axis;
        if (!cpu_axis_of(x, attrs->axes[i], &axis)) return false;
        *dims |= 1u << axis;
    }
    if (attrs->n_axes == 0 && !cpu_same_shape(x, &node->out[0])) *dims = (1u << x->rank) - 1;
    return true;
}

static bool cpu_reduced_shape(const cpu_node *node, uint32_t dims, bool keep)
{
    const cpu_tensor *x = &node->in[0], *y = &node->out[0];
    uint32_t at = 0;
    for (uint32_t i = 0; i < x->rank; i++) {
        bool reduced = dims >> i & 1;
        if (reduced && !keep) continue;
        if (at >= y->rank || y->shape[at++] != (reduced ? 1 : x->shape[i])) return false;
    }
    return at == y->rank;
}

/* Adds a dimension in front of those of its kind, which merges with its inner neighbour where it can. */
static void cpu_add_dim(int *rank, int64_t *shape, int64_t *stride, int64_t size, int64_t step)
{
    if (size == 1) return;
    if (*rank > 0 && step == shape[*rank - 1] * stride[*rank - 1]) {
        shape[*rank - 1] *= size;
        return;
    }
    shape[*rank] = size;
    stride[(*rank)++] = step;
}

static void cpu_reverse(int rank, int64_t *values)
{
    for (int i = 0; i < rank / 2; i++) {
        int64_t first = values[i];
        values[i] = values[rank - 1 - i];
        values[rank - 1 - i] = first;
    }
}

CPU_PARSE(reduce)
{
    const cpu_tensor *x = &node->in[0];
    uint32_t dims;
    if (!cpu_reduced_dims(node, &dims)) return cpu_invalid(node, err, "an axis is out of range");
    if (!cpu_reduced_shape(node, dims, node->attrs.sum.keepdims != 0))
        return cpu_invalid(node, err, "the output has another shape");
    cpu_reduction *plan = &node->plan.reduction;
    plan->outputs = node->out[0].count;
    plan->terms = 1;
    int64_t step = 1;
    for (int i = (int)x->rank - 1; i >= 0; i--) {
        if (dims >> i & 1) {
            plan->terms *= x->shape[i];
            cpu_add_dim(&plan->reduced_rank, plan->reduced, plan->reduced_stride, x->shape[i], step);
        } else {
            cpu_add_dim(&plan->kept_rank, plan->kept, plan->kept_stride, x->shape[i], step);
        }
        step *= x->shape[i];
    }
    cpu_reverse(plan->reduced_rank, plan->reduced);
    cpu_reverse(plan->reduced_rank, plan->reduced_stride);
    cpu_reverse(plan->kept_rank, plan->kept);
    cpu_reverse(plan->kept_rank, plan->kept_stride);
    return PCO_OK;
}

/* A result without one axis of x, or with size 1 there. */
static pco_status cpu_parse_axis(cpu_node *node, int64_t wanted, bool reduces, bool keep, pco_error *err)
{
    const cpu_tensor *x = &node->in[0];
    int axis;
    if (!cpu_axis_of(x, wanted, &axis)) return cpu_invalid(node, err, "axis is out of range");
    if (reduces ? !cpu_reduced_shape(node, 1u << axis, keep) : !cpu_same_shape(x, &node->out[0]))
        return cpu_invalid(node, err, "the output has another shape");
    node->plan.axis = cpu_split(x, axis);
    return PCO_OK;
}

CPU_PARSE(argmax)
{
    const pco_argmax_attrs *attrs = &node->attrs.argmax;
    pco_status status = cpu_parse_axis(node, attrs->axis, true, attrs->keepdims != 0, err);
    if (!status && node->plan.axis.n == 0) return cpu_invalid(node, err, "the axis is empty");
    if (!status && node->plan.axis.n > INT32_MAX)
        return cpu_invalid(node, err, "the axis is longer than an i32 counts");
    return status;
}

CPU_PARSE(softmax) { return cpu_parse_axis(node, node->attrs.softmax.axis, false, false, err); }

CPU_PARSE(cumsum) { return cpu_parse_axis(node, node->attrs.cumsum.axis, false, false, err); }

CPU_PARSE(top_k)
{
    const pco_top_k_attrs *attrs = &node->attrs.top_k;
    const cpu_tensor *x = &node->in[0];
    int axis;
    if (!cpu_axis_of(x, attrs->axis, &axis)) return cpu_invalid(node, err, "axis is out of range");
    if (attrs->k < 0 || attrs->k > x->shape[axis] || x->shape[axis] > INT32_MAX)
        return cpu_invalid(node, err, "k is out of range, or the axis is longer than an i32 counts");
    for (int i = 0; i < 2; i++) {
        cpu_tensor want = *x;
        want.shape[axis] = attrs->k;
        if (!cpu_same_shape(&want, &node->out[i])) return cpu_invalid(node, err, "an output has another shape");
    }
    node->plan.axis = cpu_split(x, axis);
    return PCO_OK;
}

CPU_PARSE(logsumexp)
{
    const pco_logsumexp_attrs *attrs = &node->attrs.logsumexp;
    return cpu_parse_axis(node, attrs->axis, true, attrs->keepdims != 0, err);
}

/* x [..,N], parameters [N], y as x, statistics [..] */
static pco_status cpu_parse_norm(cpu_node *node, uint32_t parameters, pco_error *err)
{
    const cpu_tensor *x = &node->in[0];
    if (x->rank == 0 || !cpu_same_shape(x, &node->out[0]))
        return cpu_invalid(node, err, "input and output differ in shape, or have none");
    node->plan.axis = cpu_split(x, (int)x->rank - 1);
    for (uint32_t i = 1; i <= parameters; i++)
        if (node->in[i].present && (node->in[i].rank != 1 || node->in[i].count != node->plan.axis.n))
            return cpu_invalid(node, err, "%s is not a row", i == 1 ? "weight" : "bias");
    for (uint32_t i = 1; i < PCO_MAX_OUTPUTS; i++)
        if (node->out[i].present && node->out[i].count != node->plan.axis.outer)
            return cpu_invalid(node, err, "the statistics are not one per row");
    return PCO_OK;
}

CPU_PARSE(layer_norm)
{
    int64_t form = node->attrs.layer_norm.form, correction = node->attrs.layer_norm.correction;
    if (form != 0 && form != 1) return cpu_invalid(node, err, "form is %lld", (long long)form);
    if (correction != 0 && correction != 1) return cpu_invalid(node, err, "correction is %lld", (long long)correction);
    return cpu_parse_norm(node, 2, err);
}

CPU_PARSE(rms_norm) { return cpu_parse_norm(node, 1, err); }
