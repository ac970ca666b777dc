#!/usr/bin/env python3
"""Derives the polynomials of functions.inc and measures its functions in float32.

    polynomials.py            prints coefficients and the worst error found, in units in the last place
    polynomials.py --check    exit status 1 if a function misses the bound that the contract declares

Coefficients: weighted least squares in double on Chebyshev nodes, reweighted towards the largest error (Lawson)
until it is level, then rounded to float32. Errors: each function evaluated step by step in float32, to nearest
and without fma, on a few million arguments, against long double. Needs numpy.
"""

import math
import sys

import numpy as np

F = np.float32
BOUND = 4.0  # PCO_GPU_FUNCTION_ULP


def fit(f, low, high, degree, weight=None, rounds=200):
    """Coefficients c of sum c[i] t^i close to f(t), the error times weight(t) levelled."""
    k = np.arange(4000)
    t = (low + high) / 2 + (high - low) / 2 * np.cos(math.pi * (k + 0.5) / len(k))
    y, w = f(t), (np.ones_like(t) if weight is None else weight(t))
    basis = np.stack([t**i for i in range(degree + 1)], axis=1)
    lawson = np.ones_like(t)
    best, best_error = None, math.inf
    for _ in range(rounds):
        scale = np.sqrt(lawson) * w
        norm = np.abs(basis * scale[:, None]).max(axis=0)
        c = np.linalg.lstsq(basis * scale[:, None] / norm, y * scale, rcond=None)[0] / norm
        error = np.abs((basis @ c - y) * w)
        if error.max() < best_error:
            best, best_error = c, error.max()
        lawson *= error / error.mean() + 1e-3
        lawson /= lawson.mean()
    return [F(x) for x in best], best_error


def horner(c, t):
    r = np.full_like(t, c[-1])
    for x in reversed(c[:-1]):
        r = r * t + x
    return r


def bits(x):
    return x.view(np.uint32)


def from_bits(u):
    return u.astype(np.uint32).view(np.float32)


# ---- the functions, as functions.inc computes them ----

LN2_HI, LN2_LO = F(0.693359375), F(math.log(2) - 0.693359375)
EXP = fit(lambda r: (np.exp(r) - 1 - r) / r**2, -0.3475, 0.3475, 4, lambda r: r**2)
LOG = fit(lambda f: (np.log1p(f) - f + f * f / 2) / f**3, -0.2930, 0.4143, 8,
          lambda f: f**3 / np.log1p(f))
SIN = fit(lambda z: (np.sin(np.sqrt(z)) / np.sqrt(z) - 1) / z, 1e-8, 0.6169, 2, lambda z: z)
COS = fit(lambda z: (np.cos(np.sqrt(z)) - 1 + z / 2) / z**2, 1e-8, 0.6169, 2, lambda z: z**2)
TANH = fit(lambda z: (np.tanh(np.sqrt(z)) / np.sqrt(z) - 1) / z, 1e-8, 0.3907, 4, lambda z: z)
ERF_SPLIT, ERF_END = 0.921875, 3.925
erf = np.vectorize(math.erf)
ln_erfc = np.vectorize(lambda x: math.log(math.erfc(x)))
ERF = fit(lambda z: erf(np.sqrt(z)) / np.sqrt(z) - 1, 1e-8, ERF_SPLIT**2, 6, lambda z: np.sqrt(z) / erf(np.sqrt(z)))
ERFC = fit(ln_erfc, ERF_SPLIT, ERF_END, 8, lambda x: np.exp(ln_erfc(x)) / erf(x))


def exp32(x):
    x = np.minimum(np.maximum(x, F(-104.0)), F(89.0))
    n = np.rint(x * F(1.44269504))
    r = (x - n * LN2_HI) - n * LN2_LO
    y = horner(EXP[0], r) * (r * r) + r + F(1)
    i = n.astype(np.int32)
    half = i >> 1
    return y * from_bits((half + 127) << 23) * from_bits((i - half + 127) << 23)


def log32(x):
    a = bits(x)
    k = ((a - np.uint32(0x3f3504f3)).view(np.int32) >> 23)
    f = from_bits((a.view(np.int32) - (k << 23))) - F(1)
    n = k.astype(F)
    p = horner(LOG[0], f) * (f * f * f)
    return n * LN2_HI + (f + (n * LN2_LO + (p - F(0.5) * (f * f))))


HALF_PI = [F(1.5703125), F(4.83751296997e-4), F(7.54953362047672e-8), F(2.5638283e-12)]


