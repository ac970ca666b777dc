/* Choosing the next token from logits, in this order (that of Hugging Face's transformers):
 *
 * 1. Repetition penalty (CTRL: Keskar et al. 2019): of each token that the text so far has, a logit above 0 is divided
 *    by it, another one multiplied.
 * 2. Frequency and presence penalties: a token that was generated n > 0 times loses frequency * n + presence.
 * 3. Temperature: 0 takes the largest logit; otherwise softmax(logits / temperature), in double.
 * 4. top_k: the k largest (Fan et al. 2018).
 * 5. top_p: the smallest set of the largest whose share is at least p (nucleus: Holtzman et al. 2020).
 * 6. min_p: those whose probability is at least p times the largest (Nguyen et al. 2024).
 * 7. typical_p: the smallest set with share p of those whose -log probability is nearest to the entropy (locally
 * typical sampling: Meister et al. 2023).
 * 8. One draw from Philox4x32-10 with the seed as key and the step as counter.
 *
 * Shares in 5 and 7 are of what the steps before left. The exponential is our own, and no logarithm is taken: the same
 * logits, settings, text and step give the same token on every machine. */
#ifndef PCO_TEXT_SAMPLER_H
#define PCO_TEXT_SAMPLER_H

#include "portico/plugin.h"

typedef struct pco_sampler {
    double temperature; /* 0, or more */
    double top_p;       /* above 0, up to 1; 1 keeps everything */
    int64_t top_k;      /* 0 keeps everything */
    uint64_t seed;
    double min_p;                               /* from 0, which keeps everything, up to 1 */
    double typical_p;                           /* up to 1; 0 and 1 keep everything */
    double repeat_penalty;                      /* 0.001 up to 1000; 0 and 1: none */
    double presence_penalty, frequency_penalty; /* -1000 up to 1000; 0: none */
    int64_t repeat_last_n;                      /* the penalties look at so many of the last tokens; 0: all */
} pco_sampler;

#define PCO_SAMPLER_GREEDY ((pco_sampler){.temperature = 0, .top_p = 1})

/* The text so far, for the penalties: the last `generated` of ids[count] were generated, the others are a prompt. */
typedef struct pco_sampler_history {
    const int32_t *ids;
    size_t count, generated;
} pco_sampler_history;

/* Errors, INVALID: which setting is out of range, and the range. */
pco_status pco_sampler_check(const pco_sampler *sampler, pco_error *err) PCO_NODISCARD;

/* Bytes of workspace that a draw from `count` logits needs; aligned like malloc's. */
size_t pco_sampler_workspace(int64_t count);

/* The token for step `step` in *id, from logits[count]. `history` may be NULL: no text yet. `workspace` may be NULL, to
 * allocate for the call. Ties go to the lower index. Pure, apart from the workspace; any thread. Errors, INVALID:
 * settings as above, no logits, a logit that is NaN or +infinity (by its index), all of them -infinity, ids of the
 * history outside of the logits. OUT_OF_HOST_MEMORY. */
pco_status pco_sampler_draw(const pco_sampler *sampler, const float *logits, int64_t count,
                            const pco_sampler_history *history, uint64_t step, void *workspace, int32_t *id,
                            pco_error *err) PCO_NODISCARD;

/* What a draw draws from: probabilities[count], in sum 1; at temperature 0 the token that it takes has 1. Arguments and
 * errors as above. */
pco_status pco_sampler_probabilities(const pco_sampler *sampler, const float *logits, int64_t count,
                                     const pco_sampler_history *history, double *probabilities,
                                     pco_error *err) PCO_NODISCARD;

#endif
