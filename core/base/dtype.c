#include "base/dtype.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/quant.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "file data is used in place: little endian only");

/* ---- rows of floats, whole numbers and truth ----------------------------------------------------------- */

static void dtype_widen_f32(const void *from, int64_t count, float *out)
{
    memcpy(out, from, (size_t)count * sizeof *out);
}

static void dtype_narrow_f32(const float *in, int64_t count, void *out) { memcpy(out, in, (size_t)count * sizeof *in); }

#define DTYPE_HALVES(name) \
    static void dtype_widen_##name(const void *from, int64_t count, float *out) \
    { \
        const unsigned char *byte = from; \
        for (int64_t i = 0; i < count; i++) \
            out[i] = pco_##name##_to_f32((uint16_t)(byte[2 * i] | byte[2 * i + 1] << 8)); \
    } \
    static void dtype_narrow_##name(const float *in, int64_t count, void *out) \
    { \
        unsigned char *byte = out; \
        for (int64_t i = 0; i < count; i++) { \
            const uint16_t bits = pco_##name##_from_f32(in[i]); \
            memcpy(byte + 2 * i, &bits, sizeof bits); \
        } \
    }
DTYPE_HALVES(f16)
DTYPE_HALVES(bf16)

static void dtype_widen_i32(const void *from, int64_t count, float *out)
{
    for (int64_t i = 0; i < count; i++) {
        int32_t value;
        memcpy(&value, (const unsigned char *)from + 4 * i, sizeof value);
        out[i] = (float)value;
    }
}

static void dtype_widen_bool(const void *from, int64_t count, float *out)
{
    for (int64_t i = 0; i < count; i++) out[i] = ((const unsigned char *)from)[i] != 0;
}

/* ---- the table ----------------------------------------------------------------------------------------- */

typedef struct base_dtype {
    const char *name;
    uint32_t block, block_bytes, instead;
    pco_dtype_class class;
    void (*widen)(const void *from, int64_t count, float *out);
    void (*narrow)(const float *in, int64_t count, void *out); /* NULL: values are not converted to the type */
} base_dtype;

