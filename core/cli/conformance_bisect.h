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
} conformance_bisect_arguments;

/* Returns the exit status. */
int conformance_bisect(const conformance_bisect_arguments *arguments);

#endif
