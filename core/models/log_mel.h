/* The log-mel spectrogram that Whisper hears (Radford et al. 2022, 2.2): of sound at 16 kHz, 100 frames a second, each
 * the power of 25 ms under a Hann window (n_fft 400, hop 160; what lies before the beginning and behind the end is
 * mirrored), in triangular bands (mel scale and norm of Slaney's Auditory Toolbox, 1998, as in librosa); log10, at
 * least 8 below the largest, (x + 4) / 4. All in double. */
#ifndef PCO_MODELS_LOG_MEL_H
#define PCO_MODELS_LOG_MEL_H

#include "base/error.h"

enum { PCO_LOG_MEL_RATE = 16000, PCO_LOG_MEL_HOP = 160, PCO_LOG_MEL_FFT = 400, PCO_LOG_MEL_BINS = 201 };
enum { PCO_LOG_MEL_BANDS = 512 }; /* most bands */

/* Tables; read-only once made. */
typedef struct pco_log_mel pco_log_mel;

/* Errors: INVALID for bands outside of 1 to PCO_LOG_MEL_BANDS; OUT_OF_HOST_MEMORY. */
pco_status pco_log_mel_create(int64_t bands, pco_log_mel **mel, pco_error *err) PCO_NODISCARD;
void pco_log_mel_destroy(pco_log_mel *mel);

/* The weight of a frequency bin (40 Hz each, from 0) in a band. */
double pco_log_mel_filter(const pco_log_mel *mel, int64_t band, int64_t bin);

/* features f32 [bands,frames] of frames * 160 samples, of which those from `count` on are silence. frames is at least
 * 2. Errors: OUT_OF_HOST_MEMORY. */
pco_status pco_log_mel_run(const pco_log_mel *mel, const float *samples, int64_t count, int64_t frames, float *features,
                           pco_error *err) PCO_NODISCARD;

#endif
