/* What exporters leave in graphs to work out shapes with, computed on the host. A node is folded only where its result
 * is the exact one: whole numbers within their type and within 2^53, below which a double has each of them; floats
 * computed in double and rounded once to their type, which has less than half of double's bits, so that the two
 * roundings of a sum, product, quotient or root are one (Figueroa 1995, When is double rounding innocuous). Anything
 * else is left to the device, which has its own rule for it, or refuses it. */
#include "models/onnx/map_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FOLD_MOST = 1 << 16 };           /* elements of a result; what is larger is computed on the device */
#define FOLD_EXACT 0x1.fffffffffffffp52 /* 2^53 - 1: any whole number beyond it may have been rounded to a double */

typedef struct fold {
    pco_onnx_map *map;
    pco_onnx_tensor *results;
    bool beyond; /* FOLD_EXACT: refused */
} fold;

static const pco_onnx_tensor *fold_in(const fold *f, uint32_t i)
{
    return onnx_has(f->map, i) ? f->map->operands[i] : NULL;
}

/* A result of that shape, without values yet; false where it is too large. */
static bool fold_make(pco_onnx_tensor *y, int32_t type, uint32_t rank, const int64_t *shape)
{
    *y = (pco_onnx_tensor){.type = type, .rank = rank, .count = 1};
    for (uint32_t d = 0; d < rank; d++) {
        y->shape[d] = shape[d];
        if (shape[d] < 0 || __builtin_mul_overflow(y->count, shape[d], &y->count) || y->count > FOLD_MOST) return false;
    }
    y->value = calloc((size_t)y->count + 1, sizeof *y->value);
    return y->value != NULL;
}

static bool fold_is_whole(int32_t type)
{
    double low, high;
    return onnx_range(type, &low, &high) || type == PCO_ONNX_INT64 || type == PCO_ONNX_UINT64 ||
           type == PCO_ONNX_UINT32;
}

/* Types that are computed in: of those that only store, as floats of 8 bits, no operator that is folded makes any. */
static bool fold_computes(int32_t type)
{
    return fold_is_whole(type) || type == PCO_ONNX_FLOAT || type == PCO_ONNX_DOUBLE || type == PCO_ONNX_FLOAT16 ||
           type == PCO_ONNX_BFLOAT16 || type == PCO_ONNX_BOOL;
}

/* Are both whole, or neither? ONNX has no node of both, and a float that became a whole number would be wrong in
 * silence. */
static bool fold_alike(const pco_onnx_tensor *a, const pco_onnx_tensor *b)
{
    return fold_is_whole(a->type) == fold_is_whole(b->type);
}

/* Is the computed value, of operands of which each is, exactly that of the type? (No NaN is.) */
static bool fold_fits(int32_t type, double value)
{
    double low = type == PCO_ONNX_INT64 ? -FOLD_EXACT : 0, high = type == PCO_ONNX_UINT32 ? UINT32_MAX : FOLD_EXACT;
    if (!fold_is_whole(type)) return true;
    onnx_range(type, &low, &high);
    return value >= low && value <= high;
}

/* What does not fit is left to the device; but what takes 64 bits is refused, since on the device it would be wrapped
 * to 32 in silence. */
static bool fold_all_fit(fold *f, const pco_onnx_tensor *x)
{
    bool fit = true;
    for (int64_t i = 0; i < x->count && fit; i++) {
        fit = fold_fits(x->type, x->value[i]);
        if (!fit && (x->type == PCO_ONNX_INT64 || x->type == PCO_ONNX_UINT64) && fabs(x->value[i]) > FOLD_EXACT)
            f->beyond = true, onnx_skip(f->map, "%.100s of whole numbers of 2^53 and more", f->map->node->op);
    }
    return fit;
}

/* Rounds floats to their type as a tensor of it would be. False: a whole number that is not the type's, or not exact.
 */
static bool fold_round(fold *f, pco_onnx_tensor *y)
{
    uint64_t one;
    if (fold_is_whole(y->type)) return fold_all_fit(f, y);
    for (int64_t i = 0; i < y->count && y->type != PCO_ONNX_DOUBLE; i++) {
        pco_onnx_encode(y->type, y->value + i, 1, &one);
        pco_onnx_decode(y->type, &one, 1, y->value + i);
    }
    return true;
}

