/* Elementwise ops. */
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

static CPU_RUN(native_swiglu) { cpu_parallel(node, node->out[0].count, cpu_grain(8), cpu_swiglu_slice); }

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

/* ---- plans ---- */

static CPU_PARSE(elementwise)
{
    const cpu_tensor *y = &node->out[0];
    cpu_walk *walk = &node->plan.walk;
    cpu_walk_init(walk, y->rank, y->shape, (int)node->n_inputs);
    for (uint32_t i = 0; i < node->n_inputs; i++) cpu_walk_broadcast(walk, (int)i, node->in[i].rank, node->in[i].shape);
    cpu_walk_merge(walk);
}

static CPU_PARSE(swiglu)
{
    const cpu_tensor *y = &node->out[0];
    cpu_walk *walk = &node->plan.walk;
    if (node->in[1].present) {
        cpu_walk_init(walk, y->rank, y->shape, 2);
        for (int i = 0; i < 2; i++) cpu_walk_broadcast(walk, i, y->rank, y->shape);
        cpu_walk_merge(walk);
        return;
    }
    int64_t n = y->shape[y->rank - 1], rows = cpu_product(y->shape, 0, (int)y->rank - 1);
    cpu_walk_init(walk, 2, (int64_t[]){rows, n}, 2);
    for (int i = 0; i < 2; i++) {
        walk->stride[i][0] = 2 * n;
        walk->stride[i][1] = 1;
    }
    cpu_walk_merge(walk);
}

/* ---- cpu:reference ---- */

CPU_REFERENCE_BEGIN

static double cpu_reference_gelu(double x, bool approximate)
{
    if (x == -INFINITY) return 0;
    if (!approximate) return 0.5 * x * erfc(-x * 0.70710678118654752440);
    /* 0.5 (1 + tanh v) = 1 / (1 + e^-2v), which keeps the lower tail. */
    double v = 0.79788456080286535588 * (x + 0.044715 * x * x * x);
    return x / (1 + exp(-2 * v));
}

static double cpu_reference_silu(double x) { return x == -INFINITY ? 0 : x / (1 + exp(-x)); }

/* NaN stays NaN: every comparison with it is false. */
static double cpu_reference_clamp(const cpu_node *node, double x)
{
    double low = cpu_round_to(node->in[0].dtype, node->attrs.clamp.min);
    double high = cpu_round_to(node->in[0].dtype, node->attrs.clamp.max);
    if (x < low) x = low;
    return x > high ? high : x;
}

/* What the two functions below have to know: without `default`, they do not compile where an operation is missing. */
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wswitch"
#define CPU_LISTED                    ~, CPU_MEMBER
#define CPU_IF(listed, NAME)          CPU_SECOND(listed, CPU_NO_MEMBER, ~)(NAME)
#define CPU_SECOND(...)               CPU_SECOND_OF(__VA_ARGS__)
#define CPU_SECOND_OF(first, of, ...) of
#define CPU_MEMBER(NAME)              CPU_##NAME = PCO_OP_##NAME,
#define CPU_NO_MEMBER(NAME)
#define ONE_unary               CPU_LISTED
#define ONE_clamp               CPU_LISTED
#define ONE_cast                CPU_LISTED
#define ONE_logical_not         CPU_LISTED
#define ONE(NAME, name, family) CPU_IF(ONE_##family, NAME)
typedef enum cpu_one_op { PCO_OPERATIONS(ONE) } cpu_one_op;
#define TWO_binary              CPU_LISTED
#define TWO_compare             CPU_LISTED
#define TWO_logical             CPU_LISTED
#define TWO(NAME, name, family) CPU_IF(TWO_##family, NAME)
typedef enum cpu_two_op { PCO_OPERATIONS(TWO) } cpu_two_op;

static double cpu_reference_one(const cpu_node *node, double x)
{
    switch ((cpu_one_op)node->op->op) {
    case CPU_LOGICAL_NOT: return x == 0;
    case CPU_NEG: return -x;
    case CPU_ABS: return fabs(x);
    case CPU_SIGN: return x > 0 ? 1 : x < 0 ? -1 : x == 0 ? 0 : x;
    case CPU_FLOOR: return floor(x);
    case CPU_RECIPROCAL: return 1 / x;
    case CPU_CLAMP: return cpu_reference_clamp(node, x);
    case CPU_EXP: return exp(x);
    case CPU_LOG: return log(x);
    case CPU_SQRT: return sqrt(x);
    case CPU_RSQRT: return 1 / sqrt(x);
    case CPU_SIN: return sin(x);
    case CPU_COS: return cos(x);
    case CPU_TANH: return tanh(x);
    case CPU_ERF: return erf(x);
    case CPU_SIGMOID: return 1 / (1 + exp(-x));
    case CPU_ISFINITE: return isfinite(x) != 0;
    case CPU_RELU: return x > 0 ? x : x <= 0 ? 0 : x;
    case CPU_GELU: return cpu_reference_gelu(x, node->attrs.gelu.approximate != 0);
    case CPU_SILU: return cpu_reference_silu(x);
    case CPU_CAST: return x;
    }
    return NAN;
}

