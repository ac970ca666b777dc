#include "parse.h"

/* a [..,M,K] (or [..,K,M]) and b [..,K,N] (or [..,N,K]) without looking at leading dimensions. */
static void cpu_matmul_sizes(const cpu_node *node, cpu_matmul *plan)
{
    const cpu_tensor *a = &node->in[0], *b = &node->in[1];
    const pco_matmul_attrs *attrs = &node->attrs.matmul;
    int64_t a0 = a->shape[a->rank - 2], a1 = a->shape[a->rank - 1];
    bool ta = attrs->transpose_a != 0, tb = attrs->transpose_b != 0;
    plan->m = ta ? a1 : a0;
    plan->k = ta ? a0 : a1;
    plan->n = b->shape[b->rank - (tb ? 2 : 1)];
    plan->a_row = ta ? 1 : a1;
    plan->a_k = ta ? a1 : 1;
    plan->b_by_rows = tb;
}

CPU_PARSE(matmul)
{
    const cpu_tensor *a = &node->in[0], *b = &node->in[1], *y = &node->out[0];
    cpu_matmul *plan = &node->plan.matmul;
    cpu_matmul_sizes(node, plan);
    cpu_walk walk;
    cpu_walk_init(&walk, y->rank - 2, y->shape, 2);
    cpu_walk_broadcast(&walk, 0, a->rank - 2, a->shape);
    cpu_walk_broadcast(&walk, 1, b->rank - 2, b->shape);
    cpu_walk_merge(&walk);
    plan->batches = walk.count;
    /* Under one b, batches are more rows. */
    bool one_b = true;
    for (int i = 0; i < walk.rank; i++)
        if (walk.shape[i] != 1 && walk.stride[1][i] != 0) one_b = false;
    if (one_b && walk.linear[0] && plan->a_k == 1) {
        plan->m *= plan->batches;
        plan->batches = 1;
        cpu_walk_init(&walk, 0, NULL, 2);
        cpu_walk_merge(&walk);
    }
    plan->batch_rank = walk.rank;
    for (int i = 0; i < walk.rank; i++) {
        plan->batch_shape[i] = walk.shape[i];
        plan->a_batch[i] = walk.stride[0][i] * cpu_product(a->shape, (int)a->rank - 2, (int)a->rank);
        plan->b_batch[i] = walk.stride[1][i] * cpu_product(b->shape, (int)b->rank - 2, (int)b->rank);
    }
}

CPU_PARSE(conv1d)
{
    const cpu_tensor *x = &node->in[0], *weight = &node->in[1], *y = &node->out[0];
    const int rank = (int)x->rank;
    node->plan.conv1d = (cpu_conv1d){.n = cpu_product(x->shape, 0, rank - 2),
                                     .c = x->shape[rank - 2],
                                     .l = x->shape[rank - 1],
                                     .o = weight->shape[0],
                                     .k = weight->shape[2],
                                     .m = y->shape[rank - 1],
                                     .groups = node->attrs.conv1d.groups};
}
