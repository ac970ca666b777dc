#include "graph/graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A list of `count` numbers, which is too long for attributes, or not there. */
static int build_refuses(pco_graph *graph, const char *op, uint32_t count, const void *list)
{
    if (count <= PCO_MAX_RANK && (list || count == 0)) return 0;
    pco_graph_fail(graph, PCO_ERROR_INVALID,
                   list ? "%s: %u dimensions; at most %d" : "%s: a list of %u dimensions is NULL (at most %d)", op,
                   count, PCO_MAX_RANK);
    return 1;
}

uint32_t pco_unary(pco_graph *graph, pco_op op, uint32_t x) { return pco_graph_add(graph, op, NULL, &x, 1, NULL); }

uint32_t pco_binary(pco_graph *graph, pco_op op, uint32_t a, uint32_t b)
{
    return pco_graph_add(graph, op, NULL, (uint32_t[]){a, b}, 2, NULL);
}

uint32_t pco_scalar(pco_graph *graph, pco_dtype dtype, double value) { return pco_fill(graph, dtype, value, 0, NULL); }

uint32_t pco_binary_scalar(pco_graph *graph, pco_op op, uint32_t a, double value)
{
    if (!pco_graph_has(graph, a, "a number beside an operand")) return PCO_NONE;
    return pco_binary(graph, op, a, pco_scalar(graph, (pco_dtype)graph->tensors[a].dtype, value));
}

uint32_t pco_cast(pco_graph *graph, uint32_t x, pco_dtype dtype)
{
    if (!pco_graph_has(graph, x, "cast")) return PCO_NONE;
    if (graph->tensors[x].dtype == (uint32_t)dtype) return x;
    return pco_graph_add(graph, PCO_OP_CAST, &(pco_cast_attrs){.dtype = dtype}, &x, 1, NULL);
}

uint32_t pco_fill(pco_graph *graph, pco_dtype dtype, double value, uint32_t rank, const int64_t *shape)
{
    if (build_refuses(graph, "fill", rank, shape)) return PCO_NONE;
    pco_fill_attrs attrs = {.dtype = dtype, .value = value, .n_shape = rank};
    if (rank) memcpy(attrs.shape, shape, rank * sizeof *shape);
    return pco_graph_add(graph, PCO_OP_FILL, &attrs, NULL, 0, NULL);
}

uint32_t pco_iota(pco_graph *graph, pco_dtype dtype, uint32_t axis, double start, double step, uint32_t rank,
                  const int64_t *shape)
{
    if (build_refuses(graph, "iota", rank, shape)) return PCO_NONE;
    pco_iota_attrs attrs = {.dtype = dtype, .axis = axis, .start = start, .step = step, .n_shape = rank};
    if (rank) memcpy(attrs.shape, shape, rank * sizeof *shape);
    return pco_graph_add(graph, PCO_OP_IOTA, &attrs, NULL, 0, NULL);
}

uint32_t pco_broadcast_to(pco_graph *graph, uint32_t x, uint32_t rank, const int64_t *shape)
{
    if (build_refuses(graph, "broadcast_to", rank, shape)) return PCO_NONE;
    pco_broadcast_to_attrs attrs = {.n_shape = rank};
    if (rank) memcpy(attrs.shape, shape, rank * sizeof *shape);
    return pco_graph_add(graph, PCO_OP_BROADCAST_TO, &attrs, &x, 1, NULL);
}

uint32_t pco_reshape(pco_graph *graph, uint32_t x, uint32_t rank, const int64_t *shape)
{
    if (!pco_graph_has(graph, x, "reshape")) return PCO_NONE;
    if (build_refuses(graph, "reshape", rank, shape)) return PCO_NONE;
    pco_reshape_attrs attrs = {.n_shape = rank};
    int64_t known = 1;
    uint32_t free_dim = PCO_NONE;
    for (uint32_t i = 0; i < rank; i++) {
        attrs.shape[i] = shape[i];
        if (shape[i] == -1)
            free_dim = i;
        else if (__builtin_mul_overflow(known, shape[i], &known))
            known = 0; /* of no tensor: refused below */
    }
    if (free_dim != PCO_NONE) attrs.shape[free_dim] = known ? pco_tensor_elements(&graph->tensors[x]) / known : 0;
    return pco_graph_add(graph, PCO_OP_RESHAPE, &attrs, &x, 1, NULL);
}

