/* Beam search: instead of one text, the most likely of several that are tried side by side. The same texts as
 * generate(num_beams=...) of the package transformers gives, for language models and encoder-decoders.
 *
 *     const pco_beam_params how = {.size = sizeof how, .beams = 4};
 *     if (pco_model_beam_search(model, "A sentence.", NULL, &how, receive, NULL, NULL, &err)) ...
 *
 * Threads, NULL and fork: as in portico.h. */
#ifndef PORTICO_BEAM_H
#define PORTICO_BEAM_H

#include <portico/portico.h>

#ifdef __cplusplus
extern "C" {
#endif

/* When the search ends, which it does in any case where all texts have max_tokens (transformers' early_stopping). */
typedef enum pco_early_stopping {
    PCO_EARLY_STOPPING_LIKELY = 0, /* (False) when the best text under way scores no more, as long as it is, than the
                                      worst of `beams` that have ended */
    PCO_EARLY_STOPPING_FIRST = 1,  /* (True) as soon as `beams` texts have ended */
    PCO_EARLY_STOPPING_NEVER = 2,  /* ("never") only when no text under way can become better than those */
} pco_early_stopping;

/* A length_penalty that changes nothing (0 stands for the usual one). */
#define PCO_NO_LENGTH_PENALTY 1e-300

typedef struct pco_beam_params {
    size_t size;
    int64_t beams;         /* texts side by side, at most 64; 0: 4 */
    int64_t returned;      /* how many of the best are given out, at most `beams`; 0: 1 */
    double length_penalty; /* a text of n tokens scores log p / n^length_penalty: above 0 long ones gain. 0: 1 */
    pco_early_stopping early_stopping;
    /* Called before each token, with how many there are; non-zero ends the call, which is CANCELLED. May be NULL. */
    int (*progress)(void *user, int64_t tokens);
    void *progress_user;
} pco_beam_params;

/* One of the best, valid until the callback returns. */
typedef struct pco_beam {
    size_t size; /* set by the library */
    int64_t rank;
    const char *text; /* [bytes], and a NUL behind; what pco_model_generate would give out. NULL without a tokenizer */
    size_t bytes;
    const int32_t *ids; /* [count]: what was generated, without the token that ended it */
    size_t count;
    double score, log_probability; /* of all tokens, the one that ended it included; natural logarithm */
    pco_stop_reason stop_reason;   /* END, MAX_TOKENS or CONTEXT */
} pco_beam;

/* Receives the best first. Returning non-zero ends the call, which is not an error. */
typedef int (*pco_beam_fn)(void *user, const pco_beam *beam);

/* Searches for what follows a prompt (or answers a source; an empty one has an empty answer). Of `params` it uses
 * max_tokens, prompt_ids and prefix; it draws nothing, so anything that is about drawing, stop strings, callbacks,
 * echo, context_shift, draft and grammar are INVALID. The beams have caches of their own, beside those of the model's
 * sequences, until the model is closed. `params`, `how` and `stats` may be NULL; the prompt only where params has ids.
 * Of `stats`, tokens and the reason are those of the best text. Errors: as pco_model_generate; INVALID for beams. */
PCO_EXPORT pco_status pco_model_beam_search(pco_model *model, const char *prompt, const pco_generate_params *params,
                                            const pco_beam_params *how, pco_beam_fn receive, void *user,
                                            pco_generate_stats *stats, pco_error *err) PCO_NODISCARD;

#ifdef __cplusplus
}
#endif
#endif
