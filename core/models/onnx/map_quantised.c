/* Arithmetic of ONNX with integers of 8 bits. */
#include "models/onnx/map_internal.h"

/* To the nearest integer, ties to even: floor(x + 1/2), less one where that was a tie and came out odd. */
static uint32_t onnx_quantised_rounded(pco_onnx_map *map, uint32_t x)
{
    pco_graph *graph = map->graph;
    uint32_t up = pco_unary(graph, PCO_OP_FLOOR, pco_binary_scalar(graph, PCO_OP_ADD, x, 0.5));
    uint32_t tie = pco_binary_scalar(graph, PCO_OP_EQ, pco_binary(graph, PCO_OP_SUB, up, x), 0.5);
    uint32_t half = pco_unary(graph, PCO_OP_FLOOR, pco_binary_scalar(graph, PCO_OP_MUL, up, 0.5));
    uint32_t odd = pco_binary(graph, PCO_OP_SUB, up, pco_binary_scalar(graph, PCO_OP_MUL, half, 2.0));
    uint32_t is_odd = pco_binary_scalar(graph, PCO_OP_NE, odd, 0.0);
    uint32_t both = pco_binary(graph, PCO_OP_LOGICAL_AND, tie, is_odd);
    return pco_where(graph, both, pco_binary_scalar(graph, PCO_OP_SUB, up, 1.0), up);
}

/* x in f32, limited to the range of an 8-bit type, as an integer. */
static uint32_t onnx_quantised_saturated(pco_onnx_map *map, uint32_t x, int32_t type)
{
    map->type[0] = type;
    pco_clamp_attrs range = type == PCO_ONNX_INT8 ? (pco_clamp_attrs){-128.0, 127.0} : (pco_clamp_attrs){0.0, 255.0};
    return pco_cast(map->graph, pco_graph_add(map->graph, PCO_OP_CLAMP, &range, &x, 1, NULL), PCO_I32);
}

static bool onnx_quantised_eight_bits(const pco_onnx_map *map, uint32_t i)
{
    return !onnx_has(map, i) || onnx_type(map, i) == PCO_ONNX_INT8 || onnx_type(map, i) == PCO_ONNX_UINT8;
}

/* A scale or zero point against x: along an axis, or a scalar; blocks are not mapped. */
static uint32_t onnx_quantised_scale_shape(pco_onnx_map *map, uint32_t scale, uint32_t x)
{
    pco_tensor desc = *onnx_desc(map, scale), against = *onnx_desc(map, x);
    int64_t shape[PCO_MAX_RANK], axis = onnx_int(map, "axis", 1);
    if (onnx_int(map, "block_size", 0)) return onnx_skip(map, "quantisation in blocks");
    if (desc.rank != 1 || against.rank < 2) return scale;
    axis = onnx_axis(map, axis, against.rank);
    for (uint32_t d = 0; d < against.rank; d++) shape[d] = (int64_t)d == axis ? desc.shape[0] : 1;
    return pco_reshape(map->graph, scale, against.rank, shape);
}

/* x minus its zero point, in f32. */
static uint32_t onnx_quantised_centred(pco_onnx_map *map, uint32_t x_index, uint32_t zero_index)
{
    uint32_t x = onnx_in(map, x_index);
    uint32_t y = pco_cast(map->graph, x, PCO_F32);
    if (!onnx_has(map, zero_index)) return y;
    uint32_t zero = onnx_quantised_scale_shape(map, pco_cast(map->graph, onnx_in(map, zero_index), PCO_F32), x);
    return pco_binary(map->graph, PCO_OP_SUB, y, zero);
}

static uint32_t onnx_quantised_from_float(pco_onnx_map *map)
{
    int32_t type = (int32_t)onnx_int(map, "output_dtype", 0);
    if (onnx_has(map, 2)) type = onnx_type(map, 2);
    if (!type) type = PCO_ONNX_UINT8;
    onnx_without(map, "saturate"); /* of float8, which has no mapping */
    if (type != PCO_ONNX_INT8 && type != PCO_ONNX_UINT8) return onnx_skip(map, "type %s", pco_onnx_type_name(type));
    pco_graph *graph = map->graph;
    uint32_t x = onnx_in(map, 0), scale = onnx_quantised_scale_shape(map, onnx_in(map, 1), x);
    uint32_t y = onnx_quantised_rounded(map, pco_binary(graph, PCO_OP_DIV, x, scale));
    if (onnx_has(map, 2))
        y = pco_binary(graph, PCO_OP_ADD, y,
                       onnx_quantised_scale_shape(map, pco_cast(graph, onnx_in(map, 2), PCO_F32), x));
    return onnx_quantised_saturated(map, y, type);
}

