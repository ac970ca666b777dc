/* Bounds of exp, log, sin, cos, tanh, erf and of what is built from them. `function` ulps of the compute
 * format are what the contract allows for each of the six; everything else follows by propagation. */
#include "oracle/oracle_power.h"

#include <math.h>

static const oracle_real PI = 3.14159265358979323846264338327950288L;

/* |exp(a') - exp(a)| <= exp(a) (exp(e) - 1). Below the normal range: the smallest normal number. */
oracle_ve oracle_exp(const oracle_rules *rules, oracle_ve a)
{
    oracle_ve y = {expl(a.v), 0.0L};
    if (a.e != 0.0L && y.v != 0.0L) y.e = y.v * expm1l(a.e);
    return oracle_within(rules, y, rules->function);
}

/* Relative error also near 1, where the logarithm vanishes. */
oracle_ve oracle_log(const oracle_rules *rules, oracle_ve a)
{
    if (oracle_may_reach_zero(a)) return (oracle_ve){0.0L, INFINITY};
    oracle_ve y = {logl(a.v), 0.0L};
    if (a.e != 0.0L) {
        if (a.v <= a.e) return (oracle_ve){y.v, INFINITY};
        y.e = -log1pl(-a.e / a.v);
    }
    return oracle_within(rules, y, rules->function);
}

/* Absolute error of function * 2^-p (2^-24 in f32); the argument's error passes with slope 1 at most. The
 * argument reduction is exact up to 10^5; beyond, nothing is promised. */
static oracle_ve oracle_wave(const oracle_rules *rules, oracle_ve a, oracle_real value)
{
    if (!isfinite(a.v)) return (oracle_ve){NAN, 0.0L};
    if (fabsl(a.v) > 100000.0L) return (oracle_ve){value, INFINITY};
    oracle_real error = (oracle_real)rules->function * oracle_power(-rules->compute.precision);
    return (oracle_ve){value, fminl(a.e, 2.0L) + error};
}

oracle_ve oracle_sin(const oracle_rules *rules, oracle_ve a) { return oracle_wave(rules, a, sinl(a.v)); }

oracle_ve oracle_cos(const oracle_rules *rules, oracle_ve a) { return oracle_wave(rules, a, cosl(a.v)); }

/* Monotonic: the argument's error moves the value between f(a - e) and f(a + e). */
static oracle_ve oracle_monotonic(const oracle_rules *rules, oracle_ve a, oracle_real (*f)(oracle_real))
{
    oracle_ve y = {f(a.v), 0.0L};
    if (a.e != 0.0L) y.e = fmaxl(fabsl(f(a.v + a.e) - y.v), fabsl(y.v - f(a.v - a.e)));
    return oracle_within(rules, y, rules->function);
}

oracle_ve oracle_tanh(const oracle_rules *rules, oracle_ve a) { return oracle_monotonic(rules, a, tanhl); }

oracle_ve oracle_erf(const oracle_rules *rules, oracle_ve a) { return oracle_monotonic(rules, a, erfl); }

/* exp(b log |a|): the error of the logarithm is multiplied by b. Special bases and exponents are exact. */
oracle_ve oracle_pow(const oracle_rules *rules, oracle_ve a, oracle_ve b)
{
    oracle_real value = powl(a.v, b.v);
    if (isnan(value) && oracle_may_reach_zero(a)) return (oracle_ve){0.0L, INFINITY};
    if (a.v == 0.0L || b.v == 0.0L || !isfinite(a.v) || !isfinite(b.v) || isnan(value))
        return (oracle_ve){value, a.e != 0.0L || (b.e != 0.0L && a.v == 0.0L) ? (oracle_real)INFINITY : 0.0L};
    oracle_ve size = {fabsl(a.v), a.e};
    oracle_ve y = oracle_exp(rules, oracle_mul(rules, oracle_log(rules, size), b));
    return (oracle_ve){value, y.e};
}

static oracle_ve oracle_worse(oracle_ve a, oracle_ve b)
{
    if (b.e > a.e || isnan(b.e)) a.e = b.e;
    return a;
}

