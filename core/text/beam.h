/* Beam search: the texts under way and those that have ended, from logits alone. The rules are those of generate() of
 * the package transformers (5.23), so that the same logits give the same texts. */
#ifndef PCO_TEXT_BEAM_H
#define PCO_TEXT_BEAM_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

typedef enum pco_beam_stopping {
    PCO_BEAM_STOP_LIKELY = 0, /* when the best text under way, as long as it is now, is no better than the worst of
                                 `beams` that have ended */
    PCO_BEAM_STOP_FIRST = 1,  /* as soon as `beams` texts have ended */
    PCO_BEAM_STOP_NEVER = 2,  /* as LIKELY, but as long as it could become, where length is rewarded */
} pco_beam_stopping;

typedef struct pco_beam_rules {
    int64_t beams, vocab_size;
    int64_t max_tokens;    /* at least 1; a text that has as many has ended */
    double length_penalty; /* a text of n tokens (its end included) scores log p / n^length_penalty */
    pco_beam_stopping stopping;
    int normalized; /* the logits are log-probabilities already; those of tokens that are excluded are -infinity */
    const int32_t
        *never; /* [n_never]: tokens that no text gets, though what they would have had counts: read at once */
    uint32_t n_never;
    int (*ends)(const void *user, int32_t id); /* does a text end with this token? */
    const void *user;
} pco_beam_rules;

typedef struct pco_beams pco_beams;

/* The rules are copied. Errors: OUT_OF_HOST_MEMORY. */
pco_status pco_beams_create(const pco_beam_rules *rules, pco_beams **beams, pco_error *err) PCO_NODISCARD;
void pco_beams_destroy(pco_beams *beams);

/* One more token: logits f32 [beams,vocab_size] are those of the texts under way (in the first step all the same: the
 * prompt's); of tokens that may not follow they are -infinity. Text i then goes on from text from[i], with ids[i].
 * *done: the search has ended, and there is nothing to go on with, also where no token may follow any text. Errors:
 * INVALID for logits that are NaN or +infinity; OUT_OF_HOST_MEMORY. */
pco_status pco_beams_step(pco_beams *beams, const float *logits, int64_t *from, int32_t *ids, int *done,
                          pco_error *err) PCO_NODISCARD;

/* A text that has ended. */
typedef struct pco_beam_text {
    const int32_t *ids; /* [count], without the token that ended it; until the next call or the destroy */
    size_t count;
    double score, log_probability; /* that of all its tokens, the one that ended it included */
    int ended;                     /* 0: it had max_tokens */
} pco_beam_text;

/* The rank-th best, from 0; 0 where there are not so many. */
int pco_beams_text(pco_beams *beams, int64_t rank, pco_beam_text *text);

#endif
