/* Learning rates by step. */
#ifndef PCO_TRAIN_SCHEDULE_H
#define PCO_TRAIN_SCHEDULE_H

#include <stdint.h>

typedef enum pco_schedule_type {
    PCO_SCHEDULE_CONSTANT = 0,
    PCO_SCHEDULE_LINEAR = 1,
    PCO_SCHEDULE_COSINE = 2,
    PCO_SCHEDULE_INVERSE_SQRT = 3, /* Vaswani et al. 2017, 5.3 */
} pco_schedule_type;

/* All but inverse_sqrt rise linearly over the first `warmup_steps` updates, to learning_rate at the last of
 * them, and then stay, fall in a line, or fall along half a cosine (Loshchilov & Hutter 2017) to
 * min_learning_rate at update `steps`, where they stay. inverse_sqrt is learning_rate d_model^-0.5
 * min(t^-0.5, t warmup_steps^-1.5): the paper's with learning_rate 1. */
typedef struct pco_schedule {
    pco_schedule_type type;
    double learning_rate, min_learning_rate;
    int64_t warmup_steps, steps, d_model;
} pco_schedule;

/* The rate of update `step`, counted from 1. Pure. */
double pco_schedule_rate(const pco_schedule *schedule, int64_t step);

#endif
