/* cpu:reference: reductions, cumsum, matrix products, conv1d and scatter_add. Sums in double, in the order of the
 * indices. */
#include "reference.h"

/* ---- sum, mean, amax ---- */

static int64_t cpu_reference_offset(int64_t flat, int rank, const int64_t *shape, const int64_t *stride)
{
    int64_t offset = 0;
    for (int i = rank - 1; i >= 0; i--) {
        offset += flat % shape[i] * stride[i];
        flat /= shape[i];
    }
    return offset;
}

static void cpu_reference_reduce_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    const cpu_reduction *plan = &node->plan.reduction;
    const cpu_tensor *x = &node->in[0], *y = &node->out[0];
    bool integer = x->dtype == PCO_I32;
    for (int64_t i = begin; i < end; i++) {
        int64_t base = cpu_reference_offset(i, plan->kept_rank, plan->kept, plan->kept_stride);
        double sum = 0, most = integer ? (double)INT32_MIN : -INFINITY;
        uint32_t wrapped = 0;
        for (int64_t j = 0; j < plan->terms; j++) {
            int64_t at = base + cpu_reference_offset(j, plan->reduced_rank, plan->reduced, plan->reduced_stride);
            double v = cpu_load_f64(x->dtype, x->data, at);
            sum += v;
            if (v > most || v != v) most = v;
            if (integer) wrapped += (uint32_t)cpu_i32_at(x, at);
        }
        if (node->op->op == PCO_OP_AMAX)
            cpu_store_f64(y->dtype, y->data, i, most);
        else if (integer)
            ((int32_t *)(void *)y->data)[i] = (int32_t)wrapped;
        else
            cpu_store_f64(y->dtype, y->data, i, node->op->op == PCO_OP_MEAN ? sum / (double)plan->terms : sum);
    }
}

void cpu_run_reference_reduce(const cpu_node *node)
{
    cpu_parallel(node, node->out[0].count, cpu_grain(node->plan.reduction.terms * 8), cpu_reference_reduce_slice);
}

/* ---- cumsum ---- */

static void cpu_reference_cumsum_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    const cpu_tensor *x = &node->in[0], *y = &node->out[0];
    const pco_cumsum_attrs *attrs = &node->attrs.cumsum;
    cpu_axis axis = node->plan.axis;
    for (int64_t i = begin; i < end; i++) {
        int64_t base = i / axis.inner * axis.n * axis.inner + i % axis.inner;
        double sum = 0;
        uint32_t wrapped = 0;
        for (int64_t j = 0; j < axis.n; j++) {
            int64_t at = base + (attrs->reverse ? axis.n - 1 - j : j) * axis.inner;
            if (x->dtype == PCO_I32) {
                uint32_t before = wrapped;
                wrapped += (uint32_t)cpu_i32_at(x, at);
                ((int32_t *)(void *)y->data)[at] = (int32_t)(attrs->exclusive ? before : wrapped);
            } else {
                double before = sum;
                sum += cpu_load_f64(x->dtype, x->data, at);
                cpu_store_f64(y->dtype, y->data, at, attrs->exclusive ? before : sum);
            }
        }
    }
}

void cpu_run_reference_cumsum(const cpu_node *node)
{
    cpu_axis axis = node->plan.axis;
    if (node->out[0].count == 0) return;
    cpu_parallel(node, axis.outer * axis.inner, cpu_grain(axis.n * 8), cpu_reference_cumsum_slice);
}

/* ---- matmul ---- */

static double cpu_reference_activation(int64_t activation, double x)
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
CPU_WORKSPACE(reference_matmul)
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

void cpu_run_reference_matmul(const cpu_node *node)
{
    const cpu_matmul *plan = &node->plan.matmul;
    if (node->out[0].count == 0) return;
    cpu_parallel(node, plan->batches * plan->m, cpu_grain(plan->k), cpu_reference_widen_slice);
    cpu_parallel(node, plan->batches * plan->n, cpu_grain(plan->m * plan->k), cpu_reference_matmul_slice);
}

/* ---- conv1d ---- */

/* For each worker: a row of x and one of y, in double. */
CPU_WORKSPACE(reference_conv1d)
{
    return node->device->threads * cpu_round64((uint64_t)(node->plan.conv1d.l + node->plan.conv1d.m) * 8);
}

