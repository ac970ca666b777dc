/* 64-bit FNV-1a, for names of cache entries and checksums against damage (not against malice). */
#ifndef PCO_BASE_HASH_H
#define PCO_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define PCO_HASH_START UINT64_C(14695981039346656037)

static inline uint64_t pco_hash(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ at[i]) * UINT64_C(1099511628211);
    return hash;
}

#endif
