/* Rotary embedding and attention of ONNX. */
#include "models/onnx/map_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- rotary embedding: caches of cosines and sines, chosen by position ---- */

/* [..,2R] to its two halves, or to its even and odd elements. */
static uint32_t onnx_layers_half(pco_onnx_map *map, uint32_t x, bool interleaved, int64_t which)
{
    pco_tensor desc = *onnx_desc(map, x);
    int64_t half = desc.shape[3] / 2;
    pco_slice_attrs attrs = {.n_starts = 4, .n_sizes = 4, .n_steps = 4};
    for (uint32_t d = 0; d < 4; d++) attrs.sizes[d] = desc.shape[d], attrs.steps[d] = 1;
    attrs.sizes[3] = half;
    attrs.starts[3] = interleaved ? which : which * half;
    attrs.steps[3] = interleaved ? 2 : 1;
    return pco_graph_add(map->graph, PCO_OP_SLICE, &attrs, &x, 1, NULL);
}

static uint32_t onnx_layers_rotated(pco_onnx_map *map, uint32_t x, uint32_t cosine, uint32_t sine, bool interleaved)
{
    pco_graph *graph = map->graph;
    pco_tensor shape = *onnx_desc(map, x);
    uint32_t a = onnx_layers_half(map, x, interleaved, 0), b = onnx_layers_half(map, x, interleaved, 1), parts[2];
    parts[0] =
        pco_binary(graph, PCO_OP_SUB, pco_binary(graph, PCO_OP_MUL, a, cosine), pco_binary(graph, PCO_OP_MUL, b, sine));
    parts[1] =
        pco_binary(graph, PCO_OP_ADD, pco_binary(graph, PCO_OP_MUL, a, sine), pco_binary(graph, PCO_OP_MUL, b, cosine));
    if (!interleaved) return pco_concat(graph, parts, 2, 3);
    int64_t pair[5] = {shape.shape[0], shape.shape[1], shape.shape[2], shape.shape[3] / 2, 1};
    for (int i = 0; i < 2; i++) parts[i] = pco_reshape(graph, parts[i], 5, pair);
    return pco_reshape(graph, pco_concat(graph, parts, 2, 4), 4, shape.shape);
}

static uint32_t onnx_layers_rotary(pco_onnx_map *map)
{
    pco_graph *graph = map->graph;
    uint32_t x = onnx_in(map, 0), table[2];
    pco_tensor given = *onnx_desc(map, x);
    bool interleaved = onnx_flag(map, "interleaved", 0) != 0;
    int64_t heads = onnx_int(map, "num_heads", 0), partial = onnx_int(map, "rotary_embedding_dim", 0);
    if (given.rank == 3) {
        int64_t split[4] = {given.shape[0], given.shape[1], heads, heads ? given.shape[2] / heads : 0};
        x = pco_permute(graph, pco_reshape(graph, x, 4, split), (int64_t[]){0, 2, 1, 3});
    }
    pco_tensor shape = *onnx_desc(map, x);
    for (uint32_t i = 0; i < 2; i++) { /* [B,S,R] with a dimension for the heads */
        table[i] = onnx_in(map, 1 + i);
        if (onnx_has(map, 3)) table[i] = pco_gather(graph, table[i], onnx_in(map, 3), 0);
        int64_t pairs = onnx_desc(map, table[i])->shape[2];
        table[i] = pco_reshape(graph, table[i], 4, (int64_t[]){shape.shape[0], 1, shape.shape[2], pairs});
    }
    if (partial == 0) partial = shape.shape[3];
    if (partial < 0 || partial > shape.shape[3])
        return onnx_skip(map, "RotaryEmbedding of more channels than there are");
    uint32_t y = onnx_layers_rotated(map, pco_slice_axis(graph, x, 3, 0, partial), table[0], table[1], interleaved);
    if (partial < shape.shape[3]) {
        uint32_t rest = pco_slice_axis(graph, x, 3, partial, shape.shape[3] - partial);
        y = pco_concat(graph, (uint32_t[]){y, rest}, 2, 3);
    }
    if (given.rank == 3) y = pco_reshape(graph, pco_permute(graph, y, (int64_t[]){0, 2, 1, 3}), 3, given.shape);
    return y;
}

/* ---- attention ---- */

typedef struct onnx_layers_attention {
    uint32_t query, key, value, mask, lengths, starts; /* [B,H,S,D] each */
    pco_tensor q, k;                                   /* shapes */
    double scale, softcap;
    int64_t past;
    bool causal;
} onnx_layers_attention;

static uint32_t onnx_layers_heads(pco_onnx_map *map, uint32_t x, const char *attribute)
{
    const pco_tensor *desc = onnx_desc(map, x);
    if (desc->rank != 3) return x;
    int64_t heads = onnx_int(map, attribute, 1);
    if (heads < 1) return onnx_skip(map, "Attention without heads");
    int64_t split[4] = {desc->shape[0], desc->shape[1], heads, desc->shape[2] / heads};
    return pco_permute(map->graph, pco_reshape(map->graph, x, 4, split), (int64_t[]){0, 2, 1, 3});
}

