/* Activations and other functions of one element that no operation of Portico's table is. */
#include "models/onnx/map_internal.h"

#include <math.h>

/* 2 tanh(x/2) / (1 - tanh(x/2)), which loses nothing near 0. */
uint32_t onnx_expm1(pco_onnx_map *map, uint32_t x)
{
    pco_graph *graph = map->graph;
    const uint32_t t = pco_unary(graph, PCO_OP_TANH, pco_binary_scalar(graph, PCO_OP_MUL, x, 0.5));
    const uint32_t rest = pco_binary_scalar(graph, PCO_OP_ADD, pco_unary(graph, PCO_OP_NEG, t), 1.0);
    return pco_binary(graph, PCO_OP_DIV, pco_binary_scalar(graph, PCO_OP_MUL, t, 2.0), rest);
}

/* max(x, 0) + log(1 + exp(-|x|)) */
static uint32_t onnx_functions_softplus_of(pco_onnx_map *map, uint32_t x)
{
    pco_graph *graph = map->graph;
    const uint32_t size = pco_unary(graph, PCO_OP_NEG, pco_unary(graph, PCO_OP_ABS, x));
    const uint32_t log =
        pco_unary(graph, PCO_OP_LOG, pco_binary_scalar(graph, PCO_OP_ADD, pco_unary(graph, PCO_OP_EXP, size), 1.0));
    return pco_binary(graph, PCO_OP_ADD, pco_unary(graph, PCO_OP_RELU, x), log);
}

static uint32_t onnx_functions_softplus(pco_onnx_map *map) { return onnx_functions_softplus_of(map, onnx_in(map, 0)); }

/* x tanh(softplus(x)) */
static uint32_t onnx_functions_mish(pco_onnx_map *map)
{
    const uint32_t x = onnx_in(map, 0);
    return pco_binary(map->graph, PCO_OP_MUL, x,
                      pco_unary(map->graph, PCO_OP_TANH, onnx_functions_softplus_of(map, x)));
}

static uint32_t onnx_functions_clamped_line(pco_onnx_map *map, uint32_t x, double slope, double at_0)
{
    pco_graph *graph = map->graph;
    const pco_clamp_attrs range = {0.0, 1.0};
    const uint32_t line = pco_binary_scalar(graph, PCO_OP_ADD, pco_binary_scalar(graph, PCO_OP_MUL, x, slope), at_0);
    return pco_clamp(graph, line, &range);
}

static uint32_t onnx_functions_hard_swish(pco_onnx_map *map)
{
    const uint32_t x = onnx_in(map, 0);
    return pco_binary(map->graph, PCO_OP_MUL, x, onnx_functions_clamped_line(map, x, 1.0 / 6.0, 0.5));
}

static uint32_t onnx_functions_hard_sigmoid(pco_onnx_map *map)
{
    const double alpha = onnx_float(map, "alpha", 0.2), beta = onnx_float(map, "beta", 0.5);
    return onnx_functions_clamped_line(map, onnx_in(map, 0), alpha, beta);
}

/* x above 0, and below it scale (exp(x / width) - 1); all times `factor`. */
static uint32_t onnx_functions_elu_of(pco_onnx_map *map, double scale, double width, double factor)
{
    pco_graph *graph = map->graph;
    const uint32_t x = onnx_in(map, 0);
    uint32_t low = width == 1.0 ? x : pco_binary_scalar(graph, PCO_OP_MUL, x, 1.0 / width), high = x;
    const pco_clamp_attrs below = {-INFINITY, 0.0}; /* above it exp might be infinite, and its product NaN */
    low = pco_binary_scalar(graph, PCO_OP_MUL, onnx_expm1(map, pco_clamp(graph, low, &below)), scale * factor);
    if (factor != 1.0) high = pco_binary_scalar(graph, PCO_OP_MUL, high, factor);
    return pco_where(graph, pco_binary_scalar(graph, PCO_OP_GT, x, 0.0), high, low);
}

static uint32_t onnx_functions_elu(pco_onnx_map *map)
{
    return onnx_functions_elu_of(map, onnx_float(map, "alpha", 1.0), 1.0, 1.0);
}

static uint32_t onnx_functions_celu(pco_onnx_map *map)
{
    const double alpha = onnx_float(map, "alpha", 1.0);
    if (alpha == 0) return onnx_skip(map, "Celu with alpha 0");
    return onnx_functions_elu_of(map, alpha, alpha, 1.0);
}

/* Klambauer et al. 2017; ONNX gives its two constants in float. */
static uint32_t onnx_functions_selu(pco_onnx_map *map)
{
    const double alpha = onnx_float(map, "alpha", 1.67326319217681884765625);
    return onnx_functions_elu_of(map, alpha, 1.0, onnx_float(map, "gamma", 1.05070102214813232421875));
}

static uint32_t onnx_functions_sloped(pco_onnx_map *map, uint32_t x, uint32_t scaled)
{
    return pco_where(map->graph, pco_binary_scalar(map->graph, PCO_OP_LT, x, 0.0), scaled, x);
}