uint32_t pco_permute(pco_graph *graph, uint32_t x, const int64_t *dims)
{
    if (!pco_graph_has(graph, x, "permute")) return PCO_NONE;
    if (build_refuses(graph, "permute", graph->tensors[x].rank, dims)) return PCO_NONE;
    pco_permute_attrs attrs = {.n_dims = graph->tensors[x].rank};
    memcpy(attrs.dims, dims, graph->tensors[x].rank * sizeof *dims);
    return pco_graph_add(graph, PCO_OP_PERMUTE, &attrs, &x, 1, NULL);
}

uint32_t pco_slice_axis(pco_graph *graph, uint32_t x, int64_t axis, int64_t start, int64_t size)
{
    if (!pco_graph_has(graph, x, "slice")) return PCO_NONE;
    const pco_tensor *tensor = &graph->tensors[x];
    uint32_t rank = tensor->rank;
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= (int64_t)rank)
        return pco_graph_fail(graph, PCO_ERROR_INVALID, "slice of '%s': no such axis", tensor->name);
    pco_slice_attrs attrs = {.n_starts = rank, .n_sizes = rank, .n_steps = rank};
    for (uint32_t i = 0; i < rank; i++) {
        attrs.sizes[i] = tensor->shape[i];
        attrs.steps[i] = 1;
    }
    attrs.starts[axis] = start;
    attrs.sizes[axis] = size;
    return pco_graph_add(graph, PCO_OP_SLICE, &attrs, &x, 1, NULL);
}

uint32_t pco_concat(pco_graph *graph, const uint32_t *x, uint32_t count, int64_t axis)
{
    if (count && !x) return pco_graph_fail(graph, PCO_ERROR_INVALID, "concat: the list of operands is NULL");
    pco_concat_attrs attrs = {.axis = axis};
    uint32_t joined = count ? x[0] : PCO_NONE;
    for (uint32_t done = 1; done < count || done == 1;) {
        uint32_t inputs[PCO_MAX_INPUTS] = {joined};
        uint32_t n = 1;
        while (n < PCO_MAX_INPUTS && done < count) inputs[n++] = x[done++];
        joined = pco_graph_add(graph, PCO_OP_CONCAT, &attrs, inputs, n, NULL);
        if (joined == PCO_NONE || done >= count) break;
    }
    return joined;
}

uint32_t pco_gather(pco_graph *graph, uint32_t x, uint32_t indices, int64_t axis)
{
    pco_gather_attrs attrs = {.axis = axis, .dtype = PCO_F32};
    return pco_graph_add(graph, PCO_OP_GATHER, &attrs, (uint32_t[]){x, indices}, 2, NULL);
}

uint32_t pco_state_write(pco_graph *graph, uint32_t state, uint32_t x, uint32_t index, int64_t axis)
{
    pco_state_write_attrs attrs = {.axis = axis};
    return pco_graph_add(graph, PCO_OP_STATE_WRITE, &attrs, (uint32_t[]){state, x, index}, 3, NULL);
}

uint32_t pco_matmul(pco_graph *graph, uint32_t a, uint32_t b, int transpose_a, int transpose_b)
{
    pco_matmul_attrs attrs = {.transpose_a = transpose_a, .transpose_b = transpose_b, .dtype = -1};
    return pco_graph_add(graph, PCO_OP_MATMUL, &attrs, (uint32_t[]){a, b}, 2, NULL);
}

uint32_t pco_linear(pco_graph *graph, uint32_t x, uint32_t weight, uint32_t bias, int activation)
{
    pco_matmul_attrs attrs = {.transpose_b = 1, .activation = activation, .dtype = -1};
    return pco_graph_add(graph, PCO_OP_MATMUL, &attrs, (uint32_t[]){x, weight, bias}, 3, NULL);
}

