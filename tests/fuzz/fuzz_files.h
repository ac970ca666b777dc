/* What fuzz targets share that have a main of their own where they are built without libFuzzer: TARGET ROUNDS FILE...
 * gives fuzz_input files as they are, and changed, the same each time. Readers of small files count in fuzz_parsed what
 * could be read. */
#ifndef FUZZ_FILES_H
#define FUZZ_FILES_H

#include "fuzz_limits.h"

static unsigned long fuzz_parsed;

#ifndef PCO_LIBFUZZER

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"

enum { FUZZ_MOST = 8192, FUZZ_FILES = 16 }; /* bytes of a file; files */

static inline uint32_t fuzz_below(uint32_t count)
{
    static uint32_t step;
    return pco_philox4x32_10((pco_philox){{step++, 0, 0, 0}}, 5).word[0] % count;
}

/* In memory of its own, so that a sanitizer sees the first byte too far. */
static inline void fuzz_exact(const void *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy) abort();
    memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

/* Changes bytes[size], which have room for twice FUZZ_MOST; returns how many they are then. */
typedef size_t (*fuzz_change_fn)(uint8_t *bytes, size_t size);

/* ROUNDS times one of the files, changed; with `prefixes`, all beginnings of each before that. Returns the exit status.
 */
static inline int fuzz_changed(int argc, char **argv, int prefixes, fuzz_change_fn change)
{
    static uint8_t files[FUZZ_FILES][FUZZ_MOST], bytes[2 * FUZZ_MOST];
    size_t sizes[FUZZ_FILES];
    const int count = argc - 2 < FUZZ_FILES ? argc - 2 : FUZZ_FILES;
    const long rounds = argc > 2 ? strtol(argv[1], NULL, 10) : 0;
    if (rounds < 1) return 2;
    for (int i = 0; i < count; i++) {
        FILE *in = fopen(argv[i + 2], "rb");
        if (!in) return 2;
        sizes[i] = fread(files[i], 1, FUZZ_MOST, in);
        fclose(in);
        for (size_t size = 0; prefixes && size <= sizes[i]; size++) fuzz_exact(files[i], size);
    }
    for (long round = 0; round < rounds; round++) {
        const uint32_t which = fuzz_below((uint32_t)count);
        memcpy(bytes, files[which], sizes[which]);
        fuzz_exact(bytes, change(bytes, sizes[which]));
    }
    fprintf(stderr, "%d files, %ld mutations, %lu read: nothing crashed\n", count, rounds, fuzz_parsed);
    return fuzz_parsed < (unsigned long)rounds / 20; /* or it would show nothing */
}

/* A few bytes, of which half are in the header. */
static inline size_t fuzz_change_bytes(uint8_t *bytes, size_t size)
{
    enum { HEADER = 80 };
    static const uint8_t some[] = {0, 1, 2, 3, 8, 16, 24, 32, 0x40, 0x7F, 0x80, 0xFE, 0xFF};
    for (uint32_t changes = 1 + fuzz_below(4); changes > 0 && size; changes--) {
        const uint32_t at = fuzz_below(fuzz_below(2) && size > HEADER ? HEADER : (uint32_t)size);
        bytes[at] = fuzz_below(2) ? some[fuzz_below(sizeof some)] : (uint8_t)fuzz_below(256);
    }
    return size;
}

/* Bytes of a text: one of `signs`, or any; pieces of it copied over others; one less. */
static inline size_t fuzz_change_signs(uint8_t *bytes, size_t size, const char *signs)
{
    const uint32_t count = (uint32_t)strlen(signs);
    for (uint32_t n = fuzz_below(6); n > 0 && size > 40; n--) {
        const uint32_t at = fuzz_below((uint32_t)size), from = fuzz_below((uint32_t)size - 30), kind = fuzz_below(4);
        if (kind == 0) bytes[at] = (uint8_t)signs[fuzz_below(count)];
        if (kind == 1) bytes[at] = (uint8_t)fuzz_below(256);
        if (kind == 2 && at + 30 < size) memmove(bytes + at, bytes + from, fuzz_below(30));
        if (kind == 3) memmove(bytes + at, bytes + at + 1, --size - at);
    }
    return size;
}

#endif
#endif
