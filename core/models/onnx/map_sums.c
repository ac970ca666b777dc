/* Matrix products, reductions and softmax of ONNX. */
#include "models/onnx/map_internal.h"

#include <string.h>

/* ---- products ---- */

/* A vector is a matrix of one row (left) or one column (right), whose dimension is dropped again. */
uint32_t onnx_product(pco_onnx_map *map, uint32_t a, uint32_t b)
{
    const pco_tensor *left = onnx_desc(map, a), *right = onnx_desc(map, b);
    bool row = left->rank == 1, column = right->rank == 1;
    if (row) a = pco_reshape(map->graph, a, 2, (int64_t[]){1, left->shape[0]});
    if (column) b = pco_reshape(map->graph, b, 2, (int64_t[]){onnx_desc(map, b)->shape[0], 1});
    uint32_t y = pco_matmul(map->graph, a, b, 0, 0);
    if ((!row && !column) || y == PCO_NONE) return y;
    pco_tensor shape = *onnx_desc(map, y);
    if (column) shape.rank--;
    if (row) {
        if (!column) shape.shape[shape.rank - 2] = shape.shape[shape.rank - 1];
        shape.rank--;
    }
    return pco_reshape(map->graph, y, shape.rank, shape.shape);
}

static uint32_t onnx_map_matmul(pco_onnx_map *map) { return onnx_product(map, onnx_in(map, 0), onnx_in(map, 1)); }

static uint32_t onnx_map_gemm(pco_onnx_map *map)
{
    double alpha = onnx_float(map, "alpha", 1.0), beta = onnx_float(map, "beta", 1.0);
    int64_t left = onnx_flag(map, "transA", 0), right = onnx_flag(map, "transB", 0);
    uint32_t y = pco_matmul(map->graph, onnx_in(map, 0), onnx_in(map, 1), left != 0, right != 0);
    if (alpha != 1.0) y = pco_binary_scalar(map->graph, PCO_OP_MUL, y, alpha);
    if (!onnx_has(map, 2)) return y;
    uint32_t c = onnx_in(map, 2);
    if (beta != 1.0) c = pco_binary_scalar(map->graph, PCO_OP_MUL, c, beta);
    return pco_binary(map->graph, PCO_OP_ADD, y, c);
}

/* ---- reductions ---- */

/* Whole numbers through -1 - x, which has the order of -x, and no overflow. */
static uint32_t onnx_map_turned(pco_onnx_map *map, uint32_t x)
{
    const uint32_t y = pco_unary(map->graph, PCO_OP_NEG, x);
    return onnx_desc(map, x)->dtype == PCO_I32 ? pco_binary_scalar(map->graph, PCO_OP_SUB, y, 1.0) : y;
}

/* Largest or smallest; of nothing, booleans are false and true, the ends of their type. */
static uint32_t onnx_map_extreme(pco_onnx_map *map, uint32_t x, uint32_t mask, int64_t keepdims, bool smallest)
{
    const bool truth = onnx_desc(map, x)->dtype == PCO_BOOL;
    if (truth) x = pco_cast(map->graph, x, PCO_I32);
    if (smallest) x = onnx_map_turned(map, x);
    uint32_t y = onnx_sum_axes(map, PCO_OP_AMAX, x, mask, keepdims);
    if (smallest) y = onnx_map_turned(map, y);
    return truth ? pco_binary_scalar(map->graph, PCO_OP_GT, y, 0.0) : y;
}

