/* Decompositions of rope, sinusoidal_positions and scaled_dot_product_attention. */
#include "graph/decompose.h"

#define RULE_GRAPH graph
#define RULE_NODE  node
#include "graph/rules.h"

#include <math.h>
#include <string.h>

/* Angles in [-pi, pi), shape positions.shape + [R]: the high word of position * phase modulo 2^64. Its first
 * summand wraps exactly in i32; the second, position * low / 2^32, is below 2^31 and is taken in f32. */
static uint32_t position_angles(pco_graph *graph, uint32_t positions, uint32_t phase)
{
    if (graph->status) return PCO_NONE;
    int64_t pairs = graph->tensors[phase].shape[0], shape[PCO_MAX_RANK];
    uint32_t rank = graph->tensors[positions].rank;
    memcpy(shape, graph->tensors[positions].shape, rank * sizeof *shape);
    shape[rank] = 1;
    uint32_t at = pco_reshape(graph, positions, rank + 1, shape);
    uint32_t low = pco_reshape(graph, pco_slice_axis(graph, phase, 1, 0, 1), 1, SHAPE(pairs));
    uint32_t high = pco_reshape(graph, pco_slice_axis(graph, phase, 1, 1, 1), 1, SHAPE(pairs));
    uint32_t signed_low = BINS(MUL, pco_cast(graph, low, PCO_F32), ldexp(1, -32));
    uint32_t fraction = pco_where(graph, BINS(LT, low, 0), BINS(ADD, signed_low, 1), signed_low);
    uint32_t carried = UN(FLOOR, BIN(MUL, pco_cast(graph, at, PCO_F32), fraction));
    uint32_t turn = BIN(ADD, BIN(MUL, at, high), pco_cast(graph, carried, PCO_I32));
    return BINS(MUL, pco_cast(graph, turn, PCO_F32), 6.283185307179586476925 * ldexp(1, -32));
}

/* One rotated pair of slices, in f32. */
static void rope_rotate(pco_graph *graph, uint32_t *a, uint32_t *b, uint32_t cosine, uint32_t sine)
{
    uint32_t x = *a, y = *b;
    *a = BIN(SUB, BIN(MUL, x, cosine), BIN(MUL, y, sine));
    *b = BIN(ADD, BIN(MUL, y, cosine), BIN(MUL, x, sine));
}

PCO_DECOMPOSE(rope)
{
    ATTRS(rope);
    pco_tensor in = graph->tensors[INPUT(0)];
    int64_t pairs = graph->tensors[INPUT(2)].shape[0], depth = in.shape[3];
    int64_t batch = graph->tensors[INPUT(1)].shape[0], rows = graph->tensors[INPUT(1)].shape[1];
    uint32_t angles = position_angles(graph, INPUT(1), INPUT(2));
    angles = attrs->heads_first ? pco_reshape(graph, angles, 4, SHAPE(batch, 1, rows, pairs))
                                : pco_reshape(graph, angles, 4, SHAPE(batch, rows, 1, pairs));
    uint32_t cosine = BINS(MUL, UN(COS, angles), attrs->scale);
    uint32_t sine = BINS(MUL, UN(SIN, angles), attrs->inverse ? -attrs->scale : attrs->scale);
    uint32_t x = pco_cast(graph, INPUT(0), PCO_F32), parts[3], rotated;
    if (attrs->interleaved) {
        const int64_t *s = in.shape;
        uint32_t two =
            pco_reshape(graph, pco_slice_axis(graph, x, 3, 0, 2 * pairs), 5, SHAPE(s[0], s[1], s[2], pairs, 2));
        for (int i = 0; i < 2; i++)
            parts[i] = pco_reshape(graph, pco_slice_axis(graph, two, 4, i, 1), 4, SHAPE(s[0], s[1], s[2], pairs));
        rope_rotate(graph, &parts[0], &parts[1], cosine, sine);
        for (int i = 0; i < 2; i++) parts[i] = pco_reshape(graph, parts[i], 5, SHAPE(s[0], s[1], s[2], pairs, 1));
        rotated = pco_reshape(graph, pco_concat(graph, parts, 2, 4), 4, SHAPE(s[0], s[1], s[2], 2 * pairs));
    } else {
        parts[0] = pco_slice_axis(graph, x, 3, 0, pairs);
        parts[1] = pco_slice_axis(graph, x, 3, pairs, pairs);
        rope_rotate(graph, &parts[0], &parts[1], cosine, sine);
        rotated = pco_concat(graph, parts, 2, 3);
    }
    if (2 * pairs < depth) {
        uint32_t rest = pco_slice_axis(graph, x, 3, 2 * pairs, depth - 2 * pairs);
        rotated = pco_concat(graph, (uint32_t[]){rotated, rest}, 2, 3);
    }
    out[0] = pco_cast(graph, rotated, (pco_dtype)in.dtype);
    return pco_graph_check(graph, err);
}

