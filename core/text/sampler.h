/* Choosing the next token from logits.
 *
 * temperature 0: the largest logit. Otherwise softmax(logits / temperature) in double, over the top_k largest
 * (Fan et al. 2018), of those the smallest set whose share is at least top_p (nucleus: Holtzman et al. 2020),
 * and one draw from Philox4x32-10 with the seed as key and the step as counter. The exponential is our own:
 * the same logits, settings and step give the same token on every machine. */
#ifndef PCO_TEXT_SAMPLER_H
#define PCO_TEXT_SAMPLER_H

#include "portico/plugin.h"

typedef struct pco_sampler {
    double temperature; /* 0, or more */
    double top_p;       /* above 0, up to 1; 1 keeps everything */
    int64_t top_k;      /* 0 keeps everything */
    uint64_t seed;
} pco_sampler;

#define PCO_SAMPLER_GREEDY ((pco_sampler){.temperature = 0, .top_p = 1})

/* Errors, INVALID: which setting is out of range, and the range. */
pco_status pco_sampler_check(const pco_sampler *sampler, pco_error *err) PCO_NODISCARD;

/* Bytes of workspace that a draw from `count` logits needs; aligned like malloc's. */
size_t pco_sampler_workspace(int64_t count);

/* The token for step `step` in *id, from logits[count]. `workspace` may be NULL, to allocate for the call.
 * Ties go to the lower index. Pure, apart from the workspace; any thread. Errors, INVALID: settings as above,
 * no logits, a logit that is NaN or +infinity (by its index), all of them -infinity. OUT_OF_HOST_MEMORY. */
pco_status pco_sampler_draw(const pco_sampler *sampler, const float *logits, int64_t count, uint64_t step,
                            void *workspace, int32_t *id, pco_error *err) PCO_NODISCARD;

#endif