def split_half_pi():
    """Three parts of 8 bits, so that their products with 16-bit numbers are exact, and the rest."""
    parts, rest = [], math.pi / 2
    rest_lo = 6.123233995736766e-17  # pi/2 - double(pi/2)
    for _ in range(3):
        unit = 2.0 ** (math.floor(math.log2(rest)) - 7)
        part = math.floor(rest / unit) * unit
        parts.append(F(part))
        rest -= part
    return parts + [F(rest + rest_lo)]


HALF_PI = split_half_pi()


def wave32(x, quarter):
    n = np.rint(x * F(2 / math.pi))
    r = ((x - n * HALF_PI[0]) - n * HALF_PI[1]) - n * HALF_PI[2] - n * HALF_PI[3]
    z = r * r
    s = horner(SIN[0], z) * (z * r) + r
    c = horner(COS[0], z) * (z * z) + (F(1) - F(0.5) * z)
    q = n.astype(np.int32) + quarter
    y = np.where(q & 1, c, s)
    return np.where(q & 2, -y, y)


def tanh32(x):
    a = np.abs(x)
    z = np.minimum(a * a, F(1))
    small = horner(TANH[0], z) * (z * a) + a
    large = F(1) - F(2) / (exp32(F(2) * np.minimum(a, F(10))) + F(1))
    return np.copysign(np.where(a < F(0.625), small, large), x)


def erf32(x):
    a = np.abs(x)
    z = np.minimum(a * a, F(1))
    small = horner(ERF[0], z) * a + a
    large = F(1) - exp32(horner(ERFC[0], np.minimum(a, F(ERF_END))))
    large = np.where(a >= F(ERF_END), F(1), large)
    return np.copysign(np.where(a < F(ERF_SPLIT), small, large), x)


def sigmoid32(x):
    return F(1) / (F(1) + exp32(-x))


# ---- measuring ----

def worst(name, f, exact, x, absolute=False):
    x = x.astype(F)
    want = exact(x.astype(np.longdouble))
    with np.errstate(all='ignore'):
        got = f(x)
        size = np.maximum(np.abs(want), 2.0**-126).astype(np.longdouble)
        ulp = 2.0**-24 if absolute else np.exp2(np.floor(np.log2(size)) - 23)
        error = np.abs(got.astype(np.longdouble) - want) / ulp
    keep = np.isfinite(want) & (np.abs(want) <= 3.4028234e38)
    at = np.argmax(np.where(keep, error, 0))
    print(f'{name:8} {float(error[at]):7.3f} {"2^-24" if absolute else "ulp"} at {x[at]!r}')
    return float(error[at])


def main():
    for name in ('EXP', 'LOG', 'SIN', 'COS', 'TANH', 'ERF', 'ERFC'):
        c, error = globals()[name]
        print(f'{name:5} ' + ', '.join(f'{float(x):.9g}f' for x in c) + f'   (fitted to 2^{math.log2(error):.1f})')
    print('pi/2  ' + ', '.join(f'{float(x):.9g}f' for x in HALF_PI))
    print('ln 2  ' + ', '.join(f'{float(x):.9g}f' for x in (LN2_HI, LN2_LO)))
    random = np.random.default_rng(1)
    n = 2_000_000
    around = lambda low, high: np.concatenate([random.uniform(low, high, n), 2.0 ** random.uniform(-30, 0, n)])
    erf_ld = lambda x: np.vectorize(math.erf)(x.astype(np.float64)).astype(np.longdouble)
    errors = [
        worst('exp', exp32, np.exp, random.uniform(-87.3, 88.72, n)),
        worst('log', log32, np.log, np.concatenate([2.0 ** random.uniform(-126, 127, n), random.uniform(0.5, 2, n)])),
        worst('sin', lambda x: wave32(x, 0), np.sin, random.uniform(-1e5, 1e5, n), True),
        worst('cos', lambda x: wave32(x, 1), np.cos, random.uniform(-1e5, 1e5, n), True),
        worst('sin ulp', lambda x: wave32(x, 0), np.sin, around(-0.785, 0.785)),
        worst('tanh', tanh32, np.tanh, around(-9.5, 9.5)),
        worst('erf', erf32, erf_ld, around(-4, 4)[::4]),
        worst('sigmoid', sigmoid32, lambda x: 1 / (1 + np.exp(-x)), random.uniform(-87, 20, n)),
    ]
    return 1 if '--check' in sys.argv and max(errors) > BOUND else 0


if __name__ == '__main__':
    sys.exit(main())
