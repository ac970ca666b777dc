/* Which lowerer serves which op: every op of plugin.h has one. */
#include "lower.h"

typedef struct gpu_op {
    uint32_t op;
    const char *name;
    const gpu_lowerer *lowerer;
} gpu_op;

#define GPU_OP(NAME, name, family) {PCO_OP_##NAME, #name, &gpu_lower_##family},
static const gpu_op gpu_ops[] = {
    PCO_OPERATIONS(GPU_OP){0}, /* the end */
};

const gpu_lowerer *gpu_find_lowerer(uint32_t op, const char **name)
{
    for (const gpu_op *row = gpu_ops; row->lowerer; row++) {
        if (row->op != op) continue;
        if (name) *name = row->name;
        return row->lowerer;
    }
    return NULL;
}
