/* Fuzz targets of readers of small files count in fuzz_parsed what could be read. Built without libFuzzer they have a
 * main that calls fuzz_files: TARGET ROUNDS FILE... takes every prefix of each file, then so many changed ones, the
 * same each time. */
#ifndef FUZZ_FILES_H
#define FUZZ_FILES_H

#include "fuzz_limits.h"

static unsigned long fuzz_parsed;

#ifndef PCO_LIBFUZZER

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"

static uint32_t fuzz_below(uint32_t count)
{
    static uint32_t step;
    return pco_philox4x32_10((pco_philox){{step++, 0, 0, 0}}, 5).word[0] % count;
}

/* In memory of its own, so that a sanitizer sees the first byte too far. */
static void fuzz_exact(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy) abort();
    memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

/* Returns the exit status. */
static int fuzz_files(int argc, char **argv)
{
    enum { MOST = 4096, FILES = 16, HEADER = 80 };
    static const uint8_t some[] = {0, 1, 2, 3, 8, 16, 24, 32, 0x40, 0x7F, 0x80, 0xFE, 0xFF};
    static uint8_t files[FILES][MOST], bytes[MOST];
    size_t sizes[FILES];
    const int count = argc - 2 < FILES ? argc - 2 : FILES;
    const long rounds = argc > 2 ? strtol(argv[1], NULL, 10) : 0;
    if (rounds < 1) return 2;
    for (int i = 0; i < count; i++) {
        FILE *in = fopen(argv[i + 2], "rb");
        if (!in) return 2;
        sizes[i] = fread(files[i], 1, MOST, in);
        fclose(in);
        for (size_t size = 0; size <= sizes[i]; size++) fuzz_exact(files[i], size);
    }
    for (long round = 0; round < rounds; round++) {
        const uint32_t which = fuzz_below((uint32_t)count);
        memcpy(bytes, files[which], sizes[which]);
        for (uint32_t changes = 1 + fuzz_below(4); changes > 0; changes--) {
            const uint32_t at = fuzz_below(fuzz_below(2) && sizes[which] > HEADER ? HEADER : (uint32_t)sizes[which]);
            bytes[at] = fuzz_below(2) ? some[fuzz_below(sizeof some)] : (uint8_t)fuzz_below(256);
        }
        fuzz_exact(bytes, sizes[which]);
    }
    fprintf(stderr, "%d files, %ld mutations, %lu read: nothing crashed\n", count, rounds, fuzz_parsed);
    return fuzz_parsed < (unsigned long)rounds / 20; /* or it would show nothing */
}

#endif
#endif
