/* A case made concrete: operands with data, outputs inferred, the oracle's answer. */
#ifndef CONF_PROBLEM_H
#define CONF_PROBLEM_H

#include "cases/case.h"
#include "oracle/oracle.h"

#include "graph/op.h"

enum { CONF_MAX_TENSORS = PCO_MAX_INPUTS + PCO_MAX_OUTPUTS };

typedef struct conf_problem {
    const conf_case *one;
    uint32_t n_tensors;
    pco_tensor tensors[CONF_MAX_TENSORS];
    void *data[PCO_MAX_INPUTS]; /* by input */
    pco_node node;
    oracle_node oracle;
    oracle_rules rules;
    bool own_choice;              /* only the variant that the plugin chooses by itself, not each in turn */
    struct conf_problem *changed; /* made and owned by conf_run_changed: the same with some operands changed */
} conf_problem;

/* Fills *problem; release with conf_problem_clear, also after an error. Errors: INVALID (the case is wrong:
 * a defect of the suite), OUT_OF_HOST_MEMORY. */
pco_status conf_problem_make(conf_problem *problem, const conf_case *one, uint64_t seed, const pco_contract *contract,
                             pco_error *err) PCO_NODISCARD;
/* The same without the oracle's answer: for what is prepared and not run. */
pco_status conf_problem_make_bare(conf_problem *problem, const conf_case *one, uint64_t seed,
                                  const pco_contract *contract, pco_error *err) PCO_NODISCARD;
/* The problem `other`, with its data, under other rules than a contract has: what would a device do that ... ? */
pco_status conf_problem_make_with(conf_problem *problem, const conf_problem *other, const oracle_rules *rules,
                                  pco_error *err) PCO_NODISCARD;
/* The same with the operands' values given, in storage format, by input (copied). */
pco_status conf_problem_make_from(conf_problem *problem, const conf_case *one, const void *const *data,
                                  const pco_contract *contract, pco_error *err) PCO_NODISCARD;
/* A case without its data: empties *problem, and fills its node and the tensors of the operands. */
void conf_problem_describe(conf_problem *problem, const conf_case *one);
/* Infers the outputs of problem->node and adds their tensors. */
pco_status conf_problem_infer(conf_problem *problem, pco_error *err) PCO_NODISCARD;
void conf_problem_clear(conf_problem *problem);

#endif
