#include "models/log_mel.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { SIDE = 20 }; /* the transform of 400 points is two steps of 20 (Cooley and Tukey 1965) */

struct pco_log_mel {
    int64_t bands;
    double window[PCO_LOG_MEL_FFT], cosines[PCO_LOG_MEL_FFT], sines[PCO_LOG_MEL_FFT];
    int first[PCO_LOG_MEL_BANDS], behind[PCO_LOG_MEL_BANDS]; /* bins with a weight */
    double filters[];                                        /* [bands,PCO_LOG_MEL_BINS] */
};

/* Slaney's scale: 3 / 200 of a mel for each Hz up to 1000 Hz, and 27 mel for each factor of 6.4 above. */
static double mel_to_hertz(double mel) { return mel < 15 ? mel * 200 / 3 : 1000 * exp(log(6.4) / 27 * (mel - 15)); }
static double mel_from_hertz(double hertz)
{
    return hertz < 1000 ? hertz * 3 / 200 : 15 + 27 / log(6.4) * log(hertz / 1000);
}

/* Each band is a triangle over those beside it, of area 1 over the frequencies. */
static void mel_make_band(pco_log_mel *mel, int64_t band)
{
    const double step = mel_from_hertz(PCO_LOG_MEL_RATE / 2) / (double)(mel->bands + 1);
    const double low = mel_to_hertz(step * (double)band), middle = mel_to_hertz(step * (double)(band + 1)),
                 high = mel_to_hertz(step * (double)(band + 2));
    int found = 0;
    mel->first[band] = mel->behind[band] = 0;
    for (int bin = 0; bin < PCO_LOG_MEL_BINS; bin++) {
        const double hertz = (double)bin * PCO_LOG_MEL_RATE / PCO_LOG_MEL_FFT;
        const double weight = fmin((hertz - low) / (middle - low), (high - hertz) / (high - middle));
        mel->filters[band * PCO_LOG_MEL_BINS + bin] = weight > 0 ? weight * 2 / (high - low) : 0;
        if (!(weight > 0)) continue;
        if (!found++) mel->first[band] = bin;
        mel->behind[band] = bin + 1;
    }
}

pco_status pco_log_mel_create(int64_t bands, pco_log_mel **out, pco_error *err)
{
    const double pi = 3.14159265358979323846;
    *out = NULL;
    if (bands < 1 || bands > PCO_LOG_MEL_BANDS)
        return pco_fail(err, PCO_ERROR_INVALID, "a spectrogram of %" PRId64 " bands is not possible; it can be 1 to %d",
                        bands, PCO_LOG_MEL_BANDS);
    pco_log_mel *mel = malloc(sizeof *mel + (size_t)bands * PCO_LOG_MEL_BINS * sizeof *mel->filters);
    if (!mel) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a spectrogram");
    mel->bands = bands;
    for (int i = 0; i < PCO_LOG_MEL_FFT; i++) {
        const double angle = 2 * pi * i / PCO_LOG_MEL_FFT;
        mel->cosines[i] = cos(angle);
        mel->sines[i] = sin(angle);
        mel->window[i] = 0.5 - 0.5 * mel->cosines[i];
    }
    for (int64_t band = 0; band < bands; band++) mel_make_band(mel, band);
    *out = mel;
    return PCO_OK;
}

void pco_log_mel_destroy(pco_log_mel *mel) { free(mel); }

double pco_log_mel_filter(const pco_log_mel *mel, int64_t band, int64_t bin)
{
    return mel->filters[band * PCO_LOG_MEL_BINS + bin];
}

/* The sample at that place, mirrored at both ends of all `total`. */
static double mel_sample(const float *samples, int64_t count, int64_t total, int64_t at)
{
    if (at < 0) at = -at;
    if (at >= total) at = 2 * (total - 1) - at;
    return at < count ? (double)samples[at] : 0;
}

/* The Fourier transform of x, in y. With n = 20 a + b and k = c + 20 d: the sum over a for each b and c, turned by
 * b c / 400, and then the sum over b. */
