/* Speech: what is said in a sound, as text. For models that hear (Whisper).
 *
 *     float *samples;
 *     size_t count;
 *     if (pco_sound_read("speech.wav", &samples, &count, &err)) ...
 *     if (pco_model_transcribe(model, samples, count, NULL, receive, NULL, NULL, &err)) ...
 *     pco_free(samples); */
#ifndef PORTICO_SPEECH_H
#define PORTICO_SPEECH_H

#include <portico/portico.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Samples in a second of what models hear. */
#define PCO_SOUND_RATE 16000

/* A WAV file as *samples (pco_free), *count of them at PCO_SOUND_RATE, full scale at 1: whole numbers of 8, 16, 24 or
 * 32 bits or floats of 32 or 64, at 8,000 to 768,000 Hz (resampled under a windowed sinc, 90 dB), the mean of its
 * channels. Threads: any. Errors: IO; FORMAT; UNSUPPORTED for other codings, by name; OUT_OF_HOST_MEMORY. */
PCO_EXPORT pco_status pco_sound_read(const char *path, float **samples, size_t *count, pco_error *err) PCO_NODISCARD;

typedef struct pco_transcribe_params {
    size_t size;
    const char *language; /* what is spoken: "en", "de" ...; NULL: the model finds out in the first window. Models of
                             one language take none */
    int translate;        /* 1: into English; 0: as it is spoken */
    int timestamps; /* 1: in pieces, as the model cuts them; 0: all of a window in one. Sounds longer than a window
                       are cut in any case, so that no word is cut in two */
    int64_t beams;  /* texts of a window that are tried side by side, at most 64; 0 and 1: always the likeliest
                       token */
    double length_penalty; /* as in pco_beam_params (portico/beam.h); 0: 1 */
    int64_t max_tokens;    /* of a window; 0: as many as the context holds */
    /* Called before each window, and before each token, with the seconds that have been heard; non-zero ends the call,
     * which is CANCELLED. May be NULL. */
    int (*progress)(void *user, double seconds, double total);
    void *progress_user;
} pco_transcribe_params;

/* A piece of what was said, valid until the callback returns. */
typedef struct pco_speech_segment {
    size_t size; /* set by the library */
    int64_t window;
    double begin, end; /* seconds from the beginning of the sound */
    const char *text;  /* [bytes], and a NUL behind; most begin with a space */
    size_t bytes;
    const int32_t *ids; /* [count], without times and control tokens */
    size_t count;
    const char *language;   /* "en"; "" for models of one */
    double log_probability; /* of all tokens of its window, per token (the end included); natural logarithm */
} pco_speech_segment;

/* Receives the pieces in their order. Returning non-zero ends the call, which is not an error. */
typedef int (*pco_speech_fn)(void *user, const pco_speech_segment *segment);

typedef struct pco_transcribe_stats {
    size_t size;
    double sound_seconds;
    double load_seconds, features_seconds, encoder_seconds, decoder_seconds;
    int64_t windows, tokens;
    char language[16];
    uint64_t peak_device_bytes;
} pco_transcribe_stats;

/* Writes down what is said in samples[count], mono at PCO_SOUND_RATE. The sound is heard in windows of 30 s (what the
 * model was made for), the last one with silence behind it: a log-mel spectrogram as Radford et al. 2022 (2.2), tokens
 * by beam search behind the prompt of language and task, without those that generation_config.json suppresses. The next
 * window begins where the last whole piece ended. `params` and `stats` may be NULL. Threads: as in portico.h. Errors:
 * UNSUPPORTED for a model that does not hear; INVALID for parameters, for no samples and for one that is no finite
 * number; NOT_FOUND without a tokenizer; FORMAT for the model's JSON files, naming the key, also where what they
 * suppress leaves no token that the text could go on with; CANCELLED; what the device returned. */
PCO_EXPORT pco_status pco_model_transcribe(pco_model *model, const float *samples, size_t count,
                                           const pco_transcribe_params *params, pco_speech_fn receive, void *user,
                                           pco_transcribe_stats *stats, pco_error *err) PCO_NODISCARD;

#ifdef __cplusplus
}
#endif
#endif
