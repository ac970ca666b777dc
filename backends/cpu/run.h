/* What a file of the backend makes an op with: a plan from a node's shapes and attributes, the functions that run it
 * (native: f32, threads, vectors; others: exact; reference: double), and its row. */
#ifndef CPU_RUN_H
#define CPU_RUN_H

#include "cpu.h"

#define CPU_PARSE(name)     void cpu_parse_##name(cpu_node *node)
#define CPU_RUN(name)       void cpu_run_##name(const cpu_node *node)
#define CPU_WORKSPACE(name) uint64_t cpu_##name##_workspace(const cpu_node *node)

/* CPU_OP(NAME, parse, in_place, native, reference), once for each op of plugin.h: without it the plugin does not link,
 * and the linker asks for cpu_op_NAME.
 *   parse      cpu_parse_PARSE turns shapes and attributes into the node's plan
 *   in_place   bit i: the result may take the memory of operand i, if that has its type and shape
 *   native     what cpu:native runs: PLAIN(run) is cpu_run_RUN; MEMORY(run) is the same with cpu_RUN_workspace;
 *              CHOICE(list) is cpu_LIST_variants, of which cpu_LIST_choose names the default
 *   reference  what cpu:reference runs. Ops that only copy, or are exact, run the same code on both */
#define CPU_OP(NAME, parse_, in_place_, native_, reference_) \
    extern const cpu_op cpu_op_##NAME; \
    const cpu_op cpu_op_##NAME = {.op = PCO_OP_##NAME, \
                                  .parse = cpu_parse_##parse_, \
                                  .in_place = in_place_, \
                                  CPU_NATIVE_##native_, \
                                  .reference = CPU_VARIANTS_##reference_};

/* How native and reference of a row become fields of cpu_op. */
#define CPU_VARIANTS_PLAIN(run) \
    &(const cpu_variant) \
    { \
        "default", cpu_run_##run, NULL, NULL \
    }
#define CPU_VARIANTS_MEMORY(run) \
    &(const cpu_variant) \
    { \
        "default", cpu_run_##run, cpu_##run##_workspace, NULL \
    }
#define CPU_NATIVE_PLAIN(run)  .n_native = 1, .native = CPU_VARIANTS_PLAIN(run)
#define CPU_NATIVE_MEMORY(run) .n_native = 1, .native = CPU_VARIANTS_MEMORY(run)
#define CPU_NATIVE_CHOICE(list) \
    .n_native = sizeof cpu_##list##_variants / sizeof *cpu_##list##_variants, .native = cpu_##list##_variants, \
    .choose = cpu_##list##_choose

/* Around what cpu:reference runs: products and sums are rounded one by one, as written. */
#if defined(__clang__)
#define CPU_REFERENCE_BEGIN _Pragma("STDC FP_CONTRACT OFF")
#define CPU_REFERENCE_END   _Pragma("STDC FP_CONTRACT DEFAULT")
#elif defined(__GNUC__)
#define CPU_REFERENCE_BEGIN _Pragma("GCC push_options") _Pragma("GCC optimize(\"fp-contract=off\")")
#define CPU_REFERENCE_END   _Pragma("GCC pop_options")
#else
#define CPU_REFERENCE_BEGIN
#define CPU_REFERENCE_END
#endif

/* parse.c: plans of ops of several files. Nothing beyond shapes and attributes; one operand that lies as the result
 * does; [outer, n, inner] around the axis of operand 0; rows along its last dimension. */
CPU_PARSE(nothing);
CPU_PARSE(unary);
CPU_PARSE(axis);
CPU_PARSE(rows);

/* Sizes and strides of [B,H,S,D] or [B,S,H,D]. */
void cpu_heads(const cpu_tensor *x, bool heads_first, int64_t *heads, int64_t *rows, int64_t *stride_b,
               int64_t *stride_h, int64_t *stride_s);

/* softmax.c: the sum of exp(x - max), blocks of it added in double. The first keeps the terms in y, which may be x. */
double cpu_exp_sum(const cpu_node *node, float *y, const float *x, float max, int64_t n);
double cpu_exp_sum_only(const cpu_node *node, const float *x, float max, int64_t n);

/* The offset of a flat index, in the slow and plain way of cpu:reference. */
static inline int64_t cpu_reference_offset(int64_t flat, int rank, const int64_t *shape, const int64_t *stride)
{
    int64_t offset = 0;
    for (int i = rank - 1; i >= 0; i--) {
        offset += flat % shape[i] * stride[i];
        flat /= shape[i];
    }
    return offset;
}

#endif
