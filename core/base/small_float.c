#include "base/small_float.h"

#include <math.h>

const pco_small_float PCO_E4M3FN = {8, 3, 7, 0, 0x7E}, PCO_E4M3FNUZ = {8, 3, 8, 1, 0x7F},
                      PCO_E5M2 = {8, 2, 15, 0, 0x7B}, PCO_E5M2FNUZ = {8, 2, 16, 1, 0x7F}, PCO_E2M1 = {4, 1, 1, 0, 7};

double pco_small_float_value(const pco_small_float *type, unsigned code)
{
    const unsigned sign = 1u << (type->bits - 1), size = code & (sign - 1);
    const double turned = code & sign ? -1.0 : 1.0;
    if (type->unsigned_zero && code == sign) return (double)NAN;
    if ((int)size > type->largest) /* E5M2 has an infinity, E4M3FN has not */
        return type->mantissa == 2 && size == 0x7C ? turned * (double)INFINITY : turned * (double)NAN;
    const int exponent = (int)(size >> type->mantissa), fraction = (int)(size & ((1u << type->mantissa) - 1));
    if (!exponent) return turned * ldexp(fraction, 1 - type->bias - type->mantissa);
    return turned * ldexp(fraction + (1 << type->mantissa), exponent - type->bias - type->mantissa);
}

uint8_t pco_small_float_code(const pco_small_float *type, double value)
{
    const unsigned sign = 1u << (type->bits - 1);
    if (isnan(value)) return (uint8_t)(type->unsigned_zero ? sign : type->bits == 8 ? sign - 1 : 0);
    const double size = fabs(value);
    unsigned low = 0, high = (unsigned)type->largest; /* codes grow with their values */
    if (isinf(value) && type->mantissa == 2 && !type->unsigned_zero) return (uint8_t)(signbit(value) ? 0xFC : 0x7C);
    while (low < high) {
        const unsigned middle = (low + high) / 2;
        if (pco_small_float_value(type, middle + 1) <= size)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < (unsigned)type->largest) {
        const double below = size - pco_small_float_value(type, low),
                     above = pco_small_float_value(type, low + 1) - size;
        if (below > above || (below == above && (low & 1))) low++;
    }
    return (uint8_t)(signbit(value) && (low || !type->unsigned_zero) ? low | sign : low);
}
