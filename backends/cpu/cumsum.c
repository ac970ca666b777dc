/* cumsum; sums of floats in double. */
#include "run.h"

enum { CPU_CUMSUM_PARTS = 4, CPU_CUMSUM_PART = 256, CPU_CUMSUM_COLUMNS = 256 };

/* Where term j of a row lies, counted from its beginning in steps of the axis. */
static int64_t cpu_cumsum_at(const cpu_node *node, int64_t j)
{
    return node->attrs.cumsum.reverse ? node->plan.axis.n - 1 - j : j;
}

/* i32 elements [from, from + width) of each step: one row, or neighbours. */
static void cpu_cumsum_i32(const cpu_node *node, int64_t from, int64_t width)
{
    uint32_t sum[CPU_CUMSUM_COLUMNS] = {0};
    const cpu_axis *axis = &node->plan.axis;
    for (int64_t j = 0; j < axis->n; j++) {
        int64_t at = from + cpu_cumsum_at(node, j) * axis->inner;
        const uint32_t *x = (const uint32_t *)(void *)node->in[0].data + at;
        uint32_t *y = (uint32_t *)(void *)node->out[0].data + at;
        for (int64_t i = 0; i < width; i++) {
            uint32_t before = sum[i];
            sum[i] += x[i];
            y[i] = node->attrs.cumsum.exclusive ? before : sum[i];
        }
    }
}

/* Rows that lie side by side: term after term, many rows at once. */
static void cpu_cumsum_columns(const cpu_node *node, int64_t from, int64_t width)
{
    double sum[CPU_CUMSUM_COLUMNS] = {0};
    float lanes[CPU_CUMSUM_COLUMNS], sums[CPU_CUMSUM_COLUMNS];
    const cpu_tensor *x = &node->in[0], *y = &node->out[0];
    for (int64_t j = 0; j < node->plan.axis.n; j++) {
        int64_t at = from + cpu_cumsum_at(node, j) * node->plan.axis.inner;
        node->kernels->load[x->dtype](lanes, cpu_at(x, at), width);
        if (!node->attrs.cumsum.exclusive) node->kernels->add_to(sum, lanes, width);
        for (int64_t i = 0; i < width; i++) sums[i] = (float)sum[i];
        if (node->attrs.cumsum.exclusive) node->kernels->add_to(sum, lanes, width);
        node->kernels->store[y->dtype](cpu_at(y, at), sums, width);
    }
}

static void cpu_cumsum_turn(float *lanes, int64_t n)
{
    for (int64_t i = 0; i < n / 2; i++) {
        float lane = lanes[i];
        lanes[i] = lanes[n - 1 - i];
        lanes[n - 1 - i] = lane;
    }
}

/* lanes[0 .. n) become their sums, with *sum in front of them; it becomes the sum of all. Four parts at once, since a
 * sum waits for the one before it. */
static void cpu_cumsum_block(float *lanes, int64_t n, bool exclusive, double *sum)
{
    double part[CPU_CUMSUM_PARTS] = {0}, sums[CPU_CUMSUM_PARTS][CPU_CUMSUM_PART], carry = *sum;
    int64_t width = (n + CPU_CUMSUM_PARTS - 1) / CPU_CUMSUM_PARTS;
    for (int64_t i = n; i < width * CPU_CUMSUM_PARTS; i++) lanes[i] = 0;
    for (int64_t i = 0; i < width; i++)
        for (int p = 0; p < CPU_CUMSUM_PARTS; p++) {
            double before = part[p];
            part[p] += (double)lanes[p * width + i];
            sums[p][i] = exclusive ? before : part[p];
        }
    for (int p = 0; p < CPU_CUMSUM_PARTS; p++) {
        for (int64_t i = 0; i < width; i++) lanes[p * width + i] = (float)(carry + sums[p][i]);
        carry += part[p];
    }
    *sum = carry;
}

/* A row that is contiguous. */
static void cpu_cumsum_row(const cpu_node *node, int64_t from)
{
    float lanes[CPU_CUMSUM_PARTS * CPU_CUMSUM_PART];
    const cpu_tensor *x = &node->in[0], *y = &node->out[0];
    const pco_cumsum_attrs *attrs = &node->attrs.cumsum;
    double sum = 0;
    for (int64_t j = 0, n, size = node->plan.axis.n; j < size; j += n) {
        n = cpu_min(CPU_CUMSUM_PARTS * CPU_CUMSUM_PART, size - j);
        int64_t at = from + (attrs->reverse ? size - j - n : j);
        node->kernels->load[x->dtype](lanes, cpu_at(x, at), n);
        if (attrs->reverse) cpu_cumsum_turn(lanes, n);
        cpu_cumsum_block(lanes, n, attrs->exclusive != 0, &sum);
        if (attrs->reverse) cpu_cumsum_turn(lanes, n);
        node->kernels->store[y->dtype](cpu_at(y, at), lanes, n);
    }
}

static void cpu_cumsum_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    cpu_axis axis = node->plan.axis;
    for (int64_t i = begin, width; i < end; i += width) {
        int64_t from = i / axis.inner * axis.n * axis.inner + i % axis.inner;
        width = cpu_min(cpu_min(CPU_CUMSUM_COLUMNS, end - i), axis.inner - i % axis.inner);
        if (node->in[0].dtype == PCO_I32)
            cpu_cumsum_i32(node, from, width);
        else if (axis.inner > 1)
            cpu_cumsum_columns(node, from, width);
        else
            cpu_cumsum_row(node, from);
    }
}

static CPU_RUN(native_cumsum)
{
    cpu_axis axis = node->plan.axis;
    if (node->out[0].count == 0) return;
    cpu_parallel(node, axis.outer * axis.inner, cpu_grain(axis.n), cpu_cumsum_slice);
}

/* ---- cpu:reference ---- */

CPU_REFERENCE_BEGIN

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

static CPU_RUN(reference_cumsum)
{
    cpu_axis axis = node->plan.axis;
    if (node->out[0].count == 0) return;
    cpu_parallel(node, axis.outer * axis.inner, cpu_grain(axis.n * 8), cpu_reference_cumsum_slice);
}

CPU_REFERENCE_END

CPU_OP(CUMSUM, axis, 1, PLAIN(native_cumsum), PLAIN(reference_cumsum))
