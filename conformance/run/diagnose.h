/* What a wrong result looks like, in words: which clause of its contract the device does not keep. */
#ifndef CONF_DIAGNOSE_H
#define CONF_DIAGNOSE_H

#include "run/problem.h"

/* Which clauses of the contract would explain the results `got` of a failed problem (by output, in storage format): a
 * mask for conf_diagnose_name, and those of them that this case is sharp evidence for. */
void conf_diagnose(const conf_problem *problem, const pco_contract *contract, void *const *got, uint64_t *explains,
                   uint64_t *evidence);

/* Adds to the text of each failure the clause that explains all failures of its op and variant: "; behaves like f16
 * accumulation, and the contract declares f32 (accumulate_f16)". Nothing where none does. All records are there. */
void conf_diagnose_name(pco_conformance_result *result, const pco_contract *contract);

/* 1, with words in `text`, when the probe of fused products (cases_contract.c: x x - round(x x)) gives
 * anything but 0 on a device whose contract says that it does not fuse. */
bool conf_diagnose_fuses(const conf_problem *problem, const pco_contract *contract, void *const *got, char *text,
                         size_t size);

#endif
