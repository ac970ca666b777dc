/* What a wrong result looks like, in words: which clause of its contract the device does not keep. */
#ifndef CONF_DIAGNOSE_H
#define CONF_DIAGNOSE_H

#include "runner.h"

/* Adds to `text` (which ends in a NUL) what the results `got` of a failed problem (by output, in storage
 * format) are consistent with: "; behaves like f16 accumulation, and the contract declares f32". Nothing when
 * nothing fits. */
void conf_diagnose(const conf_problem *problem, const pco_contract *contract, void *const *got,
                   char *text, size_t size);

/* 1, with words in `text`, when the probe of fused products (cases_contract.c: x x - round(x x)) gives
 * anything but 0 on a device whose contract says that it does not fuse. */
bool conf_diagnose_fuses(const conf_problem *problem, const pco_contract *contract, void *const *got,
                         char *text, size_t size);

#endif