PCO_DECOMPOSE(sinusoidal_positions)
{
    ATTRS(sinusoidal_positions);
    uint32_t angles = position_angles(graph, INPUT(0), INPUT(1));
    uint32_t parts[2] = {UN(SIN, angles), UN(COS, angles)};
    if (!graph->status) {
        uint32_t rank = graph->tensors[angles].rank;
        int64_t pairs = graph->tensors[angles].shape[rank - 1], shape[PCO_MAX_RANK];
        memcpy(shape, graph->tensors[angles].shape, sizeof shape);
        if (attrs->layout == 0) {
            shape[rank] = 1;
            for (int i = 0; i < 2; i++) parts[i] = pco_reshape(graph, parts[i], rank + 1, shape);
        }
        uint32_t joined = pco_concat(graph, parts, 2, -1);
        shape[rank - 1] = 2 * pairs;
        out[0] = pco_cast(graph, pco_reshape(graph, joined, rank, shape), (pco_dtype)attrs->dtype);
    }
    return pco_graph_check(graph, err);
}

/* The operands of an attention with heads first, and its sizes. */
typedef struct attention_view {
    int64_t batch, heads, groups, rows, keys, depth, value_depth;
    uint32_t query, key, value;
} attention_view;

static uint32_t attention_heads_first(pco_graph *graph, uint32_t x, int64_t heads_first)
{
    return heads_first ? x : pco_permute(graph, x, SHAPE(0, 2, 1, 3));
}

static pco_status attention_read(pco_graph *graph, const pco_node *node, int64_t heads_first, attention_view *v,
                                 pco_error *err)
{
    *v = (attention_view){.query = attention_heads_first(graph, INPUT(0), heads_first),
                          .key = attention_heads_first(graph, INPUT(1), heads_first),
                          .value = attention_heads_first(graph, INPUT(2), heads_first)};
    pco_status status = pco_graph_check(graph, err);
    if (status) return status;
    const int64_t *q = graph->tensors[v->query].shape, *k = graph->tensors[v->key].shape;
    v->batch = q[0], v->heads = q[1], v->rows = q[2], v->depth = q[3];
    v->groups = k[1], v->keys = k[2], v->value_depth = graph->tensors[v->value].shape[3];
    return PCO_OK;
}

/* Which keys a row sees, broadcast to [B,H,S,T], or PCO_NONE when it sees all of them. */
static uint32_t attention_visible(pco_graph *graph, const pco_node *node, const attention_view *v)
{
    ATTRS(scaled_dot_product_attention);
    uint32_t mask = INPUT(3), lengths = INPUT(4), starts = INPUT(5), visible = PCO_NONE;
    uint32_t rules[5], n = 0;
    uint32_t key = pco_iota(graph, PCO_I32, 3, 0, 1, 4, SHAPE(1, 1, 1, v->keys));
    if (lengths != PCO_NONE) rules[n++] = BIN(LT, key, pco_reshape(graph, lengths, 4, SHAPE(v->batch, 1, 1, 1)));
    if (attrs->causal || attrs->window) {
        uint32_t row = pco_iota(graph, PCO_I32, 2, 0, 1, 4, SHAPE(1, 1, v->rows, 1));
        if (starts != PCO_NONE) row = BIN(ADD, row, pco_reshape(graph, starts, 4, SHAPE(v->batch, 1, 1, 1)));
        if (attrs->causal) rules[n++] = BIN(LE, key, row);
        if (attrs->window) {
            rules[n++] = BIN(GT, key, BINS(SUB, row, (double)attrs->window));
            rules[n++] = BIN(LT, key, BINS(ADD, row, (double)attrs->window));
        }
    }
    if (mask != PCO_NONE && !graph->status)
        rules[n++] = TYPE(mask) == PCO_BOOL ? mask : BINS(GT, pco_cast(graph, mask, PCO_F32), -INFINITY);
    for (uint32_t i = 0; i < n; i++) visible = i ? BIN(LOGICAL_AND, visible, rules[i]) : rules[0];
    return visible;
}

