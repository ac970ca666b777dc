/* Running a model that continues text, a Llama or a decoder of another family: one sequence at a time, with its
 * keys and values cached on the device. */
#ifndef PCO_MODELS_LLAMA_RUN_H
#define PCO_MODELS_LLAMA_RUN_H

#include "models/llama.h"
#include "runtime/session.h"

typedef struct pco_llama_run pco_llama_run;

/* Prepares the step of one token; stages for longer chunks (16, 64, 256 rows) follow when they are first
 * needed. Everything given is borrowed until the destroy; the session must be used by this run alone, as
 * states are known by name. `context` is the most tokens of a sequence. Errors: those of the graph and of
 * pco_executable_create. */
pco_status pco_llama_run_create(pco_session *session, const pco_weights *weights,
                                const pco_llama_config *config, int64_t context, pco_llama_run **run,
                                pco_error *err) PCO_NODISCARD;

/* What such a run needs to know of a model of another family. `build` makes what pco_llama_build makes, from a
 * config that is borrowed until the run's destroy. */
typedef struct pco_causal_model {
    const char *name;
    const void *config;
    void (*build)(const pco_nn *nn, const void *config, int64_t context, int64_t rows, int all_logits);
    int64_t vocab_size;
    int64_t position_offset; /* number of the first position */
} pco_causal_model;
pco_status pco_llama_run_create_causal(pco_session *session, const pco_weights *weights,
                                       const pco_causal_model *model, int64_t context, pco_llama_run **run,
                                       pco_error *err) PCO_NODISCARD;
void pco_llama_run_destroy(pco_llama_run *run);

/* Builds the stages of all chunk sizes now. */
pco_status pco_llama_run_warm_up(pco_llama_run *run, pco_error *err) PCO_NODISCARD;

/* Forgets the sequence. Costs nothing: what the cache holds beyond the position is never looked at. */
void pco_llama_run_reset(pco_llama_run *run);
/* Goes back to the first `position` tokens (at most as many as there are). */
void pco_llama_run_rewind(pco_llama_run *run, int64_t position);
int64_t pco_llama_run_position(const pco_llama_run *run);

/* Executables built so far. */
uint32_t pco_llama_run_stages(const pco_llama_run *run);

/* Appends ids[count] to the sequence. logits (may be NULL) receives f32 [vocab_size] of the last token. A
 * single token builds, records and allocates nothing. Errors: INVALID for ids outside the vocabulary, or a
 * sequence longer than the context, with both numbers. After an error of the device the sequence is as
 * before. */
pco_status pco_llama_run_append(pco_llama_run *run, const int32_t *ids, int64_t count, float *logits,
                                pco_error *err) PCO_NODISCARD;

/* The same with the logits of every token: f32 [count,vocab_size]. */
pco_status pco_llama_run_score(pco_llama_run *run, const int32_t *ids, int64_t count, float *logits,
                               pco_error *err) PCO_NODISCARD;

/* What the stage with the most rows that has been built is made of. */
pco_executable_stats pco_llama_run_inspect(const pco_llama_run *run);

#endif
