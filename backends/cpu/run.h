/* The functions that run nodes. native: f32, threads, vectors. others: exact. reference: double. */
#ifndef CPU_RUN_H
#define CPU_RUN_H

#include "cpu.h"

#define CPU_RUN(name)       void cpu_run_##name(const cpu_node *node)
#define CPU_WORKSPACE(name) uint64_t cpu_##name##_workspace(const cpu_node *node)

/* softmax.c: the sum of exp(x - max), blocks of it added in double. The first keeps the terms in y, which may be x. */
double cpu_exp_sum(const cpu_node *node, float *y, const float *x, float max, int64_t n);
double cpu_exp_sum_only(const cpu_node *node, const float *x, float max, int64_t n);

/* Those of ops.def; and the variants of a choice. */
#define CPU_DECLARE_PLAIN(name) CPU_RUN(name);
#define CPU_DECLARE_MEMORY(name) \
    CPU_RUN(name); \
    CPU_WORKSPACE(name);
#define CPU_DECLARE_CHOICE(list)
#define CPU_OP(NAME, parse, in_place, native, reference) CPU_DECLARE_##native CPU_DECLARE_##reference
#include "ops.def"
#undef CPU_DECLARE_PLAIN
#undef CPU_DECLARE_MEMORY
#undef CPU_DECLARE_CHOICE

/* gemm.c, gemv.c, matmul.c */
CPU_RUN(native_gemm);
CPU_WORKSPACE(native_gemm);
CPU_RUN(native_gemv);
CPU_WORKSPACE(native_gemv);
CPU_RUN(native_matmul_naive);

/* attention_stream.c, attention_rows.c */
CPU_RUN(native_attention_stream);
CPU_WORKSPACE(native_attention_stream);
CPU_RUN(native_attention_rows);
CPU_WORKSPACE(native_attention_rows);
CPU_RUN(native_attention_whole);
CPU_WORKSPACE(native_attention_whole);

#endif
