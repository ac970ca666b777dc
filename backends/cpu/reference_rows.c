/* cpu:reference: softmax and norms, in double. */
#include "reference.h"

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

void cpu_run_reference_softmax(const cpu_node *node)
{
    cpu_axis axis = node->plan.axis;
    if (node->out[0].count == 0) return;
    cpu_parallel(node, axis.outer * axis.inner, cpu_grain(axis.n * 64), cpu_reference_softmax_slice);
}

static double cpu_reference_at(const cpu_tensor *x, int64_t i, double absent)
{
    return x->present ? cpu_load_f64(x->dtype, x->data, i) : absent;
}

/* 1 / deviation of a row; rms_norm: of the row's distance from 0. */
static double cpu_reference_rstd(const cpu_node *node, int64_t row, double mean)
{
    const cpu_tensor *x = &node->in[0];
    const pco_layer_norm_attrs *attrs = &node->attrs.layer_norm;
    int64_t n = node->plan.axis.n;
    double squares = 0;
    for (int64_t j = 0; j < n; j++) {
        double d = cpu_load_f64(x->dtype, x->data, row * n + j) - mean;
        squares += d * d;
    }
    if (node->op->op == PCO_OP_RMS_NORM) return 1 / sqrt(squares / (double)n + node->attrs.rms_norm.eps);
    double variance = squares / (double)(n - attrs->correction);
    return attrs->form ? 1 / (sqrt(variance) + attrs->eps) : 1 / sqrt(variance + attrs->eps);
}

static void cpu_reference_norm_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    bool rms = node->op->op == PCO_OP_RMS_NORM;
    const cpu_tensor *x = &node->in[0], *y = &node->out[0], *rstd_out = &node->out[rms ? 1 : 2];
    int64_t n = node->plan.axis.n;
    for (int64_t i = begin; i < end; i++) {
        double mean = 0;
        if (!rms) {
            for (int64_t j = 0; j < n; j++) mean += cpu_load_f64(x->dtype, x->data, i * n + j);
            mean /= (double)n;
        }
        double rstd = cpu_reference_rstd(node, i, mean);
        for (int64_t j = 0; j < n; j++) {
            double v =
                (cpu_load_f64(x->dtype, x->data, i * n + j) - mean) * rstd * cpu_reference_at(&node->in[1], j, 1);
            if (!rms && node->in[2].present) v += cpu_reference_at(&node->in[2], j, 0);
            cpu_store_f64(y->dtype, y->data, i * n + j, v);
        }
        if (!rms && node->out[1].present) cpu_store_f64(PCO_F32, node->out[1].data, i, mean);
        if (rstd_out->present) cpu_store_f64(PCO_F32, rstd_out->data, i, rstd);
    }
}

void cpu_run_reference_norm(const cpu_node *node)
{
    cpu_parallel(node, node->plan.axis.outer, cpu_grain(node->plan.axis.n * 16), cpu_reference_norm_slice);
}
