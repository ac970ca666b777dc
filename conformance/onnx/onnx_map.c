/* Elementwise ops, matrix products and reductions of ONNX; the other files are asked for the rest. */
#include "onnx/onnx_map.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

bool onnx_is(const onnx_map *map, const char *op) { return strcmp(map->test->node->op_type, op) == 0; }

uint32_t onnx_skip(onnx_map *map, const char *why)
{
    if (!map->skip[0]) snprintf(map->skip, sizeof map->skip, "%s", why);
    return PCO_NONE;
}

uint32_t onnx_map_type(int32_t type)
{
    switch (type) {
    case ONNX_FLOAT:
    case ONNX_DOUBLE: return PCO_F32;
    case ONNX_FLOAT16: return PCO_F16;
    case ONNX_BFLOAT16: return PCO_BF16;
    case ONNX_INT8:
    case ONNX_UINT8:
    case ONNX_INT32:
    case ONNX_INT64: return PCO_I32;
    case ONNX_BOOL: return PCO_BOOL;
    default: return PCO_NONE;
    }
}

uint32_t onnx_in(onnx_map *map, uint32_t i)
{
    char name[16];
    if (!onnx_has(map, i)) return PCO_NONE;
    const onnx_tensor *tensor = &map->test->inputs[i];
    uint32_t dtype = onnx_map_type(tensor->type);
    if (dtype == PCO_NONE) return onnx_skip(map, onnx_type_name(tensor->type));
    snprintf(name, sizeof name, "input%u", i);
    if (map->in[i] == PCO_NONE)
        map->in[i] = pco_graph_input(map->graph, name, (pco_dtype)dtype, tensor->rank, tensor->shape);
    return map->in[i];
}

int64_t onnx_host(const onnx_map *map, uint32_t i, int64_t *values, int64_t capacity)
{
    if (!onnx_has(map, i)) return -1;
    const onnx_tensor *tensor = &map->test->inputs[i];
    for (int64_t k = 0; k < tensor->count && k < capacity; k++) values[k] = (int64_t)tensor->value[k];
    return tensor->count < capacity ? tensor->count : capacity;
}

const pco_tensor *onnx_desc(const onnx_map *map, uint32_t tensor)
{
    static const pco_tensor NOTHING = {.name = ""}; /* after an error, which the graph keeps */
    return tensor == PCO_NONE ? &NOTHING : &map->graph->tensors[tensor];
}

int64_t onnx_axis(int64_t axis, uint32_t rank) { return axis < 0 ? axis + rank : axis; }

uint32_t onnx_axes(const onnx_map *map, uint32_t i, uint32_t rank)
{
    int64_t axes[PCO_MAX_RANK], n = onnx_host(map, i, axes, PCO_MAX_RANK);
    uint32_t mask = 0;
    if (n < 0) n = onnx_ints(map->test, "axes", axes, PCO_MAX_RANK);
    for (int64_t k = 0; k < n; k++) mask |= 1u << onnx_axis(axes[k], rank);
    const int64_t noop = onnx_int(map->test, "noop_with_empty_axes", 0);
    if (n <= 0 && !noop) mask = (1u << rank) - 1;
    return mask;
}

uint32_t onnx_sum_axes(onnx_map *map, pco_op op, uint32_t x, uint32_t mask, int64_t keepdims)
{
    pco_sum_attrs attrs = {.keepdims = keepdims};
    for (uint32_t d = 0; d < PCO_MAX_RANK; d++)
        if (mask >> d & 1) attrs.axes[attrs.n_axes++] = d;
    return pco_graph_add(map->graph, op, &attrs, &x, 1, NULL);
}

/* ---- one to one ---- */