static double cpu_reference_two(uint32_t op, double a, double b)
{
    switch ((cpu_two_op)op) {
    case CPU_ADD: return a + b;
    case CPU_SUB: return a - b;
    case CPU_MUL: return a * b;
    case CPU_DIV: return a / b;
    case CPU_MINIMUM: return a != a ? a : b != b ? b : a < b ? a : b;
    case CPU_MAXIMUM: return a != a ? a : b != b ? b : a > b ? a : b;
    case CPU_POW: return pow(a, b);
    case CPU_EQ: return a == b;
    case CPU_NE: return a != b;
    case CPU_LT: return a < b;
    case CPU_LE: return a <= b;
    case CPU_GT: return a > b;
    case CPU_GE: return a >= b;
    case CPU_LOGICAL_AND: return a != 0 && b != 0;
    case CPU_LOGICAL_OR: return a != 0 || b != 0;
    }
    return NAN;
}

#pragma GCC diagnostic pop

/* i32 arithmetic wraps; in 64 bits, then cut to 32. */
static bool cpu_reference_i32(uint32_t op, int64_t a, int64_t b, int32_t *y)
{
    int64_t wide;
    switch (op) {
    case PCO_OP_ADD: wide = a + b; break;
    case PCO_OP_SUB: wide = a - b; break;
    case PCO_OP_MUL: wide = a * b; break;
    case PCO_OP_DIV: wide = b == 0 ? 0 : a / b; break;
    case PCO_OP_NEG: wide = -a; break;
    case PCO_OP_ABS: wide = a < 0 ? -a : a; break;
    default: return false;
    }
    *y = (int32_t)(uint32_t)(uint64_t)wide;
    return true;
}

static void cpu_reference_element(const cpu_node *node, int64_t i, const int64_t *at)
{
    const cpu_tensor *a = &node->in[0], *b = &node->in[1], *y = &node->out[0];
    bool two = node->plan.walk.operands > 1;
    if (node->op->op == PCO_OP_WHERE) {
        const cpu_tensor *x = &node->in[a->data[at[0]] ? 1 : 2];
        cpu_store_f64(y->dtype, y->data, i, cpu_load_f64(x->dtype, x->data, at[a->data[at[0]] ? 1 : 2]));
        return;
    }
    if (a->dtype == PCO_I32 && y->dtype == PCO_I32 &&
        cpu_reference_i32(node->op->op, cpu_i32_at(a, at[0]), two ? cpu_i32_at(b, at[1]) : 0,
                          (int32_t *)(void *)y->data + i))
        return;
    double value = cpu_load_f64(a->dtype, a->data, at[0]);
    value = two ? cpu_reference_two(node->op->op, value, cpu_load_f64(b->dtype, b->data, at[1]))
                : cpu_reference_one(node, value);
    cpu_store_f64(y->dtype, y->data, i, value);
}

static void cpu_reference_elementwise_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    const cpu_walk *walk = &node->plan.walk;
    for (int64_t i = begin; i < end; i++) {
        int64_t index[PCO_MAX_RANK], at[CPU_WALK_OPERANDS] = {0};
        cpu_walk_index(walk, i, index);
        for (int o = 0; o < walk->operands; o++) at[o] = cpu_walk_offset(walk, o, index);
        cpu_reference_element(node, i, at);
    }
}

static CPU_RUN(reference_elementwise)
{
    cpu_parallel(node, node->out[0].count, cpu_grain(32), cpu_reference_elementwise_slice);
}

static void cpu_reference_swiglu_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    const cpu_tensor *gate = &node->in[0], *up = &node->in[1], *y = &node->out[0];
    int64_t n = y->rank ? y->shape[y->rank - 1] : 1;
    for (int64_t i = begin; i < end; i++) {
        int64_t first = up->present ? i : i / n * 2 * n + i % n;
        double g = cpu_load_f64(gate->dtype, gate->data, first);
        double u =
            up->present ? cpu_load_f64(up->dtype, up->data, i) : cpu_load_f64(gate->dtype, gate->data, first + n);
        cpu_store_f64(y->dtype, y->data, i, cpu_reference_silu(g) * u);
    }
}

static CPU_RUN(reference_swiglu) { cpu_parallel(node, node->out[0].count, cpu_grain(32), cpu_reference_swiglu_slice); }

