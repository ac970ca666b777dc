/* Arithmetic on (value, error bound) pairs: + - * / and square roots. The rules and why they hold are in
 * docs/numerics.md, "Pairs". A bound of infinity means: the contract promises nothing here. */
#include "oracle/oracle_power.h"

#include "base/dtype.h"

#include <math.h>

/* The contract's figures are ulps of a result in f32. Where functions are evaluated in double, they count the
 * final rounding (1/2): what is left, in ulps of a double. */
static double oracle_figure(const pco_contract *contract, float ulps)
{
    if (contract->compute != PCO_CONTRACT_F64) return ulps;
    return ulps > 0.5f ? (ulps - 0.5) * 0x1p29 : 0.5;
}

oracle_rules oracle_rules_from(const pco_contract *contract)
{
    return (oracle_rules){
        .compute = oracle_format_of(contract->compute),
        .accumulate = {[PCO_F32] = oracle_format_of(contract->accumulate_f32),
                       [PCO_F16] = oracle_format_of(contract->accumulate_f16),
                       [PCO_BF16] = oracle_format_of(contract->accumulate_bf16)},
        .round = contract->round_to_nearest ? 0.5 : 1.0,
        .flush = contract->subnormals ? 0.0 : 0x1p-126,
        .div = oracle_figure(contract, contract->div_ulp),
        .sqrt = oracle_figure(contract, contract->sqrt_ulp),
        .rsqrt = oracle_figure(contract, contract->rsqrt_ulp),
        .function = oracle_figure(contract, contract->function_ulp),
        .nan_inf = contract->nan_inf != 0,
    };
}

oracle_rules oracle_rules_sum(const oracle_rules *rules, uint32_t dtype)
{
    oracle_rules sum = *rules;
    if (pco_dtype_is_float(dtype)) sum.compute = rules->accumulate[dtype];
    return sum;
}

oracle_real oracle_ulp(oracle_format format, oracle_real value)
{
    int exponent = format.emin;
    if (value != 0.0L && isfinite(value)) {
        const int own = oracle_exponent_real(value);
        if (own > exponent) exponent = own;
    }
    return oracle_power(exponent - format.precision + 1);
}

bool oracle_representable(oracle_format format, oracle_real value)
{
    if (!isfinite(value)) return true;
    oracle_real steps = value / oracle_ulp(format, value);
    return fabsl(value) <= (oracle_real)format.max && steps == truncl(steps);
}

double oracle_quantum(double x)
{
    if (x == 0.0 || !isfinite(x)) return 0.0;
    int exponent;
    int64_t bits = (int64_t)oracle_scaled(fabs(frexp(x, &exponent)), 53);
    return oracle_scaled((double)(bits & -bits), exponent - 53);
}

oracle_real oracle_gamma(const oracle_rules *rules, int64_t n)
{
    oracle_real nu = (oracle_real)n * rules->round * oracle_power(1 - rules->compute.precision);
    return nu < 0.5L ? nu / (1.0L - nu) : (oracle_real)INFINITY;
}

oracle_ve oracle_input(const oracle_rules *rules, uint32_t dtype, double x)
{
    bool flushed = dtype != PCO_F16 && dtype != PCO_I32 && x != 0.0 && fabs(x) < rules->flush;
    return (oracle_ve){x, flushed ? fabsl((oracle_real)x) : 0.0L};
}

oracle_ve oracle_constant(const oracle_rules *rules, double c)
{
    return oracle_representable(rules->compute, c) ? (oracle_ve){c, 0.0L}
                                                   : (oracle_ve){c, oracle_ulp(rules->compute, c) / 2};
}

/* What flushing a result to zero may add. A NaN or infinite value has no error of its own. */
static oracle_ve oracle_flush(const oracle_rules *rules, oracle_ve a)
{
    if (rules->flush > 0 && a.v != 0.0L && fabsl(a.v) - a.e < rules->flush)
        a.e += fminl(rules->flush, fabsl(a.v) + a.e);
    return a;
}

static bool oracle_special(oracle_ve a) { return !isfinite(a.v) || isinf(a.e); }

oracle_ve oracle_rounded(const oracle_rules *rules, oracle_ve a)
{
    if (oracle_special(a)) return a;
    if (a.e != 0.0L || !oracle_representable(rules->compute, a.v))
        a.e += (oracle_real)rules->round * oracle_ulp(rules->compute, fabsl(a.v) + a.e);
    return oracle_flush(rules, a);
}

oracle_ve oracle_within(const oracle_rules *rules, oracle_ve a, double ulps)
{
    if (oracle_special(a) || (a.v == 0.0L && a.e == 0.0L)) return a;
    oracle_real smallest = oracle_power(rules->compute.emin);
    oracle_real large = fabsl(a.v) + a.e, low = fabsl(a.v) - a.e;
    a.e += (oracle_real)ulps * oracle_ulp(rules->compute, large);
    if (low < smallest) a.e += smallest;
    return a;
}