/* Values that no row sees as zeros: garbage there must not reach a sum, not even times 0. */
static uint32_t attention_wanted(pco_graph *graph, const pco_node *node, const attention_view *v, uint32_t visible)
{
    ATTRS(scaled_dot_product_attention);
    const int64_t ahead = attrs->causal || attrs->window == 0 ? 0 : attrs->window - 1;
    const int ruled = INPUT(3) != PCO_NONE || INPUT(4) != PCO_NONE || INPUT(5) != PCO_NONE;
    if (visible == PCO_NONE || graph->status || v->rows == 0) return v->value;
    if (!ruled && (ahead >= v->keys || v->keys <= v->rows + ahead))
        return v->value; /* row j, or the last, sees key j */
    uint32_t seen = pco_cast(graph, visible, PCO_F32);
    if (graph->status) return PCO_NONE;
    const int64_t *shape = graph->tensors[seen].shape, batch = shape[0], heads = shape[1], keys = shape[3];
    if (shape[2] > 1) seen = pco_reduce(graph, PCO_OP_AMAX, seen, 2, 1);
    if (heads > v->groups) {
        seen = pco_reshape(graph, seen, 4, SHAPE(batch, v->groups, heads / v->groups, keys));
        seen = pco_reduce(graph, PCO_OP_AMAX, seen, 2, 1);
    }
    seen = pco_reshape(graph, seen, 4, SHAPE(batch, heads > v->groups ? v->groups : heads, keys, 1));
    return pco_where(graph, BINS(GT, seen, 0), v->value, pco_scalar(graph, TYPE(v->value), 0));
}

/* Softmax weights [B,H,S,T] in f32. */
static uint32_t attention_weights(pco_graph *graph, const pco_node *node, const attention_view *v, uint32_t visible)
{
    ATTRS(scaled_dot_product_attention);
    uint32_t mask = INPUT(3);
    uint32_t folded =
        pco_reshape(graph, v->query, 4, SHAPE(v->batch, v->groups, v->heads / v->groups * v->rows, v->depth));
    pco_matmul_attrs product = {.transpose_b = 1, .dtype = PCO_F32};
    uint32_t scores = pco_graph_add(graph, PCO_OP_MATMUL, &product, (uint32_t[]){folded, v->key}, 2, NULL);
    scores = pco_reshape(graph, scores, 4, SHAPE(v->batch, v->heads, v->rows, v->keys));
    scores = BINS(MUL, scores, attrs->scale != 0 ? attrs->scale : 1 / sqrt((double)v->depth));
    if (attrs->softcap > 0) scores = BINS(MUL, UN(TANH, BINS(DIV, scores, attrs->softcap)), attrs->softcap);
    if (mask != PCO_NONE && !graph->status && TYPE(mask) != PCO_BOOL)
        scores = BIN(ADD, scores, pco_cast(graph, mask, PCO_F32));
    if (visible != PCO_NONE) scores = pco_where(graph, visible, scores, pco_scalar(graph, PCO_F32, -INFINITY));
    return pco_softmax(graph, scores, 3);
}

/* Keys or values beyond a sequence's length as zeros, as attention_wanted does. */
static uint32_t attention_inside(pco_graph *graph, const pco_node *node, const attention_view *v, uint32_t x)
{
    uint32_t lengths = INPUT(4);
    if (lengths == PCO_NONE || graph->status) return x;
    uint32_t key = pco_iota(graph, PCO_I32, 2, 0, 1, 4, SHAPE(1, 1, v->keys, 1));
    uint32_t inside = BIN(LT, key, pco_reshape(graph, lengths, 4, SHAPE(v->batch, 1, 1, 1)));
    return pco_where(graph, inside, x, pco_scalar(graph, TYPE(x), 0));
}

