/* Resize, nearest and linear: along each axis a choice of indices, or a mean of two, which are worked out on the host.
 */
#include "models/onnx/map_internal.h"

#include "base/dtype.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RESIZE_MOST = 1 << 16 /* indices of an axis */, RESIZE_TAPS = 4 };

typedef struct resize {
    char mode[12], coordinates[24], nearest[24], policy[16];
    int64_t size[PCO_MAX_RANK]; /* of the result */
    double scale[PCO_MAX_RANK]; /* of which `size` may be the whole part */
    uint32_t mask;              /* a bit for each axis that is resized */
    int taps;                   /* of which an element is made: nearest 1, linear 2, cubic 4 */
    double cubic;               /* cubic_coeff_a */
    bool exclude;               /* what lies outside has no weight; else it is the nearest inside */
} resize;

/* Where index i of the result lies in `in` elements (Resize-19, coordinate_transformation_mode). */
static double resize_position(const resize *r, uint32_t d, double i, double in)
{
    const double scale = r->scale[d], out = scale * in;
    if (strcmp(r->coordinates, "align_corners") == 0) return out == 1 ? 0 : i * (in - 1) / (out - 1);
    if (strcmp(r->coordinates, "asymmetric") == 0) return i / scale;
    if (strcmp(r->coordinates, "pytorch_half_pixel") == 0 && out <= 1) return 0;
    const double half = (i + 0.5) / scale - 0.5;
    if (strcmp(r->coordinates, "half_pixel_symmetric") == 0) return in / 2 * (1 - (double)r->size[d] / out) + half;
    return half;
}

static double resize_nearest(const resize *r, double position)
{
    if (strcmp(r->nearest, "round_prefer_ceil") == 0) return floor(position + 0.5);
    if (strcmp(r->nearest, "floor") == 0) return floor(position);
    if (strcmp(r->nearest, "ceil") == 0) return ceil(position);
    return ceil(position - 0.5);
}

static bool resize_is_one_of(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(text, *words) == 0) return true;
    return false;
}

