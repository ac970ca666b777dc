/* matmul: its plan, its variants, of which the plain one is here, and cpu:reference. */
#include "matmul.h"

#include "layout.h"

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

static CPU_RUN(native_matmul_naive)
{
    const cpu_matmul *plan = &node->plan.matmul;
    if (node->out[0].count == 0) return;
    cpu_parallel(node, plan->batches * plan->m, cpu_grain(plan->n * plan->k), cpu_naive_slice);
}

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
    /* A column is a row that was not transposed: as such, those of all batches are rows of one matrix. */
    plan->a_row = ta && a1 != 1 ? 1 : plan->k;
    plan->a_k = ta ? a1 : 1;
    plan->b_by_rows = tb;
}

static CPU_PARSE(matmul)
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

/* ---- variants ---- */

/* One matrix [K,N] of f32 or a half type is wanted in panels, as tiles read it, by all products, of whatever number of
 * rows: it is then there once, in the place of the matrix itself, and no run packs or widens it (a half type takes
 * twice the memory for that). Not a small one, which is read as it is. But for a few columns, whose panels would be
 * half as large again. [N,K] stays, since products of few rows read it as it is, and both would be twice the memory. */
static cpu_layout cpu_matmul_layout(const cpu_node *node, uint32_t i)
{
    const cpu_matmul *plan = &node->plan.matmul;
    const cpu_tensor *b = &node->in[1];
    const int64_t wide = node->kernels->tile_columns, panels = (plan->n + wide - 1) / wide;
    const bool whole = cpu_panels_take(b->dtype) && !plan->b_by_rows && b->count == plan->k * plan->n && b->count > 0;
    return i == 1 && whole && !cpu_matmul_is_small(node) && 2 * panels * wide <= 3 * plan->n ? CPU_LAYOUT_PANELS
                                                                                             : CPU_LAYOUT_FILE;
}

/* What others can be replaced by is the last. */
enum { CPU_MATMUL_GEMM, CPU_MATMUL_GEMV, CPU_MATMUL_DIRECT, CPU_MATMUL_NAIVE };
static const cpu_variant cpu_matmul_variants[] = {
    [CPU_MATMUL_GEMM] = {"gemm", cpu_run_native_gemm, cpu_native_gemm_workspace, NULL, cpu_matmul_layout},
    [CPU_MATMUL_GEMV] = {"gemv", cpu_run_native_gemv, cpu_native_gemv_workspace, NULL, cpu_matmul_layout},
    [CPU_MATMUL_DIRECT] = {"direct", cpu_run_native_direct, NULL, cpu_native_direct_fits, NULL},
    [CPU_MATMUL_NAIVE] = {"naive", cpu_run_native_matmul_naive, NULL, NULL, NULL},
};

/* Up to this many rows, reading b where it lies is faster than packing it. [K,N] is read once per row, [N,K]
 * once per four. */
enum { CPU_GEMV_ROWS = 24, CPU_GEMV_ROWS_BY_COLUMNS = 3 };

static const cpu_variant *cpu_matmul_choose(const cpu_node *node)
{
    const cpu_matmul *plan = &node->plan.matmul;
    const bool few = plan->m <= (plan->b_by_rows ? CPU_GEMV_ROWS : CPU_GEMV_ROWS_BY_COLUMNS);
    if (cpu_matmul_is_small(node)) return &cpu_matmul_variants[CPU_MATMUL_DIRECT];
    return &cpu_matmul_variants[few ? CPU_MATMUL_GEMV : CPU_MATMUL_GEMM];
}

/* ---- cpu:reference ---- */

CPU_REFERENCE_BEGIN

double cpu_reference_activation(int64_t activation, double x)
{
    switch (activation) {
    case CPU_ACT_RELU: return x > 0 ? x : x <= 0 ? 0 : x;
    case CPU_ACT_GELU: return x == -INFINITY ? 0 : 0.5 * x * erfc(-x * 0.70710678118654752440);
    case CPU_ACT_GELU_TANH:
        if (x == -INFINITY) return 0;
        return x / (1 + exp(-2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x)));
    case CPU_ACT_SILU: return x == -INFINITY ? 0 : x / (1 + exp(-x));
    default: return x;
    }
}

/* a in double, row by row of every batch, then a column of b per worker. */
static CPU_WORKSPACE(reference_matmul)
{
    const cpu_matmul *plan = &node->plan.matmul;
    uint64_t rows = (uint64_t)(plan->batches * plan->m) + node->device->threads;
    return cpu_round64(rows * (uint64_t)plan->k * 8);
}

static void cpu_reference_offsets(const cpu_matmul *plan, int64_t batch, int64_t *a, int64_t *b)
{
    *a = cpu_reference_offset(batch, plan->batch_rank, plan->batch_shape, plan->a_batch);
    *b = cpu_reference_offset(batch, plan->batch_rank, plan->batch_shape, plan->b_batch);
}

static void cpu_reference_widen_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    const cpu_matmul *plan = &node->plan.matmul;
    const cpu_tensor *a = &node->in[0];
    double *rows = (double *)(void *)node->workspace;
    for (int64_t row = begin; row < end; row++) {
        int64_t a_at, b_at;
        cpu_reference_offsets(plan, row / plan->m, &a_at, &b_at);
        for (int64_t k = 0; k < plan->k; k++)
            rows[row * plan->k + k] =
                cpu_load_f64(a->dtype, a->data, a_at + row % plan->m * plan->a_row + k * plan->a_k);
    }
}

/* Slices are columns of the result, over all batches. */
static void cpu_reference_matmul_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    const cpu_node *node = task;
    const cpu_matmul *plan = &node->plan.matmul;
    const cpu_tensor *b = &node->in[1], *bias = &node->in[2], *c = &node->in[3], *y = &node->out[0];
    const double *rows = (const double *)(void *)node->workspace;
    double *column = (double *)(void *)node->workspace + (plan->batches * plan->m + worker) * plan->k;
    for (int64_t i = begin; i < end; i++) {
        int64_t batch = i / plan->n, n = i % plan->n, a_at, b_at;
        cpu_reference_offsets(plan, batch, &a_at, &b_at);
        for (int64_t k = 0; k < plan->k; k++)
            column[k] = cpu_load_f64(b->dtype, b->data, b_at + (plan->b_by_rows ? n * plan->k + k : k * plan->n + n));
        for (int64_t m = 0; m < plan->m; m++) {
            const double *row = rows + (batch * plan->m + m) * plan->k;
            int64_t at = (batch * plan->m + m) * plan->n + n;
            double sum = 0;
            for (int64_t k = 0; k < plan->k; k++) sum += row[k] * column[k];
            if (bias->present) sum += cpu_load_f64(bias->dtype, bias->data, n);
            sum = cpu_reference_activation(node->attrs.matmul.activation, sum);
            if (c->present) sum += cpu_load_f64(c->dtype, c->data, at);
            cpu_store_f64(y->dtype, y->data, at, sum);
        }
    }
}

static CPU_RUN(reference_matmul)
{
    const cpu_matmul *plan = &node->plan.matmul;
    if (node->out[0].count == 0) return;
    cpu_parallel(node, plan->batches * plan->m, cpu_grain(plan->k), cpu_reference_widen_slice);
    cpu_parallel(node, plan->batches * plan->n, cpu_grain(plan->m * plan->k), cpu_reference_matmul_slice);
}

CPU_REFERENCE_END

CPU_OP(MATMUL, matmul, 0, CHOICE(matmul), MEMORY(reference_matmul))