static const struct {
    const char *onnx;
    pco_op op;
    uint32_t inputs;
} DIRECT[] = {
    {"Abs", PCO_OP_ABS, 1},     {"Neg", PCO_OP_NEG, 1},         {"Exp", PCO_OP_EXP, 1},
    {"Log", PCO_OP_LOG, 1},     {"Sqrt", PCO_OP_SQRT, 1},       {"Tanh", PCO_OP_TANH, 1},
    {"Erf", PCO_OP_ERF, 1},     {"Sigmoid", PCO_OP_SIGMOID, 1}, {"Relu", PCO_OP_RELU, 1},
    {"Floor", PCO_OP_FLOOR, 1}, {"Sign", PCO_OP_SIGN, 1},       {"Reciprocal", PCO_OP_RECIPROCAL, 1},
    {"Sin", PCO_OP_SIN, 1},     {"Cos", PCO_OP_COS, 1},         {"Not", PCO_OP_LOGICAL_NOT, 1},
    {"Add", PCO_OP_ADD, 2},     {"Sub", PCO_OP_SUB, 2},         {"Mul", PCO_OP_MUL, 2},
    {"Div", PCO_OP_DIV, 2},     {"Equal", PCO_OP_EQ, 2},        {"Less", PCO_OP_LT, 2},
    {"Greater", PCO_OP_GT, 2},  {"And", PCO_OP_LOGICAL_AND, 2}, {"Or", PCO_OP_LOGICAL_OR, 2},
    {"Min", PCO_OP_MINIMUM, 2}, {"Max", PCO_OP_MAXIMUM, 2},     {"Where", PCO_OP_WHERE, 3},
};

static bool onnx_map_direct(onnx_map *map)
{
    for (size_t i = 0; i < sizeof DIRECT / sizeof *DIRECT; i++) {
        if (!onnx_is(map, DIRECT[i].onnx)) continue;
        uint32_t in[3] = {PCO_NONE, PCO_NONE, PCO_NONE};
        for (uint32_t k = 0; k < DIRECT[i].inputs; k++) in[k] = onnx_in(map, k);
        map->out[0] = pco_graph_add(map->graph, DIRECT[i].op, NULL, in, DIRECT[i].inputs, NULL);
        return true;
    }
    return false;
}

/* ---- elementwise, composed ---- */

static uint32_t onnx_map_gelu(onnx_map *map)
{
    char form[16];
    onnx_text(map->test, "approximate", "none", form, sizeof form);
    if (strcmp(form, "tanh") != 0 && strcmp(form, "none") != 0) return onnx_skip(map, "Gelu in an unknown form");
    pco_gelu_attrs attrs = {.approximate = strcmp(form, "tanh") == 0};
    uint32_t x = onnx_in(map, 0);
    return pco_graph_add(map->graph, PCO_OP_GELU, &attrs, &x, 1, NULL);
}

static uint32_t onnx_map_clip(onnx_map *map)
{
    pco_clamp_attrs attrs = {-INFINITY, INFINITY};
    if (onnx_has(map, 1)) attrs.min = map->test->inputs[1].value[0];
    if (onnx_has(map, 2)) attrs.max = map->test->inputs[2].value[0];
    uint32_t x = onnx_in(map, 0);
    return pco_graph_add(map->graph, PCO_OP_CLAMP, &attrs, &x, 1, NULL);
}

/* The base's type decides; an integer result is the nearest integer of the power in f32. */
static uint32_t onnx_map_pow(onnx_map *map)
{
    pco_graph *graph = map->graph;
    uint32_t a = onnx_in(map, 0), b = onnx_in(map, 1);
    bool whole = onnx_desc(map, a)->dtype == PCO_I32;
    pco_dtype type = whole ? PCO_F32 : (pco_dtype)onnx_desc(map, a)->dtype;
    uint32_t y = pco_binary(graph, PCO_OP_POW, pco_cast(graph, a, type), pco_cast(graph, b, type));
    if (!whole) return y;
    return pco_cast(graph, pco_unary(graph, PCO_OP_FLOOR, pco_binary_scalar(graph, PCO_OP_ADD, y, 0.5)), PCO_I32);
}

static uint32_t onnx_map_leaky(onnx_map *map)
{
    uint32_t x = onnx_in(map, 0);
    uint32_t scaled = pco_binary_scalar(map->graph, PCO_OP_MUL, x, onnx_float(map->test, "alpha", 0.01));
    return pco_where(map->graph, pco_binary_scalar(map->graph, PCO_OP_LT, x, 0.0), scaled, x);
}

/* max(x, 0) + log(1 + exp(-|x|)) */
static uint32_t onnx_map_softplus(onnx_map *map)
{
    pco_graph *graph = map->graph;
    uint32_t x = onnx_in(map, 0), size = pco_unary(graph, PCO_OP_NEG, pco_unary(graph, PCO_OP_ABS, x));
    uint32_t log =
        pco_unary(graph, PCO_OP_LOG, pco_binary_scalar(graph, PCO_OP_ADD, pco_unary(graph, PCO_OP_EXP, size), 1.0));
    return pco_binary(graph, PCO_OP_ADD, pco_unary(graph, PCO_OP_RELU, x), log);
}

