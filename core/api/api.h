/* What the files of the library's API know of each other. */
#ifndef PCO_API_API_H
#define PCO_API_API_H

#include "base/error.h"
#include "models/causal.h"
#include "models/encoder.h"
#include "models/model.h"
#include "models/seq2seq.h"
#include "portico/portico.h"
#include "runtime/session.h"

struct pco_context {
    pco_registry *registry;
};

struct pco_model {
    pco_context *context;
    pco_model_file *file;
    pco_session *session;
    pco_causal *causal; /* of a model that continues text; the other one is NULL */
    pco_seq2seq *seq2seq;
    pco_encoder *encoder; /* of embeddings; NULL until the first */
    int64_t context_length;
    pco_memory_estimate estimate;
    float *logits;     /* [vocab_size] */
    void *workspace;   /* of the sampler */
    int32_t *sequence; /* [context_length + 1]: ids of the last generation; decoder-only: with the prompt */
    size_t n_sequence;
    double load_seconds;
};

/* What the functions of a model begin with. */
#define API_NEEDS_MODEL(model) \
    do { \
        PCO_NEEDS(model); \
        pco_status api_status = pco_registry_check((model)->context->registry, err); \
        if (api_status) return api_status; \
    } while (0)

/* What those that need a text from the model begin with. */
#define API_NEEDS_WRITER(model) \
    do { \
        API_NEEDS_MODEL(model); \
        if ((model)->file->spec.encoder_only) return api_no_writer((model)->file, err); \
    } while (0)
pco_status api_no_writer(const pco_model_file *file, pco_error *err) PCO_NODISCARD;

/* As pco_context_create, but a backend that is not there is no error yet: for those who have another choice. */
pco_status api_context_create(const pco_context_params *params, pco_context **context, pco_error *err) PCO_NODISCARD;

/* Seconds of a clock that only goes forward. */
double api_seconds(void);

#endif
