/* Products by a small matrix [K,N] of f32: tiles read a and b where they lie, since b stays in the first cache and
 * packing would cost as much as the product. The same bits as of gemm. */
#include "matmul.h"

enum { CPU_DIRECT = 4096 }; /* elements of b: half of a first cache of 32 KiB */

bool cpu_matmul_is_small(const cpu_node *node)
{
    const cpu_matmul *plan = &node->plan.matmul;
    return cpu_native_direct_fits(node) && plan->n % node->kernels->lanes == 0 && plan->k * plan->n <= CPU_DIRECT;
}

bool cpu_native_direct_fits(const cpu_node *node)
{
    return node->in[0].dtype == PCO_F32 && node->in[1].dtype == PCO_F32 && node->out[0].dtype == PCO_F32 &&
           !node->plan.matmul.b_by_rows;
}

/* Slices are tiles of rows, over all batches. */
static void cpu_direct_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    const cpu_matmul *plan = &node->plan.matmul;
    const int64_t high = node->kernels->tile_rows, tiles = (plan->m + high - 1) / high;
    const float *a = (const float *)(const void *)node->in[0].data, *b = (const float *)(const void *)node->in[1].data;
    const bool plain = !node->attrs.matmul.activation && !node->in[2].present && !node->in[3].present;
    for (int64_t i = begin; i < end; i++) {
        int64_t batch = i / tiles, m = i % tiles * high, rows = cpu_min(high, plan->m - m), a_at, b_at;
        int64_t row = batch * plan->m + m;
        float *y = (float *)(void *)node->out[0].data + row * plan->n;
        cpu_matmul_offsets(plan, batch, &a_at, &b_at);
        node->kernels->tile_direct((int)rows, plan->n, plan->k, a + a_at + m * plan->a_row, plan->a_row, plan->a_k,
                                   b + b_at, y);
        for (int64_t r = 0; r < rows && !plain; r++) cpu_matmul_finish(node, row + r, 0, y + r * plan->n, plan->n);
    }
}

CPU_RUN(native_direct)
{
    const cpu_matmul *plan = &node->plan.matmul;
    const int64_t high = node->kernels->tile_rows, tiles = (plan->m + high - 1) / high;
    if (node->out[0].count == 0) return;
    cpu_parallel(node, plan->batches * tiles, cpu_grain(high * plan->n * plan->k / 4), cpu_direct_slice);
}
