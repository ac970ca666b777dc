/* Casts of ONNX: what is narrower than the types of graphs is rounded, wrapped or limited where it is made. */
#include "models/onnx/map_internal.h"

#include <math.h>

/* x modulo the number of values that the type has, and those above the largest down by as many. */
uint32_t onnx_wrapped_to(pco_onnx_map *map, uint32_t x, int32_t type)
{
    pco_graph *graph = map->graph;
    double low, high;
    if (!onnx_range(type, &low, &high) || type == PCO_ONNX_INT32 || onnx_desc(map, x)->dtype != PCO_I32) return x;
    const double values = high - low + 1;
    const uint32_t whole = pco_binary_scalar(graph, PCO_OP_DIV, x, values);
    uint32_t y = pco_binary(graph, PCO_OP_SUB, x, pco_binary_scalar(graph, PCO_OP_MUL, whole, values));
    const uint32_t up = pco_binary_scalar(graph, PCO_OP_ADD, y, values);
    y = pco_where(graph, pco_binary_scalar(graph, PCO_OP_LT, y, 0.0), up, y);
    if (low == 0) return y;
    const uint32_t down = pco_binary_scalar(graph, PCO_OP_SUB, y, values);
    return pco_where(graph, pco_binary_scalar(graph, PCO_OP_GT, y, high), down, y);
}

/* To the nearest integer, ties to even: floor(x), one more where the rest is more than a half, or a half behind an odd
 * number. The rest is exact, or so near to 1 that it rounds to that. */
uint32_t onnx_rounded(pco_onnx_map *map, uint32_t x)
{
    pco_graph *graph = map->graph;
    const uint32_t low = pco_unary(graph, PCO_OP_FLOOR, x), rest = pco_binary(graph, PCO_OP_SUB, x, low);
    const uint32_t half = pco_unary(graph, PCO_OP_FLOOR, pco_binary_scalar(graph, PCO_OP_MUL, low, 0.5));
    const uint32_t odd = pco_binary(graph, PCO_OP_NE, low, pco_binary_scalar(graph, PCO_OP_MUL, half, 2.0));
    const uint32_t tie = pco_binary(graph, PCO_OP_LOGICAL_AND, pco_binary_scalar(graph, PCO_OP_EQ, rest, 0.5), odd);
    const uint32_t more = pco_binary_scalar(graph, PCO_OP_GT, rest, 0.5);
    const uint32_t up = pco_binary(graph, PCO_OP_LOGICAL_OR, more, tie);
    return pco_where(graph, up, pco_binary_scalar(graph, PCO_OP_ADD, low, 1.0), low);
}

/* x in f32, rounded to the nearest number of a small type, ties to even. Between two powers of two these lie `quantum`
 * apart: the powers and quanta are tables, the logarithm finds the place but for one, and comparing with the power
 * itself does the rest. Beyond the largest number: that, or, without `saturate`, infinity, or NaN where there is none.
 */
uint32_t onnx_small_rounded(pco_onnx_map *map, uint32_t x, int32_t type, bool saturate)
{
    enum { MOST_POWERS = 40 };
    pco_graph *graph = map->graph;
    pco_onnx_small small;
    double powers[MOST_POWERS], quanta[MOST_POWERS];
    if (!pco_onnx_small_float(type, &small) || !small.largest)
        return onnx_skip(map, "type %s", pco_onnx_type_name(type));
    const int lowest = 1 - small.bias, highest = (int)floor(log2(small.largest));
    const int64_t count = highest - lowest + 1;
    if (count > MOST_POWERS) return onnx_skip(map, "type %s", pco_onnx_type_name(type));
    for (int i = 0; i < count; i++) powers[i] = ldexp(1, lowest + i), quanta[i] = ldexp(1, lowest + i - small.mantissa);
    const uint32_t power = onnx_constant(map, PCO_F32, 1, &count, powers);
    const uint32_t quantum = onnx_constant(map, PCO_F32, 1, &count, quanta);
    const uint32_t size = pco_unary(graph, PCO_OP_ABS, x);
    const pco_clamp_attrs limits = {powers[0], powers[count - 1]};
    const uint32_t inside = pco_clamp(graph, size, &limits);
    uint32_t at = pco_binary_scalar(graph, PCO_OP_MUL, pco_unary(graph, PCO_OP_LOG, inside), 1.0 / log(2.0));
    at = pco_cast(graph, pco_unary(graph, PCO_OP_FLOOR, at), PCO_I32);
    at = pco_binary_scalar(graph, PCO_OP_SUB, at, lowest);
    const pco_clamp_attrs places = {0, (double)(count - 1)};
    at = pco_clamp(graph, at, &places);
    const uint32_t found = pco_gather(graph, power, at, 0);
    const uint32_t above = pco_binary(graph, PCO_OP_LT, inside, found);
    const uint32_t twice = pco_binary_scalar(graph, PCO_OP_MUL, found, 2.0);
    const uint32_t below = pco_binary(graph, PCO_OP_GE, inside, twice);
    at = pco_binary(graph, PCO_OP_SUB, at, pco_cast(graph, above, PCO_I32));
    at = pco_binary(graph, PCO_OP_ADD, at, pco_cast(graph, below, PCO_I32));
    const uint32_t step = pco_gather(graph, quantum, at, 0);
    uint32_t y = pco_binary(graph, PCO_OP_MUL, onnx_rounded(map, pco_binary(graph, PCO_OP_DIV, size, step)), step);
    const uint32_t over = pco_binary_scalar(graph, PCO_OP_GT, y, small.largest);
    const double beyond = saturate ? small.largest : small.infinity ? (double)INFINITY : (double)NAN;
    y = pco_where(graph, over, pco_scalar(graph, PCO_F32, beyond), y);
    y = pco_where(graph, pco_binary_scalar(graph, PCO_OP_LT, x, 0.0), pco_unary(graph, PCO_OP_NEG, y), y);
    const uint32_t odd = small.nan ? x : pco_scalar(graph, PCO_F32, 0.0);
    return pco_where(graph, pco_binary(graph, PCO_OP_EQ, x, x), y, odd); /* NaN stays */
}

/* ---- casts ---- */

static uint32_t onnx_casts_map_to(pco_onnx_map *map, int32_t to)
{
    const uint32_t type = pco_onnx_map_type(to);
    const bool saturate = onnx_flag(map, "saturate", 1) != 0;
    pco_onnx_small small;
    onnx_without(map, "round_mode"); /* of float8e8m0, to which nothing is cast here */
    if (type == PCO_NONE || to == PCO_ONNX_FLOAT8E8M0) return onnx_skip(map, "type %s", pco_onnx_type_name(to));
    map->type[0] = to;
    uint32_t x = onnx_in(map, 0);
    if (pco_onnx_small_float(to, &small))
        return onnx_small_rounded(map, pco_cast(map->graph, x, PCO_F32), to, saturate);
    return onnx_wrapped_to(map, pco_cast(map->graph, x, (pco_dtype)type), to);
}

static uint32_t onnx_casts_map(pco_onnx_map *map)
{
    return onnx_casts_map_to(map, (int32_t)onnx_int(map, "to", PCO_ONNX_FLOAT));
}

static uint32_t onnx_casts_map_like(pco_onnx_map *map) { return onnx_casts_map_to(map, onnx_type(map, 1)); }

const onnx_rule ONNX_CASTS[] = {
    {"Cast", onnx_casts_map, 0, 0},
    {"CastLike", onnx_casts_map_like, 0, 0},
    {0},
};
