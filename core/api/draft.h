/* Speculative decoding (Leviathan et al. 2023, arXiv 2211.17192, for a draft that is coupled to what it drafts for): a
 * small model proposes the next tokens, and the model reads them all in one run. Both draw with the same random
 * numbers, so that what is drawn from the model's logits is what it would have been, token by token, whatever the draft
 * says; a proposal saves a run where it is that token. */
#ifndef PCO_API_DRAFT_H
#define PCO_API_DRAFT_H

#include "api/text.h"
#include "text/sampler.h"

typedef struct api_draft {
    pco_model *model;       /* the draft; NULL: none */
    pco_sequence *sequence; /* what it has read */
    int64_t most;           /* tokens that it proposes at a time */
    int32_t *proposed;      /* [most + 1]: behind the token that was read with them */
    float *rows;            /* [most + 1][vocab_size]: the model's logits behind each of those */
    int64_t count, next;    /* proposals that were read; those of which the text has taken */
    int64_t read;           /* tokens of the text that the model had read behind the last advance; 0: none was */
    int64_t made, accepted; /* of all, for the statistics */
} api_draft;

/* What draws, and where in the text. */
typedef struct api_draft_step {
    const pco_sampler *sampler;
    int64_t generated; /* tokens so far: the number of the next one */
    int64_t wanted;    /* no more than so many proposals can be of use */
} api_draft_step;

/* Errors: INVALID for a model that is no draft of the other. */
pco_status api_draft_open(api_draft *draft, pco_model *model, const pco_generate_params *params,
                          pco_error *err) PCO_NODISCARD;
void api_draft_close(api_draft *draft);

/* model->logits become those behind the last token of the sequence. */
pco_status api_draft_advance(api_draft *draft, pco_sequence *sequence, const api_draft_step *step,
                             pco_error *err) PCO_NODISCARD;

/* The text has changed elsewhere than at its end: what was read ahead is of no use. */
void api_draft_forget(api_draft *draft);

#endif
