/* Arithmetic of ONNX with integers of 8 bits. */
#include "models/onnx/map_internal.h"

/* x in f32, limited to the range of a whole type, as an integer. */
static uint32_t onnx_quantised_saturated(pco_onnx_map *map, uint32_t x, int32_t type)
{
    pco_clamp_attrs range;
    if (!onnx_range(type, &range.min, &range.max)) return onnx_skip(map, "type %s", pco_onnx_type_name(type));
    map->type[0] = type;
    return pco_cast(map->graph, pco_clamp(map->graph, x, &range), PCO_I32);
}

/* A scale or zero point against x: a scalar, along an axis, or one for each block of elements along it. */
static uint32_t onnx_quantised_scale_shape(pco_onnx_map *map, uint32_t scale, uint32_t x)
{
    pco_graph *graph = map->graph;
    pco_tensor desc = *onnx_desc(map, scale), against = *onnx_desc(map, x);
    int64_t shape[PCO_MAX_RANK], axis = onnx_int(map, "axis", 1);
    const int64_t block = onnx_int(map, "block_size", 0);
    if (desc.rank == 0 || (desc.rank == 1 && desc.shape[0] == 1 && !block)) return pco_reshape(graph, scale, 0, NULL);
    axis = onnx_axis(map, axis, against.rank);
    if (!block && desc.rank == 1 && desc.shape[0] == against.shape[axis]) {
        for (uint32_t d = 0; d < against.rank; d++) shape[d] = (int64_t)d == axis ? desc.shape[0] : 1;
        return pco_reshape(graph, scale, against.rank, shape);
    }
    if (block < 1 || desc.rank != against.rank || desc.rank == PCO_MAX_RANK || block > against.shape[axis] ||
        desc.shape[axis] != (against.shape[axis] + block - 1) / block)
        return onnx_skip(map, "%.100s with scales that do not go with its operand", map->node->op);
    for (uint32_t d = 0; d <= desc.rank; d++)
        shape[d] = (int64_t)d <= axis ? desc.shape[d] : (int64_t)d == axis + 1 ? 1 : desc.shape[d - 1];
    scale = pco_reshape(graph, scale, desc.rank + 1, shape);
    shape[axis + 1] = block;
    scale = pco_broadcast_to(graph, scale, desc.rank + 1, shape);
    desc.shape[axis] *= block;
    scale = pco_reshape(graph, scale, desc.rank, desc.shape);
    return desc.shape[axis] == against.shape[axis] ? scale : pco_slice_axis(graph, scale, axis, 0, against.shape[axis]);
}

/* x minus its zero point, in f32; whole numbers are subtracted as such. */
static uint32_t onnx_quantised_centred(pco_onnx_map *map, uint32_t x_index, uint32_t zero_index)
{
    uint32_t x = onnx_in(map, x_index);
    if (onnx_has(map, zero_index)) {
        const uint32_t zero = onnx_quantised_scale_shape(map, onnx_in(map, zero_index), x);
        x = pco_binary(map->graph, PCO_OP_SUB, x, zero);
    }
    return pco_cast(map->graph, x, PCO_F32);
}

static uint32_t onnx_quantised_from_float(pco_onnx_map *map)
{
    int32_t type = (int32_t)onnx_int(map, "output_dtype", 0);
    const bool saturate = onnx_flag(map, "saturate", 1) != 0;
    const int64_t precision = onnx_int(map, "precision", 0);
    pco_onnx_small small;
    if (onnx_has(map, 2)) type = onnx_type(map, 2);
    if (!type) type = PCO_ONNX_UINT8;
    if (precision && precision != PCO_ONNX_FLOAT && precision != PCO_ONNX_DOUBLE)
        return onnx_skip(map, "QuantizeLinear that divides in %s", pco_onnx_type_name((int32_t)precision));
    pco_graph *graph = map->graph;
    const uint32_t x = pco_cast(graph, onnx_in(map, 0), PCO_F32);
    const uint32_t scale = onnx_quantised_scale_shape(map, pco_cast(graph, onnx_in(map, 1), PCO_F32), x);
    uint32_t y = pco_binary(graph, PCO_OP_DIV, x, scale);
    if (pco_onnx_small_float(type, &small)) { /* the zero point is 0 */
        map->type[0] = type;
        return onnx_small_rounded(map, y, type, saturate);
    }
    y = onnx_rounded(map, y);
    if (onnx_has(map, 2))
        y = pco_binary(graph, PCO_OP_ADD, y,
                       onnx_quantised_scale_shape(map, pco_cast(graph, onnx_in(map, 2), PCO_F32), x));
    return onnx_quantised_saturated(map, y, type);
}