uint32_t pco_graph_activation(pco_graph *graph, uint32_t x, int64_t activation)
{
    static const pco_op OPS[] = {PCO_OP_INVALID, PCO_OP_RELU, PCO_OP_GELU, PCO_OP_GELU, PCO_OP_SILU};
    const pco_gelu_attrs gelu = {.approximate = activation == 3};
    if (activation == 0) return x;
    return pco_graph_add(graph, OPS[activation], OPS[activation] == PCO_OP_GELU ? &gelu : NULL, &x, 1, NULL);
}

uint32_t pco_reduce(pco_graph *graph, pco_op op, uint32_t x, int64_t axis, int keepdims)
{
    pco_sum_attrs attrs = {.keepdims = keepdims, .n_axes = 1, .axes = {axis}};
    return pco_graph_add(graph, op, &attrs, &x, 1, NULL);
}

uint32_t pco_argmax(pco_graph *graph, uint32_t x, int64_t axis, int keepdims)
{
    pco_argmax_attrs attrs = {.axis = axis, .keepdims = keepdims};
    return pco_graph_add(graph, PCO_OP_ARGMAX, &attrs, &x, 1, NULL);
}

uint32_t pco_softmax(pco_graph *graph, uint32_t x, int64_t axis)
{
    return pco_graph_add(graph, PCO_OP_SOFTMAX, &(pco_softmax_attrs){.axis = axis}, &x, 1, NULL);
}

/* freq / 2 pi modulo 1 as a 64-bit fraction. A double holds the turn with 53 bits; the rest are zeros: the error,
 * 2^-54 relative, is below 2^-32 of a turn up to position 2^22 for the fastest pair (1/2 pi turns a step). */
uint32_t pco_phase_table(pco_graph *graph, const double *frequencies, uint32_t count)
{
    if (!graph || graph->status) return PCO_NONE;
    if (count && !frequencies) return pco_graph_fail(graph, PCO_ERROR_INVALID, "phase: the frequencies are NULL");
    const long double two_pi = 6.283185307179586476925286766559005768L;
    uint32_t *words = malloc((size_t)count * 2 * sizeof *words + 1);
    if (!words) return pco_graph_fail(graph, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a phase table");
    for (uint32_t i = 0; i < count; i++) {
        long double turns = (long double)frequencies[i] / two_pi;
        turns -= floorl(turns);
        uint64_t fraction = (uint64_t)ldexpl(turns, 64);
        words[2 * i] = (uint32_t)fraction;
        words[2 * i + 1] = (uint32_t)(fraction >> 32);
    }
    uint32_t id = pco_graph_constant_copy(graph, "phase", PCO_I32, 2, (int64_t[]){count, 2}, words);
    free(words);
    return id;
}

uint32_t pco_rope_phase(pco_graph *graph, double base, uint32_t dimensions, const float *factors)
{
    double *frequencies = malloc(dimensions * sizeof *frequencies + 1);
    if (!frequencies) return pco_graph_fail(graph, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for RoPE");
    for (uint32_t i = 0; i < dimensions / 2; i++)
        frequencies[i] = pow(base, -2.0 * i / dimensions) / (factors ? (double)factors[i] : 1.0);
    uint32_t id = pco_phase_table(graph, frequencies, dimensions / 2);
    free(frequencies);
    return id;
}

uint32_t pco_sinusoidal_phase(pco_graph *graph, uint32_t dimensions, int layout)
{
    double *frequencies = malloc(dimensions * sizeof *frequencies + 1);
    if (!frequencies) return pco_graph_fail(graph, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for positions");
    uint32_t half = dimensions / 2;
    for (uint32_t i = 0; i < half; i++)
        frequencies[i] =
            layout ? pow(10000.0, half > 1 ? -(double)i / (half - 1) : 0) : pow(10000.0, -2.0 * i / dimensions);
    uint32_t id = pco_phase_table(graph, frequencies, half);
    free(frequencies);
    return id;
}
