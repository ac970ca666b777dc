/* Powers of two and exponents as ldexp and ilogb give them: exact, and without a call where a double's own fields tell,
 * since the oracle asks for several of them per element. */
#ifndef CONF_ORACLE_POWER_H
#define CONF_ORACLE_POWER_H

#include "oracle/oracle_number.h"

#include <math.h>
#include <string.h>

enum { ORACLE_BIAS = 1023, ORACLE_FRACTION_BITS = 52 };

/* 2^exponent */
static inline oracle_real oracle_power(int exponent)
{
    if (exponent <= -ORACLE_BIAS || exponent > ORACLE_BIAS) return ldexpl(1.0L, exponent);
    const uint64_t bits = (uint64_t)(exponent + ORACLE_BIAS) << ORACLE_FRACTION_BITS;
    double power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

/* x 2^exponent, rounded once */
static inline double oracle_scaled(double x, int exponent)
{
    if (exponent <= -ORACLE_BIAS || exponent > ORACLE_BIAS) return ldexp(x, exponent);
    return x * (double)oracle_power(exponent);
}

/* Of x's leading bit; x is finite and not 0. */
static inline int oracle_exponent(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    const int field = (int)(bits >> ORACLE_FRACTION_BITS) & (2 * ORACLE_BIAS + 1);
    return field ? field - ORACLE_BIAS : ilogb(x);
}

/* Of x's leading bit; x is finite and not 0. */
static inline int oracle_exponent_real(oracle_real x)
{
    const double near = (double)x;
    if (near == 0.0 || isinf(near)) return ilogbl(x);
    const int exponent = oracle_exponent(near);
    return fabsl(x) < oracle_power(exponent) ? exponent - 1 : exponent; /* rounded up to the next power */
}

#endif
