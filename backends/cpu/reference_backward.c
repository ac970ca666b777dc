/* cpu:reference: the backward ops, in double. */
#include "reference.h"
#include "training.h"

static double cpu_backward_at(const cpu_tensor *x, int64_t i, double absent)
{
    return x->present ? cpu_load_f64(x->dtype, x->data, i) : absent;
}

static void cpu_reference_softmax_backward_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    const cpu_tensor *p = &node->in[0], *dy = &node->in[1], *y = &node->out[0];
    cpu_axis axis = node->plan.axis;
    for (int64_t i = begin; i < end; i++) {
        int64_t base = i / axis.inner * axis.n * axis.inner + i % axis.inner;
        double along = 0;
        for (int64_t j = 0; j < axis.n; j++)
            along += cpu_backward_at(p, base + j * axis.inner, 0) * cpu_backward_at(dy, base + j * axis.inner, 0);
        for (int64_t j = 0; j < axis.n; j++) {
            int64_t at = base + j * axis.inner;
            cpu_store_f64(y->dtype, y->data, at, cpu_backward_at(p, at, 0) * (cpu_backward_at(dy, at, 0) - along));
        }
    }
}

CPU_RUN(reference_softmax_backward)
{
    cpu_axis axis = node->plan.axis;
    if (node->out[0].count == 0) return;
    cpu_parallel(node, axis.outer * axis.inner, cpu_grain(axis.n * 16), cpu_reference_softmax_backward_slice);
}

/* Mean, deviation and what the normalised rows' sum is divided by: (N - correction) times the deviation,
 * without its eps in form 1. */
static void cpu_reference_row_moments(const cpu_node *node, int64_t row, double *mean, double *deviation,
                                      double *divisor)
{
    const cpu_tensor *x = &node->in[0];
    const pco_layer_norm_backward_attrs *attrs = &node->attrs.layer_norm_backward;
    bool rms = node->op->op == PCO_OP_RMS_NORM_BACKWARD;
    int64_t n = node->plan.axis.n;
    double sum = 0, squares = 0;
    for (int64_t j = 0; j < n && !rms; j++) sum += cpu_backward_at(x, row * n + j, 0);
    *mean = sum / (double)n;
    for (int64_t j = 0; j < n; j++) {
        double d = cpu_backward_at(x, row * n + j, 0) - *mean;
        squares += d * d;
    }
    if (rms) {
        *deviation = sqrt(squares / (double)n + node->attrs.rms_norm_backward.eps);
        *divisor = (double)n * *deviation;
        return;
    }
    double count = (double)(n - attrs->correction), variance = squares / count;
    *deviation = attrs->form ? sqrt(variance) + attrs->eps : sqrt(variance + attrs->eps);
    *divisor = count * (attrs->form ? sqrt(variance) : *deviation);
}

static void cpu_reference_norm_backward_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    const cpu_tensor *x = &node->in[0], *dy = &node->in[1], *weight = &node->in[2], *y = &node->out[0];
    bool rms = node->op->op == PCO_OP_RMS_NORM_BACKWARD;
    int64_t n = node->plan.axis.n;
    for (int64_t i = begin; i < end; i++) {
        double mean, deviation, divisor, sum = 0, product = 0;
        cpu_reference_row_moments(node, i, &mean, &deviation, &divisor);
        for (int64_t j = 0; j < n; j++) {
            double u = cpu_backward_at(dy, i * n + j, 0) * cpu_backward_at(weight, j, 1);
            sum += u;
            product += u * ((cpu_backward_at(x, i * n + j, 0) - mean) / deviation);
        }
        double share = divisor == 0 ? 0 : product / divisor, mean_u = rms ? 0 : sum / (double)n;
        for (int64_t j = 0; j < n; j++) {
            double u = cpu_backward_at(dy, i * n + j, 0) * cpu_backward_at(weight, j, 1);
            double normal = (cpu_backward_at(x, i * n + j, 0) - mean) / deviation;
            cpu_store_f64(y->dtype, y->data, i * n + j, (u - mean_u) / deviation - normal * share);
        }
    }
}

CPU_RUN(reference_norm_backward)
{
    if (node->out[0].count == 0) return;
    cpu_parallel(node, node->plan.axis.outer, cpu_grain(node->plan.axis.n * 32), cpu_reference_norm_backward_slice);
}

static void cpu_reference_swiglu_backward_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    bool joined = !node->in[1].present;
    int64_t n = node->plan.axis.n;
    const cpu_tensor *y = &node->out[0], *other = &node->out[joined ? 0 : 1];
    for (int64_t i = begin; i < end; i++) {
        int64_t at = joined ? i / n * 2 * n + i % n : i;
        double gate = cpu_backward_at(&node->in[0], at, 0), d = cpu_backward_at(&node->in[2], i, 0);
        double up = joined ? cpu_backward_at(&node->in[0], at + n, 0) : cpu_backward_at(&node->in[1], i, 0);
        double s = 1 / (1 + exp(-gate));
        cpu_store_f64(y->dtype, y->data, at, d * up * s * (1 + gate * (1 - s)));
        cpu_store_f64(other->dtype, other->data, joined ? at + n : i, d * gate * s);
    }
}

CPU_RUN(reference_swiglu_backward)
{
    cpu_parallel(node, node->in[2].count, cpu_grain(64), cpu_reference_swiglu_backward_slice);
}
