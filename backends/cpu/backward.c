/* The backward ops. On cpu:native rows are worked on in f32: where they lie, or in the worker's memory. */
#include "training.h"
#include "run.h"

static float *cpu_backward_row(const cpu_node *node, uint32_t worker, int64_t which)
{
    return (float *)(void *)(cpu_worker_memory(node, worker) +
                             (uint64_t)which * cpu_round64((uint64_t)node->plan.axis.n * 4));
}

/* Elements of a contiguous row in f32. */
static const float *cpu_row_of(const cpu_node *node, const cpu_tensor *x, int64_t at, float *room)
{
    if (x->dtype == PCO_F32) return cpu_f32(x) + at;
    node->kernels->load[x->dtype](room, cpu_at(x, at), node->plan.axis.n);
    return room;
}

/* ---- softmax_backward ---- */

static bool cpu_softmax_backward_direct(const cpu_node *node)
{
    return node->in[0].dtype == PCO_F32 && node->plan.axis.inner == 1;
}

static CPU_WORKSPACE(native_softmax_backward)
{
    uint64_t rows = cpu_softmax_backward_direct(node) ? 0 : 2;
    return rows * node->device->threads * cpu_round64((uint64_t)node->plan.axis.n * 4);
}

static void cpu_softmax_backward_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    const cpu_node *node = task;
    const cpu_tensor *out = &node->out[0];
    cpu_axis axis = node->plan.axis;
    bool direct = cpu_softmax_backward_direct(node);
    float *own[2] = {NULL, NULL};
    for (int k = 0; k < 2 && !direct; k++) own[k] = cpu_backward_row(node, worker, k);
    for (int64_t i = begin; i < end; i++) {
        int64_t base = i / axis.inner * axis.n * axis.inner + i % axis.inner;
        const float *row[2];
        for (int k = 0; k < 2; k++) {
            const cpu_tensor *x = &node->in[k];
            row[k] = direct ? cpu_f32(x) + base : own[k];
            for (int64_t j = 0; j < axis.n && !direct; j++)
                own[k][j] = (float)cpu_load_f64(x->dtype, x->data, base + j * axis.inner);
        }
        float along = (float)node->kernels->dot(row[0], row[1], axis.n);
        float *to = direct ? cpu_f32(out) + base : own[0];
        node->kernels->softmax_backward(to, row[0], row[1], along, axis.n);
        for (int64_t j = 0; j < axis.n && !direct; j++)
            cpu_store_f64(out->dtype, out->data, base + j * axis.inner, (double)own[0][j]);
    }
}

static CPU_RUN(native_softmax_backward)
{
    cpu_axis axis = node->plan.axis;
    if (node->out[0].count == 0) return;
    cpu_parallel(node, axis.outer * axis.inner, cpu_grain(axis.n * 4), cpu_softmax_backward_slice);
}

/* ---- norms ---- */

static bool cpu_norm_backward_direct(const cpu_node *node)
{
    return node->in[0].dtype == PCO_F32 && (!node->in[2].present || node->in[2].dtype == PCO_F32);
}

/* x, gradient, weight */
static CPU_WORKSPACE(native_norm_backward)
{
    uint64_t rows = cpu_norm_backward_direct(node) ? 0 : 3;
    return rows * node->device->threads * cpu_round64((uint64_t)node->plan.axis.n * 4);
}

/* {mean, what mean lacks, 1 / deviation}, and what the sum of u * normal is multiplied with. */
static float cpu_backward_moments(const cpu_node *node, const float *x, int64_t n, float *moments)
{
    double rest, mean = 0, share;
    float near = 0;
    if (node->op->op == PCO_OP_RMS_NORM_BACKWARD) {
        double root = sqrt(node->kernels->sum_squares(x, 0, &rest, n) / (double)n + node->attrs.rms_norm_backward.eps);
        moments[0] = moments[1] = 0;
        moments[2] = (float)(1 / root);
        return (float)(1 / ((double)n * root));
    }
    const pco_layer_norm_backward_attrs *attrs = &node->attrs.layer_norm_backward;
    double divisor = (double)(n - attrs->correction);
    near = (float)(node->kernels->sum(x, n) / (double)n);
    double squares = node->kernels->sum_squares(x, near, &rest, n);
    rest /= (double)n;
    mean = (double)near + rest;
    double variance = fmax(0, squares - rest * rest * (double)n) / divisor;
    if (squares != squares) variance = squares;
    double root = attrs->form ? sqrt(variance) : sqrt(variance + attrs->eps);
    moments[0] = (float)mean;
    moments[1] = (float)(mean - (double)moments[0]);
    moments[2] = (float)(attrs->form ? 1 / (root + attrs->eps) : 1 / root);
    share = attrs->form && root == 0 ? 0 : 1 / (divisor * root);
    return (float)share;
}