/* Only floats and quantised weights are made from floats. */
#define BASE_NARROW_FLOAT(name)     dtype_narrow_##name
#define BASE_NARROW_QUANTISED(name) dtype_narrow_##name
#define BASE_NARROW_WHOLE(name)     NULL
static const base_dtype base_dtypes[PCO_DTYPE_COUNT] = {
#define PCO_DTYPE(number, NAME, name, class, block, bytes, quants, scales, instead, ...) \
    [number] = {#name, block, bytes, PCO_##instead, PCO_DTYPE_##class, dtype_widen_##name, BASE_NARROW_##class(name)},
#include "base/dtypes.def"
#undef PCO_DTYPE
};

const char *pco_dtype_name(uint32_t dtype) { return dtype < PCO_DTYPE_COUNT ? base_dtypes[dtype].name : "unknown"; }

pco_dtype_class pco_dtype_class_of(uint32_t dtype) { return dtype < PCO_DTYPE_COUNT ? base_dtypes[dtype].class : 0; }

char *pco_dtype_list(uint32_t classes, const char *last, char *text, size_t size)
{
    uint32_t left = 0;
    size_t used = 0;
    *text = 0;
    for (uint32_t i = 0; i < PCO_DTYPE_COUNT; i++) left += (base_dtypes[i].class & classes) != 0;
    for (uint32_t i = 0; i < PCO_DTYPE_COUNT && used < size; i++) {
        if (!(base_dtypes[i].class & classes)) continue;
        left--;
        used += (size_t)snprintf(text + used, size - used, "%s%s%s%s", base_dtypes[i].name, left > 1 ? ", " : "",
                                 left == 1 ? " " : "", left == 1 ? last : "");
        if (left == 1 && used < size) used += (size_t)snprintf(text + used, size - used, " ");
    }
    return text;
}

pco_status pco_dtype_from_name(const char *name, pco_dtype *dtype, pco_error *err)
{
    for (uint32_t i = 0; i < PCO_DTYPE_COUNT; i++) {
        if (strcasecmp(name, base_dtypes[i].name) == 0) {
            *dtype = (pco_dtype)i;
            return PCO_OK;
        }
    }
    char names[PCO_DTYPE_LIST];
    return pco_fail(err, PCO_ERROR_NOT_FOUND, "'%s' is not an element type; there are %s", name,
                    pco_dtype_list(PCO_DTYPE_ANY, "and", names, sizeof names));
}

char *pco_number_text(double value, char text[PCO_NUMBER_TEXT])
{
    const int digits = fabs(value) < 1e15 && value == floor(value) ? 15 : 9;
    snprintf(text, PCO_NUMBER_TEXT, "%.*g", digits, value);
    return text;
}

uint32_t pco_dtype_block(uint32_t dtype) { return dtype < PCO_DTYPE_COUNT ? base_dtypes[dtype].block : 0; }

uint32_t pco_dtype_instead(uint32_t dtype) { return dtype < PCO_DTYPE_COUNT ? base_dtypes[dtype].instead : dtype; }

uint32_t pco_dtype_block_bytes(uint32_t dtype) { return dtype < PCO_DTYPE_COUNT ? base_dtypes[dtype].block_bytes : 0; }

char *pco_shape_text(uint32_t rank, const int64_t *shape, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "[");
    uint32_t i = 0;
    for (; i < rank && used + 28 < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%" PRId64, i ? ", " : "", shape[i]);
    if (used + 5 < size) snprintf(text + used, size - used, i == rank ? "]" : "...]");
    return text;
}

pco_status pco_shape_count(uint32_t rank, const int64_t *shape, int64_t *count, pco_error *err)
{
    if (rank > PCO_MAX_RANK)
        return pco_fail(err, PCO_ERROR_INVALID, "rank %" PRIu32 " is above the %d dimensions that there can be", rank,
                        PCO_MAX_RANK);
    int64_t product = 1;
    int empty = 0;
    char text[192];
    for (uint32_t i = 0; i < rank; i++) {
        if (shape[i] < 0)
            return pco_fail(err, PCO_ERROR_INVALID, "shape %s has a negative dimension",
                            pco_shape_text(rank, shape, text, sizeof text));
        if (shape[i] == 0) {
            empty = 1;
        } else if (__builtin_mul_overflow(product, shape[i], &product)) {
            return pco_fail(err, PCO_ERROR_INVALID, "shape %s has more elements than can be counted",
                            pco_shape_text(rank, shape, text, sizeof text));
        }
    }
    *count = empty ? 0 : product;
    return PCO_OK;
}

pco_status pco_shape_bytes(uint32_t rank, const int64_t *shape, uint32_t block, uint32_t block_bytes, uint64_t *bytes,
                           pco_error *err)
{
    int64_t count = 0, size = 0;
    char text[192];
    pco_status status = pco_shape_count(rank, shape, &count, err);
    if (status) return status;
    int64_t last = rank ? shape[rank - 1] : 1;
    if (last % block)
        return pco_fail(err, PCO_ERROR_INVALID,
                        "the last dimension of shape %s is not a multiple of the block of %" PRIu32 " elements",
                        pco_shape_text(rank, shape, text, sizeof text), block);
    if (__builtin_mul_overflow(count / (int64_t)block, (int64_t)block_bytes, &size))
        return pco_fail(err, PCO_ERROR_INVALID, "shape %s needs more bytes than can be counted",
                        pco_shape_text(rank, shape, text, sizeof text));
    *bytes = (uint64_t)size;
    return PCO_OK;
}

pco_status pco_dtype_bytes(uint32_t dtype, uint32_t rank, const int64_t *shape, uint64_t *bytes, pco_error *err)
{
    if (dtype >= PCO_DTYPE_COUNT) return pco_fail(err, PCO_ERROR_INVALID, "%" PRIu32 " is not an element type", dtype);
    return pco_shape_bytes(rank, shape, base_dtypes[dtype].block, base_dtypes[dtype].block_bytes, bytes, err);
}

/* ---- rows of any type -------------------------------------------------------------------------------- */

static pco_status base_check_count(uint32_t dtype, int64_t count, pco_error *err)
{
    if (dtype >= PCO_DTYPE_COUNT) return pco_fail(err, PCO_ERROR_INVALID, "%" PRIu32 " is not an element type", dtype);
    if (count < 0 || count % base_dtypes[dtype].block)
        return pco_fail(err, PCO_ERROR_INVALID, "%" PRId64 " elements are not whole blocks of type %s", count,
                        base_dtypes[dtype].name);
    return PCO_OK;
}

pco_status pco_dtype_to_f32(uint32_t dtype, const void *data, int64_t count, float *out, pco_error *err)
{
    pco_status status = base_check_count(dtype, count, err);
    if (status || count == 0) return status;
    base_dtypes[dtype].widen(data, count, out);
    return PCO_OK;
}

pco_status pco_dtype_from_f32(uint32_t dtype, const float *in, int64_t count, void *out, pco_error *err)
{
    pco_status status = base_check_count(dtype, count, err);
    if (status || count == 0) return status;
    const base_dtype *type = &base_dtypes[dtype];
    if (!type->narrow) return pco_fail(err, PCO_ERROR_UNSUPPORTED, "f32 values are not converted to %s", type->name);
    for (int64_t i = 0; type->class == PCO_DTYPE_QUANTISED && i < count; i++)
        if (!isfinite(in[i]))
            return pco_fail(err, PCO_ERROR_INVALID, "element %" PRId64 " is %f, which %s cannot hold", i, (double)in[i],
                            type->name);
    type->narrow(in, count, out);
    return PCO_OK;
}
