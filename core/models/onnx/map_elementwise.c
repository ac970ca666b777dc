/* Elementwise operators of ONNX. */
#include "models/onnx/map_internal.h"

#include <math.h>
#include <string.h>

static uint32_t onnx_map_gelu(pco_onnx_map *map)
{
    char form[16];
    onnx_text(map, "approximate", "none", form, sizeof form);
    if (strcmp(form, "tanh") != 0 && strcmp(form, "none") != 0) return onnx_skip(map, "Gelu in an unknown form");
    pco_gelu_attrs attrs = {.approximate = strcmp(form, "tanh") == 0};
    uint32_t x = onnx_in(map, 0);
    return pco_graph_add(map->graph, PCO_OP_GELU, &attrs, &x, 1, NULL);
}

static uint32_t onnx_map_clip(pco_onnx_map *map)
{
    pco_clamp_attrs attrs = {onnx_host_scalar(map, 1, -INFINITY), onnx_host_scalar(map, 2, INFINITY)};
    if (map->opset < 11) attrs.min = onnx_float(map, "min", attrs.min), attrs.max = onnx_float(map, "max", attrs.max);
    uint32_t x = onnx_in(map, 0);
    return pco_graph_add(map->graph, PCO_OP_CLAMP, &attrs, &x, 1, NULL);
}

/* Whole numbers to whole powers, exactly, in i32, which wraps: by the exponent's bits, lowest first (Knuth, The Art of
 * Computer Programming 2, 4.6.3). Powers of 0, 1 and -1 are told by the lowest bit, and those of others are beyond 32
 * bits from 31 on; so five bits, of 30 or 31 in the place of what is larger. With negative exponents all but 1 and -1
 * have a fraction, which is cut off, as C's conversion of a power to a whole number does. */
static uint32_t onnx_whole_power(pco_graph *graph, uint32_t base, uint32_t exponent)
{
    enum { BITS = 5 };
    const uint32_t odd_half = pco_binary_scalar(graph, PCO_OP_DIV, exponent, 2.0);
    const uint32_t parity =
        pco_binary(graph, PCO_OP_SUB, exponent, pco_binary_scalar(graph, PCO_OP_MUL, odd_half, 2.0)); /* -1, 0, 1 */
    const uint32_t odd = pco_unary(graph, PCO_OP_ABS, parity);
    const uint32_t beyond = pco_binary_scalar(graph, PCO_OP_GT, exponent, 31.0);
    const uint32_t negative = pco_binary_scalar(graph, PCO_OP_LT, exponent, 0.0);
    uint32_t rest = pco_where(graph, beyond, pco_binary_scalar(graph, PCO_OP_ADD, odd, 30.0), exponent);
    rest = pco_where(graph, negative, odd, rest); /* 1 / -1 = -1 */
    uint32_t power = PCO_NONE;
    for (int bit = 0; bit < BITS; bit++) {
        const uint32_t half = pco_binary_scalar(graph, PCO_OP_DIV, rest, 2.0);
        const uint32_t set = pco_binary(graph, PCO_OP_SUB, rest, pco_binary_scalar(graph, PCO_OP_MUL, half, 2.0));
        const uint32_t factor =
            pco_where(graph, pco_binary_scalar(graph, PCO_OP_GT, set, 0.0), base, pco_scalar(graph, PCO_I32, 1.0));
        power = bit ? pco_binary(graph, PCO_OP_MUL, power, factor) : factor;
        if (bit + 1 < BITS) base = pco_binary(graph, PCO_OP_MUL, base, base), rest = half;
    }
    return power;
}

/* The base's type decides; a whole base to a power with a fraction is the nearest integer of the power in f32. */
static uint32_t onnx_map_pow(pco_onnx_map *map)
{
    pco_graph *graph = map->graph;
    uint32_t a = onnx_in(map, 0), b = onnx_in(map, 1);
    bool whole = onnx_desc(map, a)->dtype == PCO_I32;
    if (whole && onnx_desc(map, b)->dtype == PCO_I32) {
        const uint32_t size = pco_unary(graph, PCO_OP_ABS, a), one = pco_scalar(graph, PCO_I32, 1.0);
        const uint32_t fraction = pco_binary(graph, PCO_OP_LOGICAL_AND, pco_binary_scalar(graph, PCO_OP_LT, b, 0.0),
                                             pco_binary(graph, PCO_OP_NE, size, one));
        const uint32_t power = onnx_whole_power(graph, a, b);
        return onnx_wrapped_to(map, pco_where(graph, fraction, pco_scalar(graph, PCO_I32, 0.0), power),
                               map->operands[0]->type);
    }
    pco_dtype type = whole ? PCO_F32 : (pco_dtype)onnx_desc(map, a)->dtype;
    uint32_t y = pco_binary(graph, PCO_OP_POW, pco_cast(graph, a, type), pco_cast(graph, b, type));
    if (!whole) return y;
    return pco_cast(graph, pco_unary(graph, PCO_OP_FLOOR, pco_binary_scalar(graph, PCO_OP_ADD, y, 0.5)), PCO_I32);
}