/* y[i] = x[offset + sum of i[d] strides[d]]. */
static void fold_strided(const double *x, int64_t offset, const int64_t *strides, pco_onnx_tensor *y)
{
    int64_t at[PCO_MAX_RANK] = {0};
    for (int64_t i = 0; i < y->count; i++) {
        y->value[i] = x[offset];
        for (uint32_t d = y->rank; d-- > 0;) {
            offset += strides[d];
            if (++at[d] < y->shape[d]) break;
            offset -= strides[d] * at[d];
            at[d] = 0;
        }
    }
}

static void fold_strides(const pco_onnx_tensor *x, int64_t *strides)
{
    int64_t step = 1;
    for (uint32_t d = x->rank; d-- > 0; step *= x->shape[d]) strides[d] = step;
}

/* x broadcast to y's shape. */
static void fold_expand(const pco_onnx_tensor *x, pco_onnx_tensor *y)
{
    int64_t own[PCO_MAX_RANK], strides[PCO_MAX_RANK] = {0};
    fold_strides(x, own);
    for (uint32_t d = 0; d < x->rank; d++) strides[y->rank - x->rank + d] = x->shape[d] == 1 ? 0 : own[d];
    fold_strided(x->value, 0, strides, y);
}

static bool fold_copy(const pco_onnx_tensor *x, uint32_t rank, const int64_t *shape, pco_onnx_tensor *y)
{
    if (!fold_make(y, x->type, rank, shape) || y->count != x->count) return false;
    memcpy(y->value, x->value, (size_t)x->count * sizeof *y->value);
    return true;
}

/* ---- arithmetic ---- */

enum fold_function {
    FOLD_ADD,
    FOLD_SUB,
    FOLD_MUL,
    FOLD_DIV,
    FOLD_MOD,
    FOLD_POW,
    FOLD_MIN,
    FOLD_MAX,
    FOLD_COMPARE, /* those behind make booleans */
    FOLD_EQUAL = FOLD_COMPARE,
    FOLD_LESS,
    FOLD_LESS_EQUAL,
    FOLD_GREATER,
    FOLD_GREATER_EQUAL,
    FOLD_AND,
    FOLD_OR
};

/* a to the power of b, both whole; NaN where that is no whole number, and beyond FOLD_EXACT anything there. */
static double fold_power(double a, double b)
{
    double power = 1;
    if (b < 0) return (double)NAN;
    if (fabs(a) <= 1) return a == 0 ? b == 0 : a < 0 && fmod(b, 2) != 0 ? -1 : 1;
    for (double i = 0; i < b && fabs(power) <= FOLD_EXACT; i++) power *= a;
    return power;
}

/* Of whole numbers, where that is another function than of floats; NaN: none. As C divides: towards zero. A modulus has
 * the sign of b. Below 2^53 all steps are exact in int64. */
static double fold_whole(enum fold_function function, double a, double b)
{
    const int64_t x = (int64_t)a, y = (int64_t)b;
    if (function == FOLD_POW) return fold_power(a, b);
    if (y == 0) return (double)NAN;
    if (function == FOLD_DIV) return (double)(x / y);
    const int64_t rest = x % y;
    return (double)(rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest);
}

static double fold_apply(enum fold_function function, double a, double b)
{
    switch (function) {
    case FOLD_ADD: return a + b;
    case FOLD_SUB: return a - b;
    case FOLD_MUL: return a * b;
    case FOLD_DIV: return a / b;
    case FOLD_MOD: return (double)NAN; /* of floats: fmod alone */
    case FOLD_POW: return pow(a, b);
    case FOLD_MIN: return isnan(a) || a < b ? a : b;
    case FOLD_MAX: return isnan(a) || a > b ? a : b;
    case FOLD_EQUAL: return a == b;
    case FOLD_LESS: return a < b;
    case FOLD_LESS_EQUAL: return a <= b;
    case FOLD_GREATER: return a > b;
    case FOLD_GREATER_EQUAL: return a >= b;
    case FOLD_AND: return a != 0 && b != 0;
    case FOLD_OR: return a != 0 || b != 0;
    }
    return 0;
}