static uint32_t onnx_functions_leaky(pco_onnx_map *map)
{
    const uint32_t x = onnx_in(map, 0);
    return onnx_functions_sloped(map, x, pco_binary_scalar(map->graph, PCO_OP_MUL, x, onnx_float(map, "alpha", 0.01)));
}

static uint32_t onnx_functions_prelu(pco_onnx_map *map)
{
    const uint32_t x = onnx_in(map, 0);
    if (map->opset < 7) return onnx_skip(map, "PRelu as before operator set 7");
    return onnx_functions_sloped(map, x, pco_binary(map->graph, PCO_OP_MUL, x, onnx_in(map, 1)));
}

static uint32_t onnx_functions_thresholded(pco_onnx_map *map)
{
    const uint32_t x = onnx_in(map, 0);
    const uint32_t above = pco_binary_scalar(map->graph, PCO_OP_GT, x, onnx_float(map, "alpha", 1.0));
    return pco_where(map->graph, above, x, pco_scalar(map->graph, (pco_dtype)onnx_desc(map, x)->dtype, 0.0));
}

/* Nearer to 0 by `bias` where it is further from it than `lambd`, and 0 elsewhere. */
static uint32_t onnx_functions_shrink(pco_onnx_map *map)
{
    pco_graph *graph = map->graph;
    const double bias = onnx_float(map, "bias", 0.0), limit = onnx_float(map, "lambd", 0.5);
    const uint32_t x = onnx_in(map, 0), zero = pco_scalar(graph, (pco_dtype)onnx_desc(map, x)->dtype, 0.0);
    const uint32_t high = pco_where(graph, pco_binary_scalar(graph, PCO_OP_GT, x, limit),
                                    pco_binary_scalar(graph, PCO_OP_SUB, x, bias), zero);
    return pco_where(graph, pco_binary_scalar(graph, PCO_OP_LT, x, -limit), /* first, where limit is below 0 */
                     pco_binary_scalar(graph, PCO_OP_ADD, x, bias), high);
}

static uint32_t onnx_functions_softsign(pco_onnx_map *map)
{
    const uint32_t x = onnx_in(map, 0), size = pco_unary(map->graph, PCO_OP_ABS, x);
    return pco_binary(map->graph, PCO_OP_DIV, x, pco_binary_scalar(map->graph, PCO_OP_ADD, size, 1.0));
}

/* cosh x = (exp x + exp -x) / 2; sinh x = tanh x cosh x, which loses nothing near 0. */
static uint32_t onnx_functions_cosh(pco_onnx_map *map)
{
    pco_graph *graph = map->graph;
    const uint32_t x = onnx_in(map, 0), turned = pco_unary(graph, PCO_OP_NEG, x);
    const uint32_t both =
        pco_binary(graph, PCO_OP_ADD, pco_unary(graph, PCO_OP_EXP, x), pco_unary(graph, PCO_OP_EXP, turned));
    return pco_binary_scalar(graph, PCO_OP_MUL, both, 0.5);
}

static uint32_t onnx_functions_sinh(pco_onnx_map *map)
{
    return pco_binary(map->graph, PCO_OP_MUL, pco_unary(map->graph, PCO_OP_TANH, onnx_in(map, 0)),
                      onnx_functions_cosh(map));
}

static uint32_t onnx_functions_tan(pco_onnx_map *map)
{
    const uint32_t x = onnx_in(map, 0), sine = pco_unary(map->graph, PCO_OP_SIN, x);
    return pco_binary(map->graph, PCO_OP_DIV, sine, pco_unary(map->graph, PCO_OP_COS, x));
}

static uint32_t onnx_functions_ceil(pco_onnx_map *map)
{
    const uint32_t turned = pco_unary(map->graph, PCO_OP_NEG, onnx_in(map, 0));
    return pco_unary(map->graph, PCO_OP_NEG, pco_unary(map->graph, PCO_OP_FLOOR, turned));
}

static uint32_t onnx_functions_round(pco_onnx_map *map) { return onnx_rounded(map, onnx_in(map, 0)); }

static uint32_t onnx_functions_is_nan(pco_onnx_map *map)
{
    const uint32_t x = onnx_in(map, 0);
    return pco_binary(map->graph, PCO_OP_NE, x, x);
}

static uint32_t onnx_functions_is_inf(pco_onnx_map *map)
{
    pco_graph *graph = map->graph;
    const bool low = onnx_flag(map, "detect_negative", 1) != 0, high = onnx_flag(map, "detect_positive", 1) != 0;
    const uint32_t x = onnx_in(map, 0);
    const uint32_t above = pco_binary_scalar(graph, PCO_OP_EQ, x, INFINITY);
    const uint32_t below = pco_binary_scalar(graph, PCO_OP_EQ, x, -INFINITY);
    if (low && high) return pco_binary(graph, PCO_OP_LOGICAL_OR, above, below);
    return low ? below : high ? above : pco_binary(graph, PCO_OP_NE, above, above);
}

