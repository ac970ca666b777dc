/* Names of tensors in folders of Hugging Face, which depend on what the model was saved as. */
#ifndef PCO_MODELS_HF_WEIGHTS_H
#define PCO_MODELS_HF_WEIGHTS_H

#include "models/family.h"

/* Takes the family's prefix away, and calls the weights of norms as PyTorch does ("gamma" and "beta" of the first
 * BERTs). Errors: FORMAT when two tensors then have one name; OUT_OF_HOST_MEMORY. */
pco_status pco_hf_rename(const pco_family *family, pco_weights *weights, pco_error *err) PCO_NODISCARD;

/* Is it one of those that the family does without? */
int pco_hf_ignores(const pco_family *family, const char *name);

#endif