static void cpu_norm_backward_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    const cpu_node *node = task;
    const cpu_tensor *x = &node->in[0], *dy = &node->in[1], *weight = &node->in[2], *y = &node->out[0];
    int64_t n = node->plan.axis.n;
    float *own[3] = {NULL, NULL, NULL};
    for (int k = 0; k < 3 && !cpu_norm_backward_direct(node); k++) own[k] = cpu_backward_row(node, worker, k);
    const float *factor = weight->present ? cpu_row_of(node, weight, 0, own[2]) : NULL;
    for (int64_t i = begin; i < end; i++) {
        const float *from = cpu_row_of(node, x, i * n, own[0]), *gradient = cpu_row_of(node, dy, i * n, own[1]);
        float *to = y->dtype == PCO_F32 ? cpu_f32(y) + i * n : own[0], moments[3];
        double sum_u, share = (double)cpu_backward_moments(node, from, n, moments);
        share *= node->kernels->norm_backward_sums(from, gradient, factor, moments, &sum_u, n);
        float mean_u = node->op->op == PCO_OP_RMS_NORM_BACKWARD ? 0 : (float)(sum_u / (double)n);
        node->kernels->norm_backward(to, from, gradient, factor, moments, mean_u, (float)share, n);
        if (y->dtype != PCO_F32) node->kernels->store[y->dtype](cpu_at(y, i * n), to, n);
    }
}

static CPU_RUN(native_norm_backward)
{
    if (node->out[0].count == 0) return;
    cpu_parallel(node, node->plan.axis.outer, cpu_grain(node->plan.axis.n * 8), cpu_norm_backward_slice);
}

/* ---- swiglu_backward ---- */

enum { CPU_SWIGLU_CHUNK = 512 };

/* Elements at .. at+n-1 of a tensor in f32, where they lie or in `room`. */
static float *cpu_swiglu_read(const cpu_node *node, const cpu_tensor *x, int64_t at, int64_t n, float *room)
{
    if (x->dtype == PCO_F32) return cpu_f32(x) + at;
    node->kernels->load[x->dtype](room, cpu_at(x, at), n);
    return room;
}

static void cpu_swiglu_write(const cpu_node *node, const cpu_tensor *y, int64_t at, int64_t n, const float *from)
{
    node->kernels->store[y->dtype](cpu_at(y, at), from, n);
}

/* Chunks of CPU_SWIGLU_CHUNK elements of a row, counted over all rows. */
static void cpu_swiglu_backward_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    bool joined = !node->in[1].present;
    int64_t row_size = node->plan.axis.n, chunks = (row_size + CPU_SWIGLU_CHUNK - 1) / CPU_SWIGLU_CHUNK;
    float room[3][CPU_SWIGLU_CHUNK], result[2][CPU_SWIGLU_CHUNK];
    for (int64_t i = begin; i < end; i++) {
        int64_t row = i / chunks, column = i % chunks * CPU_SWIGLU_CHUNK,
                n = cpu_min(CPU_SWIGLU_CHUNK, row_size - column);
        int64_t at = row * row_size + column, gate_at = joined ? 2 * row * row_size + column : at;
        const float *gate = cpu_swiglu_read(node, &node->in[0], gate_at, n, room[0]);
        const float *up = joined ? cpu_swiglu_read(node, &node->in[0], gate_at + row_size, n, room[1])
                                 : cpu_swiglu_read(node, &node->in[1], at, n, room[1]);
        const float *gradient = cpu_swiglu_read(node, &node->in[2], at, n, room[2]);
        node->kernels->swiglu_backward(result[0], result[1], gate, up, gradient, n);
        cpu_swiglu_write(node, &node->out[0], gate_at, n, result[0]);
        cpu_swiglu_write(node, &node->out[joined ? 0 : 1], joined ? gate_at + row_size : at, n, result[1]);
    }
}

static CPU_RUN(native_swiglu_backward)
{
    cpu_axis axis = node->plan.axis;
    if (node->out[0].count == 0) return;
    cpu_parallel(node, axis.outer * ((axis.n + CPU_SWIGLU_CHUNK - 1) / CPU_SWIGLU_CHUNK),
                 cpu_grain(CPU_SWIGLU_CHUNK * 16), cpu_swiglu_backward_slice);
}

/* plan.axis: rows of the gradient, and its last dimension. */
static CPU_PARSE(swiglu_backward)
{
    const cpu_tensor *gradient = &node->in[2];
    const bool joined = !node->in[1].present;
    node->plan.axis = joined ? cpu_split(gradient, gradient->rank - 1) : (cpu_axis){1, gradient->count, 1};
}

/* ---- cpu:reference ---- */

CPU_REFERENCE_BEGIN

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

static CPU_RUN(reference_softmax_backward)
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

static CPU_RUN(reference_norm_backward)
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

static CPU_RUN(reference_swiglu_backward)
{
    cpu_parallel(node, node->in[2].count, cpu_grain(64), cpu_reference_swiglu_backward_slice);
}

CPU_REFERENCE_END

CPU_OP(SOFTMAX_BACKWARD, axis, 3, MEMORY(native_softmax_backward), PLAIN(reference_softmax_backward))
CPU_OP(LAYER_NORM_BACKWARD, rows, 3, MEMORY(native_norm_backward), PLAIN(reference_norm_backward))
CPU_OP(RMS_NORM_BACKWARD, rows, 3, MEMORY(native_norm_backward), PLAIN(reference_norm_backward))
CPU_OP(SWIGLU_BACKWARD, swiglu_backward, 0, PLAIN(native_swiglu_backward), PLAIN(reference_swiglu_backward))
