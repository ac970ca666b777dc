/* Convolution and pooling of ONNX, over one to three dimensions of space. One dimension is an operation of its own;
 * more are windows laid out side by side (im2col), which a matrix product or a reduction takes in. */
#include "models/onnx/map_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CONV_MOST = 3 };

/* How windows lie on a tensor [N, C, D1, D2 ..]. */
typedef struct onnx_conv {
    uint32_t n; /* dimensions of space */
    int64_t taps[CONV_MOST], stride[CONV_MOST], dilation[CONV_MOST], before[CONV_MOST], after[CONV_MOST];
    int64_t size[CONV_MOST], count[CONV_MOST]; /* of x; of windows */
} onnx_conv;

/* A list of as many entries as there are dimensions, or the same for all. */
static void onnx_conv_list(pco_onnx_map *map, const char *name, uint32_t n, int64_t initial, int64_t *values)
{
    for (uint32_t i = 0; i < n; i++) values[i] = initial;
    if (!onnx_given(map, name)) return;
    if (onnx_ints(map, name, values, n) != (int64_t)n) onnx_skip(map, "'%s' of another length", name);
    for (uint32_t i = 0; i < n && !map->skip[0]; i++)
        if (values[i] < 1 || values[i] > INT32_MAX) onnx_skip(map, "'%s' below 1, or beyond 2^31", name);
}

/* `taps` are there. Everything else is read; false where the node is skipped. */
static bool onnx_conv_read(pco_onnx_map *map, const pco_tensor *x, onnx_conv *conv)
{
    char mode[16];
    int64_t pads[2 * CONV_MOST] = {0};
    const int64_t up = onnx_flag(map, "ceil_mode", 0);
    onnx_text(map, "auto_pad", "NOTSET", mode, sizeof mode);
    const bool same = strncmp(mode, "SAME_", 5) == 0;
    if (strcmp(mode, "NOTSET") != 0 && strcmp(mode, "VALID") != 0 && strcmp(mode, "SAME_UPPER") != 0 &&
        strcmp(mode, "SAME_LOWER") != 0)
        onnx_skip(map, "%.100s with an unknown auto_pad", map->node->op);
    onnx_conv_list(map, "strides", conv->n, 1, conv->stride);
    onnx_conv_list(map, "dilations", conv->n, 1, conv->dilation);
    if (onnx_given(map, "pads") && onnx_ints(map, "pads", pads, 2 * conv->n) != 2 * conv->n)
        onnx_skip(map, "'pads' of another length");
    for (uint32_t d = 0; d < conv->n && !map->skip[0]; d++) {
        int64_t span;
        conv->size[d] = x->shape[2 + d];
        if (__builtin_mul_overflow(conv->dilation[d], conv->taps[d] - 1, &span) || span > INT32_MAX ||
            conv->taps[d] < 1)
            onnx_skip(map, "%.100s with a window that is none, or beyond 2^31", map->node->op);
        if (map->skip[0]) break;
        const int64_t window = span + 1, positions = (conv->size[d] + conv->stride[d] - 1) / conv->stride[d];
        int64_t both = (positions - 1) * conv->stride[d] + window - conv->size[d];
        both = both < 0 || !same ? 0 : both;
        conv->before[d] = strcmp(mode, "SAME_LOWER") == 0 ? (both + 1) / 2 : both / 2;
        conv->after[d] = both - conv->before[d];
        if (*mode == 'N') conv->before[d] = pads[d], conv->after[d] = pads[conv->n + d];
        if (conv->before[d] < 0 || conv->after[d] < 0 || conv->before[d] > INT32_MAX || conv->after[d] > INT32_MAX)
            onnx_skip(map, "'pads' below 0, or beyond 2^31");
        if (map->skip[0]) break;
        const int64_t whole = conv->size[d] + conv->before[d] + conv->after[d] - window;
        conv->count[d] = whole < 0 ? 0 : (whole + (up ? conv->stride[d] - 1 : 0)) / conv->stride[d] + 1;
        /* a window that would begin in what is behind x is left out */
        if (up && (conv->count[d] - 1) * conv->stride[d] >= conv->size[d] + conv->before[d]) conv->count[d]--;
        if (conv->count[d] < 1 || conv->count[d] * conv->taps[d] > 1 << 24)
            onnx_skip(map, "%.100s of no windows, or too many", map->node->op);
    }
    return !map->skip[0];
}

