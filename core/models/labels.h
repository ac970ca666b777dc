/* What a classifier's labels are called: "id2label" of config.json. */
#ifndef PCO_MODELS_LABELS_H
#define PCO_MODELS_LABELS_H

#include "models/model.h"

typedef struct pco_labels {
    size_t count;
    char **names; /* [count] */
} pco_labels;

/* `count` of the model's folder; those that the file does not name are "LABEL_0" and so on, as transformers calls them.
 * Errors: IO, FORMAT, OUT_OF_HOST_MEMORY. */
pco_status pco_labels_read(const pco_model_file *file, size_t count, pco_labels **labels, pco_error *err) PCO_NODISCARD;
void pco_labels_destroy(pco_labels *labels);

#endif
