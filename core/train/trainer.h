/* Training a model on one device: updates, evaluation, checkpoints.
 *
 * An update writes a batch and run values, runs one executable (or one for each batch of the update, and one
 * more), and reads the loss and the norm of the gradients. Weights and optimiser stay on the device.
 * Executables are built when a shape of batch comes up first, and kept. One thread. */
#ifndef PCO_TRAIN_TRAINER_H
#define PCO_TRAIN_TRAINER_H

#include "runtime/session.h"
#include "train/config.h"
#include "train/ranks.h"

typedef struct pco_trainer pco_trainer;

typedef enum pco_train_resume {
    PCO_TRAIN_NEW = 0,
    PCO_TRAIN_RESUME = 1,         /* on the data of the checkpoint */
    PCO_TRAIN_RESUME_CHANGED = 2, /* also when the file of the data has changed since */
} pco_train_resume;

/* Opens the data, makes the first executable and the parameters: as the seed says, or with `resume` as the
 * checkpoint in config->out says; makes that folder. config and session are borrowed until the destroy; the
 * session is used by this trainer alone. A lock in the folder keeps other trainers out of it until the destroy.
 * Errors: those of the data and the model; IO when the folder cannot be written to or locked; INVALID when another
 * process trains into it; without `resume` INVALID when the folder holds a checkpoint already; with it NOT_FOUND when
 * there is none, FORMAT when it is damaged, of another config, by the first key that differs, of another
 * vocabulary, or of other data. */
pco_status pco_trainer_create(pco_session *session, const pco_train_config *config, pco_train_resume resume,
                              pco_trainer **trainer, pco_error *err) PCO_NODISCARD;
/* The same with other ranks (NULL: alone). Each has a session of its own and takes its share of each batch's
 * rows; batch_size is that of all together. Rank 0's folder, checkpoint and `resume` are those that count.
 * The calls below marked collective are then made by every rank, and return the same status to all. `ranks`
 * is borrowed until the destroy. Errors: also INVALID when configs or data differ, or there are more ranks
 * than rows. */
pco_status pco_trainer_create_ranks(pco_session *session, const pco_train_config *config, pco_ranks *ranks,
                                    pco_train_resume resume, pco_trainer **trainer, pco_error *err) PCO_NODISCARD;
void pco_trainer_destroy(pco_trainer *trainer);

typedef struct pco_train_result {
    double loss;          /* mean over the labels that count, in nats */
    double grad_norm;     /* before clipping */
    double learning_rate; /* of this update */
    int64_t tokens;       /* labels that counted */
    double loss_scale;    /* factor on the loss with f16, else 1 */
    int skipped;          /* 1: gradients overflowed in f16, so grad_norm is not finite, parameters and optimiser
                             are as before, and the factor is halved */
} pco_train_result;

/* One update; collective. Errors: those of the device; INVALID when loss or gradients are not finite
 * (gradients in f16: with a factor of 1), naming the first tensor that went bad: parameters and optimiser are
 * then as before the update. */
pco_status pco_trainer_step(pco_trainer *trainer, pco_train_result *result, pco_error *err) PCO_NODISCARD;

/* Collective: the mean loss of the held-out split (of its first config->evaluation_batches) in nats per
 * label; *tokens receives how many labels. NaN without held-out data. */
pco_status pco_trainer_evaluate(pco_trainer *trainer, double *loss, int64_t *tokens, pco_error *err) PCO_NODISCARD;

/* Collective; rank 0 writes checkpoint.safetensors (weights, optimiser, step and config, one file, whole or
 * not at all), and the model as `portico run` takes it: config.json and model.safetensors; model.gguf, of one that was
 * a GGUF file or a folder of Hugging Face; or an adapter as PEFT's (models/adapter.h). Errors: IO; INVALID when a value
 * is not finite, naming the tensor, or when the ranks' weights differ, naming the rank: the files are then as before.
 */
pco_status pco_trainer_save(pco_trainer *trainer, pco_error *err) PCO_NODISCARD;

/* Updates done so far, in this run and those that it continues; batches taken; executables built. */
int64_t pco_trainer_steps(const pco_trainer *trainer);
int64_t pco_trainer_batches(const pco_trainer *trainer);
uint32_t pco_trainer_executables(const pco_trainer *trainer);

/* 1: it has ranks, whose devices are not all alike: rank 0 makes the updates and sends the weights. */
int pco_trainer_mixed(const pco_trainer *trainer);

/* Why nothing keeps another training out of the folder, in a line; NULL: its lock does. */
const char *pco_trainer_unlocked(const pco_trainer *trainer);

const pco_data *pco_trainer_data(const pco_trainer *trainer);

/* The model that is trained further; NULL: it is trained from nothing. */
const pco_model_file *pco_trainer_base(const pco_trainer *trainer);

/* The parameters, in the order of the graph, and the number of their elements in all. */
const pco_nn_training *pco_trainer_parameters(const pco_trainer *trainer, int64_t *elements);

/* Copies a parameter from the device: f32, `count` elements. Errors: as pco_session_read_state. */
pco_status pco_trainer_read(const pco_trainer *trainer, const char *name, float *values, int64_t count,
                            pco_error *err) PCO_NODISCARD;

/* Activations and workspaces of the first batch of training [rows,length], as the planner places them. */
typedef struct pco_train_plan {
    int64_t rows, length;
    uint64_t bytes, lower_bound; /* of the plan; the most that is alive at one node */
} pco_train_plan;

/* Plans an update with these choices, whatever the config's are; nothing is allocated on the device. Errors:
 * those of pco_executable_create. */
pco_status pco_trainer_plan(pco_trainer *trainer, pco_recompute recompute, pco_dtype dtype, pco_train_plan *plan,
                            pco_error *err) PCO_NODISCARD;

/* What the executable that was built last is made of. */
pco_executable_stats pco_trainer_inspect(const pco_trainer *trainer);

#endif
