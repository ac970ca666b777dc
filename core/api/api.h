/* What the files of the library's API know of each other. */
#ifndef PCO_API_API_H
#define PCO_API_API_H

#include "models/causal.h"
#include "models/model.h"
#include "models/seq2seq.h"
#include "portico/portico.h"
#include "runtime/session.h"

#include <sys/types.h>

struct pco_context {
    pco_registry *registry;
    pid_t process; /* that made it: a child of fork has no threads, and drivers do not survive there */
};

struct pco_model {
    pco_context *context;
    pco_model_file *file;
    pco_session *session;
    pco_causal *causal; /* of a model that continues text; the other one is NULL */
    pco_seq2seq *seq2seq;
    int64_t context_length;
    pco_memory_estimate estimate;
    float *logits;     /* [vocab_size] */
    void *workspace;   /* of the sampler */
    int32_t *sequence; /* [context_length + 1]: ids of the last generation; decoder-only: with the prompt */
    size_t n_sequence;
    double load_seconds;
};

/* For the first lines of each function of the interface: what it cannot do without. */
#define API_NEEDS(argument) \
    do { \
        if (!(argument)) return api_missing(err, __func__, #argument); \
    } while (0)
#define API_NEEDS_SOME(argument, count) \
    do { \
        if (!(argument) && (count)) return api_missing(err, __func__, #argument); \
    } while (0)
#define API_NEEDS_MODEL(model) \
    do { \
        API_NEEDS(model); \
        pco_status api_status = api_check_process((model)->context, err); \
        if (api_status) return api_status; \
    } while (0)

/* INVALID, naming the function and the argument that is NULL. */
pco_status api_missing(pco_error *err, const char *function, const char *argument);

/* INVALID in a child of the process that made the context, with what to do. */
pco_status api_check_process(const pco_context *context, pco_error *err);

/* As pco_context_create, but a backend that is not there is no error yet: for those who have another choice. */
pco_status api_context_create(const pco_context_params *params, pco_context **context, pco_error *err) PCO_NODISCARD;

/* Seconds of a clock that only goes forward. */
double api_seconds(void);

#endif