static uint32_t onnx_map_hard_swish(onnx_map *map)
{
    pco_graph *graph = map->graph;
    uint32_t x = onnx_in(map, 0);
    uint32_t line = pco_binary_scalar(graph, PCO_OP_ADD, pco_binary_scalar(graph, PCO_OP_MUL, x, 1.0 / 6.0), 0.5);
    uint32_t gate = pco_graph_add(graph, PCO_OP_CLAMP, &(pco_clamp_attrs){0.0, 1.0}, &line, 1, NULL);
    return pco_binary(graph, PCO_OP_MUL, x, gate);
}

/* x sigmoid(alpha x); SwiGLU: times its second operand. */
static uint32_t onnx_map_swish(onnx_map *map)
{
    double alpha = onnx_float(map->test, "alpha", 1.0);
    uint32_t x = onnx_in(map, 0);
    if (onnx_is(map, "SwiGLU") && alpha == 1.0)
        return pco_graph_add(map->graph, PCO_OP_SWIGLU, NULL, (uint32_t[]){x, onnx_in(map, 1)}, 2, NULL);
    if (alpha == 1.0) return pco_unary(map->graph, PCO_OP_SILU, x);
    uint32_t gate = pco_unary(map->graph, PCO_OP_SIGMOID, pco_binary_scalar(map->graph, PCO_OP_MUL, x, alpha));
    uint32_t y = pco_binary(map->graph, PCO_OP_MUL, x, gate);
    return onnx_is(map, "SwiGLU") ? pco_binary(map->graph, PCO_OP_MUL, y, onnx_in(map, 1)) : y;
}

static uint32_t onnx_map_cast(onnx_map *map)
{
    int32_t to = (int32_t)onnx_int(map->test, "to", ONNX_FLOAT), from = map->test->inputs[0].type;
    uint32_t type = onnx_map_type(to);
    onnx_without(map->test, "saturate"); /* of types of 8 bits, which have no mapping */
    if (type == PCO_NONE || to == ONNX_DOUBLE || to == ONNX_UINT8 || to == ONNX_INT8)
        return onnx_skip(map, onnx_type_name(to));
    if (from == ONNX_DOUBLE) return onnx_skip(map, "a cast from double"); /* it would be rounded twice */
    return pco_cast(map->graph, onnx_in(map, 0), (pco_dtype)type);
}

/* ---- products ---- */

/* A vector is a matrix of one row (left) or one column (right), whose dimension is dropped again. */
static uint32_t onnx_map_matmul_of(onnx_map *map, uint32_t a, uint32_t b)
{
    const pco_tensor *left = onnx_desc(map, a), *right = onnx_desc(map, b);
    bool row = left->rank == 1, column = right->rank == 1;
    if (row) a = pco_reshape(map->graph, a, 2, (int64_t[]){1, left->shape[0]});
    if (column) b = pco_reshape(map->graph, b, 2, (int64_t[]){onnx_desc(map, b)->shape[0], 1});
    uint32_t y = pco_matmul(map->graph, a, b, 0, 0);
    if (!row && !column) return y;
    pco_tensor shape = *onnx_desc(map, y);
    if (column) shape.rank--;
    if (row) {
        if (!column) shape.shape[shape.rank - 2] = shape.shape[shape.rank - 1];
        shape.rank--;
    }
    return pco_reshape(map->graph, y, shape.rank, shape.shape);
}

static uint32_t onnx_map_gemm(onnx_map *map)
{
    double alpha = onnx_float(map->test, "alpha", 1.0), beta = onnx_float(map->test, "beta", 1.0);
    int64_t left = onnx_int(map->test, "transA", 0), right = onnx_int(map->test, "transB", 0);
    uint32_t y = pco_matmul(map->graph, onnx_in(map, 0), onnx_in(map, 1), left != 0, right != 0);
    if (alpha != 1.0) y = pco_binary_scalar(map->graph, PCO_OP_MUL, y, alpha);
    if (!onnx_has(map, 2)) return y;
    uint32_t c = onnx_in(map, 2);
    if (beta != 1.0) c = pco_binary_scalar(map->graph, PCO_OP_MUL, c, beta);
    return pco_binary(map->graph, PCO_OP_ADD, y, c);
}

