/* Reports: a folder with report.json (every record, sealed with digests), junit.xml and report.html; reading
 * one back, checking it offline, and comparing two.
 *
 * The digests show alteration, by accident or by hand. They are no signature: who computes them anew can
 * write what they like, and only cases that are repeated on the device tell. */
#ifndef CONF_REPORT_H
#define CONF_REPORT_H

#include "conformance.h"

#include "base/arena.h"
#include "base/sha256.h"

/* The format of report.json (docs/conformance-schema.json). Readers refuse any other. */
#define PCO_CONFORMANCE_SCHEMA "portico-conformance-report/1"

/* Raised when cases, oracle or judgement change in a way that the list of cases does not show. */
enum { PCO_CONFORMANCE_SUITE_VERSION = 1 };

/* What a folder holds, or shall hold. To write: the caller fills `options`, `devices` and `results`, all
 * borrowed. Read: the report owns everything; devices[i].plugin and .device are NULL. */
typedef struct pco_conformance_report {
    char program[32];                 /* version of Portico that wrote it */
    char written[32];                 /* UTC, as 2025-01-31T12:00:00Z */
    uint32_t suite_version;           /* of the program that wrote it */
    char suite_hash[PCO_SHA256_TEXT]; /* of the tier's list of cases then */
    char digest[PCO_SHA256_TEXT];     /* of the whole document */
    char commit[96];                  /* that the program was built from; "": from no repository */
    char os[160], kernel[256];        /* of the machine; "" in a report of an earlier Portico, as is all of this */
    const char *command;              /* the command line; NULL: not told */
    const char *const *reproducers;   /* to write: by device, the folder that holds them; NULL: none */
    const char *folder;               /* set while it is written */
    pco_conformance_options options;  /* tier, ops, seed, case_id and variant; the rest is unused */
    uint32_t n_devices;
    pco_conformance_device *devices;
    pco_conformance_result *results; /* by device */
    pco_arena texts;                 /* of a report that was read */
    void *infos;
} pco_conformance_report;

/* ---- two runs ---- */

typedef enum pco_conformance_change_kind {
    PCO_CHANGE_REGRESSION = 0, /* passed, and is now bad or unsupported */
    PCO_CHANGE_FIXED = 1,      /* was bad, and passes */
    PCO_CHANGE_GROWN = 2,      /* passes both times; error/bound is above `factor` times what it was, and 0.01 */
    PCO_CHANGE_STATE = 3,      /* another state, for neither better nor worse: waived, not promised ... */
    PCO_CHANGE_NEW = 4,        /* a case or variant that the earlier run has not */
    PCO_CHANGE_REMOVED = 5,    /* one that only the earlier run has */
    PCO_CHANGE_KINDS = 6,
} pco_conformance_change_kind;

/* "regression", "fixed" ... Static. */
const char *pco_conformance_change_name(pco_conformance_change_kind kind);

typedef struct pco_conformance_change {
    pco_conformance_change_kind kind;
    uint32_t device;                          /* index in the newer run; PCO_NONE: only in the earlier */
    const pco_conformance_case *before, *now; /* one may be NULL; borrowed from the two runs */
} pco_conformance_change;

typedef struct pco_conformance_comparison {
    double factor;
    int same_data; /* seeds agree, so that error/bound can be compared */
    uint32_t count[PCO_CHANGE_KINDS];
    uint32_t n_changes;
    pco_conformance_change *changes; /* by kind, the worst first within one kind */
    const pco_conformance_report *before;
    uint32_t *pairs; /* by device of the newer run: the earlier device that it was compared with, or PCO_NONE */
} pco_conformance_comparison;

/* Compares records by case, variant and subgroup width. Devices are paired by id, then by name; one device
 * in each run makes a pair whatever its name. Clear it before the two reports. Errors: OUT_OF_HOST_MEMORY. */
pco_status pco_conformance_compare(const pco_conformance_report *before, const pco_conformance_report *now,
                                   double factor, pco_conformance_comparison *comparison, pco_error *err) PCO_NODISCARD;
void pco_conformance_comparison_clear(pco_conformance_comparison *comparison);

/* ---- writing and reading ---- */

/* Can a report be written to `folder`? It is absent, empty, or holds a report. Errors: INVALID, saying why.
 */
pco_status pco_conformance_report_check_folder(const char *folder, pco_error *err) PCO_NODISCARD;

/* Creates the folder and writes its three files, report.json last, each whole or not at all. `comparison`
 * may be NULL. Errors: INVALID (as above), IO, OUT_OF_HOST_MEMORY. */
pco_status pco_conformance_report_write(const char *folder, const pco_conformance_report *report,
                                        const pco_conformance_comparison *comparison, pco_error *err) PCO_NODISCARD;

/* Reads FOLDER/report.json. Errors, in one line: IO (no such file), FORMAT (cut off, no report, another
 * schema, a member that is missing or wrong), OUT_OF_HOST_MEMORY. It does not look at digests: see verify. */
pco_status pco_conformance_report_read(const char *folder, pco_conformance_report *report,
                                       pco_error *err) PCO_NODISCARD;
/* Only of a report that was read, also after an error. */
void pco_conformance_report_clear(pco_conformance_report *report);

/* The hash over suite version and the tier's cases (ids and labels). Errors: OUT_OF_HOST_MEMORY. */
void pco_conformance_suite_hash(pco_conformance_tier tier, char hash[PCO_SHA256_TEXT]);

/* ---- checking a submission offline ---- */

typedef enum pco_conformance_finding_kind {
    PCO_FINDING_ALTERED = 0,    /* a digest does not fit, or figures contradict each other */
    PCO_FINDING_SUITE = 1,      /* of another suite than this program's */
    PCO_FINDING_INCOMPLETE = 2, /* cases without a record, a run that was stopped, a file that is missing */
    PCO_FINDING_WAIVER = 3,     /* waived without a reason */
    PCO_FINDING_VERDICT = 4,    /* intact, and not a pass */
    PCO_FINDING_KINDS = 5,
} pco_conformance_finding_kind;

typedef struct pco_conformance_finding {
    pco_conformance_finding_kind kind;
    char text[400];
} pco_conformance_finding;

typedef struct pco_conformance_findings {
    uint32_t count[PCO_FINDING_KINDS]; /* all of them */
    uint32_t n_items;
    pco_conformance_finding *items;  /* the first 100 of each kind */
    uint32_t records, cases, waived; /* what was looked at */
} pco_conformance_findings;

/* Reads and checks. Errors as pco_conformance_report_read; then *report is to be cleared all the same. When
 * an altered report cannot be read any more, report->n_devices is 0 and the findings say so. */
pco_status pco_conformance_verify(const char *folder, pco_conformance_report *report,
                                  pco_conformance_findings *findings, pco_error *err) PCO_NODISCARD;
void pco_conformance_findings_clear(pco_conformance_findings *findings);

/* Draws `count` different records of device `device` that ran or were refused, evenly over its records, by
 * seed; indices into its cases. Returns how many there are. */
uint32_t pco_conformance_sample(const pco_conformance_result *result, uint64_t seed, uint32_t count, uint32_t *indices);

#endif
