/* cpu:reference: the loss and the optimisers, in double. */
#include "reference.h"
#include "training.h"

/* The largest of a row and the sum of exp(x - largest). */
static double cpu_reference_row_sum(const cpu_tensor *x, int64_t at, int64_t n, double *most)
{
    double sum = 0;
    *most = -INFINITY;
    for (int64_t j = 0; j < n; j++) {
        double v = cpu_load_f64(x->dtype, x->data, at + j);
        if (v > *most || v != v) *most = v;
    }
    for (int64_t j = 0; j < n; j++) sum += exp(cpu_load_f64(x->dtype, x->data, at + j) - *most);
    return sum;
}

static double cpu_reference_loss(const cpu_node *node, int64_t row, int64_t target)
{
    const cpu_tensor *x = &node->in[0];
    int64_t n = node->plan.axis.n;
    double most, sum = cpu_reference_row_sum(x, row * n, n, &most), whole = most + log(sum), total = 0;
    double smoothing = node->attrs.cross_entropy.label_smoothing;
    double loss = whole - cpu_load_f64(x->dtype, x->data, row * n + target);
    if (smoothing <= 0) return loss;
    for (int64_t j = 0; j < n; j++) total += cpu_load_f64(x->dtype, x->data, row * n + j);
    return (1 - smoothing) * loss + smoothing * (whole - total / (double)n);
}

static void cpu_reference_cross_entropy_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    for (int64_t i = begin; i < end; i++) {
        int64_t target;
        double value;
        if (!cpu_target_is_special(node, i, &target, &value)) value = cpu_reference_loss(node, i, target);
        cpu_store_f64(PCO_F32, node->out[0].data, i, value);
    }
}

CPU_RUN(reference_cross_entropy)
{
    cpu_parallel(node, node->plan.axis.outer, cpu_grain(node->plan.axis.n * 64), cpu_reference_cross_entropy_slice);
}

static void cpu_reference_cross_entropy_backward_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    const cpu_tensor *x = &node->in[0], *y = &node->out[0];
    int64_t n = node->plan.axis.n, target;
    double smoothing = node->attrs.cross_entropy.label_smoothing, rest = smoothing / (double)n, value, most = 0,
           sum = 1;
    for (int64_t i = begin; i < end; i++) {
        bool special = cpu_target_is_special(node, i, &target, &value);
        double gradient = cpu_load_f64(PCO_F32, node->in[2].data, i);
        if (!special) sum = cpu_reference_row_sum(x, i * n, n, &most);
        for (int64_t j = 0; j < n; j++) {
            double p = most == -INFINITY ? 0 : exp(cpu_load_f64(x->dtype, x->data, i * n + j) - most) / sum;
            double hit = j == target ? 1 - smoothing + rest : rest;
            cpu_store_f64(y->dtype, y->data, i * n + j, special ? value : gradient * (p - hit));
        }
    }
}

CPU_RUN(reference_cross_entropy_backward)
{
    cpu_parallel(node, node->plan.axis.outer, cpu_grain(node->plan.axis.n * 64),
                 cpu_reference_cross_entropy_backward_slice);
}

static void cpu_reference_adamw_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    const pco_adamw_attrs *attrs = &node->attrs.adamw;
    const float *run = cpu_f32(&node->in[4]);
    float *param = cpu_f32(&node->out[0]), *m = cpu_f32(&node->out[1]), *v = cpu_f32(&node->out[2]);
    double rate = (double)run[0], scale = node->in[5].present ? (double)*cpu_f32(&node->in[5]) : 1;
    for (int64_t i = begin; i < end; i++) {
        double g = cpu_load_f64(node->in[3].dtype, node->in[3].data, i) * scale;
        double first = attrs->beta1 * (double)m[i] + (1 - attrs->beta1) * g;
        double second = attrs->beta2 * (double)v[i] + (1 - attrs->beta2) * g * g;
        double deviation = sqrt(second) / sqrt((double)run[2]) + attrs->eps;
        double decayed = (double)param[i] * (1 - rate * attrs->weight_decay);
        param[i] = (float)(decayed - rate / (double)run[1] * (first / deviation));
        m[i] = (float)first;
        v[i] = (float)second;
    }
}

CPU_RUN(reference_adamw)
{
    if (node->out[0].count == 0 || isnan(cpu_optimiser_begin(node, 5))) return;
    cpu_parallel(node, node->out[0].count, cpu_grain(32), cpu_reference_adamw_slice);
}

static void cpu_reference_sgd_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    const pco_sgd_attrs *attrs = &node->attrs.sgd;
    float *param = cpu_f32(&node->out[0]), *velocity = cpu_f32(&node->out[1]);
    double rate = (double)*cpu_f32(&node->in[3]), scale = node->in[4].present ? (double)*cpu_f32(&node->in[4]) : 1;
    for (int64_t i = begin; i < end; i++) {
        double g =
            cpu_load_f64(node->in[2].dtype, node->in[2].data, i) * scale + attrs->weight_decay * (double)param[i];
        double next = attrs->momentum * (double)velocity[i] + g;
        param[i] = (float)((double)param[i] - rate * (attrs->nesterov ? g + attrs->momentum * next : next));
        velocity[i] = (float)next;
    }
}

CPU_RUN(reference_sgd)
{
    if (node->out[0].count == 0 || isnan(cpu_optimiser_begin(node, 4))) return;
    cpu_parallel(node, node->out[0].count, cpu_grain(16), cpu_reference_sgd_slice);
}
