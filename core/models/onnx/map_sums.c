/* Matrix products, reductions and softmax of ONNX. */
#include "models/onnx/map_internal.h"

#include <string.h>

/* ---- products ---- */

/* A vector is a matrix of one row (left) or one column (right), whose dimension is dropped again. */
static uint32_t onnx_map_matmul_of(pco_onnx_map *map, uint32_t a, uint32_t b)
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

static uint32_t onnx_map_matmul(pco_onnx_map *map) { return onnx_map_matmul_of(map, onnx_in(map, 0), onnx_in(map, 1)); }

static uint32_t onnx_map_gemm(pco_onnx_map *map)
{
    double alpha = onnx_float(map, "alpha", 1.0), beta = onnx_float(map, "beta", 1.0);
    int64_t left = onnx_int(map, "transA", 0), right = onnx_int(map, "transB", 0);
    uint32_t y = pco_matmul(map->graph, onnx_in(map, 0), onnx_in(map, 1), left != 0, right != 0);
    if (alpha != 1.0) y = pco_binary_scalar(map->graph, PCO_OP_MUL, y, alpha);
    if (!onnx_has(map, 2)) return y;
    uint32_t c = onnx_in(map, 2);
    if (beta != 1.0) c = pco_binary_scalar(map->graph, PCO_OP_MUL, c, beta);
    return pco_binary(map->graph, PCO_OP_ADD, y, c);
}

/* The equations that occur: a sum, an inner product, the diagonals of a batch, products of two matrices. */
static uint32_t onnx_map_einsum(pco_onnx_map *map)
{
    char equation[64];
    onnx_text(map, "equation", "", equation, sizeof equation);
    char *to = equation;
    for (const char *from = equation; *from; from++)
        if (*from != ' ') *to++ = *from;
    *to = 0;
    uint32_t x = onnx_in(map, 0);
    const pco_tensor *desc = onnx_desc(map, x);
    if (strcmp(equation, "ij->i") == 0 && desc->rank == 2) return pco_reduce(map->graph, PCO_OP_SUM, x, 1, 0);
    if (strcmp(equation, "ij->ji") == 0 && desc->rank == 2) return pco_permute(map->graph, x, (int64_t[]){1, 0});
    if (strcmp(equation, "i,i") == 0) return onnx_map_matmul_of(map, x, onnx_in(map, 1));
    if (strcmp(equation, "bij,bjk->bik") == 0) return onnx_map_matmul_of(map, x, onnx_in(map, 1));
    if (strcmp(equation, "...ii->...i") == 0 && desc->rank == 3) {
        int64_t n = desc->shape[1], batch = desc->shape[0];
        uint32_t flat = pco_reshape(map->graph, x, 2, (int64_t[]){batch, n * n});
        pco_slice_attrs attrs = {2, {0, 0}, 2, {batch, n}, 2, {1, n + 1}};
        return pco_graph_add(map->graph, PCO_OP_SLICE, &attrs, &flat, 1, NULL);
    }
    return onnx_skip(map, "an equation of Einsum that is not mapped");
}

/* ---- reductions ---- */

static uint32_t onnx_map_reduce(pco_onnx_map *map)
{
    pco_graph *graph = map->graph;
    int64_t keepdims = onnx_int(map, "keepdims", 1);
    uint32_t x = onnx_in(map, 0), mask = onnx_axes(map, 1, onnx_desc(map, x)->rank);
    if (onnx_is(map, "ReduceSum")) return onnx_sum_axes(map, PCO_OP_SUM, x, mask, keepdims);
    if (onnx_is(map, "ReduceMean")) return onnx_sum_axes(map, PCO_OP_MEAN, x, mask, keepdims);
    if (onnx_is(map, "ReduceL2")) {
        uint32_t squares = onnx_sum_axes(map, PCO_OP_SUM, pco_binary(graph, PCO_OP_MUL, x, x), mask, keepdims);
        return pco_unary(graph, PCO_OP_SQRT, squares);
    }
    if (onnx_desc(map, x)->dtype != PCO_BOOL) return onnx_sum_axes(map, PCO_OP_AMAX, x, mask, keepdims);
    return pco_cast(graph, onnx_sum_axes(map, PCO_OP_AMAX, pco_cast(graph, x, PCO_I32), mask, keepdims), PCO_BOOL);
}

static uint32_t onnx_map_argmax(pco_onnx_map *map)
{
    if (onnx_int(map, "select_last_index", 0)) return onnx_skip(map, "ArgMax of the last among equals");
    map->type[0] = PCO_ONNX_INT64;
    return pco_argmax(map->graph, onnx_in(map, 0), onnx_int(map, "axis", 0), (int)onnx_int(map, "keepdims", 1));
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
    {"MatMul", onnx_map_matmul, 0, 0},
    {"Gemm", onnx_map_gemm, 0, 0},
    {"Einsum", onnx_map_einsum, 0, 0},
    {"ReduceSum", onnx_map_reduce, 0, 0},
    {"ReduceMean", onnx_map_reduce, 0, 0},
    {"ReduceL2", onnx_map_reduce, 0, 0},
    {"ReduceMax", onnx_map_reduce, 0, 0},
    {"ArgMax", onnx_map_argmax, 0, 0},
    {"Softmax", onnx_map_softmax, 0, 0},
    {"LogSoftmax", onnx_map_softmax, 0, 0},
    {0},
};