/* y = function(y, b), element by element, where all results are exact. What only compares its operands needs less than
 * exact ones: two that were rounded to the same double are all that it cannot tell apart, and the smaller and the
 * larger of such are the same double. */
static bool fold_elements(fold *f, enum fold_function function, int32_t type, pco_onnx_tensor *y,
                          const pco_onnx_tensor *b)
{
    const bool whole = fold_is_whole(type), picks = function == FOLD_MIN || function == FOLD_MAX;
    const bool differs = whole && (function == FOLD_DIV || function == FOLD_MOD || function == FOLD_POW);
    if (!fold_computes(type) || (function == FOLD_MOD && !whole)) return false;
    for (int64_t i = 0; i < y->count; i++) {
        const double x = y->value[i], z = b->value[i];
        const bool exact = fold_fits(type, x) && fold_fits(b->type, z);
        if (!exact && !picks && (function < FOLD_COMPARE || x == z)) {
            const double large = fold_fits(type, x) ? z : x;
            return fold_all_fit(f, &(pco_onnx_tensor){.type = type, .count = 1, .value = (double[]){large}});
        }
        y->value[i] = differs ? fold_whole(function, x, z) : fold_apply(function, x, z);
    }
    return picks || fold_round(f, y);
}

static bool fold_binary(fold *f, enum fold_function function)
{
    const pco_onnx_tensor *a = fold_in(f, 0), *b = fold_in(f, 1);
    pco_onnx_tensor *y = f->results, other = {0};
    int64_t shape[PCO_MAX_RANK];
    uint32_t rank;
    if (!a || !b || f->map->node->n_inputs != 2 || !onnx_broadcast(a->shape, a->rank, b->shape, b->rank, shape, &rank))
        return false;
    if (!fold_alike(a, b) && function != FOLD_POW) return false;
    if (function == FOLD_MOD && onnx_flag(f->map, "fmod", 0)) return false;
    if (function == FOLD_POW && fold_is_whole(a->type) && !fold_is_whole(b->type)) return false;
    bool good = fold_make(y, function >= FOLD_COMPARE ? PCO_ONNX_BOOL : a->type, rank, shape) &&
                fold_make(&other, b->type, rank, shape);
    if (good) {
        fold_expand(a, y);
        fold_expand(b, &other);
        good = fold_elements(f, function, a->type, y, &other);
    }
    pco_onnx_tensor_clear(&other);
    return good;
}

static double fold_neg(double x) { return -x; }
static double fold_not(double x) { return x == 0; }
static double fold_reciprocal(double x) { return 1 / x; }

static bool fold_unary(fold *f, double (*function)(double))
{
    const pco_onnx_tensor *x = fold_in(f, 0);
    if (!x || f->map->node->n_inputs != 1 || !fold_computes(x->type) || !fold_all_fit(f, x)) return false;
    if (fold_is_whole(x->type) && function != fold_neg && function != fabs) return false;
    if (!fold_copy(x, x->rank, x->shape, f->results)) return false;
    for (int64_t i = 0; i < x->count; i++) f->results->value[i] = function(x->value[i]);
    return fold_round(f, f->results);
}

static bool fold_where(fold *f)
{
    const pco_onnx_tensor *in[3] = {fold_in(f, 0), fold_in(f, 1), fold_in(f, 2)};
    pco_onnx_tensor wide[3] = {{0}}, *y = f->results;
    int64_t shape[PCO_MAX_RANK];
    uint32_t rank;
    bool good = in[0] && in[1] && in[2] && fold_alike(in[1], in[2]) &&
                onnx_broadcast(in[0]->shape, in[0]->rank, in[1]->shape, in[1]->rank, shape, &rank) &&
                onnx_broadcast(shape, rank, in[2]->shape, in[2]->rank, shape, &rank);
    for (int i = 0; i < 3 && good; i++) {
        good = fold_make(&wide[i], in[i]->type, rank, shape);
        if (good) fold_expand(in[i], &wide[i]);
    }
    good = good && fold_make(y, in[1]->type, rank, shape);
    for (int64_t i = 0; good && i < y->count; i++) y->value[i] = wide[wide[0].value[i] != 0 ? 1 : 2].value[i];
    for (int i = 0; i < 3; i++) pco_onnx_tensor_clear(&wide[i]);
    return good;
}

