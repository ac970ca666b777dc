/* exp, tanh, erf and what models build from them, on vectors. With u = 2^-24 (half an ulp of f32), each bound
 * below counts the roundings that reach the result; all are under the 4 ulp that the contract promises (gelu:
 * of Phi, see there). The same steps are taken with and without a fused multiply-add, so the bounds count the
 * latter's roundings. */

/* e^x = p * 2^n with p in [0.70, 1.42]. x is brought to [-120, 89], beyond which the result, also times |x|,
 * is 0 or infinite. n = round(x log2 e); r = x - n ln 2 in two parts, the first product exact (ln2 high has 9
 * zero bits, |n| < 2^8); |r| <= 0.3475. Taylor to r^7: remainder r^8/8! < 5.3e-9 = 0.09 u relative.
 * Roundings: r itself 0.35 u, r^2 q 0.2 u, r + r^2 q 0.5 u, 1 + .. 1 u: below 1.2 ulp. NaN stays NaN in p. */
CPU_INLINE void v_exp_parts(v_f32 x, v_f32 *p, v_i32 *n)
{
    const v_f32 low = v_splat(-120.0f), high = v_splat(89.0f), magic = v_splat(0x1.8p23f);
    x = v_select(x < low, low, x);
    x = v_select(x > high, high, x);
    v_f32 t = v_fma(x, v_splat(0x1.715476p0f), magic);
    v_f32 whole = t - magic;
    *n = v_bits(t) - v_bits(magic);
    v_f32 r = v_fma(whole, v_splat(-0x1.62e4p-1f), x);
    r = v_fma(whole, v_splat(-0x1.7f7d1cp-20f), r);
    v_f32 q = v_splat(1.0f / 5040);
    q = v_fma(q, r, v_splat(1.0f / 720));
    q = v_fma(q, r, v_splat(1.0f / 120));
    q = v_fma(q, r, v_splat(1.0f / 24));
    q = v_fma(q, r, v_splat(1.0f / 6));
    q = v_fma(q, r, v_splat(0.5f));
    *p = v_fma(q, r * r, r) + 1.0f;
}

/* The same for an argument in double, which keeps e^(-x^2/2) accurate where x^2 is large. */
CPU_INLINE void v_exp_parts_f64(const v_f64 *argument, v_f32 *p, v_i32 *n)
{
    typedef int64_t v_i64 __attribute__((vector_size(8 * CPU_LANES)));
    v_f64 x = *argument;
    const v_f64 zero = {0};
    const v_f64 low = zero - 120.0, high = zero + 89.0;
    v_i64 below = x < low;
    v_i64 above = x > high;
    x = (v_f64)((below & (v_i64)low) | (~below & (v_i64)x));
    x = (v_f64)((above & (v_i64)high) | (~above & (v_i64)x));
    v_f64 whole = x * 0x1.71547652b82fep0 + 0x1.8p52 - 0x1.8p52;
    v_f32 r = __builtin_convertvector(x - whole * 0x1.62e42fefa39efp-1, v_f32);
    v_f32 n_f32 = __builtin_convertvector(whole, v_f32);
    v_i32 number = n_f32 == n_f32;
    *n = __builtin_convertvector(v_select(number, n_f32, v_splat(0)), v_i32);
    v_f32 q = v_splat(1.0f / 5040);
    q = v_fma(q, r, v_splat(1.0f / 720));
    q = v_fma(q, r, v_splat(1.0f / 120));
    q = v_fma(q, r, v_splat(1.0f / 24));
    q = v_fma(q, r, v_splat(1.0f / 6));
    q = v_fma(q, r, v_splat(0.5f));
    *p = v_fma(q, r * r, r) + 1.0f;
}

/* v * 2^n for -250 <= n <= 250: two factors in the normal range, so that only the last product rounds. */
CPU_INLINE v_f32 v_scale_2(v_f32 v, v_i32 n)
{
    v_i32 half = n >> 1;
    v_f32 first = (v_f32)((half + 127) << 23), second = (v_f32)((n - half + 127) << 23);
    return v * first * second;
}

CPU_INLINE v_f32 v_exp(v_f32 x)
{
    v_f32 p;
    v_i32 n;
    v_exp_parts(x, &p, &n);
    return v_scale_2(p, n);
}

/* Below 0.625: x + x^3 P(x^2), P minimax of degree 5 (2.6e-10): under 1 ulp. Above: (1 - e) / (1 + e), e =
 * e^-2|x|
 * <= 0.287; the 1.2 ulp of e weigh at most 0.4 in 1 - e and 0.23 in 1 + e; three roundings: under 2.5 ulp. */
