/* The half types, one number at a time. */
#include "base/dtype.h"

#include <string.h>

static uint32_t base_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float base_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float pco_f16_to_f32(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, exponent = bits >> 10 & 0x1Fu, fraction = bits & 0x3FFu;
    if (exponent == 0x1F) return base_float(sign | 0x7F800000u | fraction << 13);
    if (exponent) return base_float(sign | (exponent + 112) << 23 | fraction << 13);
    float magnitude = (float)fraction * 0x1p-24f; /* zero and subnormals; exact */
    return base_float(sign | base_bits(magnitude));
}

uint16_t pco_f16_from_f32(float value)
{
    uint32_t bits = base_bits(value), sign = bits >> 16 & 0x8000u, size = bits & 0x7FFFFFFFu;
    if (size > 0x7F800000u) return (uint16_t)(sign | 0x7E00u | (size >> 13 & 0x1FFu));
    if (size >= 0x477FF000u) return (uint16_t)(sign | 0x7C00u); /* 65520 and above round to infinity */
    if (size >= 0x38800000u) {                                  /* 2^-14 and above: a normal half */
        size -= 112u << 23;
        size += 0xFFFu + (size >> 13 & 1u);
        return (uint16_t)(sign | size >> 13);
    }
    if (size < 0x33000000u) return (uint16_t)sign; /* below 2^-25, half of the least subnormal */
    uint32_t shift = 126 - (size >> 23), mantissa = (size & 0x7FFFFFu) | 0x800000u;
    uint32_t kept = mantissa >> shift, rest = mantissa & ((1u << shift) - 1), half = 1u << (shift - 1);
    if (rest > half || (rest == half && (kept & 1u))) kept++;
    return (uint16_t)(sign | kept);
}

float pco_bf16_to_f32(uint16_t bits) { return base_float((uint32_t)bits << 16); }

uint16_t pco_bf16_from_f32(float value)
{
    uint32_t bits = base_bits(value);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}