/* Whole numbers beyond FOLD_EXACT may only become what they were. */
static bool fold_cast(fold *f, int32_t to)
{
    const pco_onnx_tensor *x = fold_in(f, 0);
    pco_onnx_tensor *y = f->results;
    onnx_without(f->map, "round_mode");
    if (!onnx_flag(f->map, "saturate", 1) || to == PCO_ONNX_FLOAT8E8M0) return false;
    if (!x || pco_onnx_map_type(to) == PCO_NONE) return false;
    if (x->type == to) return fold_copy(x, x->rank, x->shape, y);
    if ((to != PCO_ONNX_BOOL && !fold_all_fit(f, x)) || !fold_copy(x, x->rank, x->shape, y)) return false;
    y->type = to;
    for (int64_t i = 0; i < y->count; i++) {
        if (to == PCO_ONNX_BOOL) y->value[i] = y->value[i] != 0;
        if (fold_is_whole(to)) y->value[i] = trunc(y->value[i]);
    }
    return fold_round(f, y);
}

/* ---- shapes ---- */

static bool fold_numbers(fold *f, const int64_t *values, uint32_t rank, int64_t count)
{
    if (!fold_make(f->results, PCO_ONNX_INT64, rank, &count)) return false;
    for (int64_t i = 0; i < count; i++) f->results->value[i] = (double)values[i];
    return true;
}

static bool fold_shape(fold *f)
{
    const pco_onnx_tensor *x = fold_in(f, 0);
    if (!x) return false;
    int64_t start = onnx_int(f->map, "start", 0), end = onnx_int(f->map, "end", x->rank), rank = x->rank;
    start = start < 0 ? start + rank : start, end = end < 0 ? end + rank : end;
    start = start < 0 ? 0 : start > rank ? rank : start, end = end < start ? start : end > rank ? rank : end;
    return fold_numbers(f, x->shape + start, 1, end - start);
}

static bool fold_constant(fold *f)
{
    static const char *const NAMES[] = {"value_int", "value_float"};
    int64_t ints[PCO_MAX_RANK], n = onnx_ints(f->map, "value_ints", ints, PCO_MAX_RANK);
    if (onnx_given(f->map, "value")) return onnx_tensor(f->map, "value", f->results);
    if (n >= 0) return fold_numbers(f, ints, 1, n);
    for (int i = 0; i < 2; i++) {
        if (!onnx_given(f->map, NAMES[i])) continue;
        if (!fold_make(f->results, i ? PCO_ONNX_FLOAT : PCO_ONNX_INT64, 0, NULL)) return false;
        f->results->value[0] = i ? onnx_float(f->map, NAMES[i], 0) : (double)onnx_int(f->map, NAMES[i], 0);
        return true;
    }
    return false;
}

static bool fold_constant_of_shape(fold *f)
{
    const pco_onnx_tensor *x = fold_in(f, 0);
    pco_onnx_tensor value, *y = f->results;
    int64_t shape[PCO_MAX_RANK];
    if (!x) return false;
    const int64_t rank = onnx_host(f->map, 0, shape, PCO_MAX_RANK);
    pco_error err;
    const bool given = onnx_tensor(f->map, "value", &value) && !pco_onnx_tensor_values(&value, &err);
    bool good = rank >= 0 && !f->map->skip[0] && (!given || value.count == 1) &&
                fold_make(y, given ? value.type : PCO_ONNX_FLOAT, (uint32_t)rank, shape);
    for (int64_t i = 0; good && given && i < y->count; i++) y->value[i] = value.value[0];
    pco_onnx_tensor_clear(&value);
    return good;
}

static bool fold_range(fold *f)
{
    const pco_onnx_tensor *start = fold_in(f, 0), *limit = fold_in(f, 1), *step = fold_in(f, 2);
    if (!start || !limit || !step || start->count != 1 || limit->count != 1 || step->count != 1) return false;
    if (!fold_all_fit(f, start) || !fold_all_fit(f, limit) || !fold_all_fit(f, step)) return false;
    const double steps = ceil((limit->value[0] - start->value[0]) / step->value[0]);
    if (!(steps <= FOLD_MOST)) return false;
    const int64_t count = steps > 0 ? (int64_t)steps : 0;
    if (!fold_make(f->results, start->type, 1, &count)) return false;
    for (int64_t i = 0; i < count; i++) f->results->value[i] = start->value[0] + (double)i * step->value[0];
    return fold_round(f, f->results);
}

