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
 * into nn->graph, with nn->training set. Parameters are states of their own names; those of AdamW are
 * "adamw.m.NAME" and "adamw.v.NAME", of SGD "sgd.velocity.NAME"; accumulated gradients are "gradient.NAME"
 * [1,elements].
 *
 * Inputs: "source" i32 [B,S], "target" and "labels" i32 [B,T]. Run values: "source_lengths" i32 [B];
 * "loss_scale" f32 [1], which the sum of the rows' losses is multiplied with; with dtype f16 "unscale"
 * f32 [1], which the gradients' norm and the update are multiplied with; "run" f32 [3] ([1] with SGD),
 * as in the ops adamw and sgd; "keep" f32 [1], 0 or 1, which accumulated gradients are multiplied with first;
 * "dropout_seed" and "dropout_offset" i32 [2], where there is dropout. Outputs: "loss" f32 [1]; "grad_norm"
 * f32 [1], before clipping. */
void pco_train_build(const pco_nn *nn, const pco_train_config *config, const pco_model_spec *model,
                     pco_train_stage stage, int64_t rows, int64_t source_length, int64_t target_length);

/* The states that belong to a parameter, by their prefixes: 2 with AdamW, 1 with SGD; *prefixes is static. */
uint32_t pco_train_state_prefixes(const pco_optimizer_config *optimizer, const char *const **prefixes);

#endif
