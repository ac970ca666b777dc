/* Decompositions of the elementwise and row composites. Half types are computed in f32 and rounded once. */
#include "graph/decompose.h"

#define RULE_GRAPH graph
#define RULE_NODE  node
#include "graph/rules.h"

#include <math.h>
#include <string.h>

static pco_status decompose_end(const pco_graph *graph, pco_error *err) { return pco_graph_check(graph, err); }

PCO_DECOMPOSE(relu)
{
    out[0] = BINS(MAXIMUM, INPUT(0), 0);
    return decompose_end(graph, err);
}

static uint32_t decompose_gelu_f32(pco_graph *graph, uint32_t x, int approximate)
{
    uint32_t inner;
    if (approximate) {
        uint32_t cubic = BINS(MUL, BIN(MUL, BIN(MUL, x, x), x), 0.044715);
        inner = UN(TANH, BINS(MUL, BIN(ADD, x, cubic), 0.79788456080286535588)); /* sqrt(2 / pi) */
    } else {
        inner = UN(ERF, BINS(MUL, x, 0.70710678118654752440));
    }
    return BIN(MUL, BINS(MUL, x, 0.5), BINS(ADD, inner, 1));
}

PCO_DECOMPOSE(gelu)
{
    ATTRS(gelu);
    pco_dtype dtype = TYPE(INPUT(0));
    uint32_t x = pco_cast(graph, INPUT(0), PCO_F32);
    out[0] = pco_cast(graph, decompose_gelu_f32(graph, x, attrs->approximate != 0), dtype);
    return decompose_end(graph, err);
}

PCO_DECOMPOSE(silu)
{
    pco_dtype dtype = TYPE(INPUT(0));
    uint32_t x = pco_cast(graph, INPUT(0), PCO_F32);
    out[0] = pco_cast(graph, BIN(MUL, x, UN(SIGMOID, x)), dtype);
    return decompose_end(graph, err);
}

PCO_DECOMPOSE(swiglu)
{
    uint32_t gate = INPUT(0), up = INPUT(1);
    pco_dtype dtype = TYPE(gate);
    if (up == PCO_NONE) {
        int64_t half = graph->tensors[gate].shape[graph->tensors[gate].rank - 1] / 2;
        up = pco_slice_axis(graph, gate, -1, half, half);
        gate = pco_slice_axis(graph, gate, -1, 0, half);
    }
    gate = pco_cast(graph, gate, PCO_F32);
    up = pco_cast(graph, up, PCO_F32);
    out[0] = pco_cast(graph, BIN(MUL, BIN(MUL, gate, UN(SIGMOID, gate)), up), dtype);
    return decompose_end(graph, err);
}

/* exp(x - max) and its sum along an axis; *max is 0 where the true one is infinite, so that a row of -inf does
 * not become NaN. */
static void decompose_exponentials(pco_graph *graph, uint32_t x, int64_t axis, uint32_t *max, uint32_t *shifted,
                                   uint32_t *exponentials, uint32_t *sum)
{
    uint32_t top = pco_reduce(graph, PCO_OP_AMAX, x, axis, 1);
    uint32_t lowest = BIN(EQ, top, pco_scalar(graph, PCO_F32, -INFINITY));
    *max = pco_where(graph, lowest, pco_scalar(graph, PCO_F32, 0), top);
    *shifted = BIN(SUB, x, *max);
    *exponentials = UN(EXP, *shifted);
    *sum = pco_reduce(graph, PCO_OP_SUM, *exponentials, axis, 1);
}

static uint32_t decompose_softmax_f32(pco_graph *graph, uint32_t x, int64_t axis)
{
    uint32_t max, shifted, exponentials, sum;
    decompose_exponentials(graph, x, axis, &max, &shifted, &exponentials, &sum);
    uint32_t none = BIN(EQ, sum, pco_scalar(graph, PCO_F32, 0));
    return BIN(DIV, exponentials, pco_where(graph, none, pco_scalar(graph, PCO_F32, 1), sum));
}

PCO_DECOMPOSE(softmax)
{
    ATTRS(softmax);
    pco_dtype dtype = TYPE(INPUT(0));
    uint32_t x = pco_cast(graph, INPUT(0), PCO_F32);
    out[0] = pco_cast(graph, decompose_softmax_f32(graph, x, attrs->axis), dtype);
    return decompose_end(graph, err);
}

PCO_DECOMPOSE(log_softmax)
{
    ATTRS(log_softmax);
    pco_dtype dtype = TYPE(INPUT(0));
    uint32_t max, shifted, exponentials, sum, x = pco_cast(graph, INPUT(0), PCO_F32);
    decompose_exponentials(graph, x, attrs->axis, &max, &shifted, &exponentials, &sum);
    out[0] = pco_cast(graph, BIN(SUB, shifted, UN(LOG, sum)), dtype);
    return decompose_end(graph, err);
}

PCO_DECOMPOSE(logsumexp)
{
    ATTRS(logsumexp);
    pco_dtype dtype = TYPE(INPUT(0));
    uint32_t max, shifted, exponentials, sum, x = pco_cast(graph, INPUT(0), PCO_F32);
    decompose_exponentials(graph, x, attrs->axis, &max, &shifted, &exponentials, &sum);
    uint32_t y = pco_cast(graph, BIN(ADD, max, UN(LOG, sum)), dtype);
    if (!attrs->keepdims && !graph->status) {
        const pco_tensor *kept = &graph->tensors[y];
        int64_t shape[PCO_MAX_RANK];
        uint32_t rank = 0;
        for (uint32_t i = 0; i < kept->rank; i++)
            if (i != (uint32_t)attrs->axis) shape[rank++] = kept->shape[i];
        y = pco_reshape(graph, y, rank, shape);
    }
    out[0] = y;
    return decompose_end(graph, err);
}