/* Reshape, Flatten, Squeeze, Unsqueeze, Identity: the same elements. */
static bool fold_reshape(fold *f)
{
    int64_t shape[PCO_MAX_RANK];
    uint32_t rank = 0;
    const pco_onnx_tensor *x = fold_in(f, 0);
    return x && onnx_bounds_reshape(f->map, x, shape, &rank) && fold_copy(x, rank, shape, f->results);
}

static bool fold_squeeze(fold *f)
{
    int64_t shape[PCO_MAX_RANK];
    uint32_t rank = 0;
    const pco_onnx_tensor *x = fold_in(f, 0);
    return x && onnx_bounds_squeeze(f->map, x, shape, &rank) && fold_copy(x, rank, shape, f->results);
}

static bool fold_identity(fold *f)
{
    const pco_onnx_tensor *x = fold_in(f, 0);
    return x && fold_copy(x, x->rank, x->shape, f->results);
}

static bool fold_expanded(fold *f)
{
    const pco_onnx_tensor *x = fold_in(f, 0);
    int64_t shape[PCO_MAX_RANK];
    uint32_t rank = 0;
    if (!x || !onnx_bounds_expand(f->map, x, shape, &rank) || !fold_make(f->results, x->type, rank, shape))
        return false;
    fold_expand(x, f->results);
    return true;
}

static bool fold_transpose(fold *f)
{
    const pco_onnx_tensor *x = fold_in(f, 0);
    int64_t dims[PCO_MAX_RANK], own[PCO_MAX_RANK], strides[PCO_MAX_RANK], shape[PCO_MAX_RANK];
    if (!x || !onnx_bounds_permute(f->map, x, dims)) return false;
    fold_strides(x, own);
    for (uint32_t d = 0; d < x->rank; d++) shape[d] = x->shape[dims[d]], strides[d] = own[dims[d]];
    if (!fold_make(f->results, x->type, x->rank, shape)) return false;
    fold_strided(x->value, 0, strides, f->results);
    return true;
}

static bool fold_slice(fold *f)
{
    const pco_onnx_tensor *x = fold_in(f, 0);
    onnx_slices slices;
    int64_t strides[PCO_MAX_RANK], offset = 0;
    if (!x || !onnx_bounds_slice(f->map, x, &slices) || !fold_make(f->results, x->type, x->rank, slices.size))
        return false;
    fold_strides(x, strides);
    for (uint32_t d = 0; d < x->rank; d++) {
        offset += slices.start[d] * strides[d];
        strides[d] *= slices.step[d];
    }
    fold_strided(x->value, offset, strides, f->results);
    return true;
}

static bool fold_split(fold *f)
{
    const pco_onnx_tensor *x = fold_in(f, 0);
    int64_t axis, sizes[PCO_ONNX_MAX_OPERANDS], strides[PCO_MAX_RANK], start = 0;
    if (!x || !x->rank || !onnx_bounds_split(f->map, x, &axis, sizes)) return false;
    fold_strides(x, strides);
    for (uint32_t i = 0; i < f->map->node->n_outputs; start += sizes[i++]) {
        int64_t shape[PCO_MAX_RANK];
        memcpy(shape, x->shape, sizeof shape);
        shape[axis] = sizes[i];
        if (!fold_make(&f->results[i], x->type, x->rank, shape)) return false;
        fold_strided(x->value, start * strides[axis], strides, &f->results[i]);
    }
    return true;
}

