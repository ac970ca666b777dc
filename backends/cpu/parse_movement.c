#include "parse.h"

CPU_PARSE(broadcast_to)
{
    const cpu_tensor *x = &node->in[0], *y = &node->out[0];
    cpu_walk_init(&node->plan.copy.walk, y->rank, y->shape, 1);
    if (!cpu_walk_broadcast(&node->plan.copy.walk, 0, x->rank, x->shape))
        return cpu_invalid(node, err, "the input does not broadcast to the output");
    cpu_walk_merge(&node->plan.copy.walk);
    return PCO_OK;
}

CPU_PARSE(reshape)
{
    if (node->in[0].count != node->out[0].count)
        return cpu_invalid(node, err, "input and output differ in their number of elements");
    return PCO_OK;
}

static void cpu_strides(const cpu_tensor *x, int64_t *stride)
{
    int64_t step = 1;
    for (int i = (int)x->rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= x->shape[i];
    }
}

CPU_PARSE(permute)
{
    const cpu_tensor *x = &node->in[0], *y = &node->out[0];
    const pco_permute_attrs *attrs = &node->attrs.permute;
    if (attrs->n_dims != (int64_t)x->rank || y->rank != x->rank)
        return cpu_invalid(node, err, "dims, input and output differ in rank");
    cpu_walk *walk = &node->plan.copy.walk;
    cpu_walk_init(walk, y->rank, y->shape, 1);
    int64_t stride[PCO_MAX_RANK];
    cpu_strides(x, stride);
    uint32_t used = 0;
    for (uint32_t i = 0; i < y->rank; i++) {
        int64_t d = attrs->dims[i] < 0 ? attrs->dims[i] + (int64_t)x->rank : attrs->dims[i];
        if (d < 0 || d >= (int64_t)x->rank || used >> d & 1) return cpu_invalid(node, err, "dims is not a permutation");
        used |= 1u << d;
        if (x->shape[d] != y->shape[i]) return cpu_invalid(node, err, "the output has another shape");
        walk->stride[0][i] = stride[d];
    }
    cpu_walk_merge(walk);
    return PCO_OK;
}

CPU_PARSE(slice)
{
    const cpu_tensor *x = &node->in[0], *y = &node->out[0];
    const pco_slice_attrs *attrs = &node->attrs.slice;
    int64_t rank = x->rank;
    if (y->rank != x->rank || attrs->n_starts != rank || attrs->n_sizes != rank || attrs->n_steps != rank)
        return cpu_invalid(node, err, "starts, sizes, steps, input and output differ in rank");
    cpu_walk *walk = &node->plan.copy.walk;
    cpu_walk_init(walk, y->rank, y->shape, 1);
    int64_t stride[PCO_MAX_RANK];
    cpu_strides(x, stride);
    for (int64_t i = 0; i < rank; i++) {
        int64_t start = attrs->starts[i], size = attrs->sizes[i], step = attrs->steps[i];
        if (size != y->shape[i] || size < 0 || start < 0 || step < 1 || start > x->shape[i])
            return cpu_invalid(node, err, "dimension %lld does not fit", (long long)i);
        if (size > 0 && (start >= x->shape[i] || (size - 1) > (x->shape[i] - 1 - start) / step))
            return cpu_invalid(node, err, "dimension %lld reaches beyond the input", (long long)i);
        walk->stride[0][i] = stride[i] * step;
        node->plan.copy.base += start * stride[i];
    }
    cpu_walk_merge(walk);
    return PCO_OK;
}

/* Equal in rank and in all dimensions but one. */
static bool cpu_same_but(const cpu_tensor *a, const cpu_tensor *b, int axis)
{
    if (a->rank != b->rank) return false;
    for (int i = 0; i < (int)a->rank; i++)
        if (i != axis && a->shape[i] != b->shape[i]) return false;
    return true;
}

CPU_PARSE(concat)
{
    const cpu_tensor *y = &node->out[0];
    int axis;
    if (!cpu_axis_of(y, node->attrs.concat.axis, &axis)) return cpu_invalid(node, err, "axis is out of range");
    int64_t total = 0;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        if (!node->in[i].present) continue;
        if (!cpu_same_but(&node->in[i], y, axis)) return cpu_invalid(node, err, "input %u does not fit", i);
        total += node->in[i].shape[axis];
    }
    if (total != y->shape[axis]) return cpu_invalid(node, err, "the inputs do not add up to the output");
    node->plan.axis = cpu_split(y, axis);
    return PCO_OK;
}

