/* What the variants of matmul share. */
#ifndef CPU_MATMUL_H
#define CPU_MATMUL_H

#include "run.h"

enum { CPU_FINISH_COLUMNS = 512 };

/* Where batch `batch` of a and b begins, in elements. */
void cpu_matmul_offsets(const cpu_matmul *plan, int64_t batch, int64_t *a, int64_t *b);

/* Applies bias, activation and c to n sums of columns column.. of a row of the result (rows counted over all
 * batches), rounds and stores. May work on sums in place; sums may lie in y itself when y is f32. */
void cpu_matmul_finish(const cpu_node *node, int64_t row, int64_t column, float *sums, int64_t n);

/* CPU_ACT_* in double, on cpu:reference. */
double cpu_reference_activation(int64_t activation, double x);

/* gemm_direct.c */
CPU_RUN(native_direct);
bool cpu_native_direct_fits(const cpu_node *node);
/* Does it fit, and is it the fastest? Looks at b alone, and at types. */
bool cpu_matmul_is_small(const cpu_node *node);

/* gemm.c, gemv.c */
CPU_RUN(native_gemm);
CPU_WORKSPACE(native_gemm);
CPU_RUN(native_gemv);
CPU_WORKSPACE(native_gemv);

#endif