static bool fold_concat(fold *f)
{
    const pco_onnx_tensor *first = fold_in(f, 0);
    const uint32_t n = f->map->node->n_inputs;
    int64_t shape[PCO_MAX_RANK], outer = 1, inner = 1, at = 0;
    if (!first || !first->rank) return false;
    const int64_t axis = onnx_axis(f->map, onnx_int(f->map, "axis", 0), first->rank);
    memcpy(shape, first->shape, sizeof shape);
    for (uint32_t i = 0; i < n; i++) {
        const pco_onnx_tensor *x = fold_in(f, i);
        if (!x || !fold_alike(x, first) || x->rank != first->rank) return false;
        for (int64_t d = 0; d < (int64_t)x->rank; d++)
            if (d != axis && x->shape[d] != first->shape[d]) return false;
        if (i && __builtin_add_overflow(shape[axis], x->shape[axis], &shape[axis])) return false;
    }
    if (f->map->skip[0] || !fold_make(f->results, first->type, first->rank, shape)) return false;
    for (int64_t d = 0; d < (int64_t)first->rank; d++) *(d < axis ? &outer : &inner) *= d == axis ? 1 : shape[d];
    for (int64_t o = 0; o < outer; o++)
        for (uint32_t i = 0; i < n; i++) {
            const pco_onnx_tensor *x = fold_in(f, i);
            const int64_t run = x->shape[axis] * inner;
            memcpy(f->results->value + at, x->value + o * run, (size_t)run * sizeof *x->value);
            at += run;
        }
    return true;
}

static bool fold_gather(fold *f)
{
    const pco_onnx_tensor *x = fold_in(f, 0), *indices = fold_in(f, 1);
    int64_t shape[PCO_MAX_RANK], outer = 1, inner = 1, at = 0;
    if (!x || !indices || !x->rank || x->rank - 1 + indices->rank > PCO_MAX_RANK) return false;
    const int64_t axis = onnx_axis(f->map, onnx_int(f->map, "axis", 0), x->rank), size = x->shape[axis];
    uint32_t rank = 0;
    for (int64_t d = 0; d < axis; d++) outer *= shape[rank++] = x->shape[d];
    for (uint32_t d = 0; d < indices->rank; d++) shape[rank++] = indices->shape[d];
    for (int64_t d = axis + 1; d < (int64_t)x->rank; d++) inner *= shape[rank++] = x->shape[d];
    if (!fold_make(f->results, x->type, rank, shape)) return false;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t k = 0; k < indices->count; k++) {
            double index = indices->value[k] < 0 ? indices->value[k] + (double)size : indices->value[k];
            if (!(index >= 0 && index < (double)size)) return false;
            memcpy(f->results->value + at, x->value + (o * size + (int64_t)index) * inner,
                   (size_t)inner * sizeof *x->value);
            at += inner;
        }
    return true;
}

/* Of all elements of a vector. */
static bool fold_reduce(fold *f)
{
    const pco_onnx_tensor *x = fold_in(f, 0);
    if (!x || x->rank != 1 || onnx_axes(f->map, 1, 1) != 1) return false;
    const int64_t one = 1, kept = onnx_flag(f->map, "keepdims", 1);
    const bool product = onnx_is(f->map, "ReduceProd"), most = onnx_is(f->map, "ReduceMax");
    if (!fold_make(f->results, x->type, kept ? 1 : 0, &one) || (!x->count && !product)) return false;
    double all = product ? 1 : x->value[0];
    if (product && (!fold_is_whole(x->type) || !fold_all_fit(f, x))) return false;
    for (int64_t i = product ? 0 : 1; i < x->count; i++)
        all = product ? all * x->value[i] : fold_apply(most ? FOLD_MAX : FOLD_MIN, all, x->value[i]);
    f->results->value[0] = all;
    return !product || fold_all_fit(f, f->results);
}

/* ---- which ---- */