oracle_ve oracle_narrowed(const oracle_rules *rules, uint32_t dtype, oracle_ve a)
{
    oracle_format out = oracle_format_of(dtype);
    if (oracle_special(a) || out.precision >= rules->compute.precision) return a;
    if (a.e != 0.0L || !oracle_representable(out, a.v))
        a.e += (oracle_real)rules->round * oracle_ulp(out, fabsl(a.v) + a.e);
    return dtype == PCO_F16 ? a : oracle_flush(rules, a);
}

oracle_ve oracle_handed(const oracle_rules *from, const oracle_rules *to, oracle_ve a)
{
    return to->compute.precision < from->compute.precision ? oracle_rounded(to, a) : a;
}

oracle_ve oracle_add(const oracle_rules *rules, oracle_ve a, oracle_ve b)
{
    return oracle_rounded(rules, (oracle_ve){a.v + b.v, a.e + b.e});
}

oracle_ve oracle_sub(const oracle_rules *rules, oracle_ve a, oracle_ve b)
{
    return oracle_rounded(rules, (oracle_ve){a.v - b.v, a.e + b.e});
}

/* |ab - a'b'| <= |a| eb + |b| ea + ea eb */
oracle_ve oracle_mul(const oracle_rules *rules, oracle_ve a, oracle_ve b)
{
    oracle_ve y = {a.v * b.v, 0.0L};
    if (a.e != 0.0L) y.e += a.e * fabsl(b.v) + a.e * b.e;
    if (b.e != 0.0L) y.e += b.e * fabsl(a.v);
    return oracle_rounded(rules, y);
}

/* |a/b - a'/b'| <= (|a| eb / |b| + ea) / (|b| - eb). Where b may be zero nothing is promised; where the
 * reciprocal of b is subnormal and may be flushed, so may the result. */
static oracle_ve oracle_divide(const oracle_rules *rules, oracle_ve a, oracle_ve b, double ulps)
{
    oracle_ve y = {a.v / b.v, 0.0L};
    if (a.e != 0.0L || b.e != 0.0L) {
        if (fabsl(b.v) <= b.e) return (oracle_ve){y.v, INFINITY};
        y.e = (fabsl(a.v) * b.e / fabsl(b.v) + a.e) / (fabsl(b.v) - b.e);
    }
    if (rules->flush > 0 && isfinite(b.v) && fabsl(b.v) > 0x1p126L) y.e += fabsl(y.v);
    if (ulps <= 1.0 && y.e == 0.0L && oracle_representable(rules->compute, y.v)) return oracle_flush(rules, y);
    return oracle_within(rules, y, ulps);
}

oracle_ve oracle_div(const oracle_rules *rules, oracle_ve a, oracle_ve b)
{
    return oracle_divide(rules, a, b, rules->div);
}

oracle_ve oracle_quotient(const oracle_rules *rules, oracle_ve a, oracle_ve b)
{
    oracle_ve direct = oracle_div(rules, a, b);
    oracle_ve inverse = oracle_div(rules, (oracle_ve){1.0L, 0.0L}, b);
    oracle_ve product = oracle_mul(rules, a, inverse);
    if (isfinite(product.v) && product.e > direct.e) direct.e = product.e;
    return direct;
}

/* Monotonic functions of an interval: the larger of the two one-sided differences. */
static oracle_real oracle_spread(oracle_real at, oracle_real low, oracle_real high)
{
    return fmaxl(fabsl(at - low), fabsl(high - at));
}

bool oracle_may_reach_zero(oracle_ve a) { return a.v < 0.0L && a.v + a.e >= 0.0L; }

oracle_ve oracle_sqrt(const oracle_rules *rules, oracle_ve a)
{
    if (oracle_may_reach_zero(a)) return (oracle_ve){0.0L, INFINITY};
    oracle_ve y = {sqrtl(a.v), 0.0L};
    if (a.e != 0.0L) y.e = oracle_spread(y.v, sqrtl(fmaxl(a.v - a.e, 0.0L)), sqrtl(a.v + a.e));
    if (y.e == 0.0L && rules->sqrt <= 1.0 && oracle_representable(rules->compute, y.v)) return y;
    return oracle_within(rules, y, rules->sqrt);
}

oracle_ve oracle_rsqrt(const oracle_rules *rules, oracle_ve a)
{
    if (oracle_may_reach_zero(a)) return (oracle_ve){0.0L, INFINITY};
    oracle_ve y = {1.0L / sqrtl(a.v), 0.0L};
    if (a.e != 0.0L) {
        if (a.v <= a.e) return (oracle_ve){y.v, INFINITY};
        y.e = oracle_spread(y.v, 1.0L / sqrtl(a.v + a.e), 1.0L / sqrtl(a.v - a.e));
    }
    oracle_ve direct = oracle_within(rules, y, rules->rsqrt);
    oracle_ve twice = oracle_div(rules, (oracle_ve){1.0L, 0.0L}, oracle_sqrt(rules, a));
    if (twice.e > direct.e && !isinf(twice.e)) direct.e = twice.e;
    return direct;
}
