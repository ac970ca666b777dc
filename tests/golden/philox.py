"""Weights and inputs of the golden cases, from a counter-based generator that C reproduces bit for bit."""

import numpy as np

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
MASK = np.uint64(0xFFFFFFFF)


def philox4x32(counter, key):
    """Philox4x32-10 of counter [4][n] and key (k0, k1): uint32 [4][n]."""
    c = [np.asarray(word, dtype=np.uint64) for word in counter]
    k = [int(word) for word in key]
    for _ in range(10):
        p0, p1 = np.uint64(MULTIPLIERS[0]) * c[0], np.uint64(MULTIPLIERS[1]) * c[2]
        c = [
            (p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k[0]),
            p1 & MASK,
            (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k[1]),
            p0 & MASK,
        ]
        k = [(word + step) & 0xFFFFFFFF for word, step in zip(k, KEY_STEPS)]
    return np.stack(c).astype(np.uint32)


def uniform(seed, index, shape, bound, offset=0.0):
    """float32 tensor number `index`: offset + uniform(-bound, bound), row-major element by element."""
    count = int(np.prod(shape))
    blocks = (count + 3) // 4
    zero = np.zeros(blocks, dtype=np.uint64)
    words = philox4x32((np.arange(blocks, dtype=np.uint64), zero, zero, zero), (seed, index))
    bits = words.T.reshape(-1)[:count] >> np.uint32(8)
    unit = bits.astype(np.float32) * np.float32(2.0**-24) - np.float32(0.5)
    value = unit * np.float32(2) * np.float32(bound)
    return (np.float32(offset) + value).astype(np.float32).reshape(shape)


def self_test():
    """Known answers of the Random123 distribution, and the first words of a tensor."""
    ones = 0xFFFFFFFF
    known = (
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ones,) * 4, (ones,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    )
    for counter, key, answer in known:
        assert tuple(philox4x32([[word] for word in counter], key)[:, 0]) == answer
    first = uniform(0, 0, (5,), 1.0)
    assert first[0] == np.float32((0x6627E8D5 >> 8) * 2.0**-24 - 0.5) * 2
    assert uniform(0, 0, (4,), 0.5, 1.0)[3] == np.float32(1 + ((0x9B00DBD8 >> 8) * 2.0**-24 - 0.5))


self_test()
