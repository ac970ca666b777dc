/* Reductions, softmax and norms. */
#include "parse.h"

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
    const pco_sum_attrs *attrs = &node->attrs.sum; /* mean and amax have the same */
    const cpu_tensor *x = &node->in[0];
    uint32_t dims = 0;
    for (int64_t i = 0; i < attrs->n_axes; i++) dims |= 1u << attrs->axes[i];
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
}

/* The axis is the first attribute of every op that has one (core/graph/op.c). */
CPU_PARSE(axis) { node->plan.axis = cpu_split(&node->in[0], node->attrs.softmax.axis); }

/* Rows are along the last dimension. */
CPU_PARSE(rows) { node->plan.axis = cpu_split(&node->in[0], node->in[0].rank - 1); }
