/* The table of ops: how each is checked, and what runs it on either device. */
#include "attention.h"
#include "matmul.h"
#include "parse.h"

#define CPU_VARIANT(name)                                                                                    \
    {                                                                                                        \
        "default", cpu_run_##name, NULL, NULL                                                                \
    }
#define CPU_VARIANT_MEMORY(name)                                                                             \
    {                                                                                                        \
        "default", cpu_run_##name, cpu_##name##_workspace, NULL                                              \
    }

/* One variant on either device. */
#define CPU_OP(upper, name_, types_, attrs_, parse_, in_place_, native_, reference_)                         \
    {                                                                                                        \
        .op = PCO_OP_##upper, .name = #name_, .types = types_, .attrs_size = attrs_,                         \
        .parse = cpu_parse_##parse_, .in_place = in_place_, .n_native = 1,                                   \
        .native = &(const cpu_variant)native_, .reference = &(const cpu_variant)reference_                   \
    }

/* Elementwise ops: y may lie where any operand of its type and shape does. */
#define CPU_MAP(upper, name, types, parse, native)                                                           \
    CPU_OP(upper, name, types, 0, parse, 7, CPU_VARIANT(native), CPU_VARIANT(reference_elementwise))

/* Ops that only copy, or are exact: the same code on both devices. */
#define CPU_SHARED(upper, name, types, attrs, parse, in_place, run)                                          \
    CPU_OP(upper, name, types, attrs, parse, in_place, CPU_VARIANT(run), CPU_VARIANT(run))

static const cpu_variant CPU_MATMUL[] = {
    {"gemm", cpu_run_native_gemm, cpu_native_gemm_workspace, NULL},
    {"gemv", cpu_run_native_gemv, cpu_native_gemv_workspace, NULL},
    {"naive", cpu_run_native_matmul_naive, NULL, NULL},
};

/* Up to this many rows, reading b where it lies is faster than packing it. [K,N] is read once per row, [N,K]
 * once per four. */
enum { CPU_GEMV_ROWS = 24, CPU_GEMV_ROWS_BY_COLUMNS = 3 };

const cpu_variant *cpu_matmul_choose(const cpu_node *node)
{
    const cpu_matmul *plan = &node->plan.matmul;
    return &CPU_MATMUL[plan->m <= (plan->b_by_rows ? CPU_GEMV_ROWS : CPU_GEMV_ROWS_BY_COLUMNS) ? 1 : 0];
}

static bool cpu_without_weights(const cpu_node *node)
{
    return !node->out[1].present;
}

static const cpu_variant CPU_ATTENTION[] = {
    {"stream", cpu_run_native_attention_stream, cpu_native_attention_stream_workspace, cpu_without_weights},
    {"rows", cpu_run_native_attention_rows, cpu_native_attention_rows_workspace, cpu_without_weights},
    {"whole", cpu_run_native_attention_whole, cpu_native_attention_whole_workspace, NULL},
};

/* Up to this many queries per key head, packing the keys costs more than it saves. */
enum { CPU_ATTENTION_ROWS = 8 };

const cpu_variant *cpu_attention_choose(const cpu_node *node)
{
    const cpu_attention *plan = &node->plan.attention;
    if (node->out[1].present) return &CPU_ATTENTION[2];
    bool few = plan->g == 0 || plan->h / plan->g * plan->s <= CPU_ATTENTION_ROWS;
    return &CPU_ATTENTION[few ? 1 : 0];
}

static const cpu_variant CPU_MATMUL_REFERENCE = CPU_VARIANT_MEMORY(reference_matmul);
static const cpu_variant CPU_ATTENTION_REFERENCE = CPU_VARIANT_MEMORY(reference_attention);

#define SIZE(name) sizeof(pco_##name##_attrs)