static void cpu_reference_dropout_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    const cpu_tensor *x = &node->in[0], *y = &node->out[0];
    cpu_philox philox = cpu_philox_of(&node->in[1], &node->in[2], node->attrs.dropout.stream);
    uint64_t threshold = cpu_dropout_threshold(node->attrs.dropout.p);
    for (int64_t i = begin; i < end; i++) {
        bool zero = cpu_philox_word(&philox, i) < threshold;
        double kept = cpu_load_f64(x->dtype, x->data, i) / (1 - node->attrs.dropout.p);
        cpu_store_f64(y->dtype, y->data, i, zero ? 0 : kept);
    }
}

static CPU_RUN(reference_dropout)
{
    cpu_parallel(node, node->out[0].count, cpu_grain(32), cpu_reference_dropout_slice);
}

CPU_REFERENCE_END

CPU_OP(ADD, elementwise, 7, PLAIN(native_map2), PLAIN(reference_elementwise))
CPU_OP(SUB, elementwise, 7, PLAIN(native_map2), PLAIN(reference_elementwise))
CPU_OP(MUL, elementwise, 7, PLAIN(native_map2), PLAIN(reference_elementwise))
CPU_OP(DIV, elementwise, 7, PLAIN(native_map2), PLAIN(reference_elementwise))
CPU_OP(MINIMUM, elementwise, 7, PLAIN(native_map2), PLAIN(reference_elementwise))
CPU_OP(MAXIMUM, elementwise, 7, PLAIN(native_map2), PLAIN(reference_elementwise))
CPU_OP(POW, elementwise, 7, PLAIN(native_map2), PLAIN(reference_elementwise))
CPU_OP(EQ, elementwise, 7, PLAIN(compare), PLAIN(reference_elementwise))
CPU_OP(NE, elementwise, 7, PLAIN(compare), PLAIN(reference_elementwise))
CPU_OP(LT, elementwise, 7, PLAIN(compare), PLAIN(reference_elementwise))
CPU_OP(LE, elementwise, 7, PLAIN(compare), PLAIN(reference_elementwise))
CPU_OP(GT, elementwise, 7, PLAIN(compare), PLAIN(reference_elementwise))
CPU_OP(GE, elementwise, 7, PLAIN(compare), PLAIN(reference_elementwise))
CPU_OP(LOGICAL_AND, elementwise, 7, PLAIN(logical), PLAIN(reference_elementwise))
CPU_OP(LOGICAL_OR, elementwise, 7, PLAIN(logical), PLAIN(reference_elementwise))
CPU_OP(LOGICAL_NOT, unary, 7, PLAIN(logical), PLAIN(reference_elementwise))
CPU_OP(WHERE, elementwise, 7, PLAIN(where), PLAIN(reference_elementwise))
CPU_OP(NEG, unary, 7, PLAIN(native_map), PLAIN(reference_elementwise))
CPU_OP(ABS, unary, 7, PLAIN(native_map), PLAIN(reference_elementwise))
CPU_OP(SIGN, unary, 7, PLAIN(native_map), PLAIN(reference_elementwise))
CPU_OP(FLOOR, unary, 7, PLAIN(native_map), PLAIN(reference_elementwise))
CPU_OP(RECIPROCAL, unary, 7, PLAIN(native_map), PLAIN(reference_elementwise))
CPU_OP(CLAMP, unary, 1, PLAIN(native_clamp), PLAIN(reference_elementwise))
CPU_OP(EXP, unary, 7, PLAIN(native_map), PLAIN(reference_elementwise))
CPU_OP(LOG, unary, 7, PLAIN(native_map), PLAIN(reference_elementwise))
CPU_OP(SQRT, unary, 7, PLAIN(native_map), PLAIN(reference_elementwise))
CPU_OP(RSQRT, unary, 7, PLAIN(native_map), PLAIN(reference_elementwise))
CPU_OP(SIN, unary, 7, PLAIN(native_map), PLAIN(reference_elementwise))
CPU_OP(COS, unary, 7, PLAIN(native_map), PLAIN(reference_elementwise))
CPU_OP(TANH, unary, 7, PLAIN(native_map), PLAIN(reference_elementwise))
CPU_OP(ERF, unary, 7, PLAIN(native_map), PLAIN(reference_elementwise))
CPU_OP(SIGMOID, unary, 7, PLAIN(native_map), PLAIN(reference_elementwise))
CPU_OP(ISFINITE, unary, 7, PLAIN(compare), PLAIN(reference_elementwise))
CPU_OP(CAST, unary, 1, PLAIN(native_cast), PLAIN(reference_elementwise))
CPU_OP(RELU, unary, 7, PLAIN(native_map), PLAIN(reference_elementwise))
CPU_OP(GELU, unary, 1, PLAIN(native_gelu), PLAIN(reference_elementwise))
CPU_OP(SILU, unary, 7, PLAIN(native_map), PLAIN(reference_elementwise))
CPU_OP(SWIGLU, swiglu, 3, PLAIN(native_swiglu), PLAIN(reference_swiglu))
CPU_OP(DROPOUT, unary, 1, PLAIN(native_dropout), PLAIN(reference_dropout))
