/* Which lowerer serves which op. An op that is not here is unsupported, and the core decomposes it or gives
 * it to another device. */
#include "lower.h"

typedef struct gpu_op {
    uint32_t op;
    const char *name;
    const gpu_lowerer *lowerer;
} gpu_op;

static const gpu_op gpu_ops[] = {
    {PCO_OP_ADD, "add", &gpu_lower_binary},
    {PCO_OP_SUB, "sub", &gpu_lower_binary},
    {PCO_OP_MUL, "mul", &gpu_lower_binary},
    {PCO_OP_DIV, "div", &gpu_lower_binary},
    {PCO_OP_MINIMUM, "minimum", &gpu_lower_binary},
    {PCO_OP_MAXIMUM, "maximum", &gpu_lower_binary},
    {PCO_OP_POW, "pow", &gpu_lower_binary},
    {PCO_OP_EQ, "eq", &gpu_lower_binary},
    {PCO_OP_NE, "ne", &gpu_lower_binary},
    {PCO_OP_LT, "lt", &gpu_lower_binary},
    {PCO_OP_LE, "le", &gpu_lower_binary},
    {PCO_OP_GT, "gt", &gpu_lower_binary},
    {PCO_OP_GE, "ge", &gpu_lower_binary},
    {PCO_OP_LOGICAL_AND, "logical_and", &gpu_lower_binary},
    {PCO_OP_LOGICAL_OR, "logical_or", &gpu_lower_binary},
    {PCO_OP_LOGICAL_NOT, "logical_not", &gpu_lower_unary},
    {PCO_OP_NEG, "neg", &gpu_lower_unary},
    {PCO_OP_ABS, "abs", &gpu_lower_unary},
    {PCO_OP_SIGN, "sign", &gpu_lower_unary},
    {PCO_OP_FLOOR, "floor", &gpu_lower_unary},
    {PCO_OP_RECIPROCAL, "reciprocal", &gpu_lower_unary},
    {PCO_OP_CLAMP, "clamp", &gpu_lower_unary},
    {PCO_OP_EXP, "exp", &gpu_lower_unary},
    {PCO_OP_LOG, "log", &gpu_lower_unary},
    {PCO_OP_SQRT, "sqrt", &gpu_lower_unary},
    {PCO_OP_RSQRT, "rsqrt", &gpu_lower_unary},
    {PCO_OP_SIN, "sin", &gpu_lower_unary},
    {PCO_OP_COS, "cos", &gpu_lower_unary},
    {PCO_OP_TANH, "tanh", &gpu_lower_unary},
    {PCO_OP_ERF, "erf", &gpu_lower_unary},
    {PCO_OP_SIGMOID, "sigmoid", &gpu_lower_unary},
    {PCO_OP_ISFINITE, "isfinite", &gpu_lower_unary},
    {PCO_OP_CAST, "cast", &gpu_lower_unary},
    {PCO_OP_RELU, "relu", &gpu_lower_unary},
    {PCO_OP_GELU, "gelu", &gpu_lower_unary},
    {PCO_OP_SILU, "silu", &gpu_lower_unary},
    {PCO_OP_WHERE, "where", &gpu_lower_where},
    {PCO_OP_FILL, "fill", &gpu_lower_fill},
    {PCO_OP_IOTA, "iota", &gpu_lower_iota},
    {PCO_OP_BROADCAST_TO, "broadcast_to", &gpu_lower_broadcast_to},
    {PCO_OP_RESHAPE, "reshape", &gpu_lower_reshape},
    {PCO_OP_PERMUTE, "permute", &gpu_lower_permute},
    {PCO_OP_SLICE, "slice", &gpu_lower_slice},
    {PCO_OP_CONCAT, "concat", &gpu_lower_concat},
    {PCO_OP_PAD, "pad", &gpu_lower_pad},
    {PCO_OP_GATHER, "gather", &gpu_lower_gather},
    {PCO_OP_GATHER_ALONG_AXIS, "gather_along_axis", &gpu_lower_gather_along_axis},
    {PCO_OP_SCATTER_ADD, "scatter_add", &gpu_lower_scatter_add},
    {PCO_OP_STATE_WRITE, "state_write", &gpu_lower_state_write},
    {PCO_OP_SUM, "sum", &gpu_lower_reduce},
    {PCO_OP_MEAN, "mean", &gpu_lower_reduce},
    {PCO_OP_AMAX, "amax", &gpu_lower_reduce},
    {PCO_OP_ARGMAX, "argmax", &gpu_lower_argmax},
    {PCO_OP_RANDOM_BITS, "random_bits", &gpu_lower_random_bits},
    {PCO_OP_SOFTMAX, "softmax", &gpu_lower_softmax},
    {PCO_OP_LOG_SOFTMAX, "log_softmax", &gpu_lower_softmax},
    {PCO_OP_LOGSUMEXP, "logsumexp", &gpu_lower_softmax},
    {PCO_OP_LAYER_NORM, "layer_norm", &gpu_lower_norm},
    {PCO_OP_RMS_NORM, "rms_norm", &gpu_lower_norm},
    {PCO_OP_ROPE, "rope", &gpu_lower_rope},
    {PCO_OP_SINUSOIDAL_POSITIONS, "sinusoidal_positions", &gpu_lower_sinusoidal_positions},
    {PCO_OP_DROPOUT, "dropout", &gpu_lower_dropout},
    {PCO_OP_SWIGLU, "swiglu", &gpu_lower_swiglu},
    {PCO_OP_SCALED_DOT_PRODUCT_ATTENTION, "scaled_dot_product_attention", &gpu_lower_sdpa},
    {PCO_OP_MATMUL, "matmul", &gpu_lower_matmul},
    {PCO_OP_CROSS_ENTROPY, "cross_entropy", &gpu_lower_cross_entropy},
    {PCO_OP_CROSS_ENTROPY_BACKWARD, "cross_entropy_backward", &gpu_lower_cross_entropy},
    {PCO_OP_ADAMW, "adamw", &gpu_lower_adamw},
    {PCO_OP_SGD, "sgd", &gpu_lower_sgd},
    {PCO_OP_SOFTMAX_BACKWARD, "softmax_backward", &gpu_lower_softmax_backward},
    {PCO_OP_LAYER_NORM_BACKWARD, "layer_norm_backward", &gpu_lower_norm_backward},
    {PCO_OP_RMS_NORM_BACKWARD, "rms_norm_backward", &gpu_lower_norm_backward},
    {PCO_OP_SCALED_DOT_PRODUCT_ATTENTION_BACKWARD, "scaled_dot_product_attention_backward", &gpu_lower_sdpa_backward},
    {PCO_OP_SWIGLU_BACKWARD, "swiglu_backward", &gpu_lower_swiglu_backward},
    {0}, /* the end */
};

const gpu_lowerer *gpu_find_lowerer(uint32_t op, const char **name)
{
    for (const gpu_op *row = gpu_ops; row->lowerer; row++) {
        if (row->op != op) continue;
        if (name) *name = row->name;
        return row->lowerer;
    }
    return NULL;
}
