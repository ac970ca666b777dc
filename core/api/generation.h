/* One generation under way, token by token: what a call for one prompt and one for several are made of. */
#ifndef PCO_API_GENERATION_H
#define PCO_API_GENERATION_H

#include "api/draft.h"
#include "api/stop.h"
#include "api/text.h"

#include "text/constraint.h"
#include "text/sampler.h"

typedef struct api_generation {
    pco_sequence *sequence; /* of an encoder-decoder: the target, without its start token */
    pco_model *model;
    const pco_generate_params *params;
    pco_sampler sampler;
    pco_decoder decoder;
    pco_text_fn text;
    void *user;
    int stopped;  /* a callback asked to stop, or a stop string came */
    int ended;    /* nothing follows; stats has the reason */
    int64_t room; /* so many generated tokens fit into the context */
    double begin; /* of what is generated, in seconds */
    api_stop stop;
    api_draft draft;
    pco_grammar *grammar; /* NULL: none; and which tokens it allows */
    pco_constraint *constraint;
    pco_generate_stats stats;
    pco_error *err;
} api_generation;

/* Checks the call of `function` and makes what g->params ask for; sequence, model, params, text, user and err are set.
 * api_close follows in any case. */
pco_status api_open(api_generation *g, const char *function, const char *prompt) PCO_NODISCARD;
void api_close(api_generation *g);

/* All of it: api_open, the prompt, the answer, api_close. */
pco_status api_generate(api_generation *g, const char *function, const char *prompt) PCO_NODISCARD;

/* The ids of a prompt or prefix: those of the caller, or of its text; *made is to be freed. */
pco_status api_ids(api_generation *g, const char *text, const int32_t *given, size_t n_given, int special,
                   const int32_t **ids, size_t *count, int32_t **made) PCO_NODISCARD;

/* The model reads the sequence, `before` of whose tokens are not of the prompt; its logits are those behind it. */
pco_status api_read_prompt(api_generation *g, size_t before) PCO_NODISCARD;

/* The next token: drawn from the model's logits and given out, unless something ends the text (g->ended). *reads: the
 * model is to read it before the next turn. */
pco_status api_turn(api_generation *g, int *reads) PCO_NODISCARD;

/* Gives out what was held back, and takes the time. */
void api_finish(api_generation *g);

#endif
