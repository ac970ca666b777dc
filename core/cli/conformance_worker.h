/* Worker processes of `portico conformance`. */
#ifndef PCO_CLI_CONFORMANCE_WORKER_H
#define PCO_CLI_CONFORMANCE_WORKER_H

#include "runtime/registry.h"

#include "conformance.h"

/* The command line of a worker for one device. */
typedef struct conformance_command {
    char *words[40]; /* NULL-terminated; into the members below, the registry and the options */
    char tier[16], seed[24], index[12], replays[12], threads[12];
} conformance_command;

void conformance_command_make(conformance_command *command, const pco_registry *registry, const pco_device_entry *entry,
                              const pco_conformance_options *options);
/* Adds the number of threads of the worker. */
void conformance_command_threads(conformance_command *command, uint32_t threads);

/* Seconds for one variant of a case: `asked`, or (0) what the tier has. */
double conformance_timeout(double asked, pco_conformance_tier tier);

#endif
