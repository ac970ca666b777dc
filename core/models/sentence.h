/* What sentence-transformers keep beside a model: how its hidden states become one embedding of a text. */
#ifndef PCO_MODELS_SENTENCE_H
#define PCO_MODELS_SENTENCE_H

#include "models/encoder.h"

typedef struct pco_sentence {
    pco_encoder_output pooling; /* mean where nothing says otherwise */
    int normalize;              /* to length 1 */
    int64_t max_tokens;         /* longer texts are cut; 0: nothing is said */
} pco_sentence;

/* Reads modules.json, the config of the pooling that it names, and sentence_bert_config.json, of a folder; defaults for
 * what is not there. Errors: FORMAT; UNSUPPORTED for modules and kinds of pooling other than these, by name. */
pco_status pco_sentence_read(const char *folder, pco_sentence *sentence, pco_error *err) PCO_NODISCARD;

#endif
