/* Running a model for what it makes of a text, not for what it writes: embeddings, hidden states, and the logits of
 * masked tokens. An encoder alone, the encoder of an encoder-decoder, or the layers of a decoder alone. */
#ifndef PCO_MODELS_ENCODER_H
#define PCO_MODELS_ENCODER_H

#include "models/spec.h"
#include "runtime/session.h"

typedef struct pco_encoder pco_encoder;

/* What is read of the last layer, behind its norm. */
typedef enum pco_encoder_output {
    PCO_ENCODER_MEAN = 0,   /* f32 [width], the mean over all tokens: one row for each text */
    PCO_ENCODER_CLS = 1,    /* that of the first token */
    PCO_ENCODER_LAST = 2,   /* that of the last token */
    PCO_ENCODER_HIDDEN = 3, /* f32 [count,width], of every token */
    PCO_ENCODER_LOGITS = 4, /* f32 [count,vocab_size], by the masked-language head of an encoder alone */
    PCO_ENCODER_OUTPUTS = 5
} pco_encoder_output;

/* A text: ids[count], at least one; types[count] are token types, NULL for all 0. */
typedef struct pco_encoder_text {
    const int32_t *ids, *types;
    int64_t count;
} pco_encoder_text;

/* Builds `batch` texts of at most `rows` tokens each. Inputs "ids" and, where the model has token types, "types", i32
 * [batch,rows]; run value "lengths" i32 [batch]; output "output" f32, [batch,width], [batch,rows,width] or
 * [batch,rows,vocab_size]. Rows behind the length of a text mean nothing. */
void pco_encoder_build(const pco_nn *nn, const pco_model_spec *spec, int64_t batch, int64_t rows,
                       pco_encoder_output output);

/* Checks that the graph can be built; stages for batches of 16, 64, 256 ... tokens follow when they are first needed.
 * What is given is borrowed until the destroy; a session of causal.h or seq2seq.h may be shared, as there are no
 * states. `context` is the most tokens of a text. Errors: those of the graph. */
pco_status pco_encoder_create(pco_session *session, const pco_weights *weights, const pco_model_spec *spec,
                              int64_t context, pco_encoder **run, pco_error *err) PCO_NODISCARD;
void pco_encoder_destroy(pco_encoder *run);

/* Runs texts[count] in batches of similar length. `results`: the rows above, text by text in the order given.
 * `progress` may be NULL; it is told how many texts are done, and returning non-zero cancels. Errors: INVALID for a
 * text without tokens or longer than the context, ids outside the vocabulary, a type outside the table; UNSUPPORTED for
 * logits of a model without that head; CANCELLED; what the device returned. */
typedef int (*pco_encoder_progress)(void *user, int64_t done);
pco_status pco_encoder_run(pco_encoder *run, pco_encoder_output output, const pco_encoder_text *texts, int64_t count,
                           float *results, pco_encoder_progress progress, void *user, pco_error *err) PCO_NODISCARD;

/* Floats of one row of that output. */
int64_t pco_encoder_width(const pco_model_spec *spec, pco_encoder_output output);

#endif