PCO_DECOMPOSE(attention)
{
    ATTRS(scaled_dot_product_attention);
    pco_dtype dtype = TYPE(INPUT(0));
    attention_view v;
    pco_status status = attention_read(graph, node, attrs->heads_first, &v, err);
    if (status) return status;
    if (v.groups == 0 || v.keys == 0) { /* no head, or no key to see: zeros */
        uint32_t none = pco_fill(graph, PCO_F32, 0, 4, SHAPE(v.batch, v.heads, v.rows, v.value_depth));
        out[0] = pco_cast(graph, attention_heads_first(graph, none, attrs->heads_first), dtype);
        if (attrs->weights) out[1] = pco_fill(graph, dtype, 0, 4, SHAPE(v.batch, v.heads, v.rows, v.keys));
        return pco_graph_check(graph, err);
    }
    const uint32_t visible = attention_visible(graph, node, &v);
    uint32_t weights = attention_weights(graph, node, &v, visible);
    uint32_t values = attention_wanted(graph, node, &v, visible);
    uint32_t folded = pco_reshape(graph, weights, 4, SHAPE(v.batch, v.groups, v.heads / v.groups * v.rows, v.keys));
    uint32_t y = pco_matmul(graph, folded, values, 0, 0);
    y = pco_reshape(graph, y, 4, SHAPE(v.batch, v.heads, v.rows, v.value_depth));
    out[0] = pco_cast(graph, attention_heads_first(graph, y, attrs->heads_first), dtype);
    if (attrs->weights) out[1] = pco_cast(graph, weights, dtype);
    return pco_graph_check(graph, err);
}

/* a b, each transposed or not, in f32. */
static uint32_t attention_product(pco_graph *graph, uint32_t a, int transpose_a, uint32_t b, int transpose_b)
{
    pco_matmul_attrs attrs = {.transpose_a = transpose_a, .transpose_b = transpose_b, .dtype = PCO_F32};
    return pco_graph_add(graph, PCO_OP_MATMUL, &attrs, (uint32_t[]){a, b}, 2, NULL);
}

/* [B,H,S,N] as [B,G,(H/G)S,N]: the rows that share a key head. */
static uint32_t attention_folded(pco_graph *graph, const attention_view *v, uint32_t x, int64_t n)
{
    return pco_reshape(graph, x, 4, SHAPE(v->batch, v->groups, v->heads / v->groups * v->rows, n));
}

static uint32_t attention_gradient(pco_graph *graph, uint32_t x, int64_t heads_first, uint32_t like)
{
    if (graph->status) return PCO_NONE;
    return pco_cast(graph, attention_heads_first(graph, x, heads_first), TYPE(like));
}

PCO_DECOMPOSE(attention_backward)
{
    ATTRS(scaled_dot_product_attention_backward);
    attention_view v;
    pco_status status = attention_read(graph, node, attrs->heads_first, &v, err);
    if (status) return status;
    if (v.groups == 0 || v.keys == 0) {
        for (uint32_t i = 0; i < 3; i++) out[i] = pco_fill(graph, TYPE(INPUT(i)), 0, 4, graph->tensors[INPUT(i)].shape);
        return pco_graph_check(graph, err);
    }
    pco_scaled_dot_product_attention_attrs forward = {
        .scale = attrs->scale, .causal = attrs->causal, .window = attrs->window, .heads_first = attrs->heads_first};
    pco_node as = *node;
    as.attrs = &forward;
    uint32_t heads = attention_heads_first(graph, INPUT(6), attrs->heads_first);
    uint32_t dy = attention_folded(graph, &v, pco_cast(graph, heads, PCO_F32), v.value_depth);
    v.key = pco_cast(graph, attention_inside(graph, node, &v, v.key), PCO_F32);
    v.value = pco_cast(graph, attention_inside(graph, node, &v, v.value), PCO_F32);
    v.query = pco_cast(graph, v.query, PCO_F32);
    uint32_t weights =
        attention_folded(graph, &v, attention_weights(graph, &as, &v, attention_visible(graph, &as, &v)), v.keys);
    uint32_t slope = attention_product(graph, dy, 0, v.value, 1);
    slope = BIN(SUB, slope, pco_reduce(graph, PCO_OP_SUM, BIN(MUL, weights, slope), -1, 1));
    slope = BINS(MUL, BIN(MUL, weights, slope), attrs->scale != 0 ? attrs->scale : 1 / sqrt((double)v.depth));
    uint32_t query = attention_folded(graph, &v, v.query, v.depth);
    uint32_t y =
        pco_reshape(graph, attention_product(graph, slope, 0, v.key, 0), 4, SHAPE(v.batch, v.heads, v.rows, v.depth));
    out[0] = attention_gradient(graph, y, attrs->heads_first, INPUT(0));
    out[1] = attention_gradient(graph, attention_product(graph, slope, 1, query, 0), attrs->heads_first, INPUT(1));
    out[2] = attention_gradient(graph, attention_product(graph, weights, 1, dy, 0), attrs->heads_first, INPUT(2));
    return pco_graph_check(graph, err);
}
