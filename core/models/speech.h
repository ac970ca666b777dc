/* How a Whisper is asked to write down what it hears (Radford et al. 2022, 2.3), and what of its answers counts: the
 * prompt of its decoder, the tokens that it must not write, the rules for times, and the pieces that a window has. */
#ifndef PCO_MODELS_SPEECH_H
#define PCO_MODELS_SPEECH_H

#include "models/model.h"

enum { PCO_SPEECH_LANGUAGES = 256, PCO_SPEECH_CODE = 16, PCO_SPEECH_PROMPT = 4 };

typedef struct pco_speech_language {
    char code[PCO_SPEECH_CODE]; /* "en" */
    int32_t id;
} pco_speech_language;

typedef struct pco_speech {
    int32_t start, end, no_timestamps, transcribe, translate; /* -1: there is none */
    int32_t first_timestamp;       /* 0.00 s; -1: the model has no times. One more is 0.02 s more */
    int32_t max_initial_timestamp; /* the first one of a window is at most so many behind; -1: any */
    int64_t vocab_size, frames;    /* frames of a window, 10 ms each */
    uint32_t n_languages;          /* 0: it knows one language, and is not told */
    pco_speech_language languages[PCO_SPEECH_LANGUAGES];
    unsigned char *suppressed; /* [vocab_size]: 1: never written; 2: not as the first token; owned */
} pco_speech;

/* What config.json, generation_config.json and preprocessor_config.json say; where nothing is said, the names of
 * tokens. Release with pco_speech_release, also after an error. Errors: FORMAT and UNSUPPORTED, naming file and key;
 * NOT_FOUND for a model without a tokenizer. */
pco_status pco_speech_read(const pco_model_file *file, pco_speech *speech, pco_error *err) PCO_NODISCARD;
void pco_speech_release(pco_speech *speech);

/* Turns logits[vocab_size] of the token behind ids[count], all that this window has so far, into log-probabilities, of
 * which those that are not allowed are -infinity; the others are not scaled up for that. With `times`, which a model
 * has whose first_timestamp is not -1, pairs of times
 * stand around pieces of text and never go back. */
void pco_speech_allow(const pco_speech *speech, int times, const int32_t *ids, int64_t count, float *logits);

/* A piece of what was said: the tokens ids[first ... behind - 1], times not among them, from `begin` to `end`, in
 * frames from the beginning of the window. */
typedef struct pco_speech_piece {
    int64_t first, behind, begin, end;
} pco_speech_piece;

/* The pieces of a window of which `heard` frames are sound; pieces[count + 1] is room enough. *next: how many frames
 * later the next window begins: behind the last piece that is whole, so that no word is cut, and at least 0.02 s. */
int64_t pco_speech_cut(const pco_speech *speech, int times, const int32_t *ids, int64_t count, int64_t heard,
                       pco_speech_piece *pieces, int64_t *next);

#endif
