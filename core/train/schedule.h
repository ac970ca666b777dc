/* Learning rates by step. */
#ifndef PCO_TRAIN_SCHEDULE_H
#define PCO_TRAIN_SCHEDULE_H

#include "portico/train.h"

/* What each type does: portico/train.h. */
typedef struct pco_schedule {
    pco_schedule_type type;
    double learning_rate, min_learning_rate;
    int64_t warmup_steps, steps, d_model;
} pco_schedule;

/* The rate of update `step`, counted from 1. Pure. */
double pco_schedule_rate(const pco_schedule *schedule, int64_t step);

#endif
