"""What several tests measure: how far results are from those expected, and what the process holds."""
import os
import time

import numpy as np


def over_bound(y, expected):
    """The largest difference over the bound of `portico compare` (docs/numerics.md): 1e-4 (|y| + rms of its row). At most 1
    is right; NaN and other shapes never are."""
    y, expected = np.asarray(y), np.asarray(expected, np.float64)
    if y.shape != expected.shape:
        return float("inf")
    if not y.size:
        return 0.0
    rms = np.sqrt(np.mean(np.square(expected), axis=-1, keepdims=True))
    difference, bound = np.abs(y - expected), 1e-4 * (np.abs(expected) + rms)
    return float(np.max(np.where(difference == 0, 0, difference / np.where(bound > 0, bound, np.finfo(float).tiny))))


def resident():
    """Bytes of memory of this process."""
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def held():
    """Descriptors and threads of this process, once they stay the same: a thread that was joined leaves /proc a moment
    later."""
    counts = []
    while len(counts) < 3 or len(set(counts[-3:])) > 1 and len(counts) < 250:
        counts.append((len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))))
        time.sleep(0.02)
    return counts[-1]
