/* layer_norm and rms_norm. On cpu:native: statistics in f32 partial sums, added in double. The sum of x - mean
 * corrects the mean, which is kept as two floats: rows far from zero lose nothing. */
#include "norm.h"

static uint64_t cpu_norm_row_bytes(const cpu_node *node) { return cpu_round64((uint64_t)node->plan.axis.n * 4); }

/* Weight and bias in f32, then one row per worker; only what is not f32 already. */
static CPU_WORKSPACE(native_norm)
{
    uint64_t rows = 0;
    for (int i = 1; i <= 2; i++)
        if (node->in[i].present && node->in[i].dtype != PCO_F32) rows = 2;
    if (node->in[0].dtype != PCO_F32) rows = 2 + node->device->threads;
    return rows * cpu_norm_row_bytes(node);
}

static const float *cpu_norm_parameter(const cpu_node *node, int input)
{
    const cpu_tensor *x = &node->in[input];
    if (!x->present) return NULL;
    if (x->dtype == PCO_F32) return (const float *)(void *)x->data;
    return (const float *)(void *)(node->workspace + (uint64_t)(input - 1) * cpu_norm_row_bytes(node));
}

static void cpu_norm_statistics(const cpu_node *node, const float *x, int64_t n, double *mean, double *rstd)
{
    double rest;
    if (node->op->op == PCO_OP_RMS_NORM) {
        *mean = 0;
        *rstd = 1 / sqrt(node->kernels->sum_squares(x, 0, &rest, n) / (double)n + node->attrs.rms_norm.eps);
        return;
    }
    const pco_layer_norm_attrs *attrs = &node->attrs.layer_norm;
    float near = (float)(node->kernels->sum(x, n) / (double)n);
    double squares = node->kernels->sum_squares(x, near, &rest, n);
    rest /= (double)n;
    *mean = (double)near + rest;
    double variance = fmax(0, squares - rest * rest * (double)n) / (double)(n - attrs->correction);
    if (squares != squares) variance = squares;
    *rstd = attrs->form ? 1 / (sqrt(variance) + attrs->eps) : 1 / sqrt(variance + attrs->eps);
}

static void cpu_norm_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    const cpu_node *node = task;
    const cpu_tensor *x = &node->in[0], *y = &node->out[0];
    bool rms = node->op->op == PCO_OP_RMS_NORM, f32 = x->dtype == PCO_F32;
    const cpu_tensor *mean_out = &node->out[1], *rstd_out = &node->out[rms ? 1 : 2];
    const float *weight = cpu_norm_parameter(node, 1), *bias = rms ? NULL : cpu_norm_parameter(node, 2);
    int64_t n = node->plan.axis.n;
    float *own = f32 ? NULL : (float *)(void *)(node->workspace + (2 + worker) * cpu_norm_row_bytes(node));
    for (int64_t i = begin; i < end; i++) {
        const float *from = f32 ? (const float *)(void *)x->data + i * n : own;
        float *to = f32 ? (float *)(void *)y->data + i * n : own;
        if (!f32) node->kernels->load[x->dtype](own, cpu_at(x, i * n), n);
        double mean, rstd;
        cpu_norm_statistics(node, from, n, &mean, &rstd);
        float high = (float)mean;
        if (n > 0)
            node->kernels->normalise(to, from, high, rms ? 0 : (float)(mean - (double)high), (float)rstd, weight, bias,
                                     n);
        if (!f32) node->kernels->store[y->dtype](cpu_at(y, i * n), own, n);
        if (!rms && mean_out->present) ((float *)(void *)mean_out->data)[i] = high;
        if (rstd_out->present) ((float *)(void *)rstd_out->data)[i] = (float)rstd;
    }
}

static CPU_RUN(native_norm)
{
    cpu_axis axis = node->plan.axis;
    for (int i = 1; i <= 2; i++) {
        const cpu_tensor *x = &node->in[i];
        if (x->present && x->dtype != PCO_F32 && axis.n > 0)
            node->kernels->load[x->dtype](node->workspace + (uint64_t)(i - 1) * cpu_norm_row_bytes(node), x->data,
                                          axis.n);
    }
    cpu_parallel(node, axis.outer, cpu_grain(axis.n * 4), cpu_norm_slice);
}

/* ---- cpu:reference ---- */

CPU_REFERENCE_BEGIN

static double cpu_reference_at(const cpu_tensor *x, int64_t i, double absent)
{
    return x->present ? cpu_load_f64(x->dtype, x->data, i) : absent;
}

cpu_norm_row cpu_reference_norm_row(const cpu_node *node, int64_t row)
{
    const cpu_tensor *x = &node->in[0];
    const pco_layer_norm_attrs *attrs = &node->attrs.layer_norm;
    const bool rms = node->op->op == PCO_OP_RMS_NORM;
    const int64_t n = node->plan.axis.n;
    double mean = 0, squares = 0;
    if (!rms) {
        for (int64_t j = 0; j < n; j++) mean += cpu_load_f64(x->dtype, x->data, row * n + j);
        mean /= (double)n;
    }
    for (int64_t j = 0; j < n; j++) {
        double d = cpu_load_f64(x->dtype, x->data, row * n + j) - mean;
        squares += d * d;
    }
    if (rms) return (cpu_norm_row){0, 1 / sqrt(squares / (double)n + node->attrs.rms_norm.eps)};
    const double variance = squares / (double)(n - attrs->correction);
    return (cpu_norm_row){mean, attrs->form ? 1 / (sqrt(variance) + attrs->eps) : 1 / sqrt(variance + attrs->eps)};
}

double cpu_reference_normal(const cpu_node *node, int64_t row, int64_t j, cpu_norm_row moments)
{
    const cpu_tensor *x = &node->in[0];
    double v = (cpu_load_f64(x->dtype, x->data, row * node->plan.axis.n + j) - moments.mean) * moments.rstd *
               cpu_reference_at(&node->in[1], j, 1);
    if (node->op->op != PCO_OP_RMS_NORM && node->in[2].present) v += cpu_reference_at(&node->in[2], j, 0);
    return v;
}

static void cpu_reference_norm_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    bool rms = node->op->op == PCO_OP_RMS_NORM;
    const cpu_tensor *y = &node->out[0], *rstd_out = &node->out[rms ? 1 : 2];
    int64_t n = node->plan.axis.n;
    for (int64_t i = begin; i < end; i++) {
        const cpu_norm_row moments = cpu_reference_norm_row(node, i);
        for (int64_t j = 0; j < n; j++)
            cpu_store_f64(y->dtype, y->data, i * n + j, cpu_reference_normal(node, i, j, moments));
        if (!rms && node->out[1].present) cpu_store_f64(PCO_F32, node->out[1].data, i, moments.mean);
        if (rstd_out->present) cpu_store_f64(PCO_F32, rstd_out->data, i, moments.rstd);
    }
}

static CPU_RUN(reference_norm)
{
    cpu_parallel(node, node->plan.axis.outer, cpu_grain(node->plan.axis.n * 16), cpu_reference_norm_slice);
}

CPU_REFERENCE_END

CPU_OP(LAYER_NORM, rows, 1, MEMORY(native_norm), PLAIN(reference_norm))
CPU_OP(RMS_NORM, rows, 1, MEMORY(native_norm), PLAIN(reference_norm))
