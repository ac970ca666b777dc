/* The parts of a report, and what they share. */
#ifndef CONF_REPORT_PARTS_H
#define CONF_REPORT_PARTS_H

#include "cases/cases.h"
#include "report/report.h"

#include "runtime/words.h"

#include <cjson/cJSON.h>
#include <stdbool.h>

/* ---- report.json as a tree (report_tree.c) ---- */

/* With every record in "cases", or only the bad ones in "failures" (what --json prints). The caller deletes
 * it. Errors: OUT_OF_HOST_MEMORY. */
pco_status conf_tree_make(const pco_conformance_report *report, const pco_conformance_comparison *comparison,
                          bool records, cJSON **root, pco_error *err) PCO_NODISCARD;
/* Prints it, one line for each record. "nan", "inf" and "-inf" stand for what JSON has not. */
void conf_tree_print(const cJSON *root, pco_writer *out);

const char *conf_verdict_name(pco_conformance_verdict verdict);

/* Members of an op's row: how many were compared, and how many differed. */
static const char *const CONF_PIECE_MEMBERS[PCO_PIECE_KINDS][2] = {
    {"rows_alone", "rows_alone_differ"}, {"chunks", "chunks_differ"}, {"threads", "threads_differ"}};

/* ---- digests (report_seal.c) ---- */

/* Adds a digest to each element of "ops" and "cases", chained, and "seal" with a digest of every other
 * member. Errors: OUT_OF_HOST_MEMORY. */
pco_status conf_seal(cJSON *root, pco_error *err) PCO_NODISCARD;

/* Called for each part that does not fit its digest, with where it is in words. */
typedef void (*conf_seal_fn)(void *user, const char *where);
/* Errors: FORMAT (nothing to check: no seal), OUT_OF_HOST_MEMORY. */
pco_status conf_seal_check(const cJSON *root, conf_seal_fn found, void *user, pco_error *err) PCO_NODISCARD;

/* ---- reading (report_read.c) ---- */

/* FOLDER/NAME into path[size]. */
void conf_report_path(char *path, size_t size, const char *folder, const char *name);
/* Parses report.json and checks that it is a report of this schema. */
pco_status conf_report_load(const char *folder, cJSON **root, pco_error *err) PCO_NODISCARD;
pco_status conf_report_from_tree(const cJSON *root, const char *label, pco_conformance_report *report,
                                 pco_error *err) PCO_NODISCARD;

/* ---- figures per op (report_figures.c) ---- */

/* Of cases whose bound is not zero: where results must be exact, there is no error to divide. */
typedef struct conf_figures {
    uint32_t bounded;   /* judged cases with a bound above zero */
    double median, max; /* of error / bound of those */
    bool low;           /* the median is below 0.01, and not all is exact */
    bool explained;     /* by what `why` says; else the bound is to be tightened */
    char why[160];
} conf_figures;
pco_status conf_figures_make(const pco_conformance_result *result, uint32_t op, const pco_contract *contract,
                             conf_figures *figures, pco_error *err) PCO_NODISCARD;

/* ---- where it comes from (report_origin.c) ---- */

/* Fills in os and kernel. */
void conf_origin_system(pco_conformance_report *report);
/* The folder of the reproducer of a bad case, seen from the report's where it lies within; false and "" without one. */
bool conf_origin_reproducer(const pco_conformance_report *report, uint32_t device, const pco_conformance_case *one,
                            char *path, size_t size);

/* ---- the other files ---- */

void conf_junit_write(const pco_conformance_report *report, pco_writer *out);
pco_status conf_html_write(const pco_conformance_report *report, const pco_conformance_comparison *comparison,
                           pco_writer *out, pco_error *err) PCO_NODISCARD;

#endif
