/* Random numbers of training on the host: Philox by purpose and index, the same on every machine. Pure. */
#ifndef PCO_TRAIN_RANDOM_H
#define PCO_TRAIN_RANDOM_H

#include "base/philox.h"

/* What a number is for: the fourth counter word. Streams of dropout (ops.def) count from 0. */
enum {
    PCO_RANDOM_SHUFFLE = 0x54520001, /* orders of an epoch */
    PCO_RANDOM_BATCHES = 0x54520002,
    PCO_RANDOM_WINDOW = 0x54520003, /* where the windows of an epoch begin */
    PCO_RANDOM_DATES = 0x54520004,
    PCO_RANDOM_SPLIT = 0x54520005, /* which pairs are held out */
    PCO_RANDOM_WEIGHTS = 0x54520006,
};

static inline pco_philox pco_random_block(uint64_t seed, uint32_t purpose, uint32_t epoch, uint64_t index)
{
    return pco_philox4x32_10((pco_philox){{(uint32_t)index, (uint32_t)(index >> 32), epoch, purpose}}, seed);
}

/* A word as one of 0 .. count-1; a count of 2^16 is off by 2^-16 in probability at most. */
static inline uint32_t pco_random_below(uint32_t word, uint32_t count)
{
    return (uint32_t)((uint64_t)word * count >> 32);
}

/* Shuffles order[count] (Fisher & Yates). */
static inline void pco_random_shuffle(uint32_t *order, uint32_t count, uint64_t seed, uint32_t purpose, uint32_t epoch)
{
    for (uint32_t i = count; i > 1; i--) {
        pco_philox r = pco_random_block(seed, purpose, epoch, i);
        uint64_t draw = (uint64_t)r.word[0] << 32 | r.word[1];
        uint32_t k = (uint32_t)((unsigned __int128)draw * i >> 64), kept = order[i - 1];
        order[i - 1] = order[k];
        order[k] = kept;
    }
}

#endif
