/* What layer_norm and rms_norm share with norm_matmul on cpu:reference. */
#ifndef CPU_NORM_H
#define CPU_NORM_H

#include "run.h"

/* Mean, 0 for rms_norm, and 1 / deviation of a row of a node of either op. */
typedef struct cpu_norm_row {
    double mean, rstd;
} cpu_norm_row;
cpu_norm_row cpu_reference_norm_row(const cpu_node *node, int64_t row);

/* Element j of the row's result, not yet rounded. */
double cpu_reference_normal(const cpu_node *node, int64_t row, int64_t j, cpu_norm_row moments);

#endif
