/* Shapes that operators which move data make: the same on the device and on the host. */
#include "models/onnx/map_internal.h"

#include <string.h>

uint32_t onnx_axes(pco_onnx_map *map, uint32_t i, uint32_t rank)
{
    int64_t axes[PCO_MAX_RANK], n = onnx_host(map, i, axes, PCO_MAX_RANK);
    uint32_t mask = 0;
    if (n < 0) n = onnx_ints(map, "axes", axes, PCO_MAX_RANK);
    for (int64_t k = 0; k < n; k++) mask |= 1u << onnx_axis(map, axes[k], rank);
    const int64_t noop = onnx_flag(map, "noop_with_empty_axes", 0);
    if (n <= 0 && !noop) mask = (1u << rank) - 1;
    return mask;
}

static int64_t onnx_bounds_clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* `n` values of an input that may be left out: `initial` and as many `step` further each, then. */
static bool onnx_bounds_list(pco_onnx_map *map, uint32_t input, int64_t n, int64_t *values, int64_t initial,
                             int64_t step)
{
    const int64_t given = onnx_host(map, input, values, PCO_MAX_RANK);
    for (int64_t i = 0; i < n && given < 0; i++) values[i] = initial + i * step;
    return given < 0 || given == n;
}

bool onnx_bounds_slice(pco_onnx_map *map, const pco_onnx_tensor *x, onnx_slices *slices)
{
    int64_t starts[PCO_MAX_RANK], ends[PCO_MAX_RANK], axes[PCO_MAX_RANK], steps[PCO_MAX_RANK];
    const int64_t n = onnx_host(map, 1, starts, PCO_MAX_RANK);
    for (uint32_t d = 0; d < x->rank; d++) slices->start[d] = 0, slices->size[d] = x->shape[d], slices->step[d] = 1;
    if (n < 0) onnx_skip(map, "Slice without starts");
    if (onnx_host(map, 2, ends, PCO_MAX_RANK) != n || !onnx_bounds_list(map, 3, n, axes, 0, 1) ||
        !onnx_bounds_list(map, 4, n, steps, 1, 0))
        onnx_skip(map, "Slice with lists of several lengths");
    for (int64_t i = 0; i < n && !map->skip[0]; i++) {
        const int64_t axis = onnx_axis(map, axes[i], x->rank), length = x->rank ? x->shape[axis] : 0, step = steps[i];
        if (step == 0 || step < -INT32_MAX || step > INT32_MAX) onnx_skip(map, "Slice with steps of 0, or beyond 2^31");
        if (map->skip[0]) break;
        int64_t start = starts[i] < 0 ? (starts[i] < -length ? -1 : starts[i] + length) : starts[i];
        int64_t end = ends[i] < 0 ? (ends[i] < -length ? -1 : ends[i] + length) : ends[i];
        int64_t size = 0;
        if (step > 0) {
            start = onnx_bounds_clamp(start, 0, length), end = onnx_bounds_clamp(end, start, length);
            if (end > start) size = (end - start - 1) / step + 1;
        } else if (length) {
            start = onnx_bounds_clamp(start, 0, length - 1), end = onnx_bounds_clamp(end, -1, start);
            size = (start - end + -step - 1) / -step;
        }
        slices->start[axis] = start, slices->size[axis] = size, slices->step[axis] = step;
    }
    return !map->skip[0];
}

bool onnx_bounds_reshape(pco_onnx_map *map, const pco_onnx_tensor *x, int64_t *shape, uint32_t *rank)
{
    const int64_t n = onnx_host(map, 1, shape, PCO_MAX_RANK);
    const bool allow_zero = onnx_flag(map, "allowzero", 0) != 0;
    int64_t known = 1, open = -1;
    if (n < 0) onnx_skip(map, "Reshape without a shape");
    for (int64_t i = 0; i < n; i++) {
        if (shape[i] == 0 && !allow_zero) shape[i] = i < (int64_t)x->rank ? x->shape[i] : 0;
        if (shape[i] < -1 || (shape[i] == -1 && open >= 0)) onnx_skip(map, "Reshape to a shape that is none");
        if (shape[i] == -1)
            open = i;
        else if (__builtin_mul_overflow(known, shape[i], &known))
            onnx_skip(map, "Reshape to more elements than there are");
    }
    if (open >= 0 && !map->skip[0]) shape[open] = known ? x->count / known : 0;
    *rank = n < 0 ? 0 : (uint32_t)n;
    if (open >= 0 && known) known *= shape[open];
    if (!map->skip[0] && known != x->count && !(open >= 0 && !known && !x->count))
        onnx_skip(map, "Reshape of %lld elements to %lld", (long long)x->count, (long long)known);
    return !map->skip[0];
}

