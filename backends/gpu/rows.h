/* What lowerers of row kernels share: rows by one invocation each, by a part of a workgroup each, or by a
 * workgroup each with subgroups. The three kernels of an op follow each other in its .kern in this
 * order and have one interface. */
#ifndef PCO_GPU_ROWS_H
#define PCO_GPU_ROWS_H

#include "lower.h"

enum { GPU_SERIAL = 0, GPU_SHARED = 1, GPU_SUBGROUP = 2, GPU_N_ROW_VARIANTS = 3 };
extern const gpu_variant gpu_row_variants[GPU_N_ROW_VARIANTS];

/* May the variant take rows of n elements: do its loops come to their end (pco_gpu_limits.max_rounds)? */
int gpu_rows_eligible(const gpu_lowering *gpu, uint32_t variant, uint64_t n);

/* The variant for so many rows of n elements, which lie `stride` elements apart. */
uint32_t gpu_choose_rows(const gpu_lowering *gpu, uint64_t rows, uint64_t n, uint64_t stride);

/* Empties *d for kernel `serial` + variant; returns the number of workgroups for so many rows of n elements.
 */
uint64_t gpu_begin_rows(gpu_lowering *gpu, pco_gpu_dispatch *d, uint32_t serial, uint64_t rows, uint64_t n);

/* The kernels' WALK: an invocation goes along its contiguous row from end to end. */
int32_t gpu_walk(const gpu_lowering *gpu, uint64_t stride);

#endif
