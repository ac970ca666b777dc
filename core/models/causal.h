/* Running a model that continues text: one sequence at a time, with its keys and values cached on the device.
 */
#ifndef PCO_MODELS_CAUSAL_H
#define PCO_MODELS_CAUSAL_H

#include "models/spec.h"
#include "runtime/session.h"

typedef struct pco_causal pco_causal;

/* Builds one chunk: `rows` tokens of one sequence behind what is in the cache. It reads the input "ids" i32
 * [1,rows] and the run values "positions" i32 [1,rows], "starts" i32 [1] (position of the first row) and
 * "lengths" i32 [1] (valid keys: starts + valid rows); rows beyond the valid ones are computed and mean
 * nothing. The caches are the states "cache.key.N" and "cache.value.N" f32 [1,context,kv_heads,head_dim]. The
 * output "logits" is f32 [rows,vocab_size] with all_logits, else [1,vocab_size] of the row that the run value
 * "row" i32 [1] names (there is none when rows is 1). */
void pco_causal_build(const pco_nn *nn, const pco_model_spec *spec, int64_t context, int64_t rows, int all_logits);

/* Prepares the step of one token; stages for longer chunks (16, 64, 256 rows) follow when they are first
 * needed. What is given is borrowed until the destroy; the session must be used by this model alone, as
 * states are known by name. `context` is the most tokens of a sequence. Errors: those of the graph and of
 * pco_executable_create. */
pco_status pco_causal_create(pco_session *session, const pco_weights *weights, const pco_model_spec *spec,
                             int64_t context, pco_causal **run, pco_error *err) PCO_NODISCARD;
void pco_causal_destroy(pco_causal *run);

/* Builds the stages of all chunk sizes now. */
pco_status pco_causal_warm_up(pco_causal *run, pco_error *err) PCO_NODISCARD;

/* Forgets the sequence. Costs nothing: what the cache holds beyond the position is never looked at. */
void pco_causal_reset(pco_causal *run);
/* Goes back to the first `position` tokens (at most as many as there are). */
void pco_causal_rewind(pco_causal *run, int64_t position);
int64_t pco_causal_position(const pco_causal *run);

/* Executables built so far. */
uint32_t pco_causal_stages(const pco_causal *run);

/* Appends ids[count] to the sequence. logits (may be NULL) receives f32 [vocab_size] of the last token. A
 * single token builds, records and allocates nothing. Errors: INVALID for ids outside the vocabulary, or a
 * sequence longer than the context, with both numbers. After an error of the device the sequence is as
 * before. */
pco_status pco_causal_append(pco_causal *run, const int32_t *ids, int64_t count, float *logits,
                             pco_error *err) PCO_NODISCARD;

/* The same with the logits of every token: f32 [count,vocab_size]. */
pco_status pco_causal_score(pco_causal *run, const int32_t *ids, int64_t count, float *logits,
                            pco_error *err) PCO_NODISCARD;

/* What the stage with the most rows that has been built is made of. */
pco_executable_stats pco_causal_inspect(const pco_causal *run);

#endif
