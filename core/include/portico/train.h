/* Training of graphs: losses become gradients, clipped, and updates of parameters, with a schedule, accumulation over
 * batches, loss scaling in f16, and checkpoints. It is what `portico train` does with its own models.
 *
 *     pco_training_params params = {.size = sizeof params, .learning_rate = 1e-3, .max_grad_norm = 1};
 *     if (pco_training_create(session, &params, &training, &err)) ...
 *     pco_graph *graph = pco_graph_create();
 *     pco_nn *nn = pco_nn_create(graph, NULL);
 *     uint32_t loss = ...;                                   (portico/nn.h; of one shape of batch)
 *     if (pco_training_add(training, nn, loss, &batch, &err)) ...
 *     pco_nn_destroy(nn), pco_graph_destroy(graph);
 *     if (pco_training_initialize(training, NULL, &err)) ...
 *     for each batch: pco_executable_write its inputs to `batch`, then
 *         if (pco_training_step(training, batch, &result, &err)) ...
 *
 * Parameters and the optimiser's moments are states of the session: another graph of the session that has the same
 * names (an evaluation without dropout, a decoder that writes text) runs with them as they are.
 *
 * Threads, and NULL: as portico/session.h says. */
#ifndef PORTICO_TRAIN_H
#define PORTICO_TRAIN_H

#include <portico/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pco_training pco_training;

typedef enum pco_optimizer_type {
    PCO_OPTIMIZER_ADAMW = 0, /* Loshchilov & Hutter 2019, algorithm 2: decay beside the moments */
    PCO_OPTIMIZER_SGD = 1,   /* with momentum, as torch.optim.SGD without dampening */
    PCO_OPTIMIZER_ADAM = 2, /* Kingma & Ba 2015, algorithm 1: weight_decay times the parameter is added to the gradient,
                               as torch.optim.Adam does */
} pco_optimizer_type;

/* All but inverse_sqrt rise linearly over the first `warmup_steps` updates, to learning_rate at the last of them, and
 * then stay, fall in a line, or fall along half a cosine (Loshchilov & Hutter 2017) to min_learning_rate at update
 * `steps`, where they stay. */
typedef enum pco_schedule_type {
    PCO_SCHEDULE_CONSTANT = 0,
    PCO_SCHEDULE_LINEAR = 1,
    PCO_SCHEDULE_COSINE = 2,
    PCO_SCHEDULE_INVERSE_SQRT = 3, /* learning_rate width^-0.5 min(t^-0.5, t warmup_steps^-1.5): Vaswani et al.
                                      2017, 5.3, with learning_rate 1 */
} pco_schedule_type;

typedef struct pco_training_params {
    size_t size; /* sizeof(pco_training_params) */
    pco_optimizer_type optimizer;
    double beta1, beta2, eps; /* of adamw and adam; 0: 0.9, 0.999, 1e-8 */
    double momentum;          /* of sgd */
    int nesterov;             /* of sgd, 1: the step looks ahead */
    double weight_decay;      /* of matrices and embeddings (rank 2 and up); 0: none */
    int decay_all;            /* 1: of all parameters */
    pco_schedule_type schedule;
    double learning_rate, min_learning_rate; /* above 0; of linear and cosine */
    int64_t warmup_steps, steps, width;      /* `width`, the model's, is of inverse_sqrt */
    double max_grad_norm;        /* gradients are scaled down to that norm of all together; 0: they are not */
    int64_t accumulation;        /* batches of an update, whose mean loss it follows; 0: 1 */
    pco_dtype dtype;             /* that of the pco_nn; with PCO_F16 the loss is scaled: */
    double loss_scale;           /* its first factor, a power of two up to 2^24; 0: 65536 */
    int64_t loss_scale_interval; /* it doubles after so many good updates, and halves after a bad one; 0: 1000 */
    uint64_t seed;               /* of dropout */
    int recompute; /* 1: the insides of layers of pco_nn_encoder and pco_nn_decoder are computed again for the
                      gradients instead of being kept: less memory, more time, the same bits */
} pco_training_params;

