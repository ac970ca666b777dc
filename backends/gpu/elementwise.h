/* Pieces that lowerers of more than one family use. */
#ifndef PCO_GPU_ELEMENTWISE_H
#define PCO_GPU_ELEMENTWISE_H

#include "lower.h"

/* How a grid covers rows of words: LOCAL_X by LOCAL_Y invocations, each owning `per` words of a row, and
 * `chunks` workgroups along a row. */
typedef struct gpu_rows {
    uint32_t local_x, local_y, per, chunks;
    uint64_t groups;
} gpu_rows;
gpu_rows gpu_cover_rows(const gpu_lowering *gpu, uint64_t words, uint64_t rows);
/* The same with one word for each invocation. */
void gpu_cover_singly(gpu_rows *cover);

/* y = op(x), both of the same count; for other lowerers too (reshape, casts). low, high: bits. */
pco_status gpu_emit_unary(gpu_lowering *gpu, uint32_t op, uint32_t x, uint32_t y, uint32_t low, uint32_t high);

/* A number rounded to nearest even in a type: as element bits, and as float bits (i32: as integer bits,
 * toward zero and saturated). */
uint32_t gpu_element_bits(uint32_t dtype, double value);
uint32_t gpu_value_bits(uint32_t dtype, double value);

/* y[view 0] = x[view 1] of one or two float types, or of one other type; views in elements of the tensors. */
pco_status gpu_emit_copy(gpu_lowering *gpu, const gpu_view *view, uint32_t y, uint32_t x);
/* All of x to all of y, which has the same count and type. */
pco_status gpu_emit_whole_copy(gpu_lowering *gpu, uint32_t y, uint32_t x);

/* Rows in front of the innermost dimension. */
uint64_t gpu_view_rows(const gpu_view *view);

#endif