/* The plan walks over x; the stride is that of y. */
CPU_PARSE(pad)
{
    const cpu_tensor *x = &node->in[0], *y = &node->out[0];
    const pco_pad_attrs *attrs = &node->attrs.pad;
    if (y->rank != x->rank || attrs->n_before != (int64_t)x->rank || attrs->n_after != (int64_t)x->rank)
        return cpu_invalid(node, err, "before, after, input and output differ in rank");
    cpu_walk *walk = &node->plan.copy.walk;
    cpu_walk_init(walk, x->rank, x->shape, 1);
    int64_t stride[PCO_MAX_RANK];
    cpu_strides(y, stride);
    for (uint32_t i = 0; i < x->rank; i++) {
        if (attrs->before[i] < 0 || attrs->after[i] < 0 || attrs->before[i] > y->shape[i] ||
            attrs->after[i] != y->shape[i] - attrs->before[i] - x->shape[i])
            return cpu_invalid(node, err, "dimension %u does not fit", i);
        walk->stride[0][i] = stride[i];
        node->plan.copy.base += attrs->before[i] * stride[i];
    }
    cpu_walk_merge(walk);
    return PCO_OK;
}

CPU_PARSE(gather)
{
    const cpu_tensor *x = &node->in[0], *indices = &node->in[1], *y = &node->out[0];
    int axis;
    if (!cpu_axis_of(x, node->attrs.gather.axis, &axis)) return cpu_invalid(node, err, "axis is out of range");
    if (cpu_is_quantised(x->dtype)) {
        if (x->rank != 2 || axis != 0 || !cpu_is_float(y->dtype) || node->attrs.gather.dtype != (int64_t)y->dtype)
            return cpu_invalid(node, err, "quantised x has rank 2 and axis 0, and gives the float type of dtype");
    } else if (x->dtype != y->dtype) {
        return cpu_invalid(node, err, "input and output differ in type");
    }
    cpu_axis split = cpu_split(x, axis);
    node->plan.gather = (cpu_gather){.outer = split.outer, .n = split.n, .inner = split.inner, .picks = indices->count};
    bool fits = y->rank + 1 == x->rank + indices->rank;
    for (uint32_t i = 0; fits && i < y->rank; i++) {
        uint32_t behind = (uint32_t)axis + indices->rank;
        int64_t size = i < (uint32_t)axis ? x->shape[i]
                       : i < behind       ? indices->shape[i - (uint32_t)axis]
                                          : x->shape[i - behind + (uint32_t)axis + 1];
        fits = y->shape[i] == size;
    }
    return fits ? PCO_OK : cpu_invalid(node, err, "the output has another shape");
}

CPU_PARSE(gather_along_axis)
{
    const cpu_tensor *x = &node->in[0], *indices = &node->in[1], *y = &node->out[0];
    int axis;
    if (!cpu_axis_of(x, node->attrs.gather_along_axis.axis, &axis))
        return cpu_invalid(node, err, "axis is out of range");
    if (!cpu_same_but(x, indices, axis) || !cpu_same_shape(indices, y))
        return cpu_invalid(node, err, "x, indices and output do not fit");
    cpu_axis split = cpu_split(x, axis);
    node->plan.gather =
        (cpu_gather){.outer = split.outer, .n = split.n, .inner = split.inner, .picks = indices->shape[axis]};
    return PCO_OK;
}

CPU_PARSE(scatter_add)
{
    const cpu_tensor *x = &node->in[0], *indices = &node->in[1], *updates = &node->in[2];
    int axis;
    if (!cpu_axis_of(x, node->attrs.scatter_add.axis, &axis)) return cpu_invalid(node, err, "axis is out of range");
    cpu_axis split = cpu_split(x, axis);
    node->plan.gather = (cpu_gather){.outer = split.outer, .n = split.n, .inner = split.inner, .picks = indices->count};
    if (updates->count != split.outer * indices->count * split.inner)
        return cpu_invalid(node, err, "updates do not have the shape of gather(x, indices)");
    if (!cpu_same_shape(x, &node->out[0])) return cpu_invalid(node, err, "x and output differ in shape");
    return PCO_OK;
}

CPU_PARSE(state_write)
{
    const cpu_tensor *state = &node->in[0], *x = &node->in[1], *index = &node->in[2];
    int axis;
    if (!cpu_axis_of(state, node->attrs.state_write.axis, &axis) || axis == 0)
        return cpu_invalid(node, err, "axis is out of range");
    if (!cpu_same_but(state, x, axis) || !cpu_same_shape(state, &node->out[0]))
        return cpu_invalid(node, err, "state, x and output do not fit");
    if (x->dtype != state->dtype && !(cpu_is_float(x->dtype) && cpu_is_float(state->dtype)))
        return cpu_invalid(node, err, "state and x differ in type and are not both floats");
    if (index->count != state->shape[0] && index->count != 1)
        return cpu_invalid(node, err, "index has neither one element nor one per sequence");
    node->plan.state_write = (cpu_state_write){
        .sequences = state->shape[0],
        .middle = cpu_product(state->shape, 1, axis),
        .n = state->shape[axis],
        .inner = cpu_product(state->shape, axis + 1, (int)state->rank),
        .rows = x->shape[axis],
    };
    return PCO_OK;
}
