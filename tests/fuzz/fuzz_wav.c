/* WAV files from anywhere: none may crash, hang or take more than ten times its size. With libFuzzer: scripts/fuzz.
 * Alone, it changes files, the same way each time: fuzz_wav ROUNDS FILE... (made by make_wav.py), after every prefix of
 * each. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "formats/wav.h"

/* The tables of the resampler, and what a block of its output is made of. */
#define FUZZ_FIXED (1 << 18)
#include "fuzz_limits.h"

static unsigned long fuzz_parsed, fuzz_samples;

/* One input in 64 is also read at another rate, whose tables take milliseconds: by all of its bytes, so that what a
 * fuzzer makes of a chosen one is as rarely chosen. */
static int fuzz_chosen(const uint8_t *data, size_t size)
{
    uint32_t sum = 2166136261u;
    for (size_t i = 0; i < size; i++) sum = (sum ^ data[i]) * 16777619u;
    return (sum >> 16) % 64 == 7;
}

static int fuzz_input(const uint8_t *data, size_t size)
{
    pco_wav wav;
    pco_error err;
    if (pco_wav_parse(data, size, "fuzz", &wav, &err)) return 0;
    fuzz_parsed++;
    if ((uint64_t)wav.frames * 16000 / wav.rate * sizeof(float) > 10 * (uint64_t)size) abort();
    const int rates = fuzz_chosen(data, size) ? 2 : 1;
    for (int other = 0; other < rates; other++) {
        float *samples;
        int64_t count;
        if (pco_wav_read(&wav, other ? 16000 : wav.rate, &samples, &count, &err)) continue;
        for (int64_t i = 0; i < count; i++)
            if (isnan(samples[i])) abort();
        fuzz_samples += (unsigned long)count;
        free(samples);
    }
    pco_wav_close(&wav);
    return 0;
}

#ifndef PCO_LIBFUZZER

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

int main(int argc, char **argv)
{
    enum { MOST = 4096, FILES = 16 };
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
            const uint32_t at = fuzz_below(fuzz_below(2) ? 80 : (uint32_t)sizes[which]);
            bytes[at] = fuzz_below(2) ? some[fuzz_below(sizeof some)] : (uint8_t)fuzz_below(256);
        }
        fuzz_exact(bytes, sizes[which]);
    }
    fprintf(stderr, "%d files, %ld mutations, %lu read, %lu samples: nothing crashed\n", count, rounds, fuzz_parsed,
            fuzz_samples);
    return fuzz_parsed < (unsigned long)rounds / 20; /* or it would show nothing */
}

#endif
