"""Random numbers that are the same on every device: NumPy's Philox for values, the device's Philox for dropout.

`portico.manual_seed(1)` begins the sequence from which initial parameters, portico.randn and dropout draw.
"""
import os
import threading

import numpy as np

from portico import _dtypes
from portico._tensor import tensor


class Generator:
    """A sequence of random numbers. The same seed gives the same numbers, on every device. Threads may share one.

    seed: a whole number from 0 to 2^64 - 1; None: one of the system's.
    """

    def __init__(self, seed=None):
        self._lock = threading.Lock()
        self.manual_seed(int.from_bytes(os.urandom(8), "little") if seed is None else seed)

    def manual_seed(self, seed):
        """Begins again, with the numbers that belong to this seed. Returns the generator."""
        seed = int(seed)
        if not 0 <= seed < 1 << 64:
            from portico import _native as native

            raise native.InvalidError(f"the seed is {seed}, and must be from 0 to 2^64 - 1")
        with self._lock:
            self._seed, self._drawn = seed, 0
            self._numpy = np.random.Generator(np.random.Philox(key=seed))
        return self

    @property
    def seed(self):
        """The number that it began with."""
        return self._seed

    def words(self):
        """The seed as the two words int32 [2] that operations take."""
        return np.array([self._seed & 0xFFFFFFFF, self._seed >> 32], np.uint32).view(np.int32)

    def next_offset(self):
        """int32 [2]: another one for each call, so that a sequence of the device's is drawn only once."""
        with self._lock:
            self._drawn += 1
            drawn = self._drawn
        return np.array([drawn & 0xFFFFFFFF, drawn >> 32], np.uint32).view(np.int32)

    def uniform(self, low, high, shape):
        """float32, at least `low` and below `high`."""
        with self._lock:
            unit = self._numpy.random(shape, np.float32)
        return (low + (high - low) * unit).astype(np.float32)

    def normal(self, mean, std, shape):
        """float32, from the normal distribution."""
        with self._lock:
            unit = self._numpy.standard_normal(shape, np.float32)
        return (mean + std * unit).astype(np.float32)

    def integers(self, low, high, shape):
        """int32, at least `low` and below `high`."""
        with self._lock:
            return self._numpy.integers(low, high, shape, np.int32)

    def permutation(self, count):
        """0 .. count - 1 in some order, int32."""
        with self._lock:
            return self._numpy.permutation(count).astype(np.int32)


default = Generator(0)


def of(generator):
    """The generator that is meant: None is everybody's, a whole number a seed."""
    if generator is None:
        return default
    return generator if isinstance(generator, Generator) else Generator(generator)


def manual_seed(seed):
    """Begins everybody's sequence of random numbers again, which has the seed 0 at first. Returns the generator."""
    return default.manual_seed(seed)


def _shape(shape):
    return tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], (int, np.integer)) else shape


def rand(*shape, generator=None, dtype=None, device=None):
    """A tensor of numbers from 0 to below 1. generator: a portico.random.Generator, a seed, or None: everybody's."""
    return tensor(of(generator).uniform(0, 1, _shape(shape)), dtype or _dtypes.float32, device)


def randn(*shape, generator=None, dtype=None, device=None):
    """A tensor of numbers from the normal distribution with mean 0 and deviation 1."""
    return tensor(of(generator).normal(0, 1, _shape(shape)), dtype or _dtypes.float32, device)


def randint(low, high, shape, generator=None, device=None):
    """A tensor of whole numbers (int32), at least `low` and below `high`."""
    return tensor(of(generator).integers(low, high, shape), None, device)


def randperm(count, generator=None, device=None):
    """0 .. count - 1 in some order (int32)."""
    return tensor(of(generator).permutation(count), None, device)
