/* What the tests of the lowering's helpers share: random numbers, and memory of the host that is guarded. */
#ifndef PCO_TEST_LOWERING_H
#define PCO_TEST_LOWERING_H

#include "check.h"
#include "gpu/lower.h"

enum { TRIES = 4000, GUARD = 64 };

static uint32_t drawn = 1;

/* 0 .. n - 1 */
static uint32_t draw(uint32_t n)
{
    drawn = drawn * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(drawn >> 8) * n >> 24);
}

/* ---- memory of the host, with a guard behind each piece ---- */

static int guarded_pieces; /* that have not been released */

static void *guarded_allocate(void *user, size_t bytes, size_t alignment)
{
    unsigned char *piece = aligned_alloc(64, (64 + bytes + GUARD + 63) / 64 * 64);
    (void)user;
    assert_true(alignment <= 64 && alignment && !(alignment & (alignment - 1)));
    guarded_pieces++;
    memcpy(piece, &bytes, sizeof bytes);
    memset(piece + 64 + bytes, 0xa5, GUARD);
    return piece + 64;
}

static void guarded_release(void *user, void *memory)
{
    unsigned char *piece = (unsigned char *)memory - 64;
    size_t bytes;
    (void)user;
    if (!memory) return;
    guarded_pieces--;
    memcpy(&bytes, piece, sizeof bytes);
    for (int i = 0; i < GUARD; i++) assert_int_equal(piece[64 + bytes + i], 0xa5);
    free(piece);
}

static const pco_host GUARDED = {.size = sizeof GUARDED, .allocate = guarded_allocate, .release = guarded_release};

#endif