static uint32_t onnx_quantised_to_float(pco_onnx_map *map)
{
    if (!onnx_quantised_eight_bits(map, 0)) return onnx_skip(map, "type %s", pco_onnx_type_name(onnx_type(map, 0)));
    uint32_t centred = onnx_quantised_centred(map, 0, 2);
    uint32_t scale = onnx_quantised_scale_shape(map, pco_cast(map->graph, onnx_in(map, 1), PCO_F32), centred);
    return pco_binary(map->graph, PCO_OP_MUL, centred, scale);
}

/* Scale and zero point from the range of x, which always holds 0. */
static uint32_t onnx_quantised_dynamic(pco_onnx_map *map)
{
    pco_graph *graph = map->graph;
    uint32_t x = onnx_in(map, 0), all = (1u << onnx_desc(map, x)->rank) - 1;
    uint32_t high = pco_binary_scalar(graph, PCO_OP_MAXIMUM, onnx_sum_axes(map, PCO_OP_AMAX, x, all, 0), 0.0);
    uint32_t turned = pco_unary(graph, PCO_OP_NEG, x);
    uint32_t low = pco_binary_scalar(graph, PCO_OP_MAXIMUM, onnx_sum_axes(map, PCO_OP_AMAX, turned, all, 0), 0.0);
    uint32_t scale = pco_binary_scalar(graph, PCO_OP_DIV, pco_binary(graph, PCO_OP_ADD, high, low), 255.0);
    pco_clamp_attrs range = {0.0, 255.0};
    uint32_t zero = onnx_quantised_rounded(map, pco_binary(graph, PCO_OP_DIV, low, scale));
    zero = pco_graph_add(graph, PCO_OP_CLAMP, &range, &zero, 1, NULL);
    uint32_t y =
        pco_binary(graph, PCO_OP_ADD, onnx_quantised_rounded(map, pco_binary(graph, PCO_OP_DIV, x, scale)), zero);
    map->out[1] = scale;
    map->out[2] = pco_cast(graph, zero, PCO_I32), map->type[2] = PCO_ONNX_UINT8;
    return onnx_quantised_saturated(map, y, PCO_ONNX_UINT8);
}

/* Products of 8-bit integers are exact in f32 as long as a sum stays below 2^24. */
static uint32_t onnx_quantised_matmul_integer(pco_onnx_map *map)
{
    uint32_t y = pco_matmul(map->graph, onnx_quantised_centred(map, 0, 2), onnx_quantised_centred(map, 1, 3), 0, 0);
    map->type[0] = PCO_ONNX_INT32;
    return pco_cast(map->graph, y, PCO_I32);
}

static uint32_t onnx_quantised_matmul(pco_onnx_map *map)
{
    pco_graph *graph = map->graph;
    uint32_t y = pco_matmul(graph, onnx_quantised_centred(map, 0, 2), onnx_quantised_centred(map, 3, 5), 0, 0);
    uint32_t scale = pco_binary(graph, PCO_OP_MUL, pco_cast(graph, onnx_in(map, 1), PCO_F32),
                                pco_cast(graph, onnx_in(map, 4), PCO_F32));
    scale = pco_binary(graph, PCO_OP_DIV, scale, pco_cast(graph, onnx_in(map, 6), PCO_F32));
    y = onnx_quantised_rounded(map, pco_binary(graph, PCO_OP_MUL, y, scale));
    y = pco_binary(graph, PCO_OP_ADD, y, pco_cast(graph, onnx_in(map, 7), PCO_F32));
    return onnx_quantised_saturated(map, y, onnx_type(map, 7));
}

const onnx_rule ONNX_QUANTISED[] = {
    {"QuantizeLinear", onnx_quantised_from_float, 0, 0},     {"DequantizeLinear", onnx_quantised_to_float, 0, 0},
    {"DynamicQuantizeLinear", onnx_quantised_dynamic, 0, 0}, {"MatMulInteger", onnx_quantised_matmul_integer, 0, 0},
    {"QLinearMatMul", onnx_quantised_matmul, 0, 0},          {0},
};