/* (x - zero) scale, rounded once to the scale's type. */
static uint32_t onnx_quantised_to_float(pco_onnx_map *map)
{
    const uint32_t centred = onnx_quantised_centred(map, 0, 2);
    const uint32_t scale = onnx_quantised_scale_shape(map, pco_cast(map->graph, onnx_in(map, 1), PCO_F32), centred);
    const int32_t type = (int32_t)onnx_int(map, "output_dtype", onnx_type(map, 1));
    const uint32_t to = pco_onnx_map_type(type);
    if (to != PCO_F32 && to != PCO_F16 && to != PCO_BF16)
        return onnx_skip(map, "DequantizeLinear to type %s", pco_onnx_type_name(type));
    map->type[0] = type;
    return pco_cast(map->graph, pco_binary(map->graph, PCO_OP_MUL, centred, scale), (pco_dtype)to);
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
    uint32_t zero = onnx_rounded(map, pco_binary(graph, PCO_OP_DIV, low, scale));
    zero = pco_graph_add(graph, PCO_OP_CLAMP, &range, &zero, 1, NULL);
    uint32_t y = pco_binary(graph, PCO_OP_ADD, onnx_rounded(map, pco_binary(graph, PCO_OP_DIV, x, scale)), zero);
    map->out[1] = scale;
    map->out[2] = pco_cast(graph, zero, PCO_I32), map->type[2] = PCO_ONNX_UINT8;
    return onnx_quantised_saturated(map, y, PCO_ONNX_UINT8);
}

/* Products of numbers of at most 255 are exact in f32 as long as no more than 256 are added: 2^8 255^2 < 2^24. So many
 * at a time; their sums are added as whole numbers. */
static uint32_t onnx_quantised_product(pco_onnx_map *map, uint32_t a, uint32_t b)
{
    enum { EXACT = 256, MOST = 1 << 14 };
    pco_graph *graph = map->graph;
    const pco_tensor left = *onnx_desc(map, a), right = *onnx_desc(map, b);
    const int64_t inner = left.rank ? left.shape[left.rank - 1] : 0;
    const int64_t row = right.rank > 1 ? right.rank - 2 : 0;
    uint32_t y = PCO_NONE;
    if (!left.rank || !right.rank || right.shape[row] != inner || inner > (int64_t)EXACT * MOST)
        return onnx_skip(map, "%.100s of operands that do not go together", map->node->op);
    for (int64_t at = 0; at < inner || y == PCO_NONE; at += EXACT) {
        const int64_t n = inner - at < EXACT ? inner - at : EXACT;
        const bool all = n == inner;
        const uint32_t part = pco_cast(graph,
                                       onnx_product(map, all ? a : pco_slice_axis(graph, a, left.rank - 1, at, n),
                                                    all ? b : pco_slice_axis(graph, b, row, at, n)),
                                       PCO_I32);
        y = y == PCO_NONE ? part : pco_binary(graph, PCO_OP_ADD, y, part);
        if (graph->status) return PCO_NONE;
    }
    return y;
}

/* As centred, but a vector of zero points is one for each row of a, or each column of b. */
static uint32_t onnx_quantised_operand(pco_onnx_map *map, uint32_t x_index, uint32_t zero_index, bool rows)
{
    pco_graph *graph = map->graph;
    uint32_t x = onnx_in(map, x_index);
    if (onnx_has(map, zero_index)) {
        uint32_t zero = onnx_in(map, zero_index);
        const pco_tensor desc = *onnx_desc(map, zero);
        if (desc.rank == 1 && rows && desc.shape[0] != 1)
            zero = pco_reshape(graph, zero, 2, (int64_t[]){desc.shape[0], 1});
        x = pco_binary(graph, PCO_OP_SUB, x, zero);
    }
    return pco_cast(graph, x, PCO_F32);
}

static uint32_t onnx_quantised_matmul_integer(pco_onnx_map *map)
{
    map->type[0] = PCO_ONNX_INT32;
    return onnx_quantised_product(map, onnx_quantised_operand(map, 0, 2, true),
                                  onnx_quantised_operand(map, 1, 3, false));
}

/* A scale for each row or column, as zero points. */
static uint32_t onnx_quantised_line(pco_onnx_map *map, uint32_t i, bool rows)
{
    const uint32_t scale = pco_cast(map->graph, onnx_in(map, i), PCO_F32);
    const pco_tensor desc = *onnx_desc(map, scale);
    if (desc.rank != 1 || !rows || desc.shape[0] == 1) return scale;
    return pco_reshape(map->graph, scale, 2, (int64_t[]){desc.shape[0], 1});
}

static uint32_t onnx_quantised_matmul(pco_onnx_map *map)
{
    pco_graph *graph = map->graph;
    uint32_t y =
        onnx_quantised_product(map, onnx_quantised_operand(map, 0, 2, true), onnx_quantised_operand(map, 3, 5, false));
    uint32_t scale =
        pco_binary(graph, PCO_OP_MUL, onnx_quantised_line(map, 1, true), onnx_quantised_line(map, 4, false));
    scale = pco_binary(graph, PCO_OP_DIV, scale, onnx_quantised_line(map, 6, true));
    y = onnx_rounded(map, pco_binary(graph, PCO_OP_MUL, pco_cast(graph, y, PCO_F32), scale));
    y = pco_binary(graph, PCO_OP_ADD, y, onnx_quantised_line(map, 7, true));
    return onnx_quantised_saturated(map, y, onnx_type(map, 7));
}

const onnx_rule ONNX_QUANTISED[] = {
    {"QuantizeLinear", onnx_quantised_from_float, 0, 0},     {"DequantizeLinear", onnx_quantised_to_float, 0, 0},
    {"DynamicQuantizeLinear", onnx_quantised_dynamic, 0, 0}, {"MatMulInteger", onnx_quantised_matmul_integer, 0, 0},
    {"QLinearMatMul", onnx_quantised_matmul, 0, 0},          {0},
};
