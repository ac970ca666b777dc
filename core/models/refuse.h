/* What is given as a model and is none that Portico reads: what it is, and what to do with it. */
#ifndef PCO_MODELS_REFUSE_H
#define PCO_MODELS_REFUSE_H

#include "formats/gguf.h"

/* Always an error: UNSUPPORTED for a kind of file that is known, FORMAT for others, IO when it cannot be read. */
pco_status pco_model_refuse(const char *path, pco_error *err);

/* Has the folder a config.json and a model.safetensors? Errors: NOT_FOUND, saying what there is instead. */
pco_status pco_model_check_folder(const char *path, pco_error *err) PCO_NODISCARD;

/* Errors: UNSUPPORTED for what belongs to a model (an adapter, a projector). */
pco_status pco_model_check_kind(const char *path, const pco_gguf *gguf, pco_error *err) PCO_NODISCARD;

/* The file of a folder's weights: model.safetensors, else pytorch_model.bin (formats/torch_file.h). Release with free.
 * NULL when there is none, or no memory. */
char *pco_model_find_weights(const char *folder);

/* Of a folder without those: *path (free) is that of its model.bin (CTranslate2), else model.gguf, else
 * adapter_config.json; NULL when there is none, or weights are. Errors: OUT_OF_HOST_MEMORY. */
pco_status pco_model_find_other(const char *folder, char **path, pco_error *err) PCO_NODISCARD;

#endif
