/* The graphs of training: forward, loss, gradients and optimiser as one graph per shape of a batch. */
#ifndef PCO_TRAIN_GRAPH_H
#define PCO_TRAIN_GRAPH_H

#include "models/spec.h"
#include "train/config.h"

typedef enum pco_train_stage {
    PCO_TRAIN_STEP = 0,       /* a whole update from one batch */
    PCO_TRAIN_ACCUMULATE = 1, /* adds a batch's gradients to states */
    PCO_TRAIN_APPLY = 2,      /* an update from these; has no batch */
    PCO_TRAIN_EVALUATE = 3,   /* the loss alone, in f32, without smoothing and dropout */
    PCO_TRAIN_DIAGNOSE = 4,   /* as STEP without the update: every tensor is an output, to find the first bad one */
} pco_train_stage;
enum { PCO_TRAIN_STAGES = 5 };

/* Builds a stage for batches [rows,source_length] and [rows,target_length] (source_length 0: a decoder alone)
 * into nn->graph, with nn->training set. States are those of update.h, and so are run values and outputs but for these.
 *
 * Inputs: "source" i32 [B,S], "target" and "labels" i32 [B,T]. Run values: "source_lengths" i32 [B];
 * "loss_scale" f32 [1], which the sum of the rows' losses is multiplied with; "dropout_seed" and "dropout_offset" i32
 * [2], where there is dropout. Output: "loss" f32 [1]. */
void pco_train_build(const pco_nn *nn, const pco_train_config *config, const pco_model_spec *model,
                     pco_train_stage stage, int64_t rows, int64_t source_length, int64_t target_length);

#endif