/* Halves multiplied with each other until one is left; an odd one out gets a 1. */
static uint32_t onnx_map_prod(pco_onnx_map *map, uint32_t x, uint32_t mask, int64_t keepdims)
{
    pco_graph *graph = map->graph;
    const pco_tensor desc = *onnx_desc(map, x);
    int64_t dims[PCO_MAX_RANK], shape[PCO_MAX_RANK], outer = 1, n = 1;
    uint32_t kept = 0, at = 0;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t d = 0; d < desc.rank; d++) {
            const bool reduced = mask >> d & 1;
            if (reduced != (pass == 1)) continue;
            dims[at++] = d;
            *(reduced ? &n : &outer) *= desc.shape[d];
        }
    for (uint32_t d = 0; d < desc.rank; d++)
        if (!(mask >> d & 1) || keepdims) shape[kept++] = mask >> d & 1 ? 1 : desc.shape[d];
    if (!n) return pco_fill(graph, (pco_dtype)desc.dtype, 1.0, kept, shape);
    x = pco_reshape(graph, pco_permute(graph, x, dims), 2, (int64_t[]){outer, n});
    while (n > 1 && !graph->status) {
        const pco_pad_attrs one = {.n_before = 2, .n_after = 2, .after = {0, 1}, .value = 1.0};
        if (n % 2) x = pco_graph_add(graph, PCO_OP_PAD, &one, &x, 1, NULL), n++;
        n /= 2;
        x = pco_binary(graph, PCO_OP_MUL, pco_slice_axis(graph, x, 1, 0, n), pco_slice_axis(graph, x, 1, n, n));
    }
    return pco_reshape(graph, x, kept, shape);
}

/* max + log(sum of exp(x - max)), with a max that is finite, so that a difference is never NaN. */
static uint32_t onnx_map_log_sum_exp(pco_onnx_map *map, uint32_t x, uint32_t mask, int64_t keepdims)
{
    pco_graph *graph = map->graph;
    const pco_clamp_attrs finite = {-65504.0, 65504.0}; /* of the narrowest type, where sums are as exact */
    const uint32_t high = pco_clamp(graph, onnx_sum_axes(map, PCO_OP_AMAX, x, mask, 1), &finite);
    const uint32_t sums =
        onnx_sum_axes(map, PCO_OP_SUM, pco_unary(graph, PCO_OP_EXP, pco_binary(graph, PCO_OP_SUB, x, high)), mask, 1);
    const uint32_t y = pco_binary(graph, PCO_OP_ADD, pco_unary(graph, PCO_OP_LOG, sums), high);
    const pco_tensor desc = *onnx_desc(map, y);
    int64_t shape[PCO_MAX_RANK];
    uint32_t kept = 0;
    for (uint32_t d = 0; d < desc.rank; d++)
        if (!(mask >> d & 1)) shape[kept++] = desc.shape[d];
    return keepdims ? y : pco_reshape(graph, y, kept, shape);
}

static uint32_t onnx_map_reduce(pco_onnx_map *map)
{
    pco_graph *graph = map->graph;
    const int64_t keepdims = onnx_flag(map, "keepdims", 1);
    uint32_t x = onnx_in(map, 0);
    const uint32_t mask = onnx_axes(map, 1, onnx_desc(map, x)->rank), dtype = onnx_desc(map, x)->dtype;
    const bool whole = dtype == PCO_I32;
    if (onnx_is(map, "ReduceMax") || onnx_is(map, "ReduceMin"))
        return onnx_map_extreme(map, x, mask, keepdims, onnx_is(map, "ReduceMin"));
    if (onnx_is(map, "ReduceProd")) return onnx_map_prod(map, x, mask, keepdims);
    if (onnx_is(map, "ReduceSum")) return onnx_sum_axes(map, PCO_OP_SUM, x, mask, keepdims);
    if (onnx_is(map, "ReduceL1"))
        return onnx_sum_axes(map, PCO_OP_SUM, pco_unary(graph, PCO_OP_ABS, x), mask, keepdims);
    if (onnx_is(map, "ReduceSumSquare"))
        return onnx_sum_axes(map, PCO_OP_SUM, pco_binary(graph, PCO_OP_MUL, x, x), mask, keepdims);
    if (whole) x = pco_cast(graph, x, PCO_F32); /* what is behind the point is dropped again */
    uint32_t y;
    if (onnx_is(map, "ReduceMean"))
        y = onnx_sum_axes(map, PCO_OP_MEAN, x, mask, keepdims);
    else if (onnx_is(map, "ReduceL2"))
        y = pco_unary(graph, PCO_OP_SQRT,
                      onnx_sum_axes(map, PCO_OP_SUM, pco_binary(graph, PCO_OP_MUL, x, x), mask, keepdims));
    else if (onnx_is(map, "ReduceLogSum"))
        y = pco_unary(graph, PCO_OP_LOG, onnx_sum_axes(map, PCO_OP_SUM, x, mask, keepdims));
    else
        y = onnx_map_log_sum_exp(map, x, mask, keepdims);
    return whole ? pco_cast(graph, y, PCO_I32) : y;
}

