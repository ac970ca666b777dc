/* The parts of `portico conformance`. */
#ifndef PCO_CLI_CONFORMANCE_PARTS_H
#define PCO_CLI_CONFORMANCE_PARTS_H

#include "cli/cli.h"
#include "cli/conformance_bisect.h"
#include "cli/conformance_report.h"
#include "cli/conformance_reproduce.h"
#include "cli/conformance_worker.h"
#include "conformance.h"

typedef struct conformance_arguments {
    const char *devices, *log, *waivers;
    int json, verbose, in_process, fail_fast, probe;
    uint32_t max_failures, jobs; /* jobs 0: by the device */
    double timeout, minutes;     /* 0: by the tier; no limit */
    int64_t seeds;               /* how many, one after the other; 0: one, or, of a soak, without end */
    cli_report report;
    conformance_reproducers reproducers;
    conformance_bisect_arguments bisect;
    pco_conformance_options options;
    struct conformance_own *own; /* what options.own points to (conformance_own.c) */
    char *own_ops;               /* their names, where --ops names none */
    /* of child processes, which the program starts itself */
    int internal, worker;
    const char *plugin, *id;
    uint32_t index, threads; /* threads of the cpu plugin; 0: PORTICO_THREADS */
} conformance_arguments;

/* Does what the command line asks for; returns the exit status (conformance.c). argv is for reports, which name their
 * command. */
int conformance_do(conformance_arguments *arguments, int argc, char **argv);

/* Loads the operations that --ops-from names into the options; without --ops, only they are judged. Returns the exit
 * status, after a message (conformance_own.c). */
int conformance_own_load(conformance_arguments *arguments);
int conformance_own_failed(const conformance_arguments *arguments); /* is a gradient of one of them wrong? */
void conformance_own_clear(conformance_arguments *arguments);

/* Judges the devices entries[indices[count]] and prints what was found; returns the exit status
 * (conformance_run.c). */
int conformance_devices(const conformance_arguments *arguments, const pco_registry *registry, const uint32_t *indices,
                        uint32_t count);

/* What a worker process does (conformance_worker.c). */
int conformance_worker(const conformance_arguments *arguments);

/* Prints the probes of the devices; returns the exit status of that (conformance_print.c). */
int conformance_print_probes(const conformance_arguments *arguments, const pco_conformance_result *results,
                             const pco_conformance_device *devices, uint32_t count);

/* Describes the first `most` cases that went wrong (conformance_print.c). */
void conformance_print_failures(const pco_conformance_result *result, uint32_t most);

/* Prints what the devices' compilers made of the kernels; returns the exit status (conformance_compile.c). */
int conformance_print_compiled(const conformance_arguments *arguments, const pco_conformance_result *results,
                               const pco_conformance_device *devices, uint32_t count, int interrupted);

/* Prints what was found, and judges it; reproducers[i], where not NULL, is the folder of those of devices[i]; `waivers`
 * may be NULL (conformance_print.c). */
int conformance_report(const conformance_arguments *arguments, const pco_conformance_result *results,
                       const pco_conformance_device *devices, uint32_t count, const char *const *reproducers,
                       const pco_conformance_waivers *waivers, int interrupted);

#endif
