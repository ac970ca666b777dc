/* Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011). Exact. */
#ifndef CPU_PHILOX_H
#define CPU_PHILOX_H

#include "cpu.h"

typedef struct cpu_philox {
    uint32_t key[2], offset[2], stream;
    int64_t block; /* whose words are kept; -1: none */
    uint32_t word[4];
} cpu_philox;

static inline cpu_philox cpu_philox_of(const cpu_tensor *seed, const cpu_tensor *offset, int64_t stream)
{
    cpu_philox philox = {.block = -1, .stream = (uint32_t)stream};
    for (int i = 0; i < 2; i++) {
        philox.key[i] = (uint32_t)cpu_i32_at(seed, i);
        philox.offset[i] = offset->present ? (uint32_t)cpu_i32_at(offset, i) : 0;
    }
    return philox;
}

static inline void cpu_philox_block(cpu_philox *philox, int64_t block)
{
    uint32_t c0 = (uint32_t)block, c1 = philox->offset[1], c2 = philox->offset[0], c3 = philox->stream;
    uint32_t k0 = philox->key[0], k1 = philox->key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)c0 * 0xd2511f53u, p1 = (uint64_t)c2 * 0xcd9e8d57u;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c0 = n0;
        c1 = (uint32_t)p1;
        c2 = n2;
        c3 = (uint32_t)p0;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    philox->word[0] = c0;
    philox->word[1] = c1;
    philox->word[2] = c2;
    philox->word[3] = c3;
    philox->block = block;
}

/* Element i of the stream. */
static inline uint32_t cpu_philox_word(cpu_philox *philox, int64_t i)
{
    if (philox->block != i / 4) cpu_philox_block(philox, i / 4);
    return philox->word[i % 4];
}

/* Elements below this are dropped; up to 2^32. */
static inline uint64_t cpu_dropout_threshold(double p) { return (uint64_t)rint(p * 0x1p32); }

#endif
