/* An arena: memory that is given back all at once. Not thread-safe. */
#ifndef PCO_BASE_ARENA_H
#define PCO_BASE_ARENA_H

#include <stddef.h>

typedef struct pco_arena_block pco_arena_block;
typedef struct pco_arena {
    pco_arena_block *blocks; /* zero-initialised: empty */
} pco_arena;

/* `bytes` zeroed bytes, aligned for any type; NULL when the host has none. */
void *pco_arena_allocate(pco_arena *arena, size_t bytes);

/* A copy of `bytes` bytes, or of a string; NULL when the host has no memory. */
void *pco_arena_copy(pco_arena *arena, const void *data, size_t bytes);
char *pco_arena_text(pco_arena *arena, const char *text);

void pco_arena_release(pco_arena *arena);

#endif
