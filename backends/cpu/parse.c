/* Plans that ops of several files have. What plugin.h says the host has checked is so: nothing is refused here. */
#include "run.h"

/* Attributes and shapes say all there is. */
CPU_PARSE(nothing) { (void)node; }

/* One operand that lies as the result does. */
CPU_PARSE(unary)
{
    const cpu_tensor *y = &node->out[0];
    cpu_walk_init(&node->plan.walk, y->rank, y->shape, 1);
    cpu_walk_broadcast(&node->plan.walk, 0, y->rank, y->shape);
    cpu_walk_merge(&node->plan.walk);
}

/* The axis is the first attribute of every op that has one (core/graph/op.c). */
CPU_PARSE(axis) { node->plan.axis = cpu_split(&node->in[0], node->attrs.softmax.axis); }

/* Rows are along the last dimension. */
CPU_PARSE(rows) { node->plan.axis = cpu_split(&node->in[0], node->in[0].rank - 1); }

/* Sizes and strides of [B,H,S,D] or [B,S,H,D]. */
void cpu_heads(const cpu_tensor *x, bool heads_first, int64_t *heads, int64_t *rows, int64_t *stride_b,
               int64_t *stride_h, int64_t *stride_s)
{
    int64_t width = x->shape[3];
    *heads = x->shape[heads_first ? 1 : 2];
    *rows = x->shape[heads_first ? 2 : 1];
    *stride_b = x->shape[1] * x->shape[2] * width;
    *stride_h = heads_first ? *rows * width : width;
    *stride_s = heads_first ? width : *heads * width;
}