/* ---- of several operands ---- */

static uint32_t onnx_functions_several(pco_onnx_map *map)
{
    const bool mean = onnx_is(map, "Mean");
    const pco_op op = onnx_is(map, "Max") ? PCO_OP_MAXIMUM : onnx_is(map, "Min") ? PCO_OP_MINIMUM : PCO_OP_ADD;
    uint32_t y = onnx_in(map, 0);
    for (uint32_t i = 1; i < map->node->n_inputs; i++) y = pco_binary(map->graph, op, y, onnx_in(map, i));
    return mean ? pco_binary_scalar(map->graph, PCO_OP_MUL, y, 1.0 / map->node->n_inputs) : y;
}

/* Toward zero. */
static uint32_t onnx_functions_whole_part(pco_onnx_map *map, uint32_t x)
{
    pco_graph *graph = map->graph;
    const uint32_t down = pco_unary(graph, PCO_OP_FLOOR, pco_unary(graph, PCO_OP_ABS, x));
    return pco_where(graph, pco_binary_scalar(graph, PCO_OP_LT, x, 0.0), pco_unary(graph, PCO_OP_NEG, down), down);
}

/* fmod: the rest has a's sign, as in C; else b's, as in Python. A quotient that was rounded up to a whole number leaves
 * a rest beyond 0, which is brought back by one b. */
static uint32_t onnx_functions_mod(pco_onnx_map *map)
{
    pco_graph *graph = map->graph;
    const bool as_c = onnx_flag(map, "fmod", 0) != 0;
    const uint32_t a = onnx_in(map, 0), b = onnx_in(map, 1);
    const bool whole = onnx_desc(map, a)->dtype == PCO_I32;
    uint32_t quotient = pco_binary(graph, PCO_OP_DIV, a, b);
    if (!whole) quotient = onnx_functions_whole_part(map, quotient);
    uint32_t rest = pco_binary(graph, PCO_OP_SUB, a, pco_binary(graph, PCO_OP_MUL, quotient, b));
    if (as_c && whole) return rest;
    if (!whole) { /* of what is infinite, all is left */
        const uint32_t far = pco_binary_scalar(graph, PCO_OP_EQ, pco_unary(graph, PCO_OP_ABS, b), INFINITY);
        const uint32_t near = pco_unary(graph, PCO_OP_ISFINITE, a);
        rest = pco_where(graph, pco_binary(graph, PCO_OP_LOGICAL_AND, far, near), a, rest);
    }
    const uint32_t of = as_c ? a : b, size = as_c ? pco_unary(graph, PCO_OP_ABS, b) : b;
    const uint32_t low = pco_binary_scalar(graph, PCO_OP_LT, rest, 0.0),
                   turn = pco_binary_scalar(graph, PCO_OP_LT, of, 0);
    const uint32_t other = pco_binary(graph, PCO_OP_NE, pco_cast(graph, low, PCO_I32), pco_cast(graph, turn, PCO_I32));
    const uint32_t wrong = pco_binary(graph, PCO_OP_LOGICAL_AND, pco_binary_scalar(graph, PCO_OP_NE, rest, 0.0), other);
    uint32_t back = pco_binary(graph, PCO_OP_ADD, rest, size);
    if (as_c) back = pco_where(graph, turn, pco_binary(graph, PCO_OP_SUB, rest, size), back);
    return pco_where(graph, wrong, back, rest);
}

const onnx_rule ONNX_FUNCTIONS[] = {
    {"Softplus", onnx_functions_softplus, 0, 0},
    {"Mish", onnx_functions_mish, 0, 0},
    {"HardSwish", onnx_functions_hard_swish, 0, 0},
    {"HardSigmoid", onnx_functions_hard_sigmoid, 0, 0},
    {"Elu", onnx_functions_elu, 0, 0},
    {"Celu", onnx_functions_celu, 0, 0},
    {"Selu", onnx_functions_selu, 0, 0},
    {"LeakyRelu", onnx_functions_leaky, 0, 0},
    {"PRelu", onnx_functions_prelu, 0, 0},
    {"ThresholdedRelu", onnx_functions_thresholded, 0, 0},
    {"Shrink", onnx_functions_shrink, 0, 0},
    {"Softsign", onnx_functions_softsign, 0, 0},
    {"Sinh", onnx_functions_sinh, 0, 0},
    {"Cosh", onnx_functions_cosh, 0, 0},
    {"Tan", onnx_functions_tan, 0, 0},
    {"Ceil", onnx_functions_ceil, 0, 0},
    {"Round", onnx_functions_round, 0, 0},
    {"IsNaN", onnx_functions_is_nan, 0, 0},
    {"IsInf", onnx_functions_is_inf, 0, 0},
    {"Max", onnx_functions_several, 0, 0},
    {"Min", onnx_functions_several, 0, 0},
    {"Sum", onnx_functions_several, 0, 0},
    {"Mean", onnx_functions_several, 0, 0},
    {"Mod", onnx_functions_mod, 0, 0},
    {0},
};