static void mel_transform(const pco_log_mel *mel, const double x[PCO_LOG_MEL_FFT][2], double y[PCO_LOG_MEL_FFT][2])
{
    double inner[SIDE][SIDE][2]; /* [c][b] */
    for (int b = 0; b < SIDE; b++)
        for (int c = 0; c < SIDE; c++) {
            double real = 0, imaginary = 0;
            for (int a = 0; a < SIDE; a++) {
                const int turn = a * c % SIDE * SIDE;
                const double *from = x[SIDE * a + b], cosine = mel->cosines[turn], sine = mel->sines[turn];
                real += from[0] * cosine + from[1] * sine;
                imaginary += from[1] * cosine - from[0] * sine;
            }
            const double cosine = mel->cosines[b * c], sine = mel->sines[b * c];
            inner[c][b][0] = real * cosine + imaginary * sine;
            inner[c][b][1] = imaginary * cosine - real * sine;
        }
    for (int c = 0; c < SIDE; c++)
        for (int d = 0; d < SIDE; d++) {
            double real = 0, imaginary = 0;
            for (int b = 0; b < SIDE; b++) {
                const int turn = b * d % SIDE * SIDE;
                const double *from = inner[c][b], cosine = mel->cosines[turn], sine = mel->sines[turn];
                real += from[0] * cosine + from[1] * sine;
                imaginary += from[1] * cosine - from[0] * sine;
            }
            y[c + SIDE * d][0] = real;
            y[c + SIDE * d][1] = imaginary;
        }
}

/* log10 of a frame's power in each band, to column `frame`. */
static void mel_bands(const pco_log_mel *mel, const double power[PCO_LOG_MEL_BINS], double *logs, int64_t frames,
                      int64_t frame)
{
    for (int64_t band = 0; band < mel->bands; band++) {
        double sum = 0;
        for (int bin = mel->first[band]; bin < mel->behind[band]; bin++)
            sum += mel->filters[band * PCO_LOG_MEL_BINS + bin] * power[bin];
        logs[band * frames + frame] = log10(sum > 1e-10 ? sum : 1e-10);
    }
}

/* Frames `frame` and the one behind it: the real and the imaginary part of one transform. */
static void mel_two_frames(const pco_log_mel *mel, const float *samples, int64_t count, int64_t frames, int64_t frame,
                           double *logs)
{
    const int64_t total = frames * PCO_LOG_MEL_HOP;
    double x[PCO_LOG_MEL_FFT][2], y[PCO_LOG_MEL_FFT][2], power[2][PCO_LOG_MEL_BINS];
    const int two = frame + 1 < frames;
    for (int i = 0; i < PCO_LOG_MEL_FFT; i++) {
        const int64_t at = frame * PCO_LOG_MEL_HOP - PCO_LOG_MEL_FFT / 2 + i;
        x[i][0] = mel->window[i] * mel_sample(samples, count, total, at);
        x[i][1] = two ? mel->window[i] * mel_sample(samples, count, total, at + PCO_LOG_MEL_HOP) : 0;
    }
    mel_transform(mel, x, y);
    for (int k = 0; k < PCO_LOG_MEL_BINS; k++) {
        const double *a = y[k], *b = y[(PCO_LOG_MEL_FFT - k) % PCO_LOG_MEL_FFT];
        const double even[2] = {a[0] + b[0], a[1] - b[1]}, odd[2] = {a[1] + b[1], b[0] - a[0]};
        power[0][k] = (even[0] * even[0] + even[1] * even[1]) / 4;
        power[1][k] = (odd[0] * odd[0] + odd[1] * odd[1]) / 4;
    }
    for (int i = 0; i <= two; i++) mel_bands(mel, power[i], logs, frames, frame + i);
}

pco_status pco_log_mel_run(const pco_log_mel *mel, const float *samples, int64_t count, int64_t frames, float *features,
                           pco_error *err)
{
    const int64_t elements = mel->bands * frames;
    double *logs = malloc((size_t)elements * sizeof *logs), largest = -INFINITY;
    if (!logs) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a spectrogram");
    for (int64_t frame = 0; frame < frames; frame += 2) mel_two_frames(mel, samples, count, frames, frame, logs);
    for (int64_t i = 0; i < elements; i++) largest = fmax(largest, logs[i]);
    for (int64_t i = 0; i < elements; i++) features[i] = (float)((fmax(logs[i], largest - 8) + 4) / 4);
    free(logs);
    return PCO_OK;
}