static bool resize_words(pco_onnx_map *map, resize *r)
{
    static const char *const COORDINATES[] = {"half_pixel",    "half_pixel_symmetric", "pytorch_half_pixel",
                                              "align_corners", "asymmetric",           NULL},
                             *const NEAREST[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", NULL},
                             *const POLICIES[] = {"stretch", "not_larger", "not_smaller", NULL};
    onnx_text(map, "mode", "nearest", r->mode, sizeof r->mode);
    onnx_text(map, "coordinate_transformation_mode", "half_pixel", r->coordinates, sizeof r->coordinates);
    onnx_text(map, "nearest_mode", "round_prefer_floor", r->nearest, sizeof r->nearest);
    onnx_text(map, "keep_aspect_ratio_policy", "stretch", r->policy, sizeof r->policy);
    r->cubic = onnx_float(map, "cubic_coeff_a", -0.75);
    r->taps = strcmp(r->mode, "cubic") == 0 ? 4 : strcmp(r->mode, "linear") == 0 ? 2 : 1;
    r->exclude = onnx_flag(map, "exclude_outside", 0) != 0 && r->taps == 4;
    onnx_without(map, "extrapolation_value"); /* of tf_crop_and_resize */
    if (map->opset < 11) onnx_skip(map, "Resize of operator sets below 11");
    if (onnx_flag(map, "antialias", 0)) onnx_skip(map, "Resize with antialias");
    if (r->taps == 1 && strcmp(r->mode, "nearest") != 0) onnx_skip(map, "Resize in mode '%.12s'", r->mode);
    if (!resize_is_one_of(r->coordinates, COORDINATES))
        onnx_skip(map, "Resize with coordinates '%.24s'", r->coordinates);
    if (!resize_is_one_of(r->nearest, NEAREST)) onnx_skip(map, "Resize with nearest_mode '%.24s'", r->nearest);
    if (!resize_is_one_of(r->policy, POLICIES)) onnx_skip(map, "Resize with policy '%.16s'", r->policy);
    return !map->skip[0];
}

/* One scale for all axes, by which none becomes larger, or smaller, than its size says. */
static void resize_keep(resize *r, const pco_tensor *x)
{
    const bool larger = strcmp(r->policy, "not_smaller") == 0;
    double kept = larger ? 0 : (double)INFINITY;
    for (uint32_t d = 0; d < x->rank; d++)
        if (r->mask >> d & 1) kept = larger ? fmax(kept, r->scale[d]) : fmin(kept, r->scale[d]);
    for (uint32_t d = 0; d < x->rank; d++) {
        if (!(r->mask >> d & 1)) continue;
        r->scale[d] = kept;
        r->size[d] = (int64_t)fmin(floor(kept * (double)x->shape[d] + 0.5), RESIZE_MOST);
    }
}

/* Sizes and scales of all axes, from input 2 or 3. */
static bool resize_sizes(pco_onnx_map *map, resize *r, const pco_tensor *x)
{
    int64_t axes[PCO_MAX_RANK];
    int64_t n = onnx_ints(map, "axes", axes, PCO_MAX_RANK);
    const bool by_scale = onnx_has(map, 2) && map->operands[2]->count > 0, by_size = onnx_has(map, 3);
    const uint32_t from = by_scale ? 2 : 3;
    for (uint32_t d = 0; d < x->rank; d++) r->size[d] = x->shape[d], r->scale[d] = 1;
    for (uint32_t d = 0; d < x->rank && n < 0; d++) axes[d] = d;
    n = n < 0 ? x->rank : n;
    const double *given = by_scale || by_size ? onnx_known(map, from, false) : NULL;
    if (map->skip[0]) return false;
    if (!given || (by_scale && by_size && map->operands[3]->count) || map->operands[from]->count != n) {
        onnx_skip(map, "Resize without scales or sizes, or with another number than axes");
        return false;
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t d = onnx_axis(map, axes[i], x->rank);
        const double in = (double)x->shape[d], size = by_scale ? floor(given[i] * in) : given[i];
        if (!(given[i] > 0) || !(size >= 1 && size <= RESIZE_MOST) || in < 1) {
            onnx_skip(map, "Resize to a size that is none, or too large");
            return false;
        }
        r->mask |= 1u << d;
        r->size[d] = (int64_t)size, r->scale[d] = by_scale ? given[i] : size / in;
    }
    if (!by_scale && strcmp(r->policy, "stretch") != 0) resize_keep(r, x);
    return !map->skip[0];
}

static double resize_inside(double i, double n) { return fmin(fmax(i, 0), n - 1); }

/* Keys 1981, Cubic convolution interpolation for digital image processing, (4): at a distance below 1, and below 2. */
static double resize_near(double a, double t) { return ((a + 2) * t - (a + 3)) * t * t + 1; }
static double resize_far(double a, double t) { return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a; }

/* The taps of the element that lies at `position`: indices and weights. */
static void resize_taps(const resize *r, double position, double in, double *index, double *weight)
{
    const double whole = floor(position), rest = position - whole, a = r->cubic;
    double sum = 0;
    if (r->taps == 1) index[0] = resize_nearest(r, position), weight[0] = 1;
    if (r->taps == 2) weight[0] = 1 - rest, weight[1] = rest;
    if (r->taps == 4) {
        weight[0] = resize_far(a, rest + 1), weight[1] = resize_near(a, rest);
        weight[2] = resize_near(a, 1 - rest), weight[3] = resize_far(a, 2 - rest);
    }
    for (int t = 0; t < r->taps; t++) {
        if (r->taps > 1) index[t] = whole + t - (r->taps / 2 - 1);
        if (r->exclude && (index[t] < 0 || index[t] >= in)) weight[t] = 0;
        index[t] = resize_inside(index[t], in);
        sum += weight[t];
    }
    for (int t = 0; t < r->taps && r->exclude; t++) weight[t] /= sum;
}

/* x along axis d. */
static uint32_t resize_axis(pco_onnx_map *map, const resize *r, uint32_t x, uint32_t d)
{
    pco_graph *graph = map->graph;
    const pco_tensor desc = *onnx_desc(map, x);
    const int64_t count = r->size[d], shape[PCO_MAX_RANK] = {count, 1, 1, 1, 1, 1, 1, 1};
    const double in = (double)desc.shape[d];
    double *values = malloc(2 * RESIZE_TAPS * (size_t)count * sizeof *values);
    if (!values) return pco_graph_fail(graph, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the indices of Resize");
    double *weights = values + RESIZE_TAPS * count, index[RESIZE_TAPS] = {0}, weight[RESIZE_TAPS] = {0};
    for (int64_t i = 0; i < count; i++) {
        resize_taps(r, resize_position(r, d, (double)i, in), in, index, weight);
        for (int t = 0; t < r->taps; t++) values[t * count + i] = index[t], weights[t * count + i] = weight[t];
    }
    uint32_t y = PCO_NONE;
    for (int t = 0; t < r->taps; t++) {
        const uint32_t at = onnx_constant(map, PCO_I32, 1, &count, values + t * count);
        uint32_t part = pco_gather(graph, x, at, d);
        if (r->taps > 1)
            part = pco_binary(graph, PCO_OP_MUL, part,
                              onnx_constant(map, (pco_dtype)desc.dtype, desc.rank - d, shape, weights + t * count));
        y = t ? pco_binary(graph, PCO_OP_ADD, y, part) : part;
    }
    free(values);
    return y;
}

static uint32_t onnx_map_resize(pco_onnx_map *map)
{
    resize r = {0};
    uint32_t x = onnx_in(map, 0);
    const pco_tensor desc = *onnx_desc(map, x);
    if (!resize_words(map, &r) || !resize_sizes(map, &r, &desc)) return PCO_NONE;
    if (r.taps > 1 && !pco_dtype_is_float(desc.dtype))
        return onnx_skip(map, "Resize of whole numbers in mode '%.12s'", r.mode);
    for (uint32_t d = 0; d < desc.rank; d++)
        if (r.mask >> d & 1 && (r.size[d] != desc.shape[d] || r.scale[d] != 1)) x = resize_axis(map, &r, x, d);
    return x;
}

const onnx_rule ONNX_RESIZE[] = {
    {"Resize", onnx_map_resize, 0, 0},
    {0},
};