static const cpu_op CPU_OPS[] = {
    CPU_MAP(ADD, add, "NN>N", elementwise, native_map2),
    CPU_MAP(SUB, sub, "NN>N", elementwise, native_map2),
    CPU_MAP(MUL, mul, "NN>N", elementwise, native_map2),
    CPU_MAP(DIV, div, "NN>N", elementwise, native_map2),
    CPU_MAP(MINIMUM, minimum, "NN>N", elementwise, native_map2),
    CPU_MAP(MAXIMUM, maximum, "NN>N", elementwise, native_map2),
    CPU_MAP(POW, pow, "FF>F", elementwise, native_map2),
    CPU_MAP(EQ, eq, "NN>b", elementwise, compare),
    CPU_MAP(NE, ne, "NN>b", elementwise, compare),
    CPU_MAP(LT, lt, "NN>b", elementwise, compare),
    CPU_MAP(LE, le, "NN>b", elementwise, compare),
    CPU_MAP(GT, gt, "NN>b", elementwise, compare),
    CPU_MAP(GE, ge, "NN>b", elementwise, compare),
    CPU_MAP(LOGICAL_AND, logical_and, "bb>b", elementwise, logical),
    CPU_MAP(LOGICAL_OR, logical_or, "bb>b", elementwise, logical),
    CPU_MAP(LOGICAL_NOT, logical_not, "b>b", unary, logical),
    CPU_MAP(WHERE, where, "bAA>A", elementwise, where),
    CPU_MAP(NEG, neg, "N>N", unary, native_map),
    CPU_MAP(ABS, abs, "N>N", unary, native_map),
    CPU_MAP(SIGN, sign, "N>N", unary, native_map),
    CPU_MAP(FLOOR, floor, "F>F", unary, native_map),
    CPU_MAP(RECIPROCAL, reciprocal, "F>F", unary, native_map),
    CPU_OP(CLAMP, clamp, "N>N", SIZE(clamp), unary, 1, CPU_VARIANT(native_clamp),
           CPU_VARIANT(reference_elementwise)),
    CPU_MAP(EXP, exp, "F>F", unary, native_map),
    CPU_MAP(LOG, log, "F>F", unary, native_map),
    CPU_MAP(SQRT, sqrt, "F>F", unary, native_map),
    CPU_MAP(RSQRT, rsqrt, "F>F", unary, native_map),
    CPU_MAP(SIN, sin, "F>F", unary, native_map),
    CPU_MAP(COS, cos, "F>F", unary, native_map),
    CPU_MAP(TANH, tanh, "F>F", unary, native_map),
    CPU_MAP(ERF, erf, "F>F", unary, native_map),
    CPU_MAP(SIGMOID, sigmoid, "F>F", unary, native_map),
    CPU_MAP(ISFINITE, isfinite, "F>b", unary, compare),
    CPU_OP(CAST, cast, "a>a", SIZE(cast), cast, 1, CPU_VARIANT(native_cast),
           CPU_VARIANT(reference_elementwise)),
    CPU_SHARED(FILL, fill, ">a", SIZE(fill), fill, 0, fill),
    CPU_SHARED(IOTA, iota, ">n", SIZE(iota), iota, 0, iota),
    CPU_SHARED(BROADCAST_TO, broadcast_to, "A>A", SIZE(broadcast_to), broadcast_to, 0, copy),
    CPU_SHARED(RESHAPE, reshape, "A>A", SIZE(reshape), reshape, 0, reshape),
    CPU_SHARED(PERMUTE, permute, "A>A", SIZE(permute), permute, 0, copy),
    CPU_SHARED(SLICE, slice, "A>A", SIZE(slice), slice, 0, copy),
    CPU_SHARED(CONCAT, concat, "AA?A?A?A?A?A?A?>A", SIZE(concat), concat, 0, concat),
    CPU_SHARED(PAD, pad, "A>A", SIZE(pad), pad, 0, pad),
    CPU_SHARED(GATHER, gather, "@i>@", SIZE(gather), gather, 0, gather),
    CPU_SHARED(GATHER_ALONG_AXIS, gather_along_axis, "Ai>A", SIZE(gather_along_axis), gather_along_axis, 0,
               gather_along_axis),
    CPU_OP(SCATTER_ADD, scatter_add, "NiN>N", SIZE(scatter_add), scatter_add, 1,
           CPU_VARIANT_MEMORY(native_scatter_add), CPU_VARIANT_MEMORY(reference_scatter_add)),
    CPU_SHARED(STATE_WRITE, state_write, "Aai>A", SIZE(state_write), state_write, 0, state_write),
    {.op = PCO_OP_MATMUL,
     .name = "matmul",
     .types = "fwf?f?>f",
     .attrs_size = SIZE(matmul),
     .parse = cpu_parse_matmul,
     .n_native = 3,
     .native = CPU_MATMUL,
     .choose = cpu_matmul_choose,
     .reference = &CPU_MATMUL_REFERENCE},
    CPU_OP(SUM, sum, "N>N", SIZE(sum), reduce, 0, CPU_VARIANT(native_reduce), CPU_VARIANT(reference_reduce)),
    CPU_OP(MEAN, mean, "F>F", SIZE(mean), reduce, 0, CPU_VARIANT(native_reduce),
           CPU_VARIANT(reference_reduce)),
    CPU_OP(AMAX, amax, "N>N", SIZE(amax), reduce, 0, CPU_VARIANT(native_reduce),
           CPU_VARIANT(reference_reduce)),
    CPU_SHARED(ARGMAX, argmax, "N>i", SIZE(argmax), argmax, 0, argmax),
    CPU_SHARED(RANDOM_BITS, random_bits, "ii?>i", SIZE(random_bits), random_bits, 0, random_bits),
    CPU_MAP(RELU, relu, "F>F", unary, native_map),
    CPU_OP(GELU, gelu, "F>F", SIZE(gelu), unary, 1, CPU_VARIANT(native_gelu),
           CPU_VARIANT(reference_elementwise)),
    CPU_MAP(SILU, silu, "F>F", unary, native_map),
    CPU_OP(SWIGLU, swiglu, "FF?>F", 0, swiglu, 3, CPU_VARIANT(native_swiglu), CPU_VARIANT(reference_swiglu)),
    CPU_OP(SOFTMAX, softmax, "F>F", SIZE(softmax), softmax, 1, CPU_VARIANT_MEMORY(native_softmax),
           CPU_VARIANT(reference_softmax)),
    CPU_OP(LOG_SOFTMAX, log_softmax, "F>F", SIZE(log_softmax), softmax, 1, CPU_VARIANT_MEMORY(native_softmax),
           CPU_VARIANT(reference_softmax)),
    CPU_OP(LOGSUMEXP, logsumexp, "F>F", SIZE(logsumexp), logsumexp, 0, CPU_VARIANT_MEMORY(native_softmax),
           CPU_VARIANT(reference_softmax)),
    CPU_OP(LAYER_NORM, layer_norm, "Ff?f?>Fs?s?", SIZE(layer_norm), layer_norm, 1,
           CPU_VARIANT_MEMORY(native_norm), CPU_VARIANT(reference_norm)),
    CPU_OP(RMS_NORM, rms_norm, "Ff?>Fs?", SIZE(rms_norm), rms_norm, 1, CPU_VARIANT_MEMORY(native_norm),
           CPU_VARIANT(reference_norm)),
    CPU_OP(ROPE, rope, "Fii>F", SIZE(rope), rope, 1, CPU_VARIANT_MEMORY(native_rope),
           CPU_VARIANT(reference_rope)),
    CPU_OP(SINUSOIDAL_POSITIONS, sinusoidal_positions, "ii>f", SIZE(sinusoidal_positions),
           sinusoidal_positions, 0, CPU_VARIANT(native_sinusoidal_positions),
           CPU_VARIANT(reference_sinusoidal_positions)),
    {.op = PCO_OP_SCALED_DOT_PRODUCT_ATTENTION,
     .name = "scaled_dot_product_attention",
     .types = "FKKm?i?i?>FF?",
     .attrs_size = SIZE(scaled_dot_product_attention),
     .parse = cpu_parse_attention,
     .n_native = 3,
     .native = CPU_ATTENTION,
     .choose = cpu_attention_choose,
     .reference = &CPU_ATTENTION_REFERENCE},
    CPU_OP(DROPOUT, dropout, "Fii?>F", SIZE(dropout), dropout, 1, CPU_VARIANT(native_dropout),
           CPU_VARIANT(reference_dropout)),
    CPU_OP(CROSS_ENTROPY, cross_entropy, "fi>s", SIZE(cross_entropy), cross_entropy, 0,
           CPU_VARIANT_MEMORY(native_cross_entropy), CPU_VARIANT(reference_cross_entropy)),
    CPU_OP(CROSS_ENTROPY_BACKWARD, cross_entropy_backward, "Fis>F", SIZE(cross_entropy_backward), cross_entropy, 1,
           CPU_VARIANT_MEMORY(native_cross_entropy_backward), CPU_VARIANT(reference_cross_entropy_backward)),
    CPU_OP(ADAMW, adamw, "sssfss?>sss", SIZE(adamw), adamw, 0, CPU_VARIANT(native_adamw), CPU_VARIANT(reference_adamw)),
    CPU_OP(SOFTMAX_BACKWARD, softmax_backward, "FF>F", SIZE(softmax_backward), softmax_backward, 3,
           CPU_VARIANT_MEMORY(native_softmax_backward), CPU_VARIANT(reference_softmax_backward)),
    CPU_OP(LAYER_NORM_BACKWARD, layer_norm_backward, "FFf?>F", SIZE(layer_norm_backward), norm_backward, 3,
           CPU_VARIANT_MEMORY(native_norm_backward), CPU_VARIANT(reference_norm_backward)),
    CPU_OP(RMS_NORM_BACKWARD, rms_norm_backward, "FFf?>F", SIZE(rms_norm_backward), norm_backward, 3,
           CPU_VARIANT_MEMORY(native_norm_backward), CPU_VARIANT(reference_norm_backward)),
    CPU_OP(SWIGLU_BACKWARD, swiglu_backward, "FF?F>FF?", 0, swiglu_backward, 0, CPU_VARIANT(native_swiglu_backward),
           CPU_VARIANT(reference_swiglu_backward)),
    CPU_OP(SCALED_DOT_PRODUCT_ATTENTION_BACKWARD, scaled_dot_product_attention_backward, "FKKm?i?i?F>FKK",
           SIZE(scaled_dot_product_attention_backward), attention_backward, 0,
           CPU_VARIANT_MEMORY(native_attention_backward), CPU_VARIANT_MEMORY(reference_attention_backward)),
    CPU_OP(SGD, sgd, "ssfss?>ss", SIZE(sgd), sgd, 0, CPU_VARIANT(native_sgd), CPU_VARIANT(reference_sgd)),
};

const cpu_op *cpu_op_find(uint32_t op)
{
    for (size_t i = 0; i < sizeof CPU_OPS / sizeof CPU_OPS[0]; i++)
        if (CPU_OPS[i].op == op) return &CPU_OPS[i];
    return NULL;
}
