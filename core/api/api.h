/* What the files of the library's API know of each other. */
#ifndef PCO_API_API_H
#define PCO_API_API_H

#include "models/llama_run.h"
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
    pco_llama_run *llama; /* of a model that continues text; the other one is NULL */
    pco_seq2seq *seq2seq;
    int64_t context_length;
    pco_memory_estimate estimate;
    float *logits;     /* [vocab_size] */
    void *workspace;   /* of the sampler */
    int32_t *sequence; /* [context_length + 1]: ids of the last generation; decoder-only: with the prompt */
    size_t n_sequence;
    double load_seconds;
};

/* Seconds of a clock that only goes forward. */
double api_seconds(void);

#endif
