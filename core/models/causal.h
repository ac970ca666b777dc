/* Running a model that continues text, with the keys and values of its sequences cached on the device. There is room
 * for a number of sequences, each in a lane of the caches; one at a time takes any number of tokens, and several
 * together one token each. */
#ifndef PCO_MODELS_CAUSAL_H
#define PCO_MODELS_CAUSAL_H

#include "models/spec.h"
#include "runtime/session.h"

typedef struct pco_causal pco_causal;

typedef enum pco_causal_output {
    PCO_CAUSAL_LAST = 0, /* "logits" of one row of each sequence */
    PCO_CAUSAL_ALL = 1,  /* "logits" of every row */
} pco_causal_output;

/* What a graph of the model computes: the next `rows` tokens of `batch` of the sequences that the caches hold. batch is
 * 1 or `lanes`, and then rows is 1. */
typedef struct pco_causal_form {
    int64_t context; /* most tokens of a sequence */
    int64_t lanes, batch, rows;
    pco_causal_output output;
    uint32_t cache_type; /* PCO_F32, PCO_F16 or PCO_Q8_0 */
    int64_t capacity;    /* tokens of each that the caches have room for now; 0: context */
    const char *name;    /* of the caches' states; NULL: "cache" */
} pco_causal_form;

/* The next rows of the only sequence. */
#define PCO_CAUSAL_ROWS(most, n) (&(pco_causal_form){.context = (most), .lanes = 1, .batch = 1, .rows = (n)})

/* Builds it. It reads the input "ids" i32 [batch,rows] and the run values "positions" i32 [batch,rows], "starts" i32
 * [lanes] (position of a lane's first row; the capacity for lanes that take none) and "lengths" i32 [lanes] (valid
 * keys: starts + valid rows, or 0); where batch is 1 and there are several lanes also "take" i32 [lanes] (0 for the
 * lane that takes the rows, -1 for others) and "lane" i32 [1], its number. Rows beyond the valid ones are computed and
 * mean nothing. The caches are the states "cache.key.N" and "cache.value.N" (pco_nn_cache_state). The outputs: "logits"
 * f32 [batch*rows,vocab_size]; with LAST and several rows [1,vocab_size] of the row that the run value "row" i32 [1]
 * names. */
void pco_causal_build(const pco_nn *nn, const pco_model_spec *spec, const pco_causal_form *form);

/* What there is room for. The caches have that for PCO_CAUSAL_FIRST tokens at first, or for `context` where that is
 * less, and grow to twice as many when a sequence needs them: then the stages are built again. */
enum { PCO_CAUSAL_FIRST = 256 };
typedef struct pco_causal_room {
    int64_t context; /* most tokens of a sequence */
    int64_t lanes;   /* sequences */
    uint32_t cache_type;
    const char *name; /* of the caches' states, static: several models in one session differ in it; NULL: "cache" */
} pco_causal_room;

/* Prepares the step of one token; stages for longer chunks (16, 64, 256 rows) follow when they are first
 * needed. What is given is borrowed until the destroy, which takes the caches along; no other model of the session has
 * caches of that name. Errors: those of the graph and of pco_executable_create. */
pco_status pco_causal_create(pco_session *session, const pco_weights *weights, const pco_model_spec *spec,
                             const pco_causal_room *room, pco_causal **run, pco_error *err) PCO_NODISCARD;
void pco_causal_destroy(pco_causal *run);

/* Builds the stages of all chunk sizes now. */
pco_status pco_causal_warm_up(pco_causal *run, pco_error *err) PCO_NODISCARD;

/* What follows is about the sequence in that lane; the first one if there has been no call. */
void pco_causal_select(pco_causal *run, int64_t lane);

/* Called before each chunk of a prompt, with the tokens done and all; non-zero ends the call, which is CANCELLED, with
 * the sequence as before. NULL: nothing is called. */
typedef int (*pco_causal_progress_fn)(void *user, int64_t done, int64_t count);
void pco_causal_watch(pco_causal *run, pco_causal_progress_fn progress, void *user);

/* Forgets the sequence. Costs nothing: what the cache holds beyond the position is never looked at. */
void pco_causal_reset(pco_causal *run);
/* Goes back to the first `position` tokens (at most as many as there are). */
void pco_causal_rewind(pco_causal *run, int64_t position);
int64_t pco_causal_position(const pco_causal *run);

/* Makes the caches as large as sequences of `tokens` need (at most the context). Errors: OUT_OF_DEVICE_MEMORY, and what
 * the device returned; all is then as before. */
pco_status pco_causal_reserve(pco_causal *run, int64_t tokens, pco_error *err) PCO_NODISCARD;

/* From now on there is a stage for so many rows, at least 2, too: for texts that often come in such pieces. */
void pco_causal_prefer(pco_causal *run, int64_t rows);

/* Tokens that the cache of each sequence has room for now. */
int64_t pco_causal_capacity(const pco_causal *run);

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

/* Appends one token to each of `count` different sequences, in one run: ids[i] to that in lanes[i]. logits (may be
 * NULL) receives f32 [count,vocab_size]. Errors: as append, and for a lane that is named twice. */
pco_status pco_causal_step(pco_causal *run, const int64_t *lanes, const int32_t *ids, int64_t count, float *logits,
                           pco_error *err) PCO_NODISCARD;

/* Makes the sequence in lane `to` that in lane `from`; its keys and values are copied on the device. */
pco_status pco_causal_copy(pco_causal *run, int64_t from, int64_t to, pco_error *err) PCO_NODISCARD;

/* Makes the sequence in each lane l that which lane from[l] had (from[lanes]; below 0: it stays), all at once: keys and
 * values are copied on the device. After an error those that were to change are empty. */
pco_status pco_causal_reorder(pco_causal *run, const int64_t *from, pco_error *err) PCO_NODISCARD;

/* What the stage with the most rows that has been built is made of. */
pco_executable_stats pco_causal_inspect(const pco_causal *run);

#endif