/* The last among equals is the first of them from the end. */
static uint32_t onnx_map_argmax(pco_onnx_map *map)
{
    const bool last = onnx_flag(map, "select_last_index", 0) != 0;
    uint32_t x = onnx_in(map, 0);
    const int64_t axis = onnx_axis(map, onnx_int(map, "axis", 0), onnx_desc(map, x)->rank);
    const int64_t n = onnx_desc(map, x)->shape[axis];
    if (map->skip[0]) return PCO_NONE;
    if (onnx_is(map, "ArgMin")) x = onnx_map_turned(map, x);
    if (last) x = pco_gather(map->graph, x, pco_iota(map->graph, PCO_I32, 0, (double)(n - 1), -1, 1, &n), axis);
    uint32_t y = pco_argmax(map->graph, x, axis, (int)onnx_flag(map, "keepdims", 1));
    if (last) y = pco_binary(map->graph, PCO_OP_SUB, pco_scalar(map->graph, PCO_I32, (double)(n - 1)), y);
    map->type[0] = PCO_ONNX_INT64;
    return y;
}

/* 1 at the largest value's place along the axis, 0 elsewhere. */
static uint32_t onnx_map_hardmax(pco_onnx_map *map)
{
    const uint32_t x = onnx_in(map, 0);
    const pco_tensor desc = *onnx_desc(map, x);
    const int64_t axis = onnx_axis(map, onnx_int(map, "axis", -1), desc.rank);
    if (map->skip[0] || map->opset < 13) return onnx_skip(map, "Hardmax as before operator set 13");
    const uint32_t places = pco_iota(map->graph, PCO_I32, (uint32_t)axis, 0, 1, desc.rank, desc.shape);
    const uint32_t here = pco_binary(map->graph, PCO_OP_EQ, places, pco_argmax(map->graph, x, axis, 1));
    return pco_cast(map->graph, here, (pco_dtype)desc.dtype);
}

static uint32_t onnx_map_softmax(pco_onnx_map *map)
{
    const pco_op op = onnx_is(map, "Softmax") ? PCO_OP_SOFTMAX : PCO_OP_LOG_SOFTMAX;
    uint32_t x = onnx_in(map, 0);
    const uint32_t rank = onnx_desc(map, x)->rank;
    pco_softmax_attrs attrs = {.axis = onnx_int(map, "axis", map->opset < 13 ? 1 : -1)};
    if (map->opset < 13 && onnx_axis(map, attrs.axis, rank) + 1 != (int64_t)rank)
        return onnx_skip(map, "%s over several dimensions, as before operator set 13", map->node->op);
    return pco_graph_add(map->graph, op, &attrs, &x, 1, NULL);
}

const onnx_rule ONNX_SUMS[] = {
    {"MatMul", onnx_map_matmul, 0, 0},       {"Gemm", onnx_map_gemm, 0, 0},
    {"ReduceSum", onnx_map_reduce, 0, 0},    {"ReduceMean", onnx_map_reduce, 0, 0},
    {"ReduceMax", onnx_map_reduce, 0, 0},    {"ReduceMin", onnx_map_reduce, 0, 0},
    {"ReduceProd", onnx_map_reduce, 0, 0},   {"ReduceL1", onnx_map_reduce, 0, 0},
    {"ReduceL2", onnx_map_reduce, 0, 0},     {"ReduceSumSquare", onnx_map_reduce, 0, 0},
    {"ReduceLogSum", onnx_map_reduce, 0, 0}, {"ReduceLogSumExp", onnx_map_reduce, 0, 0},
    {"ArgMax", onnx_map_argmax, 0, 0},       {"ArgMin", onnx_map_argmax, 0, 0},
    {"Hardmax", onnx_map_hardmax, 0, 0},     {"Softmax", onnx_map_softmax, 0, 0},
    {"LogSoftmax", onnx_map_softmax, 0, 0},  {0},
};
