/* What the files of the trainer know of each other. */
#ifndef PCO_TRAIN_TRAINER_INTERNAL_H
#define PCO_TRAIN_TRAINER_INTERNAL_H

#include "base/lock.h"
#include "train/graph.h"
#include "train/trainer.h"

/* Parameters first .. first+count-1, counted from the last one back: their gradients are summed over the
 * ranks together. elements of trainer->gradients, from `at`. */
typedef struct trainer_bucket {
    uint32_t first, count;
    uint64_t at, elements;
} trainer_bucket;

/* An executable for one shape of batch; handles are PCO_NONE where the graph has no such tensor. */
typedef struct trainer_stage {
    pco_train_stage kind;
    int64_t source_length, target_length;
    pco_executable *executable;
    uint32_t source, source_lengths, target, labels, loss_scale, keep, dropout_seed, dropout_offset;
    uint32_t loss, grad_norm;
    uint32_t *until; /* with several ranks, of ACCUMULATE: the segments after which each bucket can be read */
} trainer_stage;

struct pco_trainer {
    const pco_train_config *config;
    pco_session *session;
    pco_model_file *base; /* that is trained further; NULL: none */
    pco_nn_lora lora;     /* of training.lora */
    pco_model_spec model;
    pco_schedule schedule; /* the config's, with the model's width */
    cJSON *document;       /* of config.json; NULL: trainer_base_write writes the model */
    pco_data *data;
    pco_nn_training training;
    trainer_stage **stages;
    uint32_t n_stages, stage_capacity;
    int64_t step;
    pco_loss_scale scale;
    pco_ranks *ranks;        /* NULL: this process alone */
    int64_t first_row, rows; /* its share of a batch */
    int mixed;               /* 1: the ranks' devices are not all alike */
    trainer_bucket *buckets;
    uint32_t n_buckets;
    float *gradients; /* of all parameters, from the last one back */
    pco_lock lock;    /* of rank 0, on the folder */
    char *unlocked;   /* why there is none; NULL: there is */
};

/* trainer.c */
pco_status trainer_no_memory(pco_error *err);
pco_status trainer_stage_for(pco_trainer *trainer, pco_train_stage kind, const pco_data_batch *batch,
                             trainer_stage **stage, pco_error *err);
/* Writes a batch and the values that belong to it. */
pco_status trainer_write_batch(pco_trainer *trainer, trainer_stage *stage, const pco_data_batch *batch, float scale,
                               int64_t index, pco_error *err);

/* What the sum of the losses is multiplied with: the factor over the labels. */
float trainer_factor(const pco_trainer *trainer, int64_t tokens);
/* This rank's rows of a batch; batch->tokens are those of the whole. */
void trainer_read_batch(pco_trainer *trainer, pco_data_split split, int64_t index, pco_data_batch *batch);
pco_status trainer_read(const trainer_stage *stage, uint32_t handle, double *value, pco_error *err);
pco_status trainer_write_keep(trainer_stage *stage, float keep, pco_error *err);
pco_status trainer_write_run(pco_trainer *trainer, trainer_stage *stage, double rate, pco_error *err);

/* diagnose.c: runs the batches of the update that failed once more, on the parameters as they are, and names
 * the first tensor that is not finite; *found receives 1 when there is one. Returns INVALID. */
pco_status trainer_diagnose(pco_trainer *trainer, double loss, double norm, int *found, pco_error *err);

/* trainer_ranks.c: training with others. Every rank calls them, with the status of what it has done alone
 * since the call before; they return the same status to all. */
/* The same config everywhere, and a row for each. */
pco_status trainer_ranks_begin(pco_trainer *trainer, pco_status status, pco_error *err);
/* The same data; sets `mixed`. */
pco_status trainer_ranks_meet(pco_trainer *trainer, pco_status status, pco_error *err);
/* All states and the step of rank 0 go to the others. */
pco_status trainer_ranks_share_states(pco_trainer *trainer, pco_status status, pco_error *err);
/* When a stage ACCUMULATE was built, alone: buckets, and when each is ready. */
pco_status trainer_ranks_prepare(pco_trainer *trainer, trainer_stage *stage, pco_error *err);
/* An update. */
pco_status trainer_ranks_step(pco_trainer *trainer, pco_train_result *result, pco_error *err);
/* *sum: over the ranks, in their order. */
pco_status trainer_ranks_sum(pco_trainer *trainer, pco_status status, double *sum, pco_error *err);
/* Before a checkpoint: do all ranks hold the same? */
pco_status trainer_ranks_compare(pco_trainer *trainer, pco_error *err);

/* fine_tune.c: opens the model that the config names, with what follows from it. Errors: those of opening it; FORMAT
 * and UNSUPPORTED for one that does not fit the data, or cannot be written. */
pco_status trainer_base_open(pco_trainer *trainer, pco_error *err);
/* Gives all parameters the values of that model. */
pco_status trainer_base_start(const pco_trainer *trainer, pco_error *err);
/* Writes the folder's model, or adapter, with these tensors, which have the graph's names. */
pco_status trainer_base_write(const pco_trainer *trainer, const pco_weight *items, uint32_t count, pco_error *err);

/* checkpoint.c: the path of a file of the run, malloc'ed; NULL without memory. */
char *trainer_path(const pco_trainer *trainer, const char *name);
/* Is there a checkpoint in the folder? */
int trainer_has_checkpoint(const pco_trainer *trainer);
/* What an error says of it: "the last checkpoint is kept" or that there is none. */
const char *trainer_kept(const pco_trainer *trainer);
/* Takes the lock on the folder if that exists and it is not taken yet, for as long as the trainer lives. Where there
 * are no locks `unlocked` says so. Errors: INVALID, naming the process that trains there. */
pco_status trainer_take_folder(pco_trainer *trainer, pco_error *err);
/* Makes the folder of the run, so that one that cannot be written to is known before training, and removes
 * what a killed run left of a file there. Errors: IO. */
pco_status trainer_check_folder(const pco_trainer *trainer, pco_error *err);
/* Puts the checkpoint's values into the states, which exist. */
pco_status trainer_load(pco_trainer *trainer, pco_train_resume resume, pco_error *err);

#endif
