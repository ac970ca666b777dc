/* The table of ops: each has a row in the file that computes it (CPU_OP of run.h). */
#include "run.h"

#define CPU_ROW(NAME, name, family) extern const cpu_op cpu_op_##NAME;
PCO_OPERATIONS(CPU_ROW)
#undef CPU_ROW

#define CPU_ROW(NAME, name, family) [PCO_OP_##NAME] = &cpu_op_##NAME,
static const cpu_op *const CPU_OPS[PCO_OP_LIMIT] = {PCO_OPERATIONS(CPU_ROW)};

#define CPU_ATTRS(NAME, name) [PCO_OP_##NAME] = sizeof(pco_##name##_attrs),
static const uint32_t CPU_ATTRS_SIZES[PCO_OP_LIMIT] = {PCO_OPERATIONS_WITH_ATTRS(CPU_ATTRS)};

const cpu_op *cpu_op_find(uint32_t op)
{
    if (PCO_OP_IS_OWN(op)) return &cpu_op_own;
    return op < PCO_OP_LIMIT ? CPU_OPS[op] : NULL;
}

uint32_t cpu_attrs_size(uint32_t op) { return op < PCO_OP_LIMIT ? CPU_ATTRS_SIZES[op] : 0; }
