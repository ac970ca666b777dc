/* Elementwise work in chunks: operands become lanes (f32 for floats, i32, bytes for bool), a function works
 * on lanes, and lanes become stored elements. */
#ifndef CPU_ELEMENTWISE_H
#define CPU_ELEMENTWISE_H

#include "cpu.h"

enum { CPU_CHUNK = 512 };

/* n lanes; `at` is the index of the first in the result. */
typedef void (*cpu_lanes_fn)(const cpu_node *node, void *y, const void *const *x, int64_t at, int64_t n);

/* Elements begin .. end-1 of output 0 from the operands of plan.walk, which lie at base[]. raw: lanes are the
 * stored elements, whatever their type. */
void cpu_elementwise(const cpu_node *node, const unsigned char *const *base, int64_t begin, int64_t end, bool raw,
                     cpu_lanes_fn fn);

/* The same, with operand i at input i. */
void cpu_elementwise_inputs(const cpu_node *node, int64_t begin, int64_t end, bool raw, cpu_lanes_fn fn);

#endif
