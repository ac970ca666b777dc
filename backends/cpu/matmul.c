/* The ends of a product's rows, and the plain variant. */
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

static void cpu_naive_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    const cpu_matmul *plan = &node->plan.matmul;
    const cpu_tensor *a = &node->in[0], *b = &node->in[1];
    for (int64_t row = begin; row < end; row++) {
        int64_t a_at, b_at;
        cpu_matmul_offsets(plan, row / plan->m, &a_at, &b_at);
        a_at += row % plan->m * plan->a_row;
        for (int64_t n = 0; n < plan->n; n++) {
            float sum = 0;
            for (int64_t k = 0; k < plan->k; k++) {
                int64_t b_index = b_at + (plan->b_by_rows ? n * plan->k + k : k * plan->n + n);
                sum += (float)cpu_load_f64(a->dtype, a->data, a_at + k * plan->a_k) *
                       (float)cpu_load_f64(b->dtype, b->data, b_index);
            }
            cpu_matmul_finish(node, row, n, &sum, 1);
        }
    }
}

void cpu_run_native_matmul_naive(const cpu_node *node)
{
    const cpu_matmul *plan = &node->plan.matmul;
    if (node->out[0].count == 0) return;
    cpu_parallel(node, plan->batches * plan->m, cpu_grain(plan->n * plan->k), cpu_naive_slice);
}
