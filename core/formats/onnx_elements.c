/* Elements of ONNX's types, in the layout of arrays, as doubles and back. */
#include "formats/onnx.h"

#include "base/dtype.h"
#include "base/small_float.h"

#include <math.h>
#include <string.h>

const char *pco_onnx_type_name(int32_t type)
{
    static const char *const NAMES[] = {
        "no type",   "float",      "uint8",      "int8",         "uint16",         "int16",      "int32",
        "int64",     "string",     "bool",       "float16",      "double",         "uint32",     "uint64",
        "complex64", "complex128", "bfloat16",   "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz",
        "uint4",     "int4",       "float4e2m1", "float8e8m0",   "uint2",          "int2"};
    return type >= 0 && type < (int32_t)(sizeof NAMES / sizeof *NAMES) ? NAMES[type] : "unknown type";
}

uint32_t pco_onnx_type_bytes(int32_t type)
{
    switch (type) {
    case PCO_ONNX_DOUBLE:
    case PCO_ONNX_UINT64:
    case PCO_ONNX_INT64: return 8;
    case PCO_ONNX_FLOAT:
    case PCO_ONNX_UINT32:
    case PCO_ONNX_INT32: return 4;
    case PCO_ONNX_FLOAT16:
    case PCO_ONNX_BFLOAT16:
    case PCO_ONNX_UINT16:
    case PCO_ONNX_INT16: return 2;
    case PCO_ONNX_BOOL:
    case PCO_ONNX_INT8:
    case PCO_ONNX_UINT8:
    case PCO_ONNX_FLOAT8E4M3FN:
    case PCO_ONNX_FLOAT8E4M3FNUZ:
    case PCO_ONNX_FLOAT8E5M2:
    case PCO_ONNX_FLOAT8E5M2FNUZ:
    case PCO_ONNX_UINT4:
    case PCO_ONNX_INT4:
    case PCO_ONNX_FLOAT4E2M1:
    case PCO_ONNX_FLOAT8E8M0:
    case PCO_ONNX_UINT2:
    case PCO_ONNX_INT2: return 1;
    default: return 0;
    }
}

/* ---- floats of 8 and 4 bits ---- */

static const pco_small_float *onnx_small_of(int32_t type)
{
    switch (type) {
    case PCO_ONNX_FLOAT8E4M3FN: return &PCO_E4M3FN;
    case PCO_ONNX_FLOAT8E4M3FNUZ: return &PCO_E4M3FNUZ;
    case PCO_ONNX_FLOAT8E5M2: return &PCO_E5M2;
    case PCO_ONNX_FLOAT8E5M2FNUZ: return &PCO_E5M2FNUZ;
    case PCO_ONNX_FLOAT4E2M1: return &PCO_E2M1;
    default: return NULL;
    }
}

bool pco_onnx_small_float(int32_t type, pco_onnx_small *small)
{
    const pco_small_float *found = onnx_small_of(type);
    *small = (pco_onnx_small){0};
    if (found)
        *small = (pco_onnx_small){.mantissa = found->mantissa,
                                  .bias = found->bias,
                                  .infinity = type == PCO_ONNX_FLOAT8E5M2,
                                  .nan = found->bits == 8,
                                  .largest = pco_small_float_value(found, (unsigned)found->largest)};
    return found || type == PCO_ONNX_FLOAT8E8M0;
}

/* ---- all types ---- */

#define ONNX_LOAD(type, at) \
    do { \
        type loaded; \
        memcpy(&loaded, at, sizeof loaded); \
        return (double)loaded; \
    } while (0)

static double onnx_decode_one(int32_t type, const uint8_t *at)
{
    uint16_t half;
    switch (type) {
    case PCO_ONNX_DOUBLE: ONNX_LOAD(double, at);
    case PCO_ONNX_INT64: ONNX_LOAD(int64_t, at);
    case PCO_ONNX_UINT64: ONNX_LOAD(uint64_t, at);
    case PCO_ONNX_FLOAT: ONNX_LOAD(float, at);
    case PCO_ONNX_INT32: ONNX_LOAD(int32_t, at);
    case PCO_ONNX_UINT32: ONNX_LOAD(uint32_t, at);
    case PCO_ONNX_INT16: ONNX_LOAD(int16_t, at);
    case PCO_ONNX_UINT16: ONNX_LOAD(uint16_t, at);
    case PCO_ONNX_FLOAT16: memcpy(&half, at, 2); return (double)pco_f16_to_f32(half);
    case PCO_ONNX_BFLOAT16: memcpy(&half, at, 2); return (double)pco_bf16_to_f32(half);
    case PCO_ONNX_INT8: return (int8_t)*at;
    case PCO_ONNX_INT4: return (*at & 15) - ((*at & 8) << 1);
    case PCO_ONNX_UINT4: return *at & 15;
    case PCO_ONNX_INT2: return (*at & 3) - ((*at & 2) << 1);
    case PCO_ONNX_UINT2: return *at & 3;
    case PCO_ONNX_FLOAT8E8M0: return *at == 255 ? (double)NAN : ldexp(1, *at - 127);
    case PCO_ONNX_BOOL: return *at != 0;
    default: break;
    }
    const pco_small_float *small = onnx_small_of(type);
    return small ? pco_small_float_value(small, small->bits == 4 ? *at & 15u : *at) : *at;
}