static uint32_t onnx_layers_joined(pco_onnx_map *map, uint32_t past, uint32_t x)
{
    uint32_t parts[2] = {onnx_in(map, past), x};
    return onnx_has(map, past) ? pco_concat(map->graph, parts, 2, 2) : x;
}

/* A mask is broadcast from the right; Portico wants all four dimensions. Keys behind a mask's end are not seen. */
static uint32_t onnx_layers_mask(pco_onnx_map *map, int64_t keys)
{
    uint32_t mask = onnx_in(map, 3);
    if (mask == PCO_NONE) return PCO_NONE;
    pco_tensor desc = *onnx_desc(map, mask);
    int64_t shape[4] = {1, 1, 1, 1};
    for (uint32_t d = 0; d < desc.rank && d < 4; d++) shape[4 - desc.rank + d] = desc.shape[d];
    if (desc.rank > 4 || shape[3] > keys) return onnx_skip(map, "a mask that does not go with the keys");
    mask = pco_reshape(map->graph, mask, 4, shape);
    if (shape[3] == keys || (shape[3] == 1 && desc.rank == 0)) return mask;
    if (shape[3] == 1 && map->opset < 24) return mask;
    pco_pad_attrs unseen = {.n_before = 4, .n_after = 4, .after = {0, 0, 0, keys - shape[3]}};
    if (desc.dtype != PCO_BOOL) unseen.value = -INFINITY;
    return pco_graph_add(map->graph, PCO_OP_PAD, &unseen, &mask, 1, NULL);
}

/* Row 0 stands at the number of keys before it: the past's length, or what nonpad_kv_seqlen leaves. */
static void onnx_layers_positions(pco_onnx_map *map, onnx_layers_attention *a)
{
    int64_t batch = a->q.shape[0];
    a->lengths = onnx_in(map, 6);
    if (!a->causal) return;
    if (a->lengths != PCO_NONE)
        a->starts = pco_binary_scalar(map->graph, PCO_OP_SUB, a->lengths, (double)a->q.shape[2]);
    else if (a->past)
        a->starts = pco_fill(map->graph, PCO_I32, (double)a->past, 1, &batch);
}

/* A window that is not the causal one's, as part of the mask: row s stands at p = starts[b] + s, and sees p - left to
 * p + right. */
static void onnx_layers_window(pco_onnx_map *map, onnx_layers_attention *a)
{
    pco_graph *graph = map->graph;
    const int64_t left = onnx_int(map, "left_window_size", -1), right = onnx_int(map, "right_window_size", -1);
    const int64_t rows = a->q.shape[2], keys = a->k.shape[2];
    uint32_t seen = PCO_NONE, starts = a->starts;
    if (left < 0 && right < 0) return;
    if (left > INT32_MAX || right > INT32_MAX) {
        onnx_skip(map, "Attention with a window beyond 2^31");
        return;
    }
    uint32_t position = pco_iota(graph, PCO_I32, 2, (double)a->past, 1, 4, (int64_t[]){1, 1, rows, 1});
    if (a->lengths != PCO_NONE) {
        starts = pco_binary_scalar(graph, PCO_OP_SUB, a->lengths, (double)rows);
        starts = pco_reshape(graph, starts, 4, (int64_t[]){a->q.shape[0], 1, 1, 1});
        position =
            pco_binary(graph, PCO_OP_ADD, pco_binary_scalar(graph, PCO_OP_SUB, position, (double)a->past), starts);
    }
    const uint32_t key = pco_iota(graph, PCO_I32, 3, 0, 1, 4, (int64_t[]){1, 1, 1, keys});
    if (left >= 0)
        seen = pco_binary(graph, PCO_OP_GE, key, pco_binary_scalar(graph, PCO_OP_SUB, position, (double)left));
    if (right >= 0) {
        const uint32_t below =
            pco_binary(graph, PCO_OP_LE, key, pco_binary_scalar(graph, PCO_OP_ADD, position, (double)right));
        seen = seen == PCO_NONE ? below : pco_binary(graph, PCO_OP_LOGICAL_AND, seen, below);
    }
    if (a->mask == PCO_NONE) {
        a->mask = seen;
    } else if (onnx_desc(map, a->mask)->dtype == PCO_BOOL) {
        a->mask = pco_binary(graph, PCO_OP_LOGICAL_AND, a->mask, seen);
    } else {
        const uint32_t lowest = pco_scalar(graph, (pco_dtype)onnx_desc(map, a->mask)->dtype, -INFINITY);
        a->mask = pco_where(graph, seen, a->mask, lowest);
    }
}

