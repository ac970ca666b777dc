#include "parse.h"

/* Attributes and shapes say all there is. */
CPU_PARSE(nothing) { (void)node; }

CPU_PARSE(elementwise)
{
    const cpu_tensor *y = &node->out[0];
    cpu_walk *walk = &node->plan.walk;
    cpu_walk_init(walk, y->rank, y->shape, (int)node->n_inputs);
    for (uint32_t i = 0; i < node->n_inputs; i++) cpu_walk_broadcast(walk, (int)i, node->in[i].rank, node->in[i].shape);
    cpu_walk_merge(walk);
}

/* One operand that lies as the result does. */
CPU_PARSE(unary)
{
    const cpu_tensor *y = &node->out[0];
    cpu_walk_init(&node->plan.walk, y->rank, y->shape, 1);
    cpu_walk_broadcast(&node->plan.walk, 0, y->rank, y->shape);
    cpu_walk_merge(&node->plan.walk);
}

CPU_PARSE(swiglu)
{
    const cpu_tensor *y = &node->out[0];
    cpu_walk *walk = &node->plan.walk;
    if (node->in[1].present) {
        cpu_walk_init(walk, y->rank, y->shape, 2);
        for (int i = 0; i < 2; i++) cpu_walk_broadcast(walk, i, y->rank, y->shape);
        cpu_walk_merge(walk);
        return;
    }
    int64_t n = y->shape[y->rank - 1], rows = cpu_product(y->shape, 0, (int)y->rank - 1);
    cpu_walk_init(walk, 2, (int64_t[]){rows, n}, 2);
    for (int i = 0; i < 2; i++) {
        walk->stride[i][0] = 2 * n;
        walk->stride[i][1] = 1;
    }
    cpu_walk_merge(walk);
}

/* plan.axis: rows of the gradient, and its last dimension. */
CPU_PARSE(swiglu_backward)
{
    const cpu_tensor *gradient = &node->in[2];
    const bool joined = !node->in[1].present;
    node->plan.axis = joined ? cpu_split(gradient, gradient->rank - 1) : (cpu_axis){1, gradient->count, 1};
}

CPU_PARSE(iota) { node->plan.axis = cpu_split(&node->out[0], node->attrs.iota.axis); }
