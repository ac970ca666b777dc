/* What a model's file says of chats. */
#ifndef PCO_MODELS_CHAT_H
#define PCO_MODELS_CHAT_H

#include "formats/json.h"
#include "models/model.h"

/* The chat template, Jinja: *source (free). Errors: NOT_FOUND where there is none; IO, FORMAT. */
pco_status pco_model_chat_source(const pco_model_file *file, char **source, pco_error *err) PCO_NODISCARD;

/* Adds bos_token, eos_token, unk_token and pad_token, as texts, to `variables`, as far as the model has them. */
pco_status pco_model_chat_tokens(const pco_model_file *file, cJSON *variables, pco_error *err) PCO_NODISCARD;

#endif
