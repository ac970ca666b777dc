/* The loss and the optimisers. */
#include "training.h"
#include "run.h"

/* ---- cross-entropy ---- */

static bool cpu_logits_are_f32(const cpu_node *node) { return node->in[0].dtype == PCO_F32; }

static CPU_WORKSPACE(native_cross_entropy)
{
    return cpu_logits_are_f32(node) ? 0 : node->device->threads * cpu_round64((uint64_t)node->plan.axis.n * 4);
}

static CPU_WORKSPACE(native_cross_entropy_backward) { return cpu_native_cross_entropy_workspace(node); }

static float cpu_row_loss(const cpu_node *node, const float *x, int64_t n, int64_t target)
{
    double smoothing = node->attrs.cross_entropy.label_smoothing;
    float max = node->kernels->max(x, n);
    double whole = (double)max + log(cpu_exp_sum_only(node, x, max, n));
    double loss = whole - (double)x[target];
    if (smoothing > 0) loss = (1 - smoothing) * loss + smoothing * (whole - node->kernels->sum(x, n) / (double)n);
    return (float)loss;
}

static void cpu_cross_entropy_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    const cpu_node *node = task;
    const cpu_tensor *x = &node->in[0];
    int64_t n = node->plan.axis.n, target;
    double value;
    float *own = cpu_logits_are_f32(node) ? NULL : (float *)(void *)cpu_worker_memory(node, worker);
    for (int64_t i = begin; i < end; i++) {
        if (!cpu_target_is_special(node, i, &target, &value)) {
            if (own) node->kernels->load[x->dtype](own, cpu_at(x, i * n), n);
            value = (double)cpu_row_loss(node, own ? own : cpu_f32(x) + i * n, n, target);
        }
        cpu_f32(&node->out[0])[i] = (float)value;
    }
}

static CPU_RUN(native_cross_entropy)
{
    cpu_parallel(node, node->plan.axis.outer, cpu_grain(node->plan.axis.n * 8), cpu_cross_entropy_slice);
}

/* y = gradient * (softmax(x) - hit); y may be x. */
static void cpu_row_loss_backward(const cpu_node *node, float *y, const float *x, int64_t n, int64_t target,
                                  float gradient)
{
    double smoothing = node->attrs.cross_entropy.label_smoothing, rest = smoothing / (double)n;
    float max = node->kernels->max(x, n);
    if (max == -INFINITY) {
        memset(y, 0, (size_t)n * 4);
    } else {
        double sum = cpu_exp_sum(node, y, x, max, n);
        node->kernels->scale(y, y, (float)(1 / sum), n);
    }
    float other = (float)rest, hit = (float)(1 - smoothing + rest);
    float right = (y[target] - hit) * gradient;
    for (int64_t j = 0; j < n; j++) y[j] = (y[j] - other) * gradient;
    y[target] = right;
}

static void cpu_cross_entropy_backward_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    const cpu_node *node = task;
    const cpu_tensor *x = &node->in[0], *y = &node->out[0];
    int64_t n = node->plan.axis.n, target;
    double value;
    float *own = cpu_logits_are_f32(node) ? NULL : (float *)(void *)cpu_worker_memory(node, worker);
    for (int64_t i = begin; i < end; i++) {
        if (cpu_target_is_special(node, i, &target, &value)) {
            for (int64_t j = 0; j < n; j++) cpu_store_f64(y->dtype, y->data, i * n + j, value);
            continue;
        }
        if (own) node->kernels->load[x->dtype](own, cpu_at(x, i * n), n);
        float *to = own ? own : cpu_f32(y) + i * n;
        cpu_row_loss_backward(node, to, own ? own : cpu_f32(x) + i * n, n, target, cpu_f32(&node->in[2])[i]);
        if (own) node->kernels->store[y->dtype](cpu_at(y, i * n), own, n);
    }
}

static CPU_RUN(native_cross_entropy_backward)
{
    cpu_parallel(node, node->plan.axis.outer, cpu_grain(node->plan.axis.n * 8), cpu_cross_entropy_backward_slice);
}

/* ---- optimisers ---- */

enum { CPU_GRADIENT_CHUNK = 512 };

