/* The lists of cases that cases.c goes through. */
#ifndef CONF_LISTS_H
#define CONF_LISTS_H

#include "cases/case_build.h"

/* The cases of each family of the op table, whose lists have its name but for those of these families. */
#define conf_cases_compare                conf_cases_binary
#define conf_cases_logical_not            conf_cases_logical
#define conf_cases_cross_entropy_backward conf_cases_cross_entropy

#define CASES(name)                          void conf_cases_##name(conf_cases_context *context, pco_op op)
#define PCO_OP(id, upper, name, family, ...) CASES(family);
#include "graph/ops.def"
CASES(contract); /* for any op: those of the contract group, if it has any */
CASES(real);
CASES(twins);
CASES(traps);
CASES(missed);
CASES(constants);
CASES(dimensions);
CASES(small);
CASES(small_along); /* of an op whose attributes name one dimension: along each of three small ones */
CASES(full);
CASES(chain);
CASES(edges);
CASES(large);
void conf_cases_own(conf_cases_context *context, const pco_operation *operation);
#undef CASES

#endif