CPU_INLINE v_f32 v_tanh(v_f32 x)
{
    v_f32 a = v_abs(x), z = x * x;
    v_f32 q = v_splat(0x1.0ecaa8p-9f);
    q = v_fma(q, z, v_splat(-0x1.09305ap-7f));
    q = v_fma(q, z, v_splat(0x1.62fbc8p-6f));
    q = v_fma(q, z, v_splat(-0x1.b9e17ap-5f));
    q = v_fma(q, z, v_splat(0x1.111024p-3f));
    q = v_fma(q, z, v_splat(-0x1.555552p-2f));
    v_f32 small = v_fma(x * z, q, x);
    v_f32 e = v_exp(a * -2.0f);
    v_f32 large = v_with_sign((1.0f - e) / (1.0f + e), x);
    /* A NaN takes the first form, which keeps it. */
    return v_select(a >= 0.625f, large, small);
}

/* e^-(A + s) = p * 2^n for a square A and its rest s as v_square leaves them: 0 <= A <= 106. As in
 * v_exp_parts; A - n ln 2 (high part) is exact, s is rounded twice and at most 0.11: 0.2 u more in r, below
 * 1.4 ulp in all. */
CPU_INLINE void v_exp_square(v_f32 square, v_f32 rest, v_f32 *p, v_i32 *n)
{
    const v_f32 magic = v_splat(0x1.8p23f);
    v_f32 t = v_fma(square, v_splat(-0x1.715476p0f), magic);
    v_f32 whole = t - magic;
    *n = v_bits(t) - v_bits(magic);
    v_f32 r = v_fma(whole, v_splat(-0x1.62e4p-1f), -square);
    r = v_fma(whole, v_splat(-0x1.7f7d1cp-20f), r) - rest;
    v_f32 q = v_splat(1.0f / 5040);
    q = v_fma(q, r, v_splat(1.0f / 720));
    q = v_fma(q, r, v_splat(1.0f / 120));
    q = v_fma(q, r, v_splat(1.0f / 24));
    q = v_fma(q, r, v_splat(1.0f / 6));
    q = v_fma(q, r, v_splat(0.5f));
    *p = v_fma(q, r * r, r) + 1.0f;
}

/* a^2 = square + rest: the square of the leading 12 bits, which is exact, and what they leave. */
CPU_INLINE v_f32 v_square(v_f32 a, v_f32 *rest)
{
    v_f32 lead = (v_f32)((v_i32)a & (int32_t)0xfffff000);
    *rest = (a + lead) * (a - lead);
    return lead * lead;
}

/* 0.5 erfcx(a / sqrt 2), erfcx(t) = e^(t^2) erfc(t), for 0.8 <= a <= 14.75: a polynomial of degree 10 in s
 * = (a - c) / (a + c) = 1 - 2c / (a + c), over a + c; c = 2.828125. Minimax error 3.7e-9 relative = 0.1 u.
 * 1 / (a + c) has 2 u, s thereby 2 u (1 - s) + 1 u absolute, at most 4 u, which the polynomial, whose slope
 * is below 0.8 of it, hands on as 3.2 u; Horner adds 2 u (its terms have one sign where s < 0 and fall by
 * half where s > 0), the product 1 u and 1 / (a + c) again 2 u: below 8.3 u, relative. */
CPU_INLINE v_f32 v_half_erfcx(v_f32 a)
{
    v_f32 over = 1.0f / (a + 2.828125f);
    v_f32 s = v_fma(over, v_splat(-5.65625f), v_splat(1.0f));
    v_f32 q = v_splat(0x1.a30d8ep-15f);
    q = v_fma(q, s, v_splat(0x1.22117cp-15f));
    q = v_fma(q, s, v_splat(-0x1.b7a20ep-12f));
    q = v_fma(q, s, v_splat(-0x1.34b1d4p-11f));
    q = v_fma(q, s, v_splat(0x1.1c00eep-9f));
    q = v_fma(q, s, v_splat(0x1.2bccb0p-8f));
    q = v_fma(q, s, v_splat(-0x1.f27cb8p-7f));
    q = v_fma(q, s, v_splat(-0x1.a597d2p-6f));
    q = v_fma(q, s, v_splat(0x1.949950p-3f));
    q = v_fma(q, s, v_splat(-0x1.f18356p-2f));
    q = v_fma(q, s, v_splat(0x1.71d892p-1f));
    return q * over;
}

/* Below 1: x P(x^2), minimax of degree 7 (3.4e-11): under 2 ulp. Above: 1 - e^(-x^2) erfcx(x); the second
 * term is off by less than 13 u of at most 0.158, which is 2.5 u of the result, and 1 u for the difference:
 * under 4 ulp (an ulp is at least 1 u there). */
