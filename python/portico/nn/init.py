"""First values of parameters, in place; as torch.nn.init.

`generator` is a portico.random.Generator, a seed, or None: everybody's, which portico.manual_seed begins.
"""
import math

import numpy as np

from portico import _native as native, random


def calculate_gain(nonlinearity, param=None):
    """By what the deviation is multiplied in front of a function, so that its output keeps the variance."""
    gains = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2), "selu": 0.75}
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        return math.sqrt(2 / (1 + slope * slope))
    if nonlinearity not in gains:
        raise native.InvalidError(f"there is no gain for '{nonlinearity}'; there are {', '.join(gains)} and leaky_relu")
    return gains[nonlinearity]


def fans(shape):
    """(values that go into each output, values that each input goes to) of a weight [outputs, inputs, ...]."""
    if len(shape) < 2:
        raise native.InvalidError(f"fan in and fan out are of two dimensions or more; the shape is {shape}")
    rest = math.prod(shape[2:])
    return shape[1] * rest, shape[0] * rest


def uniform_(x, a=0.0, b=1.0, generator=None):
    """From a to below b."""
    return x.assign(random.of(generator).uniform(a, b, x.shape))


def normal_(x, mean=0.0, std=1.0, generator=None):
    """Normal, of a mean and a deviation."""
    return x.assign(random.of(generator).normal(mean, std, x.shape))


def trunc_normal_(x, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    """Normal, without what is below a or above b, which is drawn again."""
    draw = random.of(generator)
    if not a < b or b < mean - 4 * std or a > mean + 4 * std:
        raise native.InvalidError(f"between {a} and {b} lies next to nothing of mean {mean} and deviation {std}")
    values = draw.normal(mean, std, x.shape)
    outside = (values < a) | (values > b)
    while outside.any():
        values[outside] = draw.normal(mean, std, int(outside.sum()))
        outside = (values < a) | (values > b)
    return x.assign(values)


def constant_(x, value):
    """All one value."""
    return x.assign(np.full(x.shape, value, np.float32))


def zeros_(x):
    """All zero."""
    return constant_(x, 0)


def ones_(x):
    """All one."""
    return constant_(x, 1)


def eye_(x):
    """The identity, of a matrix."""
    if x.ndim != 2:
        raise native.InvalidError(f"eye_ is for matrices; the shape is {x.shape}")
    return x.assign(np.eye(*x.shape, dtype=np.float32))


def xavier_uniform_(x, gain=1.0, generator=None):
    """Uniform within gain sqrt(6 / (fan in + fan out)) (Glorot & Bengio 2010)."""
    bound = gain * math.sqrt(6 / sum(fans(x.shape)))
    return uniform_(x, -bound, bound, generator)


def xavier_normal_(x, gain=1.0, generator=None):
    """Normal, deviation gain sqrt(2 / (fan in + fan out)) (Glorot & Bengio 2010)."""
    return normal_(x, 0, gain * math.sqrt(2 / sum(fans(x.shape))), generator)


def _kaiming(x, a, mode, nonlinearity):
    if mode not in ("fan_in", "fan_out"):
        raise native.InvalidError(f"mode is {mode!r}, and must be 'fan_in' or 'fan_out'")
    return calculate_gain(nonlinearity, a) / math.sqrt(fans(x.shape)[mode == "fan_out"])


def kaiming_uniform_(x, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Uniform within gain sqrt(3 / fan) (He et al. 2015)."""
    bound = math.sqrt(3) * _kaiming(x, a, mode, nonlinearity)
    return uniform_(x, -bound, bound, generator)


def kaiming_normal_(x, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Normal, deviation gain / sqrt(fan) (He et al. 2015)."""
    return normal_(x, 0, _kaiming(x, a, mode, nonlinearity), generator)


def orthogonal_(x, gain=1.0, generator=None):
    """Rows or columns, whichever are fewer, orthogonal and of length `gain` (Saxe et al. 2014)."""
    if x.ndim < 2:
        raise native.InvalidError(f"orthogonal_ is for two dimensions or more; the shape is {x.shape}")
    rows, columns = x.shape[0], math.prod(x.shape[1:])
    drawn = random.of(generator).normal(0, 1, (max(rows, columns), min(rows, columns))).astype(np.float64)
    q, r = np.linalg.qr(drawn)
    q = q * np.sign(np.diag(r))
    return x.assign((gain * (q if rows >= columns else q.T)).astype(np.float32).reshape(x.shape))
