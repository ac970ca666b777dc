/* Rotary positions (Su et al. 2021) from primitives: x cos + (-second half, first half) sin. */
#include "models/onnx/merge_internal.h"

#include <stdlib.h>
#include <string.h>

enum { ROTARY_MOST = 1024 }; /* pairs of channels */

/* What a shape of the same elements, or the same elements for more than one of them, was made of. */
static uint32_t rotary_unshaped(const pco_graph *graph, uint32_t x)
{
    for (const pco_node *node;
         (node = merge_made(graph, x, PCO_OP_RESHAPE)) || (node = merge_made(graph, x, PCO_OP_BROADCAST_TO));)
        x = node->inputs[0];
    return x;
}

/* Half `which` of the last dimension of x. */
static bool rotary_half(const pco_graph *graph, uint32_t y, uint32_t x, int64_t which)
{
    const pco_node *node = merge_made(graph, y, PCO_OP_SLICE);
    if (!node || node->inputs[0] != x) return false;
    const pco_slice_attrs *attrs = node->attrs;
    const pco_tensor *whole = &graph->tensors[x];
    const uint32_t last = whole->rank - 1;
    for (uint32_t d = 0; d < last; d++)
        if (attrs->starts[d] || attrs->sizes[d] != whole->shape[d] || attrs->steps[d] != 1) return false;
    const int64_t half = whole->shape[last] / 2;
    return attrs->steps[last] == 1 && attrs->sizes[last] == half && attrs->starts[last] == which * half &&
           2 * half == whole->shape[last];
}

static bool rotary_turned(const pco_graph *graph, uint32_t y, uint32_t x)
{
    const pco_node *both = merge_made(graph, y, PCO_OP_CONCAT);
    const pco_concat_attrs *attrs = both ? both->attrs : NULL;
    const pco_node *neg = both ? merge_made(graph, both->inputs[0], PCO_OP_NEG) : NULL;
    return neg && attrs->axis == (int64_t)graph->tensors[y].rank - 1 && both->n_inputs == 2 &&
           rotary_half(graph, neg->inputs[0], x, 1) && rotary_half(graph, both->inputs[1], x, 0);
}

/* The angles whose sine or cosine x is, times a number. */
static uint32_t rotary_angles(const pco_graph *graph, uint32_t x, pco_op op, double *scale)
{
    *scale = 1;
    for (;;) {
        double value;
        x = rotary_unshaped(graph, x);
        const uint32_t of = merge_with_scalar(graph, x, PCO_OP_MUL, &value);
        if (of == PCO_NONE) break;
        *scale *= value, x = of;
    }
    const pco_node *node = merge_made(graph, x, op);
    return node ? node->inputs[0] : PCO_NONE;
}

typedef struct rotary {
    uint32_t positions; /* i32 [B|1,S] */
    int64_t count;      /* of pairs */
    double frequencies[ROTARY_MOST];
} rotary;

/* Angles that the exporter has worked out: those of the positions 0, 1 .., each a multiple of that at 1, rounded to
 * f32. A position has less than 29 bits, so that the product is exact in double, and the same float, or none of these.
 */
static bool rotary_known(pco_graph *graph, uint32_t angles, int64_t rows, rotary *found)
{
    const pco_tensor desc = graph->tensors[angles];
    const float *data = desc.data;
    if (desc.kind != PCO_KIND_CONSTANT || desc.dtype != PCO_F32 || rows < 2 || rows > 1 << 29) return false;
    if (pco_tensor_elements(&desc) != rows * 2 * found->count) return false;
    for (int64_t s = 0; s < rows; s++)
        for (int64_t i = 0; i < 2 * found->count; i++) {
            const double angle = (double)s * (double)data[2 * found->count + i % found->count];
            if (data[s * 2 * found->count + i] != (float)angle) return false;
        }
    for (int64_t i = 0; i < found->count; i++) found->frequencies[i] = (double)data[2 * found->count + i];
    found->positions = pco_iota(graph, PCO_I32, 1, 0, 1, 2, (int64_t[]){1, rows});
    return true;
}

