/* Products with few rows: b is read once, as it is stored, and widened in registers. */
#include "matmul.h"

enum { CPU_GEMV_COLUMNS = 64 };

static bool cpu_gemv_reads_a(const cpu_node *node)
{
    return node->in[0].dtype == PCO_F32 && node->plan.matmul.a_k == 1;
}

/* a in f32, rows one after the other, batch by batch, unless it lies so already. */
CPU_WORKSPACE(native_gemv)
{
    const cpu_matmul *plan = &node->plan.matmul;
    if (cpu_gemv_reads_a(node)) return 0;
    return cpu_round64((uint64_t)(plan->batches * plan->m * plan->k) * 4);
}

static void cpu_gemv_widen(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    const cpu_matmul *plan = &node->plan.matmul;
    const cpu_tensor *a = &node->in[0];
    for (int64_t row = begin; row < end; row++) {
        int64_t a_at, b_at;
        cpu_matmul_offsets(plan, row / plan->m, &a_at, &b_at);
        a_at += row % plan->m * plan->a_row;
        float *to = (float *)(void *)node->workspace + row * plan->k;
        if (plan->a_k == 1)
            node->kernels->load[a->dtype](to, cpu_at(a, a_at), plan->k);
        else
            for (int64_t k = 0; k < plan->k; k++) to[k] = (float)cpu_load_f64(a->dtype, a->data, a_at + k * plan->a_k);
    }
}

/* The rows of a batch of a in f32, and how far apart they are. */
static const float *cpu_gemv_rows(const cpu_node *node, int64_t batch, int64_t a_at, int64_t *stride)
{
    const cpu_matmul *plan = &node->plan.matmul;
    *stride = plan->k;
    if (cpu_gemv_reads_a(node)) return (const float *)(void *)node->in[0].data + a_at;
    return (const float *)(void *)node->workspace + batch * plan->m * plan->k;
}

/* Columns first .. first+n-1 of one batch, b stored by rows [N,K]; n <= CPU_GEMV_COLUMNS. */
static void cpu_gemv_by_rows(const cpu_node *node, int64_t batch, int64_t first, int64_t n)
{
    const cpu_matmul *plan = &node->plan.matmul;
    const cpu_tensor *b = &node->in[1];
    int64_t a_at, b_at, stride;
    cpu_matmul_offsets(plan, batch, &a_at, &b_at);
    const float *a = cpu_gemv_rows(node, batch, a_at, &stride);
    for (int64_t m = 0; m < plan->m; m += CPU_DOT_ROWS) {
        int rows = (int)cpu_min(CPU_DOT_ROWS, plan->m - m);
        float sums[CPU_DOT_ROWS][CPU_GEMV_COLUMNS], column[CPU_DOT_ROWS];
        for (int64_t j = 0; j < n; j++) {
            const unsigned char *row = cpu_at(b, b_at + (first + j) * plan->k);
            node->kernels->dot_rows[b->dtype](column, a + m * stride, stride, rows, row, plan->k);
            for (int r = 0; r < rows; r++) sums[r][j] = column[r];
        }
        for (int r = 0; r < rows; r++) cpu_matmul_finish(node, batch * plan->m + m + r, first, sums[r], n);
    }
}

/* y[n] = sum_k x[k] b[k, first + n], for b in panels. */
static void cpu_gemv_panels(const cpu_node *node, float *y, const float *x, int64_t first, int64_t n)
{
    const int64_t wide = node->kernels->tile_columns, k = node->plan.matmul.k;
    const float *b = (const float *)(const void *)node->in[1].data;
    for (int64_t done = 0, part; done < n; done += part) {
        const int64_t column = first + done, within = column % wide;
        part = cpu_min(wide - within, n - done);
        node->kernels->dot_columns[PCO_F32](y + done, x, b + (column - within) * k + within, wide, k, part);
    }
}

/* The same for b stored [K,N], or so in panels; n <= CPU_COLUMNS_MOST. */
static void cpu_gemv_by_columns(const cpu_node *node, int64_t batch, int64_t first, int64_t n)
{
    const cpu_matmul *plan = &node->plan.matmul;
    const cpu_tensor *b = &node->in[1];
    int64_t a_at, b_at, stride;
    cpu_matmul_offsets(plan, batch, &a_at, &b_at);
    const float *a = cpu_gemv_rows(node, batch, a_at, &stride);
    float sums[CPU_COLUMNS_MOST];
    for (int64_t m = 0; m < plan->m; m++) {
        if (b->layout == CPU_LAYOUT_PANELS)
            cpu_gemv_panels(node, sums, a + m * stride, first, n);
        else
            node->kernels->dot_columns[b->dtype](sums, a + m * stride, cpu_at(b, b_at + first), plan->n, plan->k, n);
        cpu_matmul_finish(node, batch * plan->m + m, first, sums, n);
    }
}

/* Slices are columns of the result, over all batches. */
static void cpu_gemv_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    const cpu_matmul *plan = &node->plan.matmul;
    int64_t most = plan->b_by_rows ? CPU_GEMV_COLUMNS : CPU_COLUMNS_MOST;
    for (int64_t at = begin, n; at < end; at += n) {
        int64_t batch = at / plan->n, first = at % plan->n;
        n = cpu_min(cpu_min(most, end - at), plan->n - first);
        if (plan->b_by_rows)
            cpu_gemv_by_rows(node, batch, first, n);
        else
            cpu_gemv_by_columns(node, batch, first, n);
    }
}

CPU_RUN(native_gemv)
{
    const cpu_matmul *plan = &node->plan.matmul;
    if (node->out[0].count == 0) return;
    if (!cpu_gemv_reads_a(node)) cpu_parallel(node, plan->batches * plan->m, cpu_grain(plan->k), cpu_gemv_widen);
    int64_t least = plan->b_by_rows ? 4 : 128;
    int64_t grain = cpu_max(least, cpu_grain(plan->m * plan->k));
    cpu_parallel(node, plan->batches * plan->n, grain, cpu_gemv_slice);
}
