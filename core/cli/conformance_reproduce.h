/* Reproducers of what a run of `portico conformance` found wrong. */
#ifndef PCO_CLI_CONFORMANCE_REPRODUCE_H
#define PCO_CLI_CONFORMANCE_REPRODUCE_H

#include "conformance.h"

typedef struct conformance_reproducers {
    const char *folder; /* NULL: none are wanted */
    int always;         /* also of cases that pass */
    int no_run;         /* of one case, without running it */
} conformance_reproducers;

/* Writes a folder for each case of `result` that went wrong (or, with always, that was judged), before the
 * device is closed. Returns 0 after a message when one could not be written. */
int conformance_reproduce(const conformance_reproducers *wanted, const pco_conformance_device *device,
                          const pco_conformance_result *result);

/* The folder of one case that is not run: options name op, case and variant. As above. */
int conformance_reproduce_unseen(const conformance_reproducers *wanted, const pco_conformance_device *device,
                                 const pco_conformance_options *options);

#endif
