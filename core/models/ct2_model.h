/* Folders of CTranslate2: model.bin, and vocabularies of one token a line, or of a list in JSON. */
#ifndef PCO_MODELS_CT2_MODEL_H
#define PCO_MODELS_CT2_MODEL_H

#include "models/family.h"

/* The row that such models are of, which no config.json names, the spec and the tokenizers (*target may be *source) of
 * a folder whose weights are open. Errors: UNSUPPORTED for a specification other than TransformerSpec, TransformerBase
 * and TransformerBig; NOT_FOUND for a vocabulary that is not there; those of files and tokenizers. */
pco_status pco_ct2_read_model(const char *folder, const pco_weights *weights, const pco_family **family,
                              pco_model_spec *spec, pco_tokenizer **source, pco_tokenizer **target,
                              pco_error *err) PCO_NODISCARD;

#endif