void pco_onnx_decode(int32_t type, const void *raw, int64_t count, double *value)
{
    const uint32_t step = pco_onnx_type_bytes(type);
    for (int64_t i = 0; i < count; i++) value[i] = onnx_decode_one(type, (const uint8_t *)raw + i * step);
}

static double onnx_saturated(double value, double low, double high)
{
    if (isnan(value)) return 0;
    const double whole = nearbyint(value);
    return whole < low ? low : whole > high ? high : whole;
}

#define ONNX_STORE(type, at, value) \
    do { \
        const type stored = (type)(value); \
        memcpy(at, &stored, sizeof stored); \
        return; \
    } while (0)

/* Rounded to f32 so that rounding that to a half type rounds once: towards zero, and odd where anything was lost. The
 * last of f32's 24 bits then only says on which side of a tie of 11 or 8 bits the value lies (Boldo and Melquiond 2008,
 * Emulation of FMA and correctly rounded sums: 24 >= 11 + 2). */
static float onnx_odd(double v)
{
    const float near = (float)v;
    if ((double)near == v || !isfinite(near)) return near;
    const float inside = fabs((double)near) > fabs(v) ? nextafterf(near, 0) : near;
    uint32_t bits;
    float odd;
    memcpy(&bits, &inside, sizeof bits);
    bits |= 1;
    memcpy(&odd, &bits, sizeof odd);
    return odd;
}

static void onnx_encode_one(int32_t type, double v, uint8_t *at)
{
    switch (type) {
    case PCO_ONNX_DOUBLE: ONNX_STORE(double, at, v);
    case PCO_ONNX_INT64: ONNX_STORE(int64_t, at, v >= 0x1p63 ? INT64_MAX : onnx_saturated(v, -0x1p63, 0x1p63 - 1024));
    case PCO_ONNX_UINT64: ONNX_STORE(uint64_t, at, v >= 0x1p64 ? UINT64_MAX : onnx_saturated(v, 0, 0x1p64 - 2048));
    case PCO_ONNX_FLOAT: ONNX_STORE(float, at, v);
    case PCO_ONNX_INT32: ONNX_STORE(int32_t, at, onnx_saturated(v, INT32_MIN, INT32_MAX));
    case PCO_ONNX_UINT32: ONNX_STORE(uint32_t, at, onnx_saturated(v, 0, UINT32_MAX));
    case PCO_ONNX_INT16: ONNX_STORE(int16_t, at, onnx_saturated(v, INT16_MIN, INT16_MAX));
    case PCO_ONNX_UINT16: ONNX_STORE(uint16_t, at, onnx_saturated(v, 0, UINT16_MAX));
    case PCO_ONNX_FLOAT16: ONNX_STORE(uint16_t, at, pco_f16_from_f32(onnx_odd(v)));
    case PCO_ONNX_BFLOAT16: ONNX_STORE(uint16_t, at, pco_bf16_from_f32(onnx_odd(v)));
    case PCO_ONNX_INT8: ONNX_STORE(int8_t, at, onnx_saturated(v, -128, 127));
    case PCO_ONNX_INT4: *at = (uint8_t)((int)onnx_saturated(v, -8, 7) & 15); return;
    case PCO_ONNX_UINT4: *at = (uint8_t)onnx_saturated(v, 0, 15); return;
    case PCO_ONNX_INT2: *at = (uint8_t)((int)onnx_saturated(v, -2, 1) & 3); return;
    case PCO_ONNX_UINT2: *at = (uint8_t)onnx_saturated(v, 0, 3); return;
    case PCO_ONNX_FLOAT8E8M0: *at = isnan(v) ? 255 : v > 0 ? (uint8_t)onnx_saturated(log2(v) + 127, 0, 254) : 0; return;
    case PCO_ONNX_BOOL: *at = v != 0; return;
    default: break;
    }
    const pco_small_float *small = onnx_small_of(type);
    *at = small ? pco_small_float_code(small, v) : (uint8_t)onnx_saturated(v, 0, 255);
}

void pco_onnx_encode(int32_t type, const double *value, int64_t count, void *raw)
{
    const uint32_t step = pco_onnx_type_bytes(type);
    for (int64_t i = 0; i < count; i++) onnx_encode_one(type, value[i], (uint8_t *)raw + i * step);
}
