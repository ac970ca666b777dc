/* portico conformance --bisect: a model's ops one by one, each on the reference's own operands. */
#ifndef PCO_CLI_CONFORMANCE_BISECT_H
#define PCO_CLI_CONFORMANCE_BISECT_H

#include "cli/conformance_reproduce.h"

#include <stdint.h>

typedef struct conformance_bisect_arguments {
    const char *model; /* NULL: no bisection is wanted */
    const char *devices, *prompt;
    const conformance_reproducers *reproducers;
    int64_t max_tokens, context;
    double timeout; /* seconds for a node on the device; 0: the default */
    int in_process; /* no other processes: a crash ends the program */
    int child;      /* this process is one that was started for one device */
} conformance_bisect_arguments;

/* Each device in a process of its own, and in that each node in a worker process. Returns the exit status. */
int conformance_bisect(const conformance_bisect_arguments *arguments);

#endif