/* The equations that occur: a sum, an inner product, the diagonals of a batch, products of two matrices. */
static uint32_t onnx_map_einsum(onnx_map *map)
{
    char equation[64];
    onnx_text(map->test, "equation", "", equation, sizeof equation);
    char *to = equation;
    for (const char *from = equation; *from; from++)
        if (*from != ' ') *to++ = *from;
    *to = 0;
    uint32_t x = onnx_in(map, 0);
    const pco_tensor *desc = onnx_desc(map, x);
    if (strcmp(equation, "ij->i") == 0) return pco_reduce(map->graph, PCO_OP_SUM, x, 1, 0);
    if (strcmp(equation, "ij->ji") == 0) return pco_permute(map->graph, x, (int64_t[]){1, 0});
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

static uint32_t onnx_map_reduce(onnx_map *map)
{
    pco_graph *graph = map->graph;
    int64_t keepdims = onnx_int(map->test, "keepdims", 1);
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

static uint32_t onnx_map_argmax(onnx_map *map)
{
    if (onnx_int(map->test, "select_last_index", 0)) return onnx_skip(map, "ArgMax of the last among equals");
    return pco_argmax(map->graph, onnx_in(map, 0), onnx_int(map->test, "axis", 0),
                      (int)onnx_int(map->test, "keepdims", 1));
}

static uint32_t onnx_map_softmax(onnx_map *map, pco_op op)
{
    pco_softmax_attrs attrs = {.axis = onnx_int(map->test, "axis", -1)};
    uint32_t x = onnx_in(map, 0);
    return pco_graph_add(map->graph, op, &attrs, &x, 1, NULL);
}

static uint32_t onnx_map_one(onnx_map *map)
{
    if (onnx_is(map, "Gelu")) return onnx_map_gelu(map);
    if (onnx_is(map, "Clip")) return onnx_map_clip(map);
    if (onnx_is(map, "Pow")) return onnx_map_pow(map);
    if (onnx_is(map, "LeakyRelu")) return onnx_map_leaky(map);
    if (onnx_is(map, "Softplus")) return onnx_map_softplus(map);
    if (onnx_is(map, "HardSwish")) return onnx_map_hard_swish(map);
    if (onnx_is(map, "Swish") || onnx_is(map, "SwiGLU")) return onnx_map_swish(map);
    if (onnx_is(map, "Cast")) return onnx_map_cast(map);
    if (onnx_is(map, "MatMul")) return onnx_map_matmul_of(map, onnx_in(map, 0), onnx_in(map, 1));
    if (onnx_is(map, "Gemm")) return onnx_map_gemm(map);
    if (onnx_is(map, "Einsum")) return onnx_map_einsum(map);
    if (strncmp(map->test->node->op_type, "Reduce", 6) == 0) return onnx_map_reduce(map);
    if (onnx_is(map, "ArgMax")) return onnx_map_argmax(map);
    if (onnx_is(map, "Softmax")) return onnx_map_softmax(map, PCO_OP_SOFTMAX);
    if (onnx_is(map, "LogSoftmax")) return onnx_map_softmax(map, PCO_OP_LOG_SOFTMAX);
    return PCO_NONE;
}

static void onnx_map_any(onnx_map *map)
{
    if (onnx_map_direct(map)) return;
    map->out[0] = onnx_map_one(map);
    if (map->out[0] == PCO_NONE && !map->skip[0] && !map->graph->status) onnx_map_shapes(map);
    if (map->out[0] == PCO_NONE && !map->skip[0] && !map->graph->status) onnx_map_layers(map);
    if (map->out[0] == PCO_NONE && !map->skip[0] && !map->graph->status)
        snprintf(map->skip, sizeof map->skip, "no mapping for %s", map->test->node->op_type);
}

void onnx_map_node(onnx_map *map)
{
    for (uint32_t i = 0; i < ONNX_MAX_OPERANDS; i++) map->in[i] = map->out[i] = PCO_NONE;
    onnx_map_any(map);
    const char *left = onnx_left(map->test);
    if (left && !map->skip[0] && !map->graph->status)
        snprintf(map->skip, sizeof map->skip, "attribute '%.100s' of %.100s is not mapped", left,
                 map->test->node->op_type);
}
