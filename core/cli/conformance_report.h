/* Reports of portico conformance: --report, --baseline, --verify, --rerun. */
#ifndef PCO_CLI_CONFORMANCE_REPORT_H
#define PCO_CLI_CONFORMANCE_REPORT_H

#include "cli/cli.h"

#include "report/report.h"

typedef struct cli_report {
    const char *folder, *baseline, *verify; /* NULL: not asked for */
    uint32_t rerun;
    char *command;                 /* the command line, as a shell reads it; NULL: there was no memory for it */
    double factor;                 /* 0: the default */
    int json;                      /* stdout is an object: tables go nowhere */
    pco_conformance_report before; /* the baseline, once it has been read */
} cli_report;

/* Keeps the command line for the report. */
void cli_report_command(cli_report *report, int argc, char **argv);

/* Before a run: can the folder be written to, is the baseline a report? Returns the exit status. */
int cli_report_begin(cli_report *report);

/* After it: compares and writes what was asked for; reproducers[i], where not NULL, is the folder of those of
 * devices[i]. Returns CLI_OK; CLI_FAILED after a regression or an
 * error. */
int cli_report_end(const cli_report *report, const pco_conformance_options *options,
                   const pco_conformance_result *results, const pco_conformance_device *devices, uint32_t count,
                   const char *const *reproducers);

/* How cases are repeated. */
typedef struct cli_report_rerun {
    const char *devices; /* NULL: those that the report names */
    uint64_t seed;       /* which cases; 0: the clock draws them */
    double timeout;      /* seconds for one variant of a case; 0: what the tier has */
    int in_process;      /* without worker processes */
} cli_report_rerun;

/* --verify. Returns the exit status. */
int cli_report_verify(cli_report *report, const cli_report_rerun *rerun);

void cli_report_clear(cli_report *report);

#endif
