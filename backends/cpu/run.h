/* The functions that run nodes. native: f32, threads, vectors. others: exact. reference: double. */
#ifndef CPU_RUN_H
#define CPU_RUN_H

#include "cpu.h"

#define CPU_RUN(name)       void cpu_run_##name(const cpu_node *node)
#define CPU_WORKSPACE(name) uint64_t cpu_##name##_workspace(const cpu_node *node)

/* softmax.c: the sum of exp(x - max), blocks of it added in double. The first keeps the terms in y, which may be x. */
double cpu_exp_sum(const cpu_node *node, float *y, const float *x, float max, int64_t n);
double cpu_exp_sum_only(const cpu_node *node, const float *x, float max, int64_t n);

/* elementwise.c */
CPU_RUN(native_map);
CPU_RUN(native_map2);
CPU_RUN(native_clamp);
CPU_RUN(native_gelu);
CPU_RUN(native_swiglu);
CPU_RUN(native_dropout);
CPU_RUN(native_cast);
CPU_RUN(compare);
CPU_RUN(logical);
CPU_RUN(where);

/* movement.c, gather.c */
CPU_RUN(fill);
CPU_RUN(iota);
CPU_RUN(copy);
CPU_RUN(reshape);
CPU_RUN(concat);
CPU_RUN(pad);
CPU_RUN(gather);
CPU_RUN(gather_along_axis);
CPU_RUN(native_scatter_add);
CPU_WORKSPACE(native_scatter_add);
CPU_RUN(state_write);

/* random.c */
CPU_RUN(random_bits);

/* reduce.c, softmax.c, norm.c */
CPU_RUN(native_reduce);
CPU_RUN(argmax);
CPU_RUN(native_softmax);
CPU_WORKSPACE(native_softmax);
CPU_RUN(native_norm);
CPU_WORKSPACE(native_norm);

/* training.c */
CPU_RUN(native_cross_entropy);
CPU_WORKSPACE(native_cross_entropy);
CPU_RUN(native_cross_entropy_backward);
CPU_WORKSPACE(native_cross_entropy_backward);
CPU_RUN(native_adamw);
CPU_RUN(native_sgd);

/* backward.c */
CPU_RUN(native_softmax_backward);
CPU_WORKSPACE(native_softmax_backward);
CPU_RUN(native_norm_backward);
CPU_WORKSPACE(native_norm_backward);
CPU_RUN(native_swiglu_backward);

/* gemm.c, gemv.c, matmul.c */
CPU_RUN(native_gemm);
CPU_WORKSPACE(native_gemm);
CPU_RUN(native_gemv);
CPU_WORKSPACE(native_gemv);
CPU_RUN(native_matmul_naive);

/* rope.c */
CPU_RUN(native_rope);
CPU_WORKSPACE(native_rope);
CPU_RUN(native_sinusoidal_positions);

/* attention_stream.c, attention_rows.c */
CPU_RUN(native_attention_stream);
CPU_WORKSPACE(native_attention_stream);
CPU_RUN(native_attention_rows);
CPU_WORKSPACE(native_attention_rows);
CPU_RUN(native_attention_whole);
CPU_WORKSPACE(native_attention_whole);

/* attention_backward.c */
CPU_RUN(native_attention_backward);
CPU_WORKSPACE(native_attention_backward);

/* reference_*.c */
CPU_RUN(reference_elementwise);
CPU_RUN(reference_swiglu);
CPU_RUN(reference_dropout);
CPU_RUN(reference_scatter_add);
CPU_WORKSPACE(reference_scatter_add);
CPU_RUN(reference_matmul);
CPU_WORKSPACE(reference_matmul);
CPU_RUN(reference_reduce);
CPU_RUN(reference_softmax);
CPU_RUN(reference_norm);
CPU_RUN(reference_rope);
CPU_RUN(reference_sinusoidal_positions);
CPU_RUN(reference_attention);
CPU_WORKSPACE(reference_attention);
CPU_RUN(reference_attention_backward);
CPU_WORKSPACE(reference_attention_backward);
CPU_RUN(reference_cross_entropy);
CPU_RUN(reference_cross_entropy_backward);
CPU_RUN(reference_adamw);
CPU_RUN(reference_sgd);
CPU_RUN(reference_softmax_backward);
CPU_RUN(reference_norm_backward);
CPU_RUN(reference_swiglu_backward);

#endif
