/* Elementwise ops of cpu:native. */
#include "elementwise.h"
#include "philox.h"
#include "run.h"

void cpu_elementwise(const cpu_node *node, const unsigned char *const *base, int64_t begin, int64_t end, bool raw,
                     cpu_lanes_fn fn)
{
    const cpu_walk *walk = &node->plan.walk;
    const cpu_tensor *y = &node->out[0];
    uint32_t y_size = cpu_size(y->dtype);
    bool narrow = !raw && (y->dtype == PCO_F16 || y->dtype == PCO_BF16);
    float buffer[CPU_WALK_OPERANDS][CPU_CHUNK], result[CPU_CHUNK];
    for (int64_t at = begin; at < end; at += CPU_CHUNK) {
        int64_t n = cpu_min(CPU_CHUNK, end - at);
        const void *x[CPU_WALK_OPERANDS];
        for (int i = 0; i < walk->operands; i++) {
            uint32_t dtype = node->in[node->in[i].present ? i : 0].dtype, size = cpu_size(dtype);
            bool widen = !raw && (dtype == PCO_F16 || dtype == PCO_BF16);
            x[i] = cpu_walk_fetch(walk, i, base[i], size, widen ? node->kernels->load[dtype] : NULL, widen ? 4 : size,
                                  at, n, buffer[i]);
        }
        unsigned char *to = y->data + at * y_size;
        fn(node, narrow ? (void *)result : to, x, at, n);
        if (narrow) node->kernels->store[y->dtype](to, result, n);
    }
}

void cpu_elementwise_inputs(const cpu_node *node, int64_t begin, int64_t end, bool raw, cpu_lanes_fn fn)
{
    const unsigned char *base[CPU_WALK_OPERANDS] = {node->in[0].data, node->in[1].data, node->in[2].data};
    cpu_elementwise(node, base, begin, end, raw, fn);
}

/* Defines cpu_run_NAME, which runs a lanes function over the whole result. cost: simple operations. */
#define CPU_ELEMENTWISE(name, lanes, raw, cost) \
    static void name##_slice(void *task, int64_t begin, int64_t end, uint32_t worker) \
    { \
        (void)worker; \
        cpu_elementwise_inputs(task, begin, end, raw, lanes); \
    } \
    void cpu_run_##name(const cpu_node *node) \
    { \
        cpu_parallel(node, node->out[0].count, cpu_grain(cost), name##_slice); \
    }

/* ---- one operand ---- */

static void cpu_lanes_map_i32(const cpu_node *node, int32_t *y, const int32_t *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t u = (uint32_t)x[i];
        switch (node->op->op) {
        case PCO_OP_NEG: y[i] = (int32_t)(0u - u); break;
        case PCO_OP_ABS: y[i] = (int32_t)(x[i] < 0 ? 0u - u : u); break;
        default: y[i] = (x[i] > 0) - (x[i] < 0); break; /* sign */
        }
    }
}

/* Functions that the kernels leave to libm, which errs by at most 1 ulp in f32 (glibc; musl 1.5). 1/sqrt(x)
 * is rounded from double. */
static void cpu_lanes_map_libm(const cpu_node *node, float *y, const float *x, int64_t n)
{
    switch (node->op->op) {
    case PCO_OP_FLOOR:
        for (int64_t i = 0; i < n; i++) y[i] = floorf(x[i]);
        break;
    case PCO_OP_LOG:
        for (int64_t i = 0; i < n; i++) y[i] = logf(x[i]);
        break;
    case PCO_OP_SQRT:
        for (int64_t i = 0; i < n; i++) y[i] = sqrtf(x[i]);
        break;
    case PCO_OP_RSQRT:
        for (int64_t i = 0; i < n; i++) y[i] = (float)(1 / sqrt((double)x[i]));
        break;
    case PCO_OP_SIN:
        for (int64_t i = 0; i < n; i++) y[i] = sinf(x[i]);
        break;
    default:
        for (int64_t i = 0; i < n; i++) y[i] = cosf(x[i]);
        break;
    }
}

static void cpu_lanes_map(const cpu_node *node, void *y, const void *const *x, int64_t at, int64_t n)
{
    (void)at;
    if (node->in[0].dtype == PCO_I32)
        cpu_lanes_map_i32(node, y, x[0], n);
    else if (node->kernels->map[node->op->op])
        node->kernels->map[node->op->op](y, x[0], n);
    else
        cpu_lanes_map_libm(node, y, x[0], n);
}
CPU_ELEMENTWISE(native_map, cpu_lanes_map, false, 8)

