/* Tokens of prompts and sequences, for the files of the library's API. */
#ifndef PCO_API_TEXT_H
#define PCO_API_TEXT_H

#include "api/api.h"
#include "portico/embed.h"

/* As pco_model_tokenize. */
pco_status api_encode(const pco_model *model, const char *text, size_t bytes, int special, int32_t **ids, size_t *count,
                      pco_error *err) PCO_NODISCARD;

/* Does a text that the model writes end with this token? */
int api_ends(const pco_model *model, int32_t id);

/* Is there one prompt, and at most one prefix, as text (which needs a tokenizer) or as ids? `writes`: text is given
 * out. Errors: INVALID, NOT_FOUND. */
pco_status api_check_texts(const pco_model *model, const pco_generate_params *params, const char *function,
                           const char *prompt, int writes, pco_error *err) PCO_NODISCARD;

/* Appends ids to a sequence, for the model to read later. Errors: INVALID: outside the vocabulary, or too many. */
pco_status api_extend(pco_sequence *sequence, const int32_t *ids, size_t count, pco_error *err) PCO_NODISCARD;

/* Has the model read what it has not yet read, and the last token in any case where there are `logits`. */
pco_status api_read(pco_sequence *sequence, float *logits, pco_prompt_fn progress, void *user,
                    pco_error *err) PCO_NODISCARD;

/* Each vector of rows[count][width] to length 1, in double; one of zeros stays so. */
void api_normalize(float *rows, size_t count, int64_t width);

/* INVALID for a pooling and the like that mean nothing. */
pco_status api_check_embed(const pco_embed_params *params, pco_error *err) PCO_NODISCARD;

#endif
