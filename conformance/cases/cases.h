/* The cases of the suite: for each op, shapes, types, attributes and data that have broken devices before. */
#ifndef CONF_CASES_H
#define CONF_CASES_H

#include "cases/case.h"

/* Visits the cases of a tier whose op matches the pattern (fnmatch; NULL: all), in the order of ops.def. The
 * second adds shapes at the edges of a device's kernels; the first has those of no device. */
void conf_cases_visit_on(const pco_device_info *info, pco_conformance_tier tier, const char *pattern,
                         conf_visit_fn visit, void *user);
void conf_cases_visit(pco_conformance_tier tier, const char *pattern, conf_visit_fn visit, void *user);

/* Of all that the options select by tier and name: those of the table as above, then those of operations of one's own.
 */
void conf_cases_visit_all(const pco_device_info *info, const pco_conformance_options *options, conf_visit_fn visit,
                          void *user);

/* True for ops whose kernels drivers compile longest; they are begun first. */
bool conf_cases_is_slow(uint32_t op);

/* Is it one of those that the options select, in its tier and of its op? */
bool conf_case_is_selected(const conf_case *one, const pco_conformance_options *options);

#endif