bool onnx_bounds_squeeze(pco_onnx_map *map, const pco_onnx_tensor *x, int64_t *shape, uint32_t *rank)
{
    const bool add = onnx_is(map, "Unsqueeze");
    int64_t axes[PCO_MAX_RANK], n = onnx_host(map, 1, axes, PCO_MAX_RANK);
    uint32_t mask = 0, from = 0;
    if (n < 0) n = onnx_ints(map, "axes", axes, PCO_MAX_RANK); /* before operator set 13 */
    const uint32_t most = x->rank + (add && n > 0 ? (uint32_t)n : 0);
    *rank = 0;
    if (most > PCO_MAX_RANK) onnx_skip(map, "Unsqueeze to more dimensions than there are");
    for (int64_t i = 0; i < n && !map->skip[0]; i++) mask |= 1u << onnx_axis(map, axes[i], most);
    for (uint32_t i = 0; i < most && !map->skip[0]; i++) {
        const bool named = mask >> i & 1;
        if (add && !named && from == x->rank)
            onnx_skip(map, "Unsqueeze with an axis that is named twice");
        else if (add)
            shape[(*rank)++] = named ? 1 : x->shape[from++];
        else if (named && x->shape[i] != 1)
            onnx_skip(map, "Squeeze of a dimension of %lld", (long long)x->shape[i]);
        else if (!named && !(n < 0 && x->shape[i] == 1))
            shape[(*rank)++] = x->shape[i];
    }
    return !map->skip[0];
}

bool onnx_bounds_expand(pco_onnx_map *map, const pco_onnx_tensor *x, int64_t *shape, uint32_t *rank)
{
    int64_t wanted[PCO_MAX_RANK];
    const int64_t n = onnx_host(map, 1, wanted, PCO_MAX_RANK);
    if (n < 0) onnx_skip(map, "Expand without a shape");
    if (!map->skip[0] && !onnx_broadcast(x->shape, x->rank, wanted, (uint32_t)n, shape, rank))
        onnx_skip(map, "Expand to a shape that its operand cannot have");
    for (uint32_t d = 0; d < *rank && !map->skip[0]; d++)
        if (shape[d] < 0) onnx_skip(map, "Expand to a negative size");
    return !map->skip[0];
}

bool onnx_bounds_permute(pco_onnx_map *map, const pco_onnx_tensor *x, int64_t *dims)
{
    const int64_t n = onnx_ints(map, "perm", dims, PCO_MAX_RANK);
    uint32_t seen = 0;
    for (uint32_t i = 0; i < x->rank && n < 0; i++) dims[i] = x->rank - 1 - i;
    if (n >= 0 && n != (int64_t)x->rank) onnx_skip(map, "Transpose with another number of dimensions than its operand");
    for (uint32_t i = 0; i < x->rank && !map->skip[0]; i++) {
        if (dims[i] < 0 || dims[i] >= (int64_t)x->rank || seen >> dims[i] & 1)
            onnx_skip(map, "Transpose to dimensions that are none");
        else
            seen |= 1u << dims[i];
    }
    return !map->skip[0];
}

bool onnx_bounds_split(pco_onnx_map *map, const pco_onnx_tensor *x, int64_t *axis, int64_t *sizes)
{
    const uint32_t parts = map->node->n_outputs;
    *axis = onnx_axis(map, onnx_int(map, "axis", 0), x->rank);
    const int64_t length = x->shape[*axis], each = (length + parts - 1) / parts;
    int64_t n = onnx_host(map, 1, sizes, PCO_ONNX_MAX_OPERANDS), sum = 0;
    if (n < 0) n = onnx_ints(map, "split", sizes, PCO_ONNX_MAX_OPERANDS);
    if (onnx_int(map, "num_outputs", parts) != parts || (n >= 0 && n != parts))
        onnx_skip(map, "Split with another number of outputs than it says");
    for (uint32_t i = 0; i < parts && !map->skip[0]; i++) {
        if (n < 0) sizes[i] = length - sum < each ? length - sum : each;
        if (sizes[i] < 0 || sizes[i] > length - sum) onnx_skip(map, "Split into parts that are not there");
        sum += sizes[i];
    }
    if (sum != length) onnx_skip(map, "Split into parts that do not make up the whole");
    return !map->skip[0];
}
