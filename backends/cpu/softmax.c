/* softmax, log_softmax and logsumexp. On cpu:native a row is worked on in f32: where it lies if it is f32 and
 * contiguous, else in the worker's memory. */
#include "run.h"

enum { CPU_EXP_BLOCK = 4096 };

static bool cpu_row_is_f32(const cpu_node *node) { return node->in[0].dtype == PCO_F32 && node->plan.axis.inner == 1; }

static CPU_WORKSPACE(native_softmax)
{
    return cpu_row_is_f32(node) ? 0 : node->device->threads * cpu_round64((uint64_t)node->plan.axis.n * 4);
}

double cpu_exp_sum(const cpu_node *node, float *y, const float *x, float max, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i += CPU_EXP_BLOCK)
        sum += (double)node->kernels->exp_sum(y + i, x + i, max, cpu_min(CPU_EXP_BLOCK, n - i));
    return sum;
}

double cpu_exp_sum_only(const cpu_node *node, const float *x, float max, int64_t n)
{
    float block[CPU_EXP_BLOCK];
    double sum = 0;
    for (int64_t i = 0; i < n; i += CPU_EXP_BLOCK)
        sum += (double)node->kernels->exp_sum(block, x + i, max, cpu_min(CPU_EXP_BLOCK, n - i));
    return sum;
}

static void cpu_softmax_row(const cpu_node *node, float *y, const float *x, int64_t n)
{
    float max = node->kernels->max(x, n);
    if (max == -INFINITY) {
        memset(y, 0, (size_t)n * 4);
        return;
    }
    double sum = cpu_exp_sum(node, y, x, max, n);
    node->kernels->scale(y, y, (float)(1 / sum), n);
}

static void cpu_log_softmax_row(const cpu_node *node, float *y, const float *x, int64_t n)
{
    float max = node->kernels->max(x, n);
    double sum = cpu_exp_sum_only(node, x, max, n);
    node->kernels->normalise(y, x, max, (float)log(sum), 1, NULL, NULL, n);
}

static float cpu_logsumexp_row(const cpu_node *node, const float *x, int64_t n)
{
    float max = node->kernels->max(x, n);
    if (max == -INFINITY) return max;
    return (float)((double)max + log(cpu_exp_sum_only(node, x, max, n)));
}

static void cpu_read_row(const cpu_node *node, float *row, int64_t base)
{
    const cpu_tensor *x = &node->in[0];
    cpu_axis axis = node->plan.axis;
    if (axis.inner == 1)
        node->kernels->load[x->dtype](row, cpu_at(x, base), axis.n);
    else
        for (int64_t j = 0; j < axis.n; j++) row[j] = (float)cpu_load_f64(x->dtype, x->data, base + j * axis.inner);
}

static void cpu_write_row(const cpu_node *node, const float *row, int64_t base)
{
    const cpu_tensor *y = &node->out[0];
    cpu_axis axis = node->plan.axis;
    if (axis.inner == 1)
        node->kernels->store[y->dtype](cpu_at(y, base), row, axis.n);
    else
        for (int64_t j = 0; j < axis.n; j++) cpu_store_f64(y->dtype, y->data, base + j * axis.inner, (double)row[j]);
}

static void cpu_softmax_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    const cpu_node *node = task;
    const cpu_tensor *x = &node->in[0], *y = &node->out[0];
    cpu_axis axis = node->plan.axis;
    bool direct = cpu_row_is_f32(node);
    float *own = direct ? NULL : (float *)(void *)cpu_worker_memory(node, worker);
    for (int64_t i = begin; i < end; i++) {
        int64_t base = i / axis.inner * axis.n * axis.inner + i % axis.inner;
        const float *from = direct ? (const float *)(void *)x->data + base : own;
        if (!direct) cpu_read_row(node, own, base);
        if (node->op->op == PCO_OP_LOGSUMEXP) {
            cpu_store_f64(y->dtype, y->data, i, (double)cpu_logsumexp_row(node, from, axis.n));
            continue;
        }
        float *to = direct ? (float *)(void *)y->data + base : own;
        if (node->op->op == PCO_OP_SOFTMAX)
            cpu_softmax_row(node, to, from, axis.n);
        else
            cpu_log_softmax_row(node, to, from, axis.n);
        if (!direct) cpu_write_row(node, own, base);
    }
}

static CPU_RUN(native_softmax)
{
    cpu_axis axis = node->plan.axis;
    if (node->out[0].count == 0) return;
    cpu_parallel(node, axis.outer * axis.inner, cpu_grain(axis.n * 8), cpu_softmax_slice);
}

/* ---- cpu:reference ---- */

CPU_REFERENCE_BEGIN

static void cpu_reference_softmax_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    const cpu_tensor *x = &node->in[0], *y = &node->out[0];
    cpu_axis axis = node->plan.axis;
    for (int64_t i = begin; i < end; i++) {
        int64_t base = i / axis.inner * axis.n * axis.inner + i % axis.inner;
        double most = -INFINITY, sum = 0;
        for (int64_t j = 0; j < axis.n; j++) {
            double v = cpu_load_f64(x->dtype, x->data, base + j * axis.inner);
            if (v > most || v != v) most = v;
        }
        for (int64_t j = 0; j < axis.n; j++) sum += exp(cpu_load_f64(x->dtype, x->data, base + j * axis.inner) - most);
        if (node->op->op == PCO_OP_LOGSUMEXP) {
            cpu_store_f64(y->dtype, y->data, i, most == -INFINITY ? most : most + log(sum));
            continue;
        }
        for (int64_t j = 0; j < axis.n; j++) {
            double v = cpu_load_f64(x->dtype, x->data, base + j * axis.inner) - most;
            if (node->op->op == PCO_OP_SOFTMAX)
                v = most == -INFINITY ? 0 : exp(v) / sum;
            else
                v = v - log(sum);
            cpu_store_f64(y->dtype, y->data, base + j * axis.inner, v);
        }
    }
}

static CPU_RUN(reference_softmax)
{
    cpu_axis axis = node->plan.axis;
    if (node->out[0].count == 0) return;
    cpu_parallel(node, axis.outer * axis.inner, cpu_grain(axis.n * 64), cpu_reference_softmax_slice);
}

CPU_REFERENCE_END

CPU_OP(SOFTMAX, axis, 1, MEMORY(native_softmax), PLAIN(reference_softmax))
CPU_OP(LOG_SOFTMAX, axis, 1, MEMORY(native_softmax), PLAIN(reference_softmax))
CPU_OP(LOGSUMEXP, axis, 0, MEMORY(native_softmax), PLAIN(reference_softmax))
