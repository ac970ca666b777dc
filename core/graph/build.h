/* Short forms of pco_graph_add, one per op, for code that builds models. Ids in, id out; PCO_NONE stands for
 * an absent optional operand. Semantics: `portico ops`, or core/graph/ops.def. */
#ifndef PCO_GRAPH_BUILD_H
#define PCO_GRAPH_BUILD_H

#include "graph/graph.h"

uint32_t pco_unary(pco_graph *graph, pco_op op, uint32_t x);
uint32_t pco_binary(pco_graph *graph, pco_op op, uint32_t a, uint32_t b);

/* A constant of rank 0, which binary ops broadcast. */
uint32_t pco_scalar(pco_graph *graph, pco_dtype dtype, double value);
/* a op value, where value has the type of a. */
uint32_t pco_binary_scalar(pco_graph *graph, pco_op op, uint32_t a, double value);

uint32_t pco_where(pco_graph *graph, uint32_t condition, uint32_t a, uint32_t b);
uint32_t pco_cast(pco_graph *graph, uint32_t x, pco_dtype dtype);
uint32_t pco_fill(pco_graph *graph, pco_dtype dtype, double value, uint32_t rank, const int64_t *shape);
uint32_t pco_iota(pco_graph *graph, pco_dtype dtype, uint32_t axis, double start, double step, uint32_t rank,
                  const int64_t *shape);
uint32_t pco_broadcast_to(pco_graph *graph, uint32_t x, uint32_t rank, const int64_t *shape);
/* One dimension may be -1: worked out from the others. */
uint32_t pco_reshape(pco_graph *graph, uint32_t x, uint32_t rank, const int64_t *shape);
uint32_t pco_permute(pco_graph *graph, uint32_t x, const int64_t *dims);
/* `size` elements from `start` of one axis (counted from the end when negative), all of the others. */
uint32_t pco_slice_axis(pco_graph *graph, uint32_t x, int64_t axis, int64_t start, int64_t size);
/* Any number of operands: chained when there are more than 8. */
uint32_t pco_concat(pco_graph *graph, const uint32_t *x, uint32_t count, int64_t axis);
uint32_t pco_gather(pco_graph *graph, uint32_t x, uint32_t indices, int64_t axis);
uint32_t pco_state_write(pco_graph *graph, uint32_t state, uint32_t x, uint32_t index, int64_t axis);
uint32_t pco_matmul(pco_graph *graph, uint32_t a, uint32_t b, int transpose_a, int transpose_b);
/* x [..,K], weight [N,K], bias [N] or PCO_NONE, activation as in ops.def: torch.nn.functional.linear. */
uint32_t pco_linear(pco_graph *graph, uint32_t x, uint32_t weight, uint32_t bias, int activation);
uint32_t pco_reduce(pco_graph *graph, pco_op op, uint32_t x, int64_t axis, int keepdims);
uint32_t pco_argmax(pco_graph *graph, uint32_t x, int64_t axis, int keepdims);
uint32_t pco_softmax(pco_graph *graph, uint32_t x, int64_t axis);

/* The constant that rope and sinusoidal_positions take: i32 [count,2], entry i = (low, high) word of
 * freq_i / 2 pi as a 64-bit fraction of a turn. frequencies[i] is in radians per position. */
uint32_t pco_phase_table(pco_graph *graph, const double *frequencies, uint32_t count);

/* frequencies of RoPE (Su et al. 2021, 3.2.2): base^(-2i/dimensions) / (factors ? factors[i] : 1), i < dims/2. */
uint32_t pco_rope_phase(pco_graph *graph, double base, uint32_t dimensions, const float *factors);

/* frequencies of the sinusoidal encoding: layout 0 (Vaswani et al. 2017): 10000^(-2i/d); layout 1 (tensor2tensor):
 * 10000^(-i/(d/2-1)). */
uint32_t pco_sinusoidal_phase(pco_graph *graph, uint32_t dimensions, int layout);

#endif
