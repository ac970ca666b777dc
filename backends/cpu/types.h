/* Element types: sizes, and conversion of single elements. Every conversion to a narrower type rounds once,
 * to nearest even, from the value that it is given; NaN stays NaN. */
#ifndef CPU_TYPES_H
#define CPU_TYPES_H

#include <portico/plugin.h>

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* The rows of the types as cases of a switch; clang-format 15 would join these lines. */
/* clang-format off */
#define CPU_IS(NAME, name, block, bytes)       case PCO_##NAME: return true;
#define CPU_BYTES_OF(NAME, name, block, bytes) case PCO_##NAME: return bytes;
#define CPU_BLOCK_OF(NAME, name, block, bytes) case PCO_##NAME: return block;
#define CPU_ROW_OF(NAME, name, block, bytes)   case PCO_##NAME: return count / (block) * (bytes);
/* clang-format on */

/* Bytes of one element; 0 for the quantised types. */
static inline uint32_t cpu_size(uint32_t dtype)
{
    switch (dtype) {
        PCO_FLOAT_DTYPES(CPU_BYTES_OF)
        PCO_WHOLE_DTYPES(CPU_BYTES_OF)
    default: return 0;
    }
}

static inline bool cpu_is_float(uint32_t dtype)
{
    switch (dtype) {
        PCO_FLOAT_DTYPES(CPU_IS)
    default: return false;
    }
}

static inline bool cpu_is_quantised(uint32_t dtype)
{
    switch (dtype) {
        PCO_QUANTISED_DTYPES(CPU_IS)
    default: return false;
    }
}

/* Elements of a block; the largest block of all types. */
static inline int64_t cpu_block(uint32_t dtype)
{
    switch (dtype) {
        PCO_QUANTISED_DTYPES(CPU_BLOCK_OF)
    default: return 1;
    }
}
enum { CPU_BLOCK_MOST = 256 };
#define CPU_BLOCK_FITS(NAME, name, block, bytes) \
    _Static_assert((block) <= CPU_BLOCK_MOST && CPU_BLOCK_MOST % (block) == 0, #name);
PCO_QUANTISED_DTYPES(CPU_BLOCK_FITS)

/* Bytes of `count` elements that lie one after the other; quantised counts are multiples of the block. */
static inline int64_t cpu_bytes(uint32_t dtype, int64_t count)
{
    switch (dtype) {
        PCO_QUANTISED_DTYPES(CPU_ROW_OF)
    default: return count * cpu_size(dtype);
    }
}

static inline uint32_t cpu_bits_f32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}

static inline float cpu_f32_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

static inline float cpu_bf16_to_f32(uint16_t h) { return cpu_f32_bits((uint32_t)h << 16); }

static inline float cpu_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = (uint32_t)(h & 0x7fffu) << 13;
    if (rest >= 0x7c00u << 13) return cpu_f32_bits(sign | rest | 0x7f800000u);
    /* 2^112 moves the exponent from f16's bias to f32's and makes subnormals normal; the product is exact. */
    return cpu_f32_bits(sign | cpu_bits_f32(cpu_f32_bits(rest) * 0x1p112f));
}

/* The 15 bits below the sign of |x| in a 16-bit format with `kept` stored bits of significand and the
 * exponent bias `bias`. */
static inline uint16_t cpu_narrow_f64(double x, int kept, int bias)
{
    uint64_t bits;
    memcpy(&bits, &x, 8);
    uint16_t sign = (uint16_t)(bits >> 48 & 0x8000u);
    bits &= INT64_MAX;
    uint32_t infinity = (uint32_t)((2 * bias + 1) << kept);
    if (bits > 0x7ffull << 52) return (uint16_t)(sign | infinity | 1u << (kept - 1));
    int dropped = 52 - kept, exponent = (int)(bits >> 52) - 1023;
    if (exponent < 1 - bias) {
        /* Subnormal: a multiple of 2^(1 - bias - kept). The scaling is exact. */
        double units = rint(ldexp(fabs(x), bias - 1 + kept));
        return (uint16_t)(sign | (uint16_t)units);
    }
    bits += (1ull << (dropped - 1)) - 1 + (bits >> dropped & 1);
    int64_t result = (int64_t)(bits >> dropped) - ((int64_t)(1023 - bias) << kept);
    return (uint16_t)(sign | (uint16_t)(result >= infinity ? infinity : result));
}

static inline uint16_t cpu_f64_to_f16(double x) { return cpu_narrow_f64(x, 10, 15); }

static inline uint16_t cpu_f64_to_bf16(double x) { return cpu_narrow_f64(x, 7, 127); }

static inline uint16_t cpu_f32_to_f16(float x) { return cpu_f64_to_f16((double)x); }

static inline uint16_t cpu_f32_to_bf16(float x)
{
    uint32_t bits = cpu_bits_f32(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* Toward zero, saturated, NaN to 0. */
static inline int32_t cpu_f64_to_i32(double x)
{
    if (x != x) return 0;
    if (x >= 2147483647.0) return INT32_MAX;
    if (x <= -2147483648.0) return INT32_MIN;
    return (int32_t)x;
}

static inline uint16_t cpu_u16_at(const unsigned char *at)
{
    uint16_t h;
    memcpy(&h, at, 2);
    return h;
}

static inline float cpu_half_at(const unsigned char *at) { return cpu_f16_to_f32(cpu_u16_at(at)); }

#include "quants.h"

#define CPU_LOAD_BLOCK(NAME, name, block, bytes) \
    case PCO_##NAME: return cpu_##name##_at((const unsigned char *)x + i / (block) * (bytes), (int)(i % (block)));

/* Element i of x as a number, whatever its type; exact. */
static inline double cpu_load_f64(uint32_t dtype, const void *x, int64_t i)
{
    switch (dtype) {
    case PCO_F32: return (double)((const float *)x)[i];
    case PCO_F16: return (double)cpu_f16_to_f32(((const uint16_t *)x)[i]);
    case PCO_BF16: return (double)cpu_bf16_to_f32(((const uint16_t *)x)[i]);
    case PCO_I32: return (double)((const int32_t *)x)[i];
    case PCO_BOOL: return ((const uint8_t *)x)[i] ? 1.0 : 0.0; PCO_QUANTISED_DTYPES(CPU_LOAD_BLOCK)
    default: return 0;
    }
}

/* y[i] = x, rounded to the type (i32: toward zero, saturated; bool: x != 0). Not for quantised types. */
static inline void cpu_store_f64(uint32_t dtype, void *y, int64_t i, double x)
{
    switch (dtype) {
    case PCO_F32: ((float *)y)[i] = (float)x; break;
    case PCO_F16: ((uint16_t *)y)[i] = cpu_f64_to_f16(x); break;
    case PCO_BF16: ((uint16_t *)y)[i] = cpu_f64_to_bf16(x); break;
    case PCO_I32: ((int32_t *)y)[i] = cpu_f64_to_i32(x); break;
    case PCO_BOOL: ((uint8_t *)y)[i] = x != 0; break;
    default: break;
    }
}

/* x as the type holds it: rounded to nearest even; i32 too, and saturated. */
static inline double cpu_round_to(uint32_t dtype, double x)
{
    switch (dtype) {
    case PCO_F32: return (double)(float)x;
    case PCO_F16: return (double)cpu_f16_to_f32(cpu_f64_to_f16(x));
    case PCO_BF16: return (double)cpu_bf16_to_f32(cpu_f64_to_bf16(x));
    case PCO_I32: return (double)cpu_f64_to_i32(rint(x));
    default: return x != 0;
    }
}

#endif