static void cpu_lanes_gelu(const cpu_node *node, void *y, const void *const *x, int64_t at, int64_t n)
{
    (void)at;
    node->kernels->activate[node->attrs.gelu.approximate ? CPU_ACT_GELU_TANH : CPU_ACT_GELU](y, x[0], n);
}
CPU_ELEMENTWISE(native_gelu, cpu_lanes_gelu, false, 16)

static void cpu_lanes_clamp(const cpu_node *node, void *y, const void *const *x, int64_t at, int64_t n)
{
    (void)at;
    double low = cpu_round_to(node->in[0].dtype, node->attrs.clamp.min);
    double high = cpu_round_to(node->in[0].dtype, node->attrs.clamp.max);
    if (node->in[0].dtype != PCO_I32) {
        node->kernels->clamp(y, x[0], (float)low, (float)high, n);
        return;
    }
    const int32_t *from = x[0];
    int32_t *to = y;
    for (int64_t i = 0; i < n; i++) {
        int32_t v = from[i] < low ? (int32_t)low : from[i];
        to[i] = v > high ? (int32_t)high : v;
    }
}
CPU_ELEMENTWISE(native_clamp, cpu_lanes_clamp, false, 2)

/* x / (1 - p), rounded from double. */
static void cpu_lanes_dropout(const cpu_node *node, void *y, const void *const *x, int64_t at, int64_t n)
{
    cpu_philox philox = cpu_philox_of(&node->in[1], &node->in[2], node->attrs.dropout.stream);
    uint64_t threshold = cpu_dropout_threshold(node->attrs.dropout.p);
    double kept = 1 - node->attrs.dropout.p;
    const float *from = x[0];
    float *to = y;
    for (int64_t i = 0; i < n; i++) {
        bool zero = cpu_philox_word(&philox, at + i) < threshold;
        to[i] = zero ? 0 : (float)((double)from[i] / kept);
    }
}
CPU_ELEMENTWISE(native_dropout, cpu_lanes_dropout, false, 16)

/* ---- two operands ---- */

static int32_t cpu_div_i32(int32_t a, int32_t b)
{
    if (b == 0) return 0;
    if (b == -1) return (int32_t)(0u - (uint32_t)a);
    return a / b;
}

static void cpu_lanes_map2_i32(const cpu_node *node, int32_t *y, const int32_t *a, const int32_t *b, int64_t n)
{
    switch (node->op->op) {
    case PCO_OP_ADD:
        for (int64_t i = 0; i < n; i++) y[i] = (int32_t)((uint32_t)a[i] + (uint32_t)b[i]);
        break;
    case PCO_OP_SUB:
        for (int64_t i = 0; i < n; i++) y[i] = (int32_t)((uint32_t)a[i] - (uint32_t)b[i]);
        break;
    case PCO_OP_MUL:
        for (int64_t i = 0; i < n; i++) y[i] = (int32_t)((uint32_t)a[i] * (uint32_t)b[i]);
        break;
    case PCO_OP_DIV:
        for (int64_t i = 0; i < n; i++) y[i] = cpu_div_i32(a[i], b[i]);
        break;
    case PCO_OP_MINIMUM:
        for (int64_t i = 0; i < n; i++) y[i] = a[i] < b[i] ? a[i] : b[i];
        break;
    default: /* maximum */
        for (int64_t i = 0; i < n; i++) y[i] = a[i] > b[i] ? a[i] : b[i];
        break;
    }
}

static void cpu_lanes_map2(const cpu_node *node, void *y, const void *const *x, int64_t at, int64_t n)
{
    (void)at;
    if (node->in[0].dtype == PCO_I32) {
        cpu_lanes_map2_i32(node, y, x[0], x[1], n);
    } else if (node->kernels->map2[node->op->op]) {
        node->kernels->map2[node->op->op](y, x[0], x[1], n);
    } else { /* pow */
        const float *a = x[0], *b = x[1];
        float *to = y;
        for (int64_t i = 0; i < n; i++) to[i] = powf(a[i], b[i]);
    }
}
CPU_ELEMENTWISE(native_map2, cpu_lanes_map2, false, 2)

static void cpu_lanes_swiglu(const cpu_node *node, void *y, const void *const *x, int64_t at, int64_t n)
{
    (void)at;
    node->kernels->swiglu(y, x[0], x[1], n);
}

static void cpu_swiglu_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    const cpu_tensor *gate = &node->in[0], *up = &node->in[1], *y = &node->out[0];
    const unsigned char *base[2] = {gate->data, up->data};
    /* Without up, the second half of each row of gate is it. */
    if (!up->present) base[1] = cpu_at(gate, y->shape[y->rank - 1]);
    cpu_elementwise(node, base, begin, end, false, cpu_lanes_swiglu);
}

