/* Reproducers of what a run of `portico conformance` found wrong. */
#ifndef PCO_CLI_CONFORMANCE_REPRODUCE_H
#define PCO_CLI_CONFORMANCE_REPRODUCE_H

#include "conformance.h"

typedef struct conformance_reproducers {
    const char *folder; /* NULL: none are wanted */
    int always;         /* also of cases that pass */
    int no_run;         /* of one case, without running it */
    int here;           /* of one case, in this process: what the child processes are told */
    uint32_t most;      /* so many for a device, 0: all; the others are counted */
    int several;        /* devices: each gets a folder of its own within `folder` */
    double timeout;     /* seconds for one variant of a case; 0: what the tier has */
    const char *found;  /* of one case: what the run has seen; NULL: nothing is known */
} conformance_reproducers;

/* What a child process ends with when there is too much for a folder. */
enum { CONFORMANCE_TOO_LARGE = 3 };

/* "DIR" or "DIR/vulkan-0" into path[size]. */
void conformance_reproducer_folder(const conformance_reproducers *wanted, const char *device, char *path, size_t size);

/* Writes a folder for each case of `result`, a run with these options, that went wrong (or, with always, that was
 * judged), each in a process of its own, which opens the device, and has as much time as the case had. Cases that are
 * too large for a folder are counted. Returns 0 after a message when one could not be written. */
int conformance_reproduce(const conformance_reproducers *wanted, const pco_conformance_device *device,
                          const pco_conformance_options *options, const pco_conformance_result *result);

/* The folder of one case, in this process: options name op, case and variant. Errors: UNSUPPORTED (too large), and
 * those of pco_conformance_write_reproducer; said already. */
pco_status conformance_reproduce_here(const conformance_reproducers *wanted, const pco_conformance_device *device,
                                      const pco_conformance_options *options);

#endif
