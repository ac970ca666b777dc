/* Which lowerer serves which op. An op that is not here is unsupported, and the core decomposes it or gives it
 * to another device. */
#include "lower.h"

static const struct {
    uint32_t op;
    const char *name;
    const gpu_lowerer *lowerer;
} gpu_ops[] = {
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
    {PCO_OP_SWIGLU, "swiglu", &gpu_lower_swiglu},
};

const gpu_lowerer *gpu_find_lowerer(uint32_t op, const char **name)
{
    for (size_t i = 0; i < sizeof gpu_ops / sizeof *gpu_ops; i++) {
        if (gpu_ops[i].op != op) continue;
        if (name) *name = gpu_ops[i].name;
        return gpu_ops[i].lowerer;
    }
    return NULL;
}