/* 1 / (1 + exp(-x)), or for negative x exp(x) / (1 + exp(x)), whichever is worse. */
oracle_ve oracle_sigmoid(const oracle_rules *rules, oracle_ve a)
{
    oracle_ve one = {1.0L, 0.0L};
    if (isinf(a.v)) return (oracle_ve){a.v > 0 ? 1.0L : 0.0L, 0.0L};
    oracle_ve y = oracle_div(rules, one, oracle_add(rules, one, oracle_exp(rules, (oracle_ve){-a.v, a.e})));
    if (a.v >= 0.0L || isnan(a.v)) return y;
    oracle_ve grow = oracle_exp(rules, a);
    return oracle_worse(y, oracle_quotient(rules, grow, oracle_add(rules, one, grow)));
}

/* x sigmoid(x), or x / (1 + exp(-x)). At -infinity the limit is 0 and the product is NaN: neither is
 * promised. */
oracle_ve oracle_silu(const oracle_rules *rules, oracle_ve a)
{
    if (isinf(a.v)) return a.v > 0 ? a : (oracle_ve){0.0L, INFINITY};
    oracle_ve one = {1.0L, 0.0L};
    oracle_ve product = oracle_mul(rules, a, oracle_sigmoid(rules, a));
    oracle_ve below = oracle_add(rules, one, oracle_exp(rules, (oracle_ve){-a.v, a.e}));
    return oracle_worse(product, oracle_div(rules, a, below));
}

/* x Phi(x). In 1 + erf (1 + tanh) the sum cancels for negative x: its error is that of erf near -1, an
 * absolute one, and reaches the result as |x| / 2 times it. Phi may also be a function of its own, and the
 * tanh form may be computed as x sigmoid(2 z). */
oracle_ve oracle_gelu(const oracle_rules *rules, oracle_ve a, bool tanh_form)
{
    oracle_ve one = {1.0L, 0.0L}, half = {0.5L, 0.0L}, inner;
    if (isinf(a.v)) return a.v > 0 ? a : (oracle_ve){0.0L, INFINITY};
    if (!tanh_form) {
        inner = oracle_mul(rules, a, oracle_constant(rules, 0.70710678118654752440));
        oracle_ve sum = oracle_add(rules, one, oracle_erf(rules, inner));
        oracle_ve y = oracle_mul(rules, oracle_mul(rules, half, a), sum);
        oracle_ve phi = {0.5L * erfcl(-a.v * 0.70710678118654752440084436210484903928L), 0.0L};
        y.v = a.v * phi.v;
        if (a.e == 0.0L) y = oracle_worse(y, oracle_mul(rules, a, oracle_within(rules, phi, rules->function)));
        return y;
    }
    oracle_ve cube = oracle_mul(rules, oracle_mul(rules, a, a), a);
    inner = oracle_add(rules, a, oracle_mul(rules, cube, oracle_constant(rules, 0.044715)));
    inner = oracle_mul(rules, inner, oracle_constant(rules, 0.79788456080286535588));
    oracle_ve sum = oracle_add(rules, one, oracle_tanh(rules, inner));
    oracle_ve y = oracle_mul(rules, oracle_mul(rules, half, a), sum);
    oracle_ve twice = {2.0L * inner.v, 2.0L * inner.e};
    oracle_ve other = oracle_mul(rules, a, oracle_sigmoid(rules, twice));
    other.v = a.v / (1.0L + expl(-twice.v));
    return oracle_worse(other, y);
}

/* The turn is read as a signed fraction f of a full turn, cut to 2^-32 where it is longer, converted to the
 * compute format, and multiplied by 2 pi: |theta| <= pi carries three roundings and 2 pi 2^-32. */
void oracle_turn(const oracle_rules *rules, uint64_t turn, oracle_ve *sine, oracle_ve *cosine)
{
    oracle_real fraction = ldexpl((oracle_real)(int64_t)turn, -64);
    oracle_ve f = {fraction, (uint32_t)turn != 0 ? 0x1p-32L : 0.0L};
    oracle_ve angle = oracle_mul(rules, oracle_rounded(rules, f), oracle_constant(rules, 6.28318530717958647692));
    *sine = oracle_sin(rules, (oracle_ve){2.0L * PI * fraction, angle.e});
    *cosine = oracle_cos(rules, (oracle_ve){2.0L * PI * fraction, angle.e});
}
