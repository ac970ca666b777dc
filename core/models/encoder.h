/* Running a model for what it makes of a text or an image, not for what it writes: embeddings, hidden states, the
 * logits of masked tokens, the scores of labels. An encoder alone, the encoder of an encoder-decoder, or the layers of
 * a decoder alone. */
#ifndef PCO_MODELS_ENCODER_H
#define PCO_MODELS_ENCODER_H

#include "models/spec.h"
#include "runtime/session.h"

typedef struct pco_encoder pco_encoder;

/* What is read of the last layer, behind its norm. */
typedef enum pco_encoder_output {
    PCO_ENCODER_MEAN = 0,     /* f32 [width], the mean over all tokens: one row for each text */
    PCO_ENCODER_CLS = 1,      /* that of the first token */
    PCO_ENCODER_LAST = 2,     /* that of the last token */
    PCO_ENCODER_HIDDEN = 3,   /* f32 [count,width], of every token */
    PCO_ENCODER_LOGITS = 4,   /* f32 [count,vocab_size], by the masked-language head of an encoder alone */
    PCO_ENCODER_FEATURES = 5, /* f32 [features.width], what an encoder alone makes of the text or image as a whole */
    PCO_ENCODER_CLASSES = 6,  /* f32 [classes.width], its logits of labels */
    PCO_ENCODER_OUTPUTS = 7
} pco_encoder_output;

/* A text: ids[count], at least one; types[count] are token types, NULL for all 0. */
typedef struct pco_encoder_text {
    const int32_t *ids, *types;
    int64_t count;
} pco_encoder_text;

/* Where features of the text end: behind the first token that spec->text_end_id says; `count` where there is none. */
int64_t pco_encoder_text_end(const pco_model_spec *spec, const int32_t *ids, int64_t count);

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

/* Builds all stages of that output now. */
pco_status pco_encoder_warm_up(pco_encoder *run, pco_encoder_output output, pco_error *err) PCO_NODISCARD;

/* What the stage with the most tokens of those that were built for the output is made of. */
pco_executable_stats pco_encoder_inspect(const pco_encoder *run, pco_encoder_output output);

/* Runs texts[count] in batches of similar length. `results`: the rows above, text by text in the order given.
 * `progress` may be NULL; it is told how many texts are done, and returning non-zero cancels. Errors: INVALID for a
 * text without tokens or longer than the context, ids outside the vocabulary, a type outside the table; UNSUPPORTED for
 * logits of a model without that head; CANCELLED; what the device returned. */
typedef int (*pco_encoder_progress)(void *user, int64_t done);
pco_status pco_encoder_run(pco_encoder *run, pco_encoder_output output, const pco_encoder_text *texts, int64_t count,
                           float *results, pco_encoder_progress progress, void *user, pco_error *err) PCO_NODISCARD;

/* ---- images ----------------------------------------------------------------------------------------- */

/* The same of an encoder that reads images (spec->patches): batches of 1 and of PCO_IMAGE_BATCH. Input "patches" f32
 * [batch,patches,channels * height * width of one]; output as above, of 1 + patches tokens. */
enum { PCO_IMAGE_BATCH = 8 };
typedef struct pco_image_encoder pco_image_encoder;
void pco_image_encoder_build(const pco_nn *nn, const pco_model_spec *spec, int64_t batch, pco_encoder_output output);
pco_status pco_image_encoder_create(pco_session *session, const pco_weights *weights, const pco_model_spec *spec,
                                    pco_image_encoder **run, pco_error *err) PCO_NODISCARD;
void pco_image_encoder_destroy(pco_image_encoder *run);
pco_status pco_image_encoder_warm_up(pco_image_encoder *run, pco_encoder_output output, pco_error *err) PCO_NODISCARD;
pco_executable_stats pco_image_encoder_inspect(const pco_image_encoder *run, pco_encoder_output output);

/* pixels f32 [channels,height,width] of one image, into `pixels`; what it returns ends the run. */
typedef pco_status (*pco_image_source)(void *user, int64_t index, float *pixels, pco_error *err);

/* Runs `count` images, which `source` gives one by one. Errors: as above, and those of `source`. */
pco_status pco_image_encoder_run(pco_image_encoder *run, pco_encoder_output output, pco_image_source source,
                                 int64_t count, float *results, pco_encoder_progress progress, void *user,
                                 pco_error *err) PCO_NODISCARD;

/* Has the model what the output is read from? UNSUPPORTED says what is missing. */
pco_status pco_encoder_check_output(const pco_model_spec *spec, pco_encoder_output output,
                                    pco_error *err) PCO_NODISCARD;

/* The output's part of a graph: x f32 [batch,rows,d_model] of the last layer, lengths i32 [batch] (PCO_NONE: all rows),
 * to the output "output". */
void pco_encoder_end(const pco_nn *nn, const pco_model_spec *spec, uint32_t x, uint32_t lengths,
                     pco_encoder_output output);

/* Floats of one row of that output. */
int64_t pco_encoder_width(const pco_model_spec *spec, pco_encoder_output output);

#endif
