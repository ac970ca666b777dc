/* WAV files from anywhere: none may crash, hang or take more than ten times its size. With libFuzzer: scripts/fuzz.
 * Alone: fuzz_files.h, with those that make_wav.py makes. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "formats/wav.h"

/* The tables of the resampler, and what a block of its output is made of. */
#define FUZZ_FIXED (1 << 18)
#include "fuzz_files.h"

static unsigned long fuzz_samples;

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
int main(int argc, char **argv)
{
    const int status = fuzz_changed(argc, argv, 1, fuzz_change_bytes);
    fprintf(stderr, "%lu samples\n", fuzz_samples);
    return status;
}
#endif
