/* The list of oracles, by op. */
#include "oracle/oracle_eval.h"

#include "base/error.h"

#include <stdlib.h>

static oracle_fn *const FUNCTIONS[] = {
#define PCO_OP(id, upper, name, family, ...) [PCO_OP_##upper] = oracle_eval_##family,
#include "graph/ops.def"
};

bool oracle_knows(uint32_t op)
{
    return PCO_OP_IS_OWN(op) || (op < sizeof FUNCTIONS / sizeof FUNCTIONS[0] && FUNCTIONS[op]);
}

pco_status oracle_run(oracle_node *node, pco_error *err)
{
    if (!oracle_knows(node->op)) return pco_fail(err, PCO_ERROR_UNSUPPORTED, "no oracle for op %u", node->op);
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        oracle_output *out = &node->out[i];
        out->count = oracle_count(&out->desc);
        out->sign_of_zero = false;
        out->value = calloc((size_t)out->count + 1, sizeof *out->value);
        out->bound = calloc((size_t)out->count + 1, sizeof *out->bound);
        if (!out->value || !out->bound) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "oracle: no memory");
    }
    if (PCO_OP_IS_OWN(node->op)) return oracle_eval_own(node, err);
    if (node->out[0].desc.dtype == PCO_I32 &&
        (node->op <= PCO_OP_MAXIMUM || node->op == PCO_OP_SUM || node->op == PCO_OP_NEG || node->op == PCO_OP_ABS ||
         node->op == PCO_OP_SCATTER_ADD))
        return oracle_eval_integer(node, err);
    return FUNCTIONS[node->op](node, err);
}
