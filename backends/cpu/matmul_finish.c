/* What the variants of matmul share: where a batch begins, and the ends of rows. */
#include "matmul.h"

void cpu_matmul_offsets(const cpu_matmul *plan, int64_t batch, int64_t *a, int64_t *b)
{
    *a = *b = 0;
    for (int i = plan->batch_rank - 1; i >= 0; i--) {
        int64_t index = batch % plan->batch_shape[i];
        batch /= plan->batch_shape[i];
        *a += index * plan->a_batch[i];
        *b += index * plan->b_batch[i];
    }
}

static void cpu_add_operand(const cpu_node *node, const cpu_tensor *x, int64_t at, float *sums, int64_t n)
{
    float lanes[CPU_FINISH_COLUMNS];
    node->kernels->load[x->dtype](lanes, cpu_at(x, at), n);
    node->kernels->map2[PCO_OP_ADD](sums, sums, lanes, n);
}

void cpu_matmul_finish(const cpu_node *node, int64_t row, int64_t column, float *sums, int64_t n)
{
    const cpu_tensor *y = &node->out[0], *bias = &node->in[2], *c = &node->in[3];
    int64_t activation = node->attrs.matmul.activation, at = row * node->plan.matmul.n + column;
    for (int64_t i = 0; i < n; i += CPU_FINISH_COLUMNS) {
        int64_t part = cpu_min(CPU_FINISH_COLUMNS, n - i);
        if (bias->present) cpu_add_operand(node, bias, column + i, sums + i, part);
        if (activation) node->kernels->activate[activation](sums + i, sums + i, part);
        if (c->present) cpu_add_operand(node, c, at + i, sums + i, part);
    }
    if (cpu_at(y, at) != (unsigned char *)sums) node->kernels->store[y->dtype](cpu_at(y, at), sums, n);
}