/* y * weight + bias, of any float types, in f32. */
static uint32_t decompose_affine(pco_graph *graph, uint32_t y, uint32_t weight, uint32_t bias)
{
    if (weight != PCO_NONE) y = BIN(MUL, y, pco_cast(graph, weight, PCO_F32));
    if (bias != PCO_NONE) y = BIN(ADD, y, pco_cast(graph, bias, PCO_F32));
    return y;
}

/* A statistic [..,1] as [..]. */
static uint32_t decompose_drop_last(pco_graph *graph, uint32_t x)
{
    if (graph->status || x == PCO_NONE) return PCO_NONE;
    int64_t shape[PCO_MAX_RANK];
    uint32_t rank = graph->tensors[x].rank - 1;
    memcpy(shape, graph->tensors[x].shape, rank * sizeof *shape);
    return pco_reshape(graph, x, rank, shape);
}

PCO_DECOMPOSE(layer_norm)
{
    ATTRS(layer_norm);
    pco_dtype dtype = TYPE(INPUT(0));
    const pco_tensor *in = &graph->tensors[INPUT(0)];
    double count = (double)(in->shape[in->rank - 1] - attrs->correction);
    uint32_t x = pco_cast(graph, INPUT(0), PCO_F32);
    uint32_t mean = pco_reduce(graph, PCO_OP_MEAN, x, -1, 1);
    uint32_t centred = BIN(SUB, x, mean);
    uint32_t variance = BINS(DIV, pco_reduce(graph, PCO_OP_SUM, BIN(MUL, centred, centred), -1, 1), count);
    uint32_t deviation =
        attrs->form == 0 ? UN(SQRT, BINS(ADD, variance, attrs->eps)) : BINS(ADD, UN(SQRT, variance), attrs->eps);
    out[0] = pco_cast(graph, decompose_affine(graph, BIN(DIV, centred, deviation), INPUT(1), INPUT(2)), dtype);
    if (attrs->stats) {
        out[1] = decompose_drop_last(graph, mean);
        out[2] = decompose_drop_last(graph, UN(RECIPROCAL, deviation));
    }
    return decompose_end(graph, err);
}

PCO_DECOMPOSE(rms_norm)
{
    ATTRS(rms_norm);
    pco_dtype dtype = TYPE(INPUT(0));
    uint32_t x = pco_cast(graph, INPUT(0), PCO_F32);
    uint32_t square = pco_reduce(graph, PCO_OP_MEAN, BIN(MUL, x, x), -1, 1);
    uint32_t root = UN(SQRT, BINS(ADD, square, attrs->eps));
    out[0] = pco_cast(graph, decompose_affine(graph, BIN(DIV, x, root), INPUT(1), PCO_NONE), dtype);
    if (attrs->stats) out[1] = decompose_drop_last(graph, UN(RECIPROCAL, root));
    return decompose_end(graph, err);
}

/* The activation stands alone: what is differentiated needs what it is applied to. */
PCO_DECOMPOSE(norm_matmul)
{
    ATTRS(norm_matmul);
    const pco_rms_norm_attrs rms = {.eps = attrs->eps};
    const pco_layer_norm_attrs layer = {.eps = attrs->eps};
    const pco_matmul_attrs product = {.transpose_b = 1, .dtype = -1};
    const uint32_t normal =
        attrs->norm
            ? pco_graph_add(graph, PCO_OP_LAYER_NORM, &layer, (uint32_t[]){INPUT(0), INPUT(3), INPUT(4)}, 3, NULL)
            : pco_graph_add(graph, PCO_OP_RMS_NORM, &rms, (uint32_t[]){INPUT(0), INPUT(3)}, 2, NULL);
    const uint32_t y = pco_graph_add(graph, PCO_OP_MATMUL, &product, (uint32_t[]){normal, INPUT(1), INPUT(2)}, 3, NULL);
    out[0] = pco_graph_activation(graph, y, attrs->activation);
    return decompose_end(graph, err);
}

PCO_DECOMPOSE(dropout)
{
    ATTRS(dropout);
    const pco_tensor *in = &graph->tensors[INPUT(0)];
    pco_dtype dtype = (pco_dtype)in->dtype;
    pco_random_bits_attrs random = {.stream = attrs->stream, .n_shape = in->rank};
    memcpy(random.shape, in->shape, sizeof random.shape);
    uint32_t x = pco_cast(graph, INPUT(0), PCO_F32);
    uint32_t bits = pco_graph_add(graph, PCO_OP_RANDOM_BITS, &random, (uint32_t[]){INPUT(1), INPUT(2)}, 2, NULL);
    /* An unsigned comparison by signed ones: both sides are moved down by 2^31. */
    uint32_t moved = BINS(ADD, bits, -2147483648.0);
    uint32_t drop = BINS(LT, moved, nearbyint(attrs->p * 4294967296.0) - 2147483648.0);
    out[0] = pco_cast(graph, pco_where(graph, drop, pco_scalar(graph, PCO_F32, 0), BINS(DIV, x, 1 - attrs->p)), dtype);
    return decompose_end(graph, err);
}