CPU_INLINE v_f32 v_erf(v_f32 x)
{
    v_f32 a = v_abs(x), z = x * x;
    v_f32 q = v_splat(-0x1.438406p-17f);
    q = v_fma(q, z, v_splat(0x1.d82692p-14f));
    q = v_fma(q, z, v_splat(-0x1.bcbe9ap-11f));
    q = v_fma(q, z, v_splat(0x1.5628eep-8f));
    q = v_fma(q, z, v_splat(-0x1.b829a8p-6f));
    q = v_fma(q, z, v_splat(0x1.ce2f08p-4f));
    q = v_fma(q, z, v_splat(-0x1.812746p-2f));
    q = v_fma(q, z, v_splat(0x1.20dd76p0f));
    v_f32 top = v_splat(10.0f), p, rest;
    v_f32 t = v_select(a > top, top, a);
    v_i32 n;
    v_f32 square = v_square(t, &rest);
    v_exp_square(square, rest, &p, &n);
    v_f32 tail = 2.0f * v_half_erfcx(t * 0x1.6a09e6p0f) * p;
    v_f32 large = v_with_sign(1.0f - v_scale_2(tail, n), x);
    return v_select(a >= 1.0f, large, x * q);
}

/* numerator * e^-|u| / (1 + e^-|u|) where u < 0, numerator / (1 + e^-|u|) elsewhere; (p, n) is e^-|u|. The
 * power of two comes last, so that the product is rounded in the normal range. */
CPU_INLINE v_f32 v_logistic(v_f32 numerator, v_i32 negative, v_f32 p, v_i32 n)
{
    v_f32 e = v_scale_2(p, n);
    v_f32 top = v_select(negative, numerator * p, numerator);
    return v_scale_2(top / (1.0f + e), n & negative);
}

/* 1.2 ulp of e twice over (numerator and denominator never add up), three roundings: under 3 ulp. */
CPU_INLINE v_f32 v_sigmoid(v_f32 x)
{
    v_f32 p;
    v_i32 n;
    v_exp_parts(-v_abs(x), &p, &n);
    return v_logistic(v_splat(1.0f), x < 0.0f, p, n);
}

/* -inf gives -0: the limit of the function. */
CPU_INLINE v_f32 v_silu(v_f32 x)
{
    v_f32 p;
    v_i32 n;
    v_exp_parts(-v_abs(x), &p, &n);
    v_f32 finite = v_select(x < -120.0f, v_splat(-120.0f), x);
    return v_logistic(finite, x < 0.0f, p, n);
}

/* x Phi(x). Below 0.875: Phi = 0.5 + x R(x^2), R minimax of degree 5 (7.2e-10), whose 1.5 ulp weigh at most
 * 1.6 where x < 0: below 3.5 ulp. Above, with w = x 0.5 e^(-x^2/2) erfcx(|x| / sqrt 2): w for x < 0, which
 * is relatively accurate in the whole lower tail (erfcx 8.3 u, e 2.8 u, two products: below 13.1 u; what
 * the contract promises there is far more, as 1 + erf cancels), and x - w for x >= 0, where w is at most
 * 0.19 x: 13.1 u weigh 3.1, the difference 1: below 4.1 u, and the contract has 4 ulp (>= 4 u) for Phi and
 * the rounding of the product. */
CPU_INLINE v_f32 v_gelu(v_f32 x)
{
    v_f32 top = v_splat(14.5f), far = v_splat(20.0f), p, rest, a = v_abs(x), z = x * x;
    v_i32 n;
    v_f32 r = v_splat(-0x1.00d528p-17f);
    r = v_fma(r, z, v_splat(0x1.dbff10p-14f));
    r = v_fma(r, z, v_splat(-0x1.36fd42p-10f));
    r = v_fma(r, z, v_splat(0x1.46ce4cp-7f));
    r = v_fma(r, z, v_splat(-0x1.105832p-4f));
    r = v_fma(r, z, v_splat(0x1.988454p-2f));
    v_f32 small = x * v_fma(x, r, v_splat(0.5f));
    v_f32 t = v_select(a > top, top, a), finite = v_select(a > far, v_with_sign(far, x), x);
    v_f32 square = v_square(t, &rest);
    v_exp_square(square * 0.5f, rest * 0.5f, &p, &n);
    v_f32 w = v_scale_2(v_half_erfcx(t) * p * finite, n);
    /* A NaN takes the last form, which keeps it. */
    return v_select(a < 0.875f, small, v_select(x < 0.0f, w, x - w));
}

/* 0.5 (1 + tanh v) = 1 / (1 + e^-2v), v = sqrt(2/pi) (x + 0.044715 x^3) in double. */
CPU_INLINE v_f32 v_gelu_tanh(v_f32 x)
{
    v_f32 p, clipped = v_select(x < -50.0f, v_splat(-50.0f), v_select(x > 50.0f, v_splat(50.0f), x));
    v_i32 n, negative = x < 0.0f;
    v_f64 wide = __builtin_convertvector(v_abs(clipped), v_f64);
    v_f64 exponent = wide * (wide * wide * 0.044715 + 1.0) * (-2 * 0.79788456080286535588);
    v_exp_parts_f64(&exponent, &p, &n);
    return v_logistic(v_select(negative, clipped, x), negative, p, n);
}
