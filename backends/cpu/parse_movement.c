#include "parse.h"

CPU_PARSE(broadcast_to)
{
    const cpu_tensor *x = &node->in[0], *y = &node->out[0];
    cpu_walk_init(&node->plan.copy.walk, y->rank, y->shape, 1);
    cpu_walk_broadcast(&node->plan.copy.walk, 0, x->rank, x->shape);
    cpu_walk_merge(&node->plan.copy.walk);
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
    cpu_walk *walk = &node->plan.copy.walk;
    cpu_walk_init(walk, y->rank, y->shape, 1);
    int64_t stride[PCO_MAX_RANK];
    cpu_strides(x, stride);
    for (uint32_t i = 0; i < y->rank; i++) walk->stride[0][i] = stride[node->attrs.permute.dims[i]];
    cpu_walk_merge(walk);
}

CPU_PARSE(slice)
{
    const cpu_tensor *x = &node->in[0], *y = &node->out[0];
    const pco_slice_attrs *attrs = &node->attrs.slice;
    cpu_walk *walk = &node->plan.copy.walk;
    cpu_walk_init(walk, y->rank, y->shape, 1);
    int64_t stride[PCO_MAX_RANK];
    cpu_strides(x, stride);
    for (uint32_t i = 0; i < x->rank && y->count > 0; i++) { /* where nothing is taken, a step may be any number */
        walk->stride[0][i] = y->shape[i] > 1 ? stride[i] * attrs->steps[i] : 0;
        node->plan.copy.base += attrs->starts[i] * stride[i];
    }
    cpu_walk_merge(walk);
}

CPU_PARSE(concat) { node->plan.axis = cpu_split(&node->out[0], node->attrs.concat.axis); }

/* The plan walks over x; the stride is that of y. */
CPU_PARSE(pad)
{
    const cpu_tensor *x = &node->in[0], *y = &node->out[0];
    cpu_walk *walk = &node->plan.copy.walk;
    cpu_walk_init(walk, x->rank, x->shape, 1);
    int64_t stride[PCO_MAX_RANK];
    cpu_strides(y, stride);
    for (uint32_t i = 0; i < x->rank; i++) {
        walk->stride[0][i] = stride[i];
        node->plan.copy.base += node->attrs.pad.before[i] * stride[i];
    }
    cpu_walk_merge(walk);
}

/* x around the axis, and how many slices of it are picked. */
static void cpu_plan_gather(cpu_node *node, int64_t axis, int64_t picks)
{
    const cpu_axis split = cpu_split(&node->in[0], axis);
    node->plan.gather = (cpu_gather){.outer = split.outer, .n = split.n, .inner = split.inner, .picks = picks};
}

CPU_PARSE(gather) { cpu_plan_gather(node, node->attrs.gather.axis, node->in[1].count); }

CPU_PARSE(gather_along_axis)
{
    const int64_t axis = node->attrs.gather_along_axis.axis;
    cpu_plan_gather(node, axis, node->in[1].shape[axis]);
}

CPU_PARSE(scatter_add) { cpu_plan_gather(node, node->attrs.scatter_add.axis, node->in[1].count); }

CPU_PARSE(state_write)
{
    const cpu_tensor *state = &node->in[0], *x = &node->in[1];
    const int axis = (int)node->attrs.state_write.axis;
    node->plan.state_write = (cpu_state_write){
        .sequences = state->shape[0],
        .middle = cpu_product(state->shape, 1, axis),
        .n = state->shape[axis],
        .inner = cpu_product(state->shape, axis + 1, (int)state->rank),
        .rows = x->shape[axis],
    };
}
