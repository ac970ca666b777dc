/* Philox4x32-10, the counter-based random number generator of Salmon, Moraes, Dror and Shaw, "Parallel random
 * numbers: as easy as 1, 2, 3" (SC 2011). The same counter and key give the same four words everywhere.
 * Pure; any thread. */
#ifndef PCO_BASE_PHILOX_H
#define PCO_BASE_PHILOX_H

#include <stdint.h>

typedef struct pco_philox {
    uint32_t word[4];
} pco_philox;

/* Ten rounds over the 128-bit counter (word 0 is the least significant) under the 64-bit key. */
static inline pco_philox pco_philox4x32_10(pco_philox counter, uint64_t key)
{
    uint32_t key0 = (uint32_t)key, key1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * counter.word[0];
        uint64_t b = (uint64_t)0xCD9E8D57u * counter.word[2];
        pco_philox next = {{(uint32_t)(b >> 32) ^ counter.word[1] ^ key0, (uint32_t)b,
                            (uint32_t)(a >> 32) ^ counter.word[3] ^ key1, (uint32_t)a}};
        counter = next;
        key0 += 0x9E3779B9u; /* golden ratio */
        key1 += 0xBB67AE85u; /* sqrt(3) - 1 */
    }
    return counter;
}

#endif
