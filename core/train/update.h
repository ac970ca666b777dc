/* What an update is made of, whoever gives the batches: nodes, numbers of a step, the factor on the loss, and states in
 * files. The trainer of `portico train` and portico/train.h are written with these. */
#ifndef PCO_TRAIN_UPDATE_H
#define PCO_TRAIN_UPDATE_H

#include <cjson/cJSON.h>

#include "nn/nn.h"
#include "portico/train.h"

typedef struct pco_optimizer_config {
    pco_optimizer_type type;
    double beta1, beta2, eps; /* of adamw and adam */
    double momentum;          /* of sgd */
    int nesterov;
    double weight_decay; /* of the parameters below; the others have none */
    int decay_all;       /* 0: matrices and embeddings only (rank 2 and up); 1: every parameter */
} pco_optimizer_config;

/* ---- nodes (update.c) --------------------------------------------------------------------------------
 *
 * Parameters are states of their own names; those of AdamW are "adamw.m.NAME" and "adamw.v.NAME", of Adam "adam.m." and
 * "adam.v.", of SGD "sgd.velocity.NAME"; accumulated gradients are "gradient.NAME" [1,elements]. */

/* The update of every parameter, from gradients[]. Run values: "run" f32 [3] ([1] with SGD), as in the ops adamw and
 * sgd; with `scaled` "unscale" f32 [1], which the gradients' norm and the update are multiplied with. Output:
 * "grad_norm" f32 [1], before clipping. */
void pco_update_build(const pco_nn *nn, const pco_optimizer_config *optimizer, double max_grad_norm, int scaled,
                      const uint32_t *gradients);
/* Adds gradients[] to the states that they are summed in, which are multiplied first by the run value "keep" f32 [1], 0
 * or 1. */
void pco_update_accumulate(const pco_nn *nn, const uint32_t *gradients);
/* The update from these states; gradients[] is room for as many. */
void pco_update_apply(const pco_nn *nn, const pco_optimizer_config *optimizer, double max_grad_norm, int scaled,
                      uint32_t *gradients);

/* The states that belong to a parameter, by their prefixes: 2, or 1 with SGD; *prefixes is static. */
uint32_t pco_update_prefixes(pco_optimizer_type type, const char *const **prefixes);

/* Writes "run" and, where it is there, "unscale" of update t, counted from 1. */
pco_status pco_update_write(pco_executable *executable, const pco_optimizer_config *optimizer, double rate, double t,
                            double factor, pco_error *err) PCO_NODISCARD;

/* ---- the factor on the loss (scale.c) --------------------------------------------------------------- */

/* Of f16: the factor on the loss doubles after so many good updates in a row, and halves after a bad one. */
typedef struct pco_loss_scaling {
    double initial; /* a power of two */
    int64_t interval;
} pco_loss_scaling;
enum { PCO_LOSS_SCALE_MOST = 1 << 24 };

typedef struct pco_loss_scale {
    int on;                /* 0: the factor is 1 */
    int64_t interval;      /* as in pco_loss_scaling */
    double factor;         /* a power of two */
    int64_t good, skipped; /* updates since it changed; updates skipped so far */
} pco_loss_scale;

/* That of a new run. */
pco_loss_scale pco_loss_scale_begin(pco_dtype dtype, const pco_loss_scaling *scaling);
/* What follows from an update; 0: it was not finite and cannot be skipped. */
int pco_loss_scale_step(pco_loss_scale *scale, int finite);
/* In the note of a checkpoint: 0 without memory. Errors: FORMAT. */
int pco_loss_scale_note(const pco_loss_scale *scale, cJSON *note);
pco_status pco_loss_scale_load(pco_loss_scale *scale, const cJSON *note, const char *label, int64_t steps,
                               pco_error *err) PCO_NODISCARD;

/* ---- states in files (states.c) --------------------------------------------------------------------- */

/* Tensors with their values, read from the device. items has room for all that is added. */
typedef struct pco_state_set {
    pco_weight *items;
    uint32_t count;
} pco_state_set;
void pco_state_set_release(pco_state_set *set);

/* Adds the state "prefix NAME" under the name "shown NAME". What is not finite is never written, INVALID: a checkpoint
 * is one to go on from; `kept` says in the message what there is instead. */
pco_status pco_state_set_add(pco_state_set *set, pco_session *session, const pco_nn_parameter *parameter,
                             const char *prefix, const char *shown, int64_t step, const char *kept,
                             pco_error *err) PCO_NODISCARD;

/* All parameters, as "model.NAME", and, behind them, what the optimiser has. Release *set, also after an error. */
pco_status pco_state_set_read(pco_state_set *set, pco_session *session, const pco_nn_training *parameters,
                              pco_optimizer_type optimizer, int64_t step, const char *kept,
                              pco_error *err) PCO_NODISCARD;
/* The parameters of such a set as they are called; borrowed, in a list to free. NULL without memory. */
pco_weight *pco_state_set_model(const pco_state_set *set, uint32_t parameters);
/* Writes them. */
pco_status pco_state_set_write_model(const pco_state_set *set, uint32_t parameters, const char *path,
                                     pco_error *err) PCO_NODISCARD;

/* The state "prefix NAME" of a parameter, from the tensor "shown NAME" of a file. Errors name the tensor:
 * NOT_FOUND when it is missing; FORMAT when it is not F32 or of another shape. */
pco_status pco_state_load(pco_session *session, const pco_weights *file, const pco_nn_parameter *parameter,
                          const char *prefix, const char *shown, pco_error *err) PCO_NODISCARD;
/* Those of pco_state_set_read. */
pco_status pco_state_load_all(pco_session *session, const pco_weights *file, const pco_nn_training *parameters,
                              pco_optimizer_type optimizer, pco_error *err) PCO_NODISCARD;

#endif
