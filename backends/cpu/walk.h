/* Walking over a result while operands are broadcast or strided: dimensions are merged where the memory of
 * all operands allows it. Strides are in elements. */
#ifndef CPU_WALK_H
#define CPU_WALK_H

#include <portico/plugin.h>

#include <stdbool.h>

enum { CPU_WALK_OPERANDS = 3 };

typedef struct cpu_walk {
    int rank; /* at least 1 */
    int operands;
    int64_t count;
    int64_t shape[PCO_MAX_RANK];
    int64_t stride[CPU_WALK_OPERANDS][PCO_MAX_RANK];
    bool linear[CPU_WALK_OPERANDS]; /* the operand lies as the result does */
} cpu_walk;

/* A walk over shape with given strides per operand, before merging. */
void cpu_walk_init(cpu_walk *walk, uint32_t rank, const int64_t *shape, int operands);

/* Sets the strides of an operand that is broadcast, as NumPy does. */
void cpu_walk_broadcast(cpu_walk *walk, int operand, uint32_t rank, const int64_t *shape);

/* Drops dimensions of size 1, merges neighbours, finds out what is linear. Call once, after all strides. */
void cpu_walk_merge(cpu_walk *walk);

/* The index of the result's element `flat`, dimension by dimension. */
void cpu_walk_index(const cpu_walk *walk, int64_t flat, int64_t *index);

/* Where an operand's element for this index lies. */
int64_t cpu_walk_offset(const cpu_walk *walk, int operand, const int64_t *index);

/* Moves the index to the start of the next run of the last dimension. */
void cpu_walk_next_run(const cpu_walk *walk, int64_t *index);

/* Turns runs of stored elements into lanes. */
typedef void (*cpu_convert_fn)(void *lanes, const void *stored, int64_t n);

/* Elements begin .. begin+n-1 of an operand, as the result sees them: a pointer into the operand where they
 * lie there just so, or `buffer` after they were written to it. `convert` is NULL where lanes are the stored
 * elements. size: bytes of a stored element; lane: bytes of a lane (1, 2, 4 or 8). */
const void *cpu_walk_fetch(const cpu_walk *walk, int operand, const void *data, uint32_t size, cpu_convert_fn convert,
                           uint32_t lane, int64_t begin, int64_t n, void *buffer);

#endif
