#include "formats/wav.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "formats/resample.h"

/* Codings (mmreg.h). */
enum { WAV_PCM = 1, WAV_FLOAT = 3, WAV_EXTENSIBLE = 0xFFFE };

enum { WAV_LEAST_RATE = 8000, WAV_MOST_RATE = 768000 };

static uint32_t wav_u16(const unsigned char *at) { return (uint32_t)at[0] | (uint32_t)at[1] << 8; }
static uint32_t wav_u32(const unsigned char *at) { return wav_u16(at) | wav_u16(at + 2) << 16; }

static pco_status wav_bad(const char *label, const char *what, pco_error *err)
{
    return pco_fail(err, PCO_ERROR_FORMAT, "%s: not a WAV file that can be read: %s", label, what);
}

static const char *wav_coding_name(uint32_t coding)
{
    switch (coding) {
    case 2: return " (ADPCM)";
    case 6: return " (A-law)";
    case 7: return " (mu-law)";
    case 0x11: return " (IMA ADPCM)";
    case 0x55: return " (MP3)";
    default: return "";
    }
}

/* What a "fmt " chunk says. */
static pco_status wav_format(const unsigned char *at, size_t size, pco_wav *wav, pco_error *err)
{
    if (size < 16) return wav_bad(wav->label, "its 'fmt ' chunk is shorter than 16 bytes", err);
    uint32_t coding = wav_u16(at);
    const uint32_t block = wav_u16(at + 12);
    wav->channels = wav_u16(at + 2);
    wav->rate = wav_u32(at + 4);
    wav->bits = wav_u16(at + 14);
    if (coding == WAV_EXTENSIBLE) {
        if (size < 40) return wav_bad(wav->label, "its extensible 'fmt ' chunk is shorter than 40 bytes", err);
        coding = wav_u16(at + 24); /* the rest of the identifier is the same for all codings of this list */
    }
    wav->is_float = coding == WAV_FLOAT;
    const uint32_t bits = wav->bits;
    const int known = coding == WAV_PCM ? bits == 8 || bits == 16 || bits == 24 || bits == 32
                                        : coding == WAV_FLOAT && (bits == 32 || bits == 64);
    if (!known)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                        "%s: coding %u%s with %u bits is not supported; save it as PCM of 8, 16, 24 or 32 bits, or "
                        "floats of 32 or 64",
                        wav->label, coding, wav_coding_name(coding), bits);
    if (!wav->channels || block != wav->channels * (bits / 8))
        return wav_bad(wav->label, "the size of its blocks is not that of a sample of each channel", err);
    if (wav->rate < WAV_LEAST_RATE || wav->rate > WAV_MOST_RATE)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: %u samples in a second; it can be %d to %d", wav->label,
                        wav->rate, WAV_LEAST_RATE, WAV_MOST_RATE);
    return PCO_OK;
}

pco_status pco_wav_parse(const void *data, size_t size, const char *label, pco_wav *wav, pco_error *err)
{
    const unsigned char *at = data, *end = at + size;
    pco_status status = PCO_OK;
    *wav = (pco_wav){.label = label};
    if (size >= 4 && memcmp(at, "RF64", 4) == 0)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: an RF64 file, which is not supported; save it as WAV", label);
    if (size < 12 || memcmp(at, "RIFF", 4) != 0 || memcmp(at + 8, "WAVE", 4) != 0)
        return wav_bad(label, "it does not begin with RIFF and WAVE", err);
    at += 12;
    while (end - at >= 8) {
        const unsigned char *chunk = at;
        uint64_t bytes = wav_u32(at + 4);
        const size_t left = (size_t)(end - at) - 8;
        const int is_data = memcmp(chunk, "data", 4) == 0;
        if (is_data && bytes == UINT32_MAX) bytes = left; /* written to a pipe, before its end was known */
        if (bytes > left)
            return pco_fail(err, PCO_ERROR_FORMAT,
                            "%s: its chunk '%.4s' should have %" PRIu64 " bytes, and the file ends after %zu", label,
                            (const char *)chunk, bytes, left);
        if (memcmp(chunk, "fmt ", 4) == 0) status = wav_format(chunk + 8, bytes, wav, err);
        if (status) return status;
        if (is_data) {
            if (!wav->channels) return wav_bad(label, "no 'fmt ' chunk stands in front of its samples", err);
            wav->data = chunk + 8;
            wav->frames = (int64_t)(bytes / (wav->channels * (wav->bits / 8)));
            return PCO_OK;
        }
        at += 8 + bytes;
        if (bytes % 2 && at < end) at++;
    }
    return wav_bad(label, "it has no 'data' chunk", err);
}