/* Adds to sum[t] what weight k of a channel of x contributes: no t where x is not. */
static void cpu_reference_conv1d_add(const cpu_node *node, double *sum, const double *row, int64_t k, double weight)
{
    const cpu_conv1d *plan = &node->plan.conv1d;
    const pco_conv1d_attrs *attrs = &node->attrs.conv1d;
    const int64_t offset = k * attrs->dilation - attrs->padding; /* t * stride + offset lies in 0 .. l - 1 */
    const int64_t first = offset < 0 ? (-offset + attrs->stride - 1) / attrs->stride : 0;
    const int64_t end = offset < plan->l ? cpu_min(plan->m, (plan->l - 1 - offset) / attrs->stride + 1) : 0;
    for (int64_t t = first; t < end; t++) sum[t] += row[t * attrs->stride + offset] * weight;
}

/* Slices are channels of the result, over all samples. */
static void cpu_reference_conv1d_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    const cpu_node *node = task;
    const cpu_conv1d *plan = &node->plan.conv1d;
    const cpu_tensor *x = &node->in[0], *weight = &node->in[1], *bias = &node->in[2], *y = &node->out[0];
    const int64_t each = plan->c / plan->groups;
    double *row = (double *)(void *)cpu_worker_memory(node, worker), *sum = row + plan->l;
    for (int64_t i = begin; i < end; i++) {
        const int64_t o = i % plan->o, first = i / plan->o * plan->c + o / (plan->o / plan->groups) * each;
        for (int64_t t = 0; t < plan->m; t++) sum[t] = 0;
        for (int64_t c = 0; c < each; c++) {
            for (int64_t p = 0; p < plan->l; p++) row[p] = cpu_load_f64(x->dtype, x->data, (first + c) * plan->l + p);
            for (int64_t k = 0; k < plan->k; k++)
                cpu_reference_conv1d_add(node, sum, row, k,
                                         cpu_load_f64(weight->dtype, weight->data, (o * each + c) * plan->k + k));
        }
        for (int64_t t = 0; t < plan->m; t++)
            cpu_store_f64(y->dtype, y->data, i * plan->m + t,
                          bias->present ? sum[t] + cpu_load_f64(bias->dtype, bias->data, o) : sum[t]);
    }
}

CPU_RUN(reference_conv1d)
{
    const cpu_conv1d *plan = &node->plan.conv1d;
    cpu_parallel(node, plan->n * plan->o, cpu_grain(plan->c / plan->groups * plan->k * plan->m),
                 cpu_reference_conv1d_slice);
}

/* ---- scatter_add ---- */

/* Floats are summed in double and rounded once. */
CPU_WORKSPACE(reference_scatter_add)
{
    const cpu_tensor *y = &node->out[0];
    return y->dtype == PCO_I32 ? 0 : cpu_round64((uint64_t)y->count * 8);
}

void cpu_run_reference_scatter_add(const cpu_node *node)
{
    const cpu_tensor *x = &node->in[0], *indices = &node->in[1], *updates = &node->in[2], *y = &node->out[0];
    const cpu_gather *plan = &node->plan.gather;
    double *sum = (double *)(void *)node->workspace;
    bool integer = y->dtype == PCO_I32;
    for (int64_t i = 0; i < y->count; i++) {
        if (integer)
            ((int32_t *)(void *)y->data)[i] = cpu_i32_at(x, i);
        else
            sum[i] = cpu_load_f64(x->dtype, x->data, i);
    }
    for (int64_t outer = 0; outer < plan->outer; outer++)
        for (int64_t pick = 0; pick < plan->picks; pick++) {
            int64_t index = cpu_i32_at(indices, pick);
            if (index < 0 || index >= plan->n) continue;
            for (int64_t inner = 0; inner < plan->inner; inner++) {
                int64_t to = (outer * plan->n + index) * plan->inner + inner;
                int64_t from = (outer * plan->picks + pick) * plan->inner + inner;
                if (integer)
                    ((uint32_t *)(void *)y->data)[to] += (uint32_t)cpu_i32_at(updates, from);
                else
                    sum[to] += cpu_load_f64(updates->dtype, updates->data, from);
            }
        }
    for (int64_t i = 0; i < y->count && !integer; i++) cpu_store_f64(y->dtype, y->data, i, sum[i]);
}
