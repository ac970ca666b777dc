/* Tokens of a prompt, for the files of the library's API. */
#ifndef PCO_API_TEXT_H
#define PCO_API_TEXT_H

#include "api/api.h"

/* As pco_model_tokenize. */
pco_status api_encode(const pco_model *model, const char *text, size_t bytes, int special, int32_t **ids, size_t *count,
                      pco_error *err) PCO_NODISCARD;

#endif