/* Gradients begin .. begin+n-1 in f32: where they lie, or in `room`. */
static const float *cpu_gradient(const cpu_node *node, const cpu_tensor *x, int64_t begin, int64_t n, float *room)
{
    if (x->dtype == PCO_F32) return cpu_f32(x) + begin;
    node->kernels->load[x->dtype](room, cpu_at(x, begin), n);
    return room;
}

static void cpu_adamw_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    const pco_adamw_attrs *attrs = &node->attrs.adamw;
    const float *run = cpu_f32(&node->in[4]);
    const cpu_tensor *scale = &node->in[5];
    float room[CPU_GRADIENT_CHUNK];
    cpu_adamw step = {.scale = scale->present ? *cpu_f32(scale) : 1,
                      .beta1 = (float)attrs->beta1,
                      .rest1 = (float)(1 - attrs->beta1),
                      .beta2 = (float)attrs->beta2,
                      .rest2 = (float)(1 - attrs->beta2),
                      .rate = run[0] / run[1],
                      .root = sqrtf(run[2]),
                      .eps = (float)attrs->eps,
                      .decay = run[0] * (float)attrs->weight_decay};
    for (int64_t i = begin; i < end; i += CPU_GRADIENT_CHUNK) {
        int64_t n = cpu_min(CPU_GRADIENT_CHUNK, end - i);
        node->kernels->adamw(cpu_f32(&node->out[0]) + i, cpu_f32(&node->out[1]) + i, cpu_f32(&node->out[2]) + i,
                             cpu_gradient(node, &node->in[3], i, n, room), &step, n);
    }
}

static CPU_RUN(native_adamw)
{
    if (node->out[0].count == 0 || isnan(cpu_optimiser_begin(node, 5))) return;
    cpu_parallel(node, node->out[0].count, cpu_grain(8), cpu_adamw_slice);
}

static void cpu_sgd_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    const pco_sgd_attrs *attrs = &node->attrs.sgd;
    const cpu_tensor *scale = &node->in[4];
    float factor = scale->present ? *cpu_f32(scale) : 1, rate = *cpu_f32(&node->in[3]);
    float momentum = (float)attrs->momentum, lambda = (float)attrs->weight_decay;
    float room[CPU_GRADIENT_CHUNK];
    for (int64_t at = begin; at < end; at += CPU_GRADIENT_CHUNK) {
        int64_t n = cpu_min(CPU_GRADIENT_CHUNK, end - at);
        const float *gradient = cpu_gradient(node, &node->in[2], at, n, room);
        float *param = cpu_f32(&node->out[0]) + at, *velocity = cpu_f32(&node->out[1]) + at;
        for (int64_t i = 0; i < n; i++) {
            float g = gradient[i] * factor + param[i] * lambda;
            velocity[i] = velocity[i] * momentum + g;
            param[i] -= rate * (attrs->nesterov ? g + velocity[i] * momentum : velocity[i]);
        }
    }
}

static CPU_RUN(native_sgd)
{
    if (node->out[0].count == 0 || isnan(cpu_optimiser_begin(node, 4))) return;
    cpu_parallel(node, node->out[0].count, cpu_grain(8), cpu_sgd_slice);
}

/* ---- cpu:reference ---- */

CPU_REFERENCE_BEGIN

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

static CPU_RUN(reference_cross_entropy)
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

static CPU_RUN(reference_cross_entropy_backward)
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

static CPU_RUN(reference_adamw)
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

static CPU_RUN(reference_sgd)
{
    if (node->out[0].count == 0 || isnan(cpu_optimiser_begin(node, 4))) return;
    cpu_parallel(node, node->out[0].count, cpu_grain(16), cpu_reference_sgd_slice);
}

CPU_REFERENCE_END

CPU_OP(CROSS_ENTROPY, rows, 0, MEMORY(native_cross_entropy), PLAIN(reference_cross_entropy))
CPU_OP(CROSS_ENTROPY_BACKWARD, rows, 1, MEMORY(native_cross_entropy_backward), PLAIN(reference_cross_entropy_backward))
CPU_OP(ADAMW, nothing, 0, PLAIN(native_adamw), PLAIN(reference_adamw))
CPU_OP(SGD, nothing, 0, PLAIN(native_sgd), PLAIN(reference_sgd))
