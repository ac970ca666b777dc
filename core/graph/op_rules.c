#include "graph/op_rules.h"

#include <stddef.h>

typedef struct rules_row {
    uint32_t op;
    pco_decompose_fn *decompose;
    pco_gradient_fn *gradient;
} rules_row;

#define NONE NULL
#define PCO_OP(id, upper, name, family, signature, types, infer, split, decompose_, gradient_, ...) \
    {PCO_OP_##upper, decompose_, gradient_},
static const rules_row ROWS[] = {
#include "graph/ops.def"
};
#undef NONE

static const rules_row *rules_find(uint32_t op)
{
    static const rules_row NO_RULES = {0};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        if (ROWS[i].op == op) return &ROWS[i];
    return &NO_RULES;
}

pco_decompose_fn *pco_op_decomposition(uint32_t op) { return rules_find(op)->decompose; }
pco_gradient_fn *pco_op_gradient(uint32_t op) { return rules_find(op)->gradient; }
