/* Running an encoder-decoder: one source at a time, of text or of sound. The encoder's stage writes the keys and values
 * of all cross-attentions into states, once per source; the decoder's step reads them and its own cache. */
#ifndef PCO_MODELS_SEQ2SEQ_H
#define PCO_MODELS_SEQ2SEQ_H

#include "models/spec.h"
#include "runtime/session.h"

typedef struct pco_seq2seq pco_seq2seq;

/* Prepares the decoder's step; the encoder and scoring follow for lengths of 16, 64, 256 ... when they are
 * first needed. `context` is the most tokens of a source and of a target; the caches are of cache_type. What is given
 * is borrowed until the destroy, and the session must be used by this model alone. Errors: those of the graph and of
 * pco_executable_create. */
pco_status pco_seq2seq_create(pco_session *session, const pco_weights *weights, const pco_model_spec *spec,
                              int64_t context, uint32_t cache_type, pco_seq2seq **run, pco_error *err) PCO_NODISCARD;
void pco_seq2seq_destroy(pco_seq2seq *run);

/* Builds the encoder's stages of all lengths now. */
pco_status pco_seq2seq_warm_up(pco_seq2seq *run, pco_error *err) PCO_NODISCARD;

/* What a graph computes. */
typedef struct pco_seq2seq_form {
    int64_t context;
    int64_t beams; /* with step: so many targets of one source, side by side (B below); 0: one */
    int64_t rows;
    int step;            /* 1: the next token of each target, with caches; rows is 1 */
    uint32_t cache_type; /* PCO_F32, PCO_F16 or PCO_Q8_0 */
} pco_seq2seq_form;

/* The graphs. encode: input "ids" i32 [1,rows] (the source), run value "lengths" i32 [1] (of a model that hears: input
 * "features" f32 [1,bands,2 rows] alone, of as many rows as it always has); no output, but the
 * caches "cross.key.N" and "cross.value.N" of one sequence. decode: input "ids" i32 [B,rows], run value
 * "source_lengths" i32 [1], output "logits" f32 [B*rows,vocab]; with `step` there are also the run values "positions"
 * i32 [B,1], "starts" and "lengths" i32 [B] and the caches "cache.key.N" and "cache.value.N", of beams "beam.key.N" and
 * "beam.value.N". */
void pco_seq2seq_build_encode(const pco_nn *nn, const pco_model_spec *spec, const pco_seq2seq_form *form);
void pco_seq2seq_build_decode(const pco_nn *nn, const pco_model_spec *spec, const pco_seq2seq_form *form);

/* Reads a source and starts an empty target. count is at least 1. Errors: INVALID for ids outside the
 * vocabulary or a source longer than the context. */
pco_status pco_seq2seq_encode(pco_seq2seq *run, const int32_t *ids, int64_t count, pco_error *err) PCO_NODISCARD;

/* The same for a model that hears: features f32 [bands,2 rows]. Errors: INVALID for a model of text. */
pco_status pco_seq2seq_hear(pco_seq2seq *run, const float *features, pco_error *err) PCO_NODISCARD;

/* Starts an empty target of the source that was read, in place of the one. */
void pco_seq2seq_restart(pco_seq2seq *run);

/* Appends one token to the target; logits f32 [vocab] are those of the token after it (NULL: not read). The
 * first token is decoder_start_token_id. Builds, records and allocates nothing. Errors: INVALID, as above. */
pco_status pco_seq2seq_step(pco_seq2seq *run, int32_t id, float *logits, pco_error *err) PCO_NODISCARD;

/* Begins so many empty targets of the source that was read, side by side, in place of the one. Another number than the
 * last time builds a step. */
pco_status pco_seq2seq_begin_beams(pco_seq2seq *run, int64_t beams, pco_error *err) PCO_NODISCARD;

/* Appends ids[i] to target i of all of them; logits f32 [beams,vocab] as in step (NULL: not read). */
pco_status pco_seq2seq_step_beams(pco_seq2seq *run, const int32_t *ids, float *logits, pco_error *err) PCO_NODISCARD;

/* Makes each target i that which from[i] was, all at once. */
pco_status pco_seq2seq_reorder_beams(pco_seq2seq *run, const int64_t *from, pco_error *err) PCO_NODISCARD;

/* Tokens of the target so far, the start token included. */
int64_t pco_seq2seq_position(const pco_seq2seq *run);

/* Logits f32 [count,vocab] for a given target, all rows at once (teacher forcing): row i is for the token
 * that follows ids[i]. The target so far and its cache stay as they are. */
pco_status pco_seq2seq_score(pco_seq2seq *run, const int32_t *ids, int64_t count, float *logits,
                             pco_error *err) PCO_NODISCARD;

/* What the largest stage that was built is made of. */
pco_executable_stats pco_seq2seq_inspect(const pco_seq2seq *run);

#endif
