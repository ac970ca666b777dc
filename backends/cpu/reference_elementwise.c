/* cpu:reference, elementwise: each result from its operands in double, rounded once. */
#include "reference.h"
#include "philox.h"

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

static double cpu_reference_one(const cpu_node *node, double x)
{
    switch (node->op->op) {
    case PCO_OP_LOGICAL_NOT: return x == 0;
    case PCO_OP_NEG: return -x;
    case PCO_OP_ABS: return fabs(x);
    case PCO_OP_SIGN: return x > 0 ? 1 : x < 0 ? -1 : x == 0 ? 0 : x;
    case PCO_OP_FLOOR: return floor(x);
    case PCO_OP_RECIPROCAL: return 1 / x;
    case PCO_OP_CLAMP: return cpu_reference_clamp(node, x);
    case PCO_OP_EXP: return exp(x);
    case PCO_OP_LOG: return log(x);
    case PCO_OP_SQRT: return sqrt(x);
    case PCO_OP_RSQRT: return 1 / sqrt(x);
    case PCO_OP_SIN: return sin(x);
    case PCO_OP_COS: return cos(x);
    case PCO_OP_TANH: return tanh(x);
    case PCO_OP_ERF: return erf(x);
    case PCO_OP_SIGMOID: return 1 / (1 + exp(-x));
    case PCO_OP_ISFINITE: return isfinite(x) != 0;
    case PCO_OP_RELU: return x > 0 ? x : x <= 0 ? 0 : x;
    case PCO_OP_GELU: return cpu_reference_gelu(x, node->attrs.gelu.approximate != 0);
    case PCO_OP_SILU: return cpu_reference_silu(x);
    default: return x; /* cast */
    }
}

static double cpu_reference_two(uint32_t op, double a, double b)
{
    switch (op) {
    case PCO_OP_ADD: return a + b;
    case PCO_OP_SUB: return a - b;
    case PCO_OP_MUL: return a * b;
    case PCO_OP_DIV: return a / b;
    case PCO_OP_MINIMUM: return a != a ? a : b != b ? b : a < b ? a : b;
    case PCO_OP_MAXIMUM: return a != a ? a : b != b ? b : a > b ? a : b;
    case PCO_OP_POW: return pow(a, b);
    case PCO_OP_EQ: return a == b;
    case PCO_OP_NE: return a != b;
    case PCO_OP_LT: return a < b;
    case PCO_OP_LE: return a <= b;
    case PCO_OP_GT: return a > b;
    case PCO_OP_GE: return a >= b;
    case PCO_OP_LOGICAL_AND: return a != 0 && b != 0;
    default: return a != 0 || b != 0; /* logical_or */
    }
}

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

void cpu_run_reference_elementwise(const cpu_node *node)
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

void cpu_run_reference_swiglu(const cpu_node *node)
{
    cpu_parallel(node, node->out[0].count, cpu_grain(32), cpu_reference_swiglu_slice);
}

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

void cpu_run_reference_dropout(const cpu_node *node)
{
    cpu_parallel(node, node->out[0].count, cpu_grain(32), cpu_reference_dropout_slice);
}