/* concat(f, f), where f is the product of a constant column and positions, turned. */
static bool rotary_computed(pco_graph *graph, uint32_t angles, int64_t batch, int64_t rows, rotary *found)
{
    int64_t dims[PCO_MAX_RANK];
    const pco_node *both = merge_made(graph, rotary_unshaped(graph, angles), PCO_OP_CONCAT);
    if (!both || both->n_inputs != 2 || both->inputs[0] != both->inputs[1]) return false;
    const uint32_t f = both->inputs[0], turned = merge_unpermuted(graph, f, dims);
    const pco_node *product = merge_made(graph, turned, PCO_OP_MATMUL);
    const pco_matmul_attrs *plain = product ? product->attrs : NULL;
    if (!product || product->n_inputs > 2 || plain->transpose_a || plain->transpose_b) return false;
    if (graph->tensors[turned].rank != 3 || dims[0] != 0 || dims[1] != 2 || dims[2] != 1) return false;
    const pco_tensor column = graph->tensors[rotary_unshaped(graph, product->inputs[0])];
    const pco_node *cast = merge_made(graph, rotary_unshaped(graph, product->inputs[1]), PCO_OP_CAST);
    if (!cast || graph->tensors[cast->inputs[0]].dtype != PCO_I32) return false;
    if (column.kind != PCO_KIND_CONSTANT || column.dtype != PCO_F32 || pco_tensor_elements(&column) != found->count)
        return false;
    const int64_t n = pco_tensor_elements(&graph->tensors[cast->inputs[0]]);
    if (n != rows && n != batch * rows) return false;
    for (int64_t i = 0; i < found->count; i++) found->frequencies[i] = (double)((const float *)column.data)[i];
    found->positions = pco_reshape(graph, cast->inputs[0], 2, (int64_t[]){n / rows, rows});
    return true;
}

/* [1|B, 1, S, D] against x [B,H,S,D] */
static bool rotary_table(const pco_tensor *table, const pco_tensor *x)
{
    return table->rank == 4 && (table->shape[0] == 1 || table->shape[0] == x->shape[0]) && table->shape[1] == 1 &&
           table->shape[2] == x->shape[2] && table->shape[3] == x->shape[3];
}

static uint32_t rotary_of(pco_graph *graph, uint32_t straight, uint32_t across)
{
    const pco_node *cosine = merge_made(graph, straight, PCO_OP_MUL), *sine = merge_made(graph, across, PCO_OP_MUL);
    for (int a = 0; a < 2 && cosine && sine; a++)
        for (int b = 0; b < 2; b++) {
            const uint32_t x = cosine->inputs[a], c = cosine->inputs[1 - a], s = sine->inputs[1 - b];
            const pco_tensor shape = graph->tensors[x];
            double scale, other;
            if (shape.rank != 4 || !rotary_turned(graph, sine->inputs[b], x)) continue;
            if (!rotary_table(&graph->tensors[c], &shape) || !rotary_table(&graph->tensors[s], &shape)) continue;
            const uint32_t angles = rotary_angles(graph, c, PCO_OP_COS, &scale);
            if (angles == PCO_NONE || rotary_angles(graph, s, PCO_OP_SIN, &other) != angles || scale != other) continue;
            rotary found = {.count = shape.shape[3] / 2};
            int64_t dims[PCO_MAX_RANK];
            if (found.count > ROTARY_MOST || scale <= 0) return PCO_NONE;
            if (!rotary_known(graph, angles, shape.shape[2], &found) &&
                !rotary_computed(graph, angles, shape.shape[0], shape.shape[2], &found))
                return PCO_NONE;
            const uint32_t phase = pco_phase_table(graph, found.frequencies, (uint32_t)found.count);
            const uint32_t from = merge_unpermuted(graph, x, dims);
            const bool inside = dims[0] == 0 && dims[1] == 2 && dims[2] == 1 && dims[3] == 3;
            const pco_rope_attrs attrs = {.heads_first = !inside, .scale = scale};
            const uint32_t in[3] = {inside ? from : x, found.positions, phase};
            const uint32_t y = pco_graph_add(graph, PCO_OP_ROPE, &attrs, in, 3, NULL);
            return inside ? pco_permute(graph, y, dims) : y;
        }
    return PCO_NONE;
}

uint32_t merge_rotary(pco_graph *graph, uint32_t y)
{
    const pco_node *sum = merge_made(graph, y, PCO_OP_ADD);
    const uint32_t a = sum->inputs[0], b = sum->inputs[1], merged = rotary_of(graph, a, b);
    return merged != PCO_NONE ? merged : rotary_of(graph, b, a);
}
