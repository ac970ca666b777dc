/* What the files of portico/train.h know of each other. */
#ifndef PCO_TRAIN_TRAINING_H
#define PCO_TRAIN_TRAINING_H

#include "runtime/session.h"
#include "train/schedule.h"
#include "train/update.h"

struct pco_training {
    pco_session *session;
    pco_training_params params; /* complete */
    pco_optimizer_config optimizer;
    pco_schedule schedule;
    pco_loss_scale scale;
    pco_nn_training parameters; /* of all graphs */
    pco_executable **batches;   /* owned; one for each shape */
    uint32_t n_batches;
    pco_executable *apply; /* with accumulation: the update from the sums */
    int64_t step;          /* updates so far, skipped ones too */
    int64_t pending;       /* batches since */
};

/* INVALID before pco_training_add. */
pco_status training_has_graph(const pco_training *training, const char *function, pco_error *err);

#endif
