/* What the files of the library's API know of each other. */
#ifndef PCO_API_API_H
#define PCO_API_API_H

#include "base/error.h"
#include "graph/own.h"
#include "models/causal.h"
#include "models/encoder.h"
#include "models/model.h"
#include "models/seq2seq.h"
#include "portico/portico.h"
#include "portico/sequence.h"
#include "runtime/session.h"

typedef struct pco_registered pco_registered;
struct pco_context {
    pco_registry *registry;
    pco_registered *operations; /* of one's own (op.c) */
};

/* What plugins declare is registered when a context is made; what its like has already is left out, with a line. */
void api_plugin_operations(pco_context *context);
void api_drop_operations(pco_context *context);

/* ids[count] are its tokens, those behind the cache's position not yet read by the model. */
struct pco_sequence {
    pco_model *model; /* NULL: it was closed */
    int64_t lane;
    int32_t *ids; /* [context_length + 1] */
    size_t count;
};

struct pco_model {
    pco_context *context;
    pco_model_file *file;
    pco_session *session;
    pco_causal *causal; /* of a model that continues text; the other one is NULL */
    pco_seq2seq *seq2seq;
    pco_causal *beams; /* the same model with beam_lanes caches, for beam search; NULL until the first */
    int64_t beam_lanes;
    pco_encoder *encoder;      /* of embeddings; NULL until the first */
    pco_image_encoder *images; /* the same of images */
    struct pco_labels *labels; /* of the model's classifier; NULL until they are asked for */
    int64_t context_length;
    pco_memory_estimate estimate;
    uint32_t cache_type;
    int64_t lanes;            /* sequences that causal holds */
    pco_sequence **sequences; /* [lanes]: the caller's, or NULL */
    pco_sequence own;         /* of the last pco_model_generate; an encoder-decoder's: the target */
    float *logits;            /* [vocab_size] */
    void *workspace;          /* of the sampler */
    double load_seconds;
};

/* What the functions of a model begin with. */
#define API_NEEDS_MODEL(model) \
    PCO_NEEDS(model); \
    PCO_ENTER((model)->context->registry)

/* What those that need a text from the model begin with. */
#define API_NEEDS_WRITER(model) \
    API_NEEDS_MODEL(model); \
    if ((model)->file->spec.encoder_only) return api_no_writer((model)->file, err); \
    if ((model)->file->spec.sound.bands) return api_no_reader((model)->file, err)
pco_status api_no_writer(const pco_model_file *file, pco_error *err) PCO_NODISCARD;
/* UNSUPPORTED: the model hears, and reads no text. */
pco_status api_no_reader(const pco_model_file *file, pco_error *err) PCO_NODISCARD;

/* What the functions of a sequence begin with. */
#define API_NEEDS_SEQUENCE(sequence) \
    PCO_NEEDS(sequence); \
    if (!(sequence)->model) return pco_fail(err, PCO_ERROR_INVALID, "%s: its model was closed", __func__); \
    PCO_ENTER((sequence)->model->context->registry)

/* As pco_context_create, but a backend that is not there is no error yet: for those who have another choice. `asked`:
 * the selection that it is for (pco_registry_create_for). */
pco_status api_context_create(const pco_context_params *params, const char *asked, pco_context **context,
                              pco_error *err) PCO_NODISCARD;

/* A lane without a sequence of the caller's, in *lane, and empty. Errors: INVALID, as all are taken. */
pco_status api_lane(pco_model *model, int64_t *lane, pco_error *err) PCO_NODISCARD;

/* Makes model->causal or model->seq2seq, anew where it is there. */
pco_status api_runner(pco_model *model, pco_error *err) PCO_NODISCARD;

/* Makes model->encoder, and model->images, where it is not there yet. Errors: UNSUPPORTED for a model that reads no
 * texts, or no images. */
pco_status api_encoder(pco_model *model, pco_error *err) PCO_NODISCARD;
pco_status api_image_encoder(pco_model *model, pco_error *err) PCO_NODISCARD;

/* Which commands run a model that writes no text, or that hears, for messages: "portico embed runs it"; NULL for all
 * others. */
const char *api_who_runs(const pco_model_file *file);

#endif