/* x sigmoid(alpha x); SwiGLU: times its second operand. */
static uint32_t onnx_map_swish(pco_onnx_map *map)
{
    double alpha = onnx_float(map, "alpha", 1.0);
    uint32_t x = onnx_in(map, 0);
    if (onnx_is(map, "SwiGLU") && alpha == 1.0)
        return pco_graph_add(map->graph, PCO_OP_SWIGLU, NULL, (uint32_t[]){x, onnx_in(map, 1)}, 2, NULL);
    if (alpha == 1.0) return pco_unary(map->graph, PCO_OP_SILU, x);
    uint32_t gate = pco_unary(map->graph, PCO_OP_SIGMOID, pco_binary_scalar(map->graph, PCO_OP_MUL, x, alpha));
    uint32_t y = pco_binary(map->graph, PCO_OP_MUL, x, gate);
    return onnx_is(map, "SwiGLU") ? pco_binary(map->graph, PCO_OP_MUL, y, onnx_in(map, 1)) : y;
}

static uint32_t onnx_map_identity(pco_onnx_map *map) { return onnx_in(map, 0); }

/* Of booleans, which no comparison takes, as whole numbers. */
static uint32_t onnx_map_equal(pco_onnx_map *map)
{
    uint32_t in[2] = {onnx_in(map, 0), onnx_in(map, 1)};
    for (int i = 0; i < 2; i++)
        if (onnx_desc(map, in[i])->dtype == PCO_BOOL) in[i] = pco_cast(map->graph, in[i], PCO_I32);
    return pco_binary(map->graph, onnx_is(map, "Xor") ? PCO_OP_NE : PCO_OP_EQ, in[0], in[1]);
}

static uint32_t onnx_map_where(pco_onnx_map *map)
{
    map->type[0] = onnx_type(map, 1);
    return pco_where(map->graph, onnx_in(map, 0), onnx_in(map, 1), onnx_in(map, 2));
}

/* Of inference: x itself, and a mask that keeps everything. */
static uint32_t onnx_map_dropout(pco_onnx_map *map)
{
    const uint32_t x = onnx_in(map, 0);
    const pco_tensor shape = *onnx_desc(map, x);
    onnx_without(map, "seed");
    onnx_without(map, "ratio");
    if (map->opset < 7 && !onnx_flag(map, "is_test", 0)) return onnx_skip(map, "Dropout of training");
    if (onnx_has(map, 2) && onnx_host_scalar(map, 2, 0) != 0) return onnx_skip(map, "Dropout of training");
    if (map->node->n_outputs > 1) map->out[1] = pco_fill(map->graph, PCO_BOOL, 1, shape.rank, shape.shape);
    map->type[1] = PCO_ONNX_BOOL;
    return x;
}

const onnx_rule ONNX_ELEMENTWISE[] = {
    {"Abs", NULL, PCO_OP_ABS, 1},
    {"Neg", NULL, PCO_OP_NEG, 1},
    {"Exp", NULL, PCO_OP_EXP, 1},
    {"Log", NULL, PCO_OP_LOG, 1},
    {"Sqrt", NULL, PCO_OP_SQRT, 1},
    {"Tanh", NULL, PCO_OP_TANH, 1},
    {"Erf", NULL, PCO_OP_ERF, 1},
    {"Sigmoid", NULL, PCO_OP_SIGMOID, 1},
    {"Relu", NULL, PCO_OP_RELU, 1},
    {"Floor", NULL, PCO_OP_FLOOR, 1},
    {"Sign", NULL, PCO_OP_SIGN, 1},
    {"Reciprocal", NULL, PCO_OP_RECIPROCAL, 1},
    {"Sin", NULL, PCO_OP_SIN, 1},
    {"Cos", NULL, PCO_OP_COS, 1},
    {"Not", NULL, PCO_OP_LOGICAL_NOT, 1},
    {"Add", NULL, PCO_OP_ADD, 2},
    {"Sub", NULL, PCO_OP_SUB, 2},
    {"Mul", NULL, PCO_OP_MUL, 2},
    {"Div", NULL, PCO_OP_DIV, 2},
    {"Less", NULL, PCO_OP_LT, 2},
    {"Greater", NULL, PCO_OP_GT, 2},
    {"LessOrEqual", NULL, PCO_OP_LE, 2},
    {"GreaterOrEqual", NULL, PCO_OP_GE, 2},
    {"And", NULL, PCO_OP_LOGICAL_AND, 2},
    {"Or", NULL, PCO_OP_LOGICAL_OR, 2},
    {"Equal", onnx_map_equal, 0, 0},
    {"Xor", onnx_map_equal, 0, 0},
    {"Where", onnx_map_where, 0, 0},
    {"Identity", onnx_map_identity, 0, 0},
    {"Dropout", onnx_map_dropout, 0, 0},
    {"Gelu", onnx_map_gelu, 0, 0},
    {"Clip", onnx_map_clip, 0, 0},
    {"Pow", onnx_map_pow, 0, 0},
    {"Swish", onnx_map_swish, 0, 0},
    {"SwiGLU", onnx_map_swish, 0, 0},
    {0},
};
