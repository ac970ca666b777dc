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

const gpu_lowerer *gpu_find_lowerer(const pco_node *node, const char **name)
{
    if (PCO_OP_IS_OWN(node->op)) {
        if (name) *name = pco_node_op_name(node);
        return &gpu_lower_own;
    }
    for (const gpu_op *row = gpu_ops; row->lowerer; row++) {
        if (row->op != node->op) continue;
        if (name) *name = row->name;
        return row->lowerer;
    }
    return NULL;
}