/* scores as an output: 0 scaled products, 1 capped, 2 capped and masked (causal rule included). */
static uint32_t onnx_layers_scores(pco_onnx_map *map, const onnx_layers_attention *a, int64_t mode)
{
    pco_graph *graph = map->graph;
    if (a->q.shape[1] != a->k.shape[1] || a->lengths != PCO_NONE)
        return onnx_skip(map, "scores of grouped or padded keys");
    uint32_t s = pco_binary_scalar(graph, PCO_OP_MUL, pco_matmul(graph, a->query, a->key, 0, 1), a->scale);
    if (a->softcap > 0.0 && mode > 0) {
        uint32_t capped = pco_unary(graph, PCO_OP_TANH, pco_binary_scalar(graph, PCO_OP_MUL, s, 1.0 / a->softcap));
        s = pco_binary_scalar(graph, PCO_OP_MUL, capped, a->softcap);
    }
    if (mode < 2) return s;
    uint32_t lowest = pco_scalar(graph, (pco_dtype)onnx_desc(map, s)->dtype, -INFINITY);
    if (a->mask != PCO_NONE && onnx_desc(map, a->mask)->dtype == PCO_BOOL)
        s = pco_where(graph, a->mask, s, lowest);
    else if (a->mask != PCO_NONE)
        s = pco_binary(graph, PCO_OP_ADD, s, a->mask);
    if (!a->causal) return s;
    int64_t rows = a->q.shape[2], keys = a->k.shape[2];
    uint8_t *seen = calloc((size_t)(rows * keys) + 1, 1);
    if (!seen) return PCO_NONE;
    for (int64_t i = 0; i < rows * keys; i++) seen[i] = i % keys <= i / keys + a->past;
    uint32_t causal = pco_graph_constant_copy(graph, "causal", PCO_BOOL, 2, (int64_t[]){rows, keys}, seen);
    free(seen);
    return pco_where(graph, causal, s, lowest);
}

static uint32_t onnx_layers_attention_outputs(pco_onnx_map *map, const onnx_layers_attention *a, bool flat)
{
    pco_graph *graph = map->graph;
    int64_t mode = onnx_int(map, "qk_matmul_output_mode", 0);
    if (mode < 0 || mode > 3) return onnx_skip(map, "Attention with scores of an unknown kind");
    bool wants_scores = map->node->n_outputs > 3 && map->node->outputs[3][0];
    pco_scaled_dot_product_attention_attrs attrs = {.scale = a->scale,
                                                    .causal = a->causal,
                                                    .softcap = a->softcap,
                                                    .heads_first = 1,
                                                    .weights = wants_scores && mode == 3};
    uint32_t in[6] = {a->query, a->key, a->value, a->mask, a->lengths, a->starts}, out[4];
    pco_graph_add(graph, PCO_OP_SCALED_DOT_PRODUCT_ATTENTION, &attrs, in, 6, out);
    if (graph->status) return PCO_NONE;
    uint32_t y = out[0];
    if (flat) {
        int64_t width = a->q.shape[1] * onnx_desc(map, a->value)->shape[3];
        y = pco_permute(graph, y, (int64_t[]){0, 2, 1, 3});
        y = pco_reshape(graph, y, 3, (int64_t[]){a->q.shape[0], a->q.shape[2], width});
    }
    map->out[1] = a->key;
    map->out[2] = a->value;
    if (wants_scores) map->out[3] = mode == 3 ? out[1] : onnx_layers_scores(map, a, mode);
    return y;
}

static uint32_t onnx_layers_attend(pco_onnx_map *map)
{
    onnx_layers_attention a = {.lengths = PCO_NONE, .starts = PCO_NONE};
    bool flat = onnx_has(map, 0) && map->operands[0]->rank == 3;
    a.query = onnx_layers_heads(map, onnx_in(map, 0), "q_num_heads");
    a.key = onnx_layers_joined(map, 4, onnx_layers_heads(map, onnx_in(map, 1), "kv_num_heads"));
    a.value = onnx_layers_joined(map, 5, onnx_layers_heads(map, onnx_in(map, 2), "kv_num_heads"));
    if (map->graph->status) return PCO_NONE;
    a.q = *onnx_desc(map, a.query), a.k = *onnx_desc(map, a.key);
    if (onnx_has(map, 4)) a.past = map->operands[4]->shape[2];
    a.scale = onnx_float(map, "scale", 1.0 / sqrt((double)a.q.shape[3]));
    a.softcap = onnx_float(map, "softcap", 0.0);
    a.causal = onnx_flag(map, "is_causal", 0) != 0;
    a.mask = onnx_layers_mask(map, a.k.shape[2]);
    if (map->skip[0]) return PCO_NONE;
    onnx_layers_positions(map, &a);
    onnx_layers_window(map, &a);
    const int64_t precision = onnx_int(map, "softmax_precision", PCO_ONNX_FLOAT);
    if (precision == PCO_ONNX_DOUBLE) return onnx_skip(map, "Attention with a softmax in double");
    if (precision != PCO_ONNX_FLOAT && precision != PCO_ONNX_FLOAT16 && precision != PCO_ONNX_BFLOAT16)
        return onnx_skip(map,
                         "Attention with a softmax in no float"); /* those are no wider than f32, as which it runs */
    return onnx_layers_attention_outputs(map, &a, flat);
}

const onnx_rule ONNX_LAYERS[] = {
    {"RotaryEmbedding", onnx_layers_rotary, 0, 0},
    {"Attention", onnx_layers_attend, 0, 0},
    {0},
};