/* Errors: INVALID for values that make no sense, by their name; OUT_OF_HOST_MEMORY. */
PCO_EXPORT pco_status pco_training_create(pco_session *session, const pco_training_params *params,
                                          pco_training **training, pco_error *err) PCO_NODISCARD;
/* Before its session is closed; ends the executables of pco_training_add. NULL is allowed. */
PCO_EXPORT void pco_training_destroy(pco_training *training);

/* Adds to the graph of `nn` what an update needs, and makes it ready: an executable for one shape of batch, which is
 * the training's. `loss` is f32 with one element, the mean over the batch. Afterwards the pco_nn and the graph can be
 * destroyed. Add one for each shape; all have the same parameters. Names that the graph must not have: the run values
 * "loss_scale", "unscale", "run" and "keep", the outputs "loss" and "grad_norm"; outputs of your own stay. Errors: the
 * graph's; INVALID for a loss of another kind, other parameters than those of the graph before, or none; UNSUPPORTED
 * for an operation without gradient; those of pco_executable_create. */
PCO_EXPORT pco_status pco_training_add(pco_training *training, pco_nn *nn, uint32_t loss, pco_executable **executable,
                                       pco_error *err) PCO_NODISCARD;

/* First values of all parameters, as pco_nn_initialize: once there is an executable. Moments begin as 0. `how` may be
 * NULL: all 0. */
PCO_EXPORT pco_status pco_training_initialize(pco_training *training, const pco_initialization *how,
                                              pco_error *err) PCO_NODISCARD;

typedef struct pco_training_result {
    size_t size;          /* sizeof(pco_training_result), set by the caller */
    double loss;          /* of this batch */
    double grad_norm;     /* before clipping; 0 where there was no update */
    double learning_rate; /* of this update */
    double loss_scale;    /* the factor on the loss; 1 without f16 */
    int64_t step;         /* updates so far */
    int updated;          /* 1: this batch ended an update */
    int skipped; /* 1: its gradients overflowed in f16: parameters and optimiser are as before, and the factor is
                    halved */
} pco_training_result;

/* Runs the executable on what was written to it: one batch, and with the last of `accumulation` an update. Outputs of
 * the graph can be read afterwards. `result` may be NULL. Errors: INVALID for an executable that is not of this
 * training, and when loss or gradients are not finite (in f16: with a factor of 1), naming a parameter that is not,
 * where there is one: parameters and optimiser are then as before the update, whose batches are forgotten; those of the
 * device. */
PCO_EXPORT pco_status pco_training_step(pco_training *training, pco_executable *executable, pco_training_result *result,
                                        pco_error *err) PCO_NODISCARD;

/* Updates so far, with those before a checkpoint that was loaded; skipped ones count. 0 for NULL. */
PCO_EXPORT int64_t pco_training_steps(const pco_training *training);

/* Writes a checkpoint, whole or not at all: a safetensors file with parameters ("model.NAME"), moments, and what else
 * the next update depends on. Between updates; batches of one that has begun are not kept. Errors: INVALID for a value
 * that is not finite, naming its tensor, or without an executable; IO. */
PCO_EXPORT pco_status pco_training_save(pco_training *training, const char *path, pco_error *err) PCO_NODISCARD;
/* Goes on from a checkpoint, to the last bit on the same device: once there is an executable. Errors: IO; FORMAT for
 * another kind of file, another optimiser, a tensor that is missing or of another shape, naming it. */
PCO_EXPORT pco_status pco_training_load(pco_training *training, const char *path, pco_error *err) PCO_NODISCARD;

/* Writes the parameters alone, under their own names: what pco_weights_open takes. Errors: as pco_training_save. */
PCO_EXPORT pco_status pco_training_save_weights(pco_training *training, const char *path, pco_error *err) PCO_NODISCARD;

#ifdef __cplusplus
}
#endif

#endif
