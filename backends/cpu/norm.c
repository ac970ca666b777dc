/* layer_norm and rms_norm of cpu:native: statistics in f32 partial sums, added in double. The sum of x - mean
 * corrects the mean, which is kept as two floats: rows far from zero lose nothing. */
#include "run.h"

static uint64_t cpu_norm_row_bytes(const cpu_node *node) { return cpu_round64((uint64_t)node->plan.axis.n * 4); }

/* Weight and bias in f32, then one row per worker; only what is not f32 already. */
CPU_WORKSPACE(native_norm)
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

void cpu_run_native_norm(const cpu_node *node)
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