pco_status pco_wav_open(const char *path, pco_wav *wav, pco_error *err)
{
    pco_map map;
    *wav = (pco_wav){0};
    pco_status status = pco_map_open(path, &map, err);
    if (status) return status;
    status = pco_wav_parse(map.data, map.size, path, wav, err);
    if (status)
        pco_map_close(&map);
    else
        wav->map = map;
    return status;
}

void pco_wav_close(pco_wav *wav)
{
    pco_map_close(&wav->map);
    *wav = (pco_wav){0};
}

/* One sample, full scale at 1. */
static double wav_sample(const pco_wav *wav, const unsigned char *at)
{
    const uint32_t low = wav->bits >= 32 ? wav_u32(at) : 0;
    if (wav->is_float && wav->bits == 32) {
        float value;
        memcpy(&value, &low, sizeof value);
        return (double)value;
    }
    if (wav->is_float) {
        const uint64_t whole = (uint64_t)wav_u32(at + 4) << 32 | low;
        double value;
        memcpy(&value, &whole, sizeof value);
        return value;
    }
    switch (wav->bits) {
    case 8: return ((double)at[0] - 128) / 128;
    case 16: return (double)(int16_t)wav_u16(at) / 32768;
    case 24: return (double)(int32_t)((uint32_t)wav_u16(at) << 8 | (uint32_t)at[2] << 24) / 2147483648.0;
    default: return (double)(int32_t)low / 2147483648.0;
    }
}

/* What reads the file for the resampler. */
typedef struct wav_reader {
    const pco_wav *wav;
    int64_t bad; /* a frame that is no number; -1: none */
} wav_reader;

static int wav_read(void *user, int64_t first, int64_t count, float *samples)
{
    wav_reader *reader = user;
    const pco_wav *wav = reader->wav;
    const size_t step = wav->bits / 8;
    const unsigned char *at = wav->data + (size_t)first * wav->channels * step;
    for (int64_t i = 0; i < count; i++) {
        double sum = 0;
        for (uint32_t c = 0; c < wav->channels; c++, at += step) sum += wav_sample(wav, at);
        samples[i] = (float)(sum / wav->channels);
        if (!isfinite(samples[i])) {
            reader->bad = first + i;
            return 1;
        }
    }
    return 0;
}

pco_status pco_wav_read(const pco_wav *wav, uint32_t rate, float **out, int64_t *count, pco_error *err)
{
    wav_reader reader = {wav, -1};
    *count = pco_resample_count(wav->frames, wav->rate, rate);
    *out = NULL;
    float *samples = malloc(((size_t)*count + 1) * sizeof *samples);
    int failed = samples ? 0 : -1;
    if (!failed)
        failed = rate == wav->rate ? wav_read(&reader, 0, wav->frames, samples)
                                   : pco_resample(wav_read, &reader, wav->frames, wav->rate, rate, samples);
    if (!failed) {
        *out = samples;
        return PCO_OK;
    }
    free(samples);
    if (reader.bad < 0)
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "%s: no memory for %" PRId64 " samples", wav->label, *count);
    return pco_fail(err, PCO_ERROR_FORMAT, "%s: sample %" PRId64 " is no finite number of float32", wav->label,
                    reader.bad);
}