/* [N, C, D1, D2 ..] to [N, C, count1, taps1, count2, taps2 ..]: where windows lie side by side it is a shape, elsewhere
 * a choice of indices in each dimension, and what lies outside of x is 0. */
static uint32_t onnx_conv_windows(pco_onnx_map *map, uint32_t x, const onnx_conv *conv)
{
    pco_graph *graph = map->graph;
    const pco_tensor desc = *onnx_desc(map, x);
    int64_t shape[2 + 2 * CONV_MOST] = {desc.shape[0], desc.shape[1]};
    for (uint32_t d = 0; d < conv->n; d++) {
        const int64_t taps = conv->taps[d], count = conv->count[d];
        shape[2 + 2 * d] = count, shape[3 + 2 * d] = taps;
        if (conv->dilation[d] == 1 && conv->stride[d] == taps && !conv->before[d] && count * taps <= conv->size[d]) {
            if (count * taps < conv->size[d]) x = pco_slice_axis(graph, x, 2 + d, 0, count * taps);
            continue;
        }
        int32_t *at = malloc((size_t)(count * taps) * sizeof *at);
        if (!at) return pco_graph_fail(graph, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a convolution");
        for (int64_t i = 0; i < count * taps; i++) {
            const int64_t place = i / taps * conv->stride[d] + i % taps * conv->dilation[d] - conv->before[d];
            at[i] = place < 0 || place >= conv->size[d] ? -1 : (int32_t)place;
        }
        const int64_t n = count * taps;
        const uint32_t indices = pco_graph_constant_copy(graph, "windows", PCO_I32, 1, &n, at);
        free(at);
        x = pco_gather(graph, x, indices, 2 + d);
    }
    return pco_reshape(graph, x, 2 + 2 * conv->n, shape);
}

/* Windows as rows of a matrix for each group, times its filters as columns. */
static uint32_t onnx_conv_product(pco_onnx_map *map, uint32_t x, uint32_t weight, const onnx_conv *conv, int64_t groups)
{
    pco_graph *graph = map->graph;
    const pco_tensor desc = *onnx_desc(map, x), filters = *onnx_desc(map, weight);
    const int64_t inner = desc.shape[1] / groups, out = filters.shape[0] / groups;
    int64_t columns = inner, positions = desc.shape[0], split[PCO_MAX_RANK], dims[PCO_MAX_RANK], rank = 0;
    x = onnx_conv_windows(map, x, conv);
    const bool grouped = groups > 1;
    split[rank++] = desc.shape[0];
    if (grouped) split[rank++] = groups;
    split[rank++] = inner;
    for (uint32_t d = 0; d < conv->n; d++) {
        split[rank++] = conv->count[d], split[rank++] = conv->taps[d];
        columns *= conv->taps[d], positions *= conv->count[d];
    }
    if (rank > PCO_MAX_RANK) return onnx_skip(map, "Conv of groups over three dimensions");
    x = pco_reshape(graph, x, (uint32_t)rank, split);
    int64_t at = 0; /* groups, N, counts, channels, taps */
    if (grouped) dims[at++] = 1;
    dims[at++] = 0;
    for (uint32_t d = 0; d < conv->n; d++) dims[at++] = grouped + 2 + 2 * d;
    dims[at++] = grouped + 1;
    for (uint32_t d = 0; d < conv->n; d++) dims[at++] = grouped + 3 + 2 * d;
    x = pco_reshape(graph, pco_permute(graph, x, dims), 3, (int64_t[]){groups, positions, columns});
    weight = pco_reshape(graph, weight, 3, (int64_t[]){groups, out, columns});
    if (!grouped) {
        x = pco_reshape(graph, x, 2, (int64_t[]){positions, columns});
        weight = pco_reshape(graph, weight, 2, (int64_t[]){out, columns});
    }
    uint32_t y = pco_matmul(graph, x, weight, 0, 1);
    at = 0, rank = 0; /* back: groups, N, counts, filters */
    split[rank++] = groups, split[rank++] = desc.shape[0];
    for (uint32_t d = 0; d < conv->n; d++) split[rank++] = conv->count[d];
    split[rank++] = out;
    y = pco_reshape(graph, y, (uint32_t)rank, split);
    dims[at++] = 1, dims[at++] = 0, dims[at++] = rank - 1;
    for (uint32_t d = 0; d < conv->n; d++) dims[at++] = 2 + d;
    y = pco_permute(graph, y, dims);
    split[0] = desc.shape[0], split[1] = filters.shape[0];
    for (uint32_t d = 0; d < conv->n; d++) split[2 + d] = conv->count[d];
    return pco_reshape(graph, y, 2 + conv->n, split);
}

static uint32_t onnx_conv_map(pco_onnx_map *map)
{
    uint32_t x = onnx_in(map, 0);
    const uint32_t weight = onnx_in(map, 1);
    const pco_tensor desc = *onnx_desc(map, x), filters = *onnx_desc(map, weight);
    const int64_t groups = onnx_int(map, "group", 1);
    onnx_conv conv = {.n = desc.rank - 2};
    onnx_without(map, "kernel_shape"); /* the weights say it */
    if (desc.rank < 3 || desc.rank > 2 + CONV_MOST || filters.rank != desc.rank)
        return onnx_skip(map, "Conv of none, or more than three dimensions");
    if (groups < 1 || desc.shape[1] % groups || filters.shape[0] % groups || filters.shape[1] != desc.shape[1] / groups)
        return onnx_skip(map, "Conv of groups into which its channels do not go");
    for (uint32_t d = 0; d < conv.n; d++) conv.taps[d] = filters.shape[2 + d];
    if (!onnx_conv_read(map, &desc, &conv)) return PCO_NONE;
    if (conv.n == 1) {
        pco_conv1d_attrs attrs = {.stride = conv.stride[0], .dilation = conv.dilation[0], .groups = groups};
        if (conv.before[0] == conv.after[0]) {
            attrs.padding = conv.before[0];
        } else {
            const pco_pad_attrs zeros = {
                .n_before = 3, .before = {0, 0, conv.before[0]}, .n_after = 3, .after = {0, 0, conv.after[0]}};
            x = pco_graph_add(map->graph, PCO_OP_PAD, &zeros, &x, 1, NULL);
        }
        return pco_graph_add(map->graph, PCO_OP_CONV1D, &attrs, (uint32_t[]){x, weight, onnx_in(map, 2)}, 3, NULL);
    }
    const uint32_t y = onnx_conv_product(map, x, weight, &conv, groups);
    if (!onnx_has(map, 2)) return y;
    int64_t shape[2 + CONV_MOST] = {1, filters.shape[0], 1, 1, 1};
    return pco_binary(map->graph, PCO_OP_ADD, y, pco_reshape(map->graph, onnx_in(map, 2), desc.rank, shape));
}

/* ---- pooling ---- */

/* How many elements of x (with `padded` ones) each window has. */
static uint32_t onnx_conv_counts(pco_onnx_map *map, const onnx_conv *conv, bool padded)
{
    int64_t shape[2 + CONV_MOST] = {1, 1}, all = 1;
    for (uint32_t d = 0; d < conv->n; d++) {
        shape[2 + d] = conv->count[d];
        if (__builtin_mul_overflow(all, conv->count[d], &all) || all > 1 << 24)
            return onnx_skip(map, "%.100s of too many windows", map->node->op);
    }
    double *counts = calloc((size_t)all + 1, sizeof *counts);
    if (!counts) return pco_graph_fail(map->graph, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a pooling");
    for (int64_t i = 0; i < all; i++) {
        int64_t rest = i;
        counts[i] = 1;
        for (uint32_t d = conv->n; d-- > 0; rest /= conv->count[d]) {
            int64_t inside = 0;
            for (int64_t t = 0; t < conv->taps[d]; t++) {
                const int64_t at = rest % conv->count[d] * conv->stride[d] + t * conv->dilation[d] - conv->before[d];
                const int64_t low = padded ? -conv->before[d] : 0;
                inside += at >= low && at < conv->size[d] + (padded ? conv->after[d] : 0);
            }
            counts[i] *= (double)(inside ? inside : 1);
        }
    }
    const uint32_t constant = onnx_constant(map, PCO_F32, 2 + conv->n, shape, counts);
    free(counts);
    return constant;
}

static uint32_t onnx_conv_pool(pco_onnx_map *map)
{
    pco_graph *graph = map->graph;
    uint32_t x = onnx_in(map, 0), mask = 0;
    const bool most = onnx_is(map, "MaxPool");
    const pco_tensor desc = *onnx_desc(map, x);
    onnx_conv conv = {.n = desc.rank - 2};
    onnx_without(map, "storage_order"); /* of the indices, which are refused */
    if (desc.rank < 3 || desc.rank > 2 + CONV_MOST)
        return onnx_skip(map, "%s of none, or more than three dimensions", map->node->op);
    if (map->node->n_outputs > 1 && map->node->outputs[1][0]) return onnx_skip(map, "indices of MaxPool");
    if (onnx_ints(map, "kernel_shape", conv.taps, conv.n) != conv.n)
        return onnx_skip(map, "%s without its window", map->node->op);
    const bool padded = !most && onnx_flag(map, "count_include_pad", 0) != 0;
    if (!onnx_conv_read(map, &desc, &conv)) return PCO_NONE;
    pco_dtype type = (pco_dtype)desc.dtype;
    if (most) { /* what lies outside is below everything */
        pco_pad_attrs attrs = {.n_before = desc.rank, .n_after = desc.rank};
        attrs.value = type == PCO_I32 ? (double)INT32_MIN : -INFINITY;
        for (uint32_t d = 0; d < conv.n; d++) {
            const int64_t end = (conv.count[d] - 1) * conv.stride[d] + (conv.taps[d] - 1) * conv.dilation[d] + 1;
            const int64_t behind = end - conv.before[d] - conv.size[d];
            attrs.before[2 + d] = conv.before[d], attrs.after[2 + d] = behind > 0 ? behind : 0;
            conv.size[d] += conv.before[d] + attrs.after[2 + d], conv.before[d] = 0;
        }
        x = pco_graph_add(graph, PCO_OP_PAD, &attrs, &x, 1, NULL);
    } else if (type != PCO_F32) {
        x = pco_cast(graph, x, PCO_F32);
    }
    for (uint32_t d = 0; d < conv.n; d++) mask |= 1u << (3 + 2 * d);
    x = onnx_sum_axes(map, most ? PCO_OP_AMAX : PCO_OP_SUM, onnx_conv_windows(map, x, &conv), mask, 0);
    if (most) return x;
    return pco_cast(graph, pco_binary(graph, PCO_OP_DIV, x, onnx_conv_counts(map, &conv, padded)), type);
}

static uint32_t onnx_conv_pool_all(pco_onnx_map *map)
{
    const uint32_t x = onnx_in(map, 0), rank = onnx_desc(map, x)->rank;
    if (rank < 3) return onnx_skip(map, "%s of no dimensions", map->node->op);
    return onnx_sum_axes(map, onnx_is(map, "GlobalMaxPool") ? PCO_OP_AMAX : PCO_OP_MEAN, x, ((1u << rank) - 1) & ~3u,
                         1);
}

const onnx_rule ONNX_CONV[] = {
    {"Conv", onnx_conv_map, 0, 0},
    {"MaxPool", onnx_conv_pool, 0, 0},
    {"AveragePool", onnx_conv_pool, 0, 0},
    {"GlobalMaxPool", onnx_conv_pool_all, 0, 0},
    {"GlobalAveragePool", onnx_conv_pool_all, 0, 0},
    {0},
};
