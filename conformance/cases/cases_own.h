/* How far the cases of an operation of one's own go. */
#ifndef CONF_CASES_OWN_H
#define CONF_CASES_OWN_H

#include "cases/case.h"

typedef struct conf_own_coverage {
    uint32_t cases;               /* of the tier */
    uint32_t accepted;            /* what the operation takes, before the tier is cut and what comes twice left out */
    uint32_t refused;             /* what the signature allows and the function `shape` does not */
    uint64_t combinations, tried; /* of types; where not all are tried, every pair of two letters' types is */
    uint64_t shapes_taken;        /* bit i: the declaration's shapes[i] gave a case */
    uint32_t setting_refused;     /* 1 + a row of the declaration's settings that gave none; 0: all did */
    char refusal[400];            /* the first one, in words */
} conf_own_coverage;

/* Errors: INVALID for an operation that has no case, or refuses what its declaration lists for tests. */
pco_status conf_cases_own_coverage(const pco_operation *own, pco_conformance_tier tier, conf_own_coverage *coverage,
                                   pco_error *err) PCO_NODISCARD;

/* Small cases, of which each element can be moved by itself: with the settings of attributes, and operands of floats
 * where the types allow that. */
void conf_cases_own_small(const pco_operation *own, conf_visit_fn visit, void *user);

#endif
