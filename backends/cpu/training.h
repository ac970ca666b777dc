/* What both devices do alike in training ops. */
#ifndef CPU_TRAINING_H
#define CPU_TRAINING_H

#include "cpu.h"

/* A row whose target is no class: 0 where it is ignored, else NaN. Returns false when the target is a class.
 */
static inline bool cpu_target_is_special(const cpu_node *node, int64_t row, int64_t *target, double *value)
{
    *target = cpu_i32_at(&node->in[1], row);
    bool ignored = *target == node->attrs.cross_entropy.ignore_index;
    *value = ignored ? 0 : NAN;
    return ignored || *target < 0 || *target >= node->plan.axis.n;
}

/* The states as they were where the host gave outputs other memory; returns the factor on the gradient, or
 * NaN when nothing is to be done: scale (operand `at`) is not finite. */
static inline float cpu_optimiser_begin(const cpu_node *node, uint32_t at)
{
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (node->out[i].data != node->in[i].data)
            memcpy(node->out[i].data, node->in[i].data, (size_t)node->in[i].count * 4);
    float scale = node->in[at].present ? *(const float *)(void *)node->in[at].data : 1;
    return isfinite(scale) ? scale : NAN;
}

static inline float *cpu_f32(const cpu_tensor *x) { return (float *)(void *)x->data; }

#endif