static const struct {
    const char *op;
    int binary; /* 1 + a fold_function, or 0 */
    double (*unary)(double);
    bool (*other)(fold *f);
} FOLDS[] = {
    {"Shape", 0, NULL, fold_shape},
    {"Constant", 0, NULL, fold_constant},
    {"ConstantOfShape", 0, NULL, fold_constant_of_shape},
    {"Range", 0, NULL, fold_range},
    {"Reshape", 0, NULL, fold_reshape},
    {"Squeeze", 0, NULL, fold_squeeze},
    {"Unsqueeze", 0, NULL, fold_squeeze},
    {"Identity", 0, NULL, fold_identity},
    {"Expand", 0, NULL, fold_expanded},
    {"Transpose", 0, NULL, fold_transpose},
    {"Slice", 0, NULL, fold_slice},
    {"Split", 0, NULL, fold_split},
    {"Concat", 0, NULL, fold_concat},
    {"Gather", 0, NULL, fold_gather},
    {"Where", 0, NULL, fold_where},
    {"ReduceProd", 0, NULL, fold_reduce},
    {"ReduceMax", 0, NULL, fold_reduce},
    {"ReduceMin", 0, NULL, fold_reduce},
    {"Add", 1 + FOLD_ADD, NULL, NULL},
    {"Sub", 1 + FOLD_SUB, NULL, NULL},
    {"Mul", 1 + FOLD_MUL, NULL, NULL},
    {"Div", 1 + FOLD_DIV, NULL, NULL},
    {"Mod", 1 + FOLD_MOD, NULL, NULL},
    {"Pow", 1 + FOLD_POW, NULL, NULL},
    {"Min", 1 + FOLD_MIN, NULL, NULL},
    {"Max", 1 + FOLD_MAX, NULL, NULL},
    {"Equal", 1 + FOLD_EQUAL, NULL, NULL},
    {"Less", 1 + FOLD_LESS, NULL, NULL},
    {"LessOrEqual", 1 + FOLD_LESS_EQUAL, NULL, NULL},
    {"Greater", 1 + FOLD_GREATER, NULL, NULL},
    {"GreaterOrEqual", 1 + FOLD_GREATER_EQUAL, NULL, NULL},
    {"And", 1 + FOLD_AND, NULL, NULL},
    {"Or", 1 + FOLD_OR, NULL, NULL},
    {"Neg", 0, fold_neg, NULL},
    {"Not", 0, fold_not, NULL},
    {"Abs", 0, fabs, NULL},
    {"Floor", 0, floor, NULL},
    {"Ceil", 0, ceil, NULL},
    {"Sqrt", 0, sqrt, NULL},
    {"Reciprocal", 0, fold_reciprocal, NULL},
};

/* Are all operands known, and small? */
static bool fold_ready(pco_onnx_map *map)
{
    for (uint32_t i = 0; i < map->node->n_inputs; i++) {
        if (!onnx_has(map, i)) continue;
        if (map->operands[i]->count > FOLD_MOST || !onnx_known(map, i, true)) return false;
    }
    return true;
}

static bool fold_any(fold *f)
{
    pco_onnx_map *map = f->map;
    if (onnx_is(map, "Size") && onnx_has(map, 0)) return fold_numbers(f, &map->operands[0]->count, 0, 1);
    if (onnx_is(map, "Shape")) return fold_shape(f);
    if (!fold_ready(map)) return false;
    if (onnx_is(map, "Cast")) return fold_cast(f, (int32_t)onnx_int(map, "to", 0));
    if (onnx_is(map, "CastLike") && onnx_has(map, 1)) return fold_cast(f, onnx_type(map, 1));
    for (size_t i = 0; i < sizeof FOLDS / sizeof *FOLDS; i++) {
        if (!onnx_is(map, FOLDS[i].op)) continue;
        if (FOLDS[i].binary) return fold_binary(f, (enum fold_function)(FOLDS[i].binary - 1));
        return FOLDS[i].unary ? fold_unary(f, FOLDS[i].unary) : FOLDS[i].other(f);
    }
    return false;
}

bool pco_onnx_fold_node(pco_onnx_map *map, pco_onnx_tensor *results)
{
    fold f = {map, results};
    const pco_onnx_node *node = map->node;
    if (*node->domain || !node->n_outputs || node->n_inputs > PCO_ONNX_MAX_OPERANDS ||
        node->n_outputs > (onnx_is(map, "Split") ? PCO_ONNX_MAX_OPERANDS : 1))
        return false;
    const bool done = fold_any(&f) && !map->skip[0] && !onnx_left(map);
    for (uint32_t i = 0; i < PCO_ONNX_MAX_OPERANDS && !done; i++) pco_onnx_tensor_clear(&results[i]);
    if (!done && !f.beyond) map->skip[0] = 0;
    if (!done) map->taken = 0, map->asked = PCO_NONE;
    return done;
}