void cpu_run_native_swiglu(const cpu_node *node)
{
    cpu_parallel(node, node->out[0].count, cpu_grain(8), cpu_swiglu_slice);
}

#define CPU_COMPARE(T) \
    static void cpu_compare_##T(uint32_t op, uint8_t *y, const T *a, const T *b, int64_t n) \
    { \
        switch (op) { \
        case PCO_OP_EQ: \
            for (int64_t i = 0; i < n; i++) y[i] = a[i] == b[i]; \
            break; \
        case PCO_OP_NE: \
            for (int64_t i = 0; i < n; i++) y[i] = a[i] != b[i]; \
            break; \
        case PCO_OP_LT: \
            for (int64_t i = 0; i < n; i++) y[i] = a[i] < b[i]; \
            break; \
        case PCO_OP_LE: \
            for (int64_t i = 0; i < n; i++) y[i] = a[i] <= b[i]; \
            break; \
        case PCO_OP_GT: \
            for (int64_t i = 0; i < n; i++) y[i] = a[i] > b[i]; \
            break; \
        default: \
            for (int64_t i = 0; i < n; i++) y[i] = a[i] >= b[i]; \
            break; \
        } \
    }
CPU_COMPARE(float)
CPU_COMPARE(int32_t)

static void cpu_lanes_compare(const cpu_node *node, void *y, const void *const *x, int64_t at, int64_t n)
{
    (void)at;
    if (node->op->op == PCO_OP_ISFINITE) {
        const float *from = x[0];
        uint8_t *to = y;
        for (int64_t i = 0; i < n; i++) to[i] = isfinite(from[i]) != 0;
    } else if (node->in[0].dtype == PCO_I32) {
        cpu_compare_int32_t(node->op->op, y, x[0], x[1], n);
    } else {
        cpu_compare_float(node->op->op, y, x[0], x[1], n);
    }
}
CPU_ELEMENTWISE(compare, cpu_lanes_compare, false, 2)

static void cpu_lanes_logical(const cpu_node *node, void *y, const void *const *x, int64_t at, int64_t n)
{
    (void)at;
    const uint8_t *a = x[0], *b = node->n_inputs > 1 ? x[1] : x[0];
    uint8_t *to = y;
    uint32_t op = node->op->op;
    for (int64_t i = 0; i < n; i++)
        to[i] = op == PCO_OP_LOGICAL_AND ? a[i] && b[i] : op == PCO_OP_LOGICAL_OR ? a[i] || b[i] : !a[i];
}
CPU_ELEMENTWISE(logical, cpu_lanes_logical, true, 1)

#define CPU_WHERE(T) \
    static void cpu_where_##T(T *y, const uint8_t *condition, const T *a, const T *b, int64_t n) \
    { \
        for (int64_t i = 0; i < n; i++) y[i] = condition[i] ? a[i] : b[i]; \
    }
CPU_WHERE(uint8_t)
CPU_WHERE(uint16_t)
CPU_WHERE(uint32_t)

static void cpu_lanes_where(const cpu_node *node, void *y, const void *const *x, int64_t at, int64_t n)
{
    (void)at;
    switch (cpu_size(node->out[0].dtype)) {
    case 1: cpu_where_uint8_t(y, x[0], x[1], x[2], n); break;
    case 2: cpu_where_uint16_t(y, x[0], x[1], x[2], n); break;
    default: cpu_where_uint32_t(y, x[0], x[1], x[2], n); break;
    }
}
CPU_ELEMENTWISE(where, cpu_lanes_where, true, 2)

/* ---- cast ---- */

static void cpu_lanes_cast(const cpu_node *node, void *y, const void *const *x, int64_t at, int64_t n)
{
    (void)at;
    uint32_t from = node->in[0].dtype, to = node->out[0].dtype;
    if (cpu_is_float(from) && cpu_is_float(to)) {
        float lanes[CPU_CHUNK];
        node->kernels->load[from](lanes, x[0], n);
        node->kernels->store[to](y, lanes, n);
    } else if (from == to) {
        memcpy(y, x[0], (size_t)n * cpu_size(to));
    } else {
        for (int64_t i = 0; i < n; i++) cpu_store_f64(to, y, i, cpu_load_f64(from, x[0], i));
    }
}
CPU_ELEMENTWISE(native_cast, cpu_lanes_cast, true, 2)
