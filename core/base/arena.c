#include "base/arena.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_BLOCK = 16384 };

struct pco_arena_block {
    pco_arena_block *next;
    size_t used, size;
    alignas(max_align_t) unsigned char data[];
};

void *pco_arena_allocate(pco_arena *arena, size_t bytes)
{
    bytes = (bytes + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
    pco_arena_block *block = arena->blocks;
    if (!block || block->size - block->used < bytes) {
        size_t size = bytes > ARENA_BLOCK ? bytes : ARENA_BLOCK;
        block = calloc(1, sizeof *block + size);
        if (!block) return NULL;
        block->size = size;
        block->next = arena->blocks;
        arena->blocks = block;
    }
    void *memory = block->data + block->used;
    block->used += bytes;
    return memory;
}

void *pco_arena_copy(pco_arena *arena, const void *data, size_t bytes)
{
    void *memory = pco_arena_allocate(arena, bytes);
    if (memory && bytes) memcpy(memory, data, bytes);
    return memory;
}

char *pco_arena_text(pco_arena *arena, const char *text) { return pco_arena_copy(arena, text, strlen(text) + 1); }

void pco_arena_release(pco_arena *arena)
{
    for (pco_arena_block *block = arena->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    arena->blocks = NULL;
}
