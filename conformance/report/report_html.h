/* What the files of the HTML page share. */
#ifndef CONF_REPORT_HTML_H
#define CONF_REPORT_HTML_H

#include "report/report_parts.h"

enum { CONF_HTML_SHOWN = 200, CONF_HTML_WORST = 12 }; /* failures and closest cases per device */

/* A class for the colour of a state: "pass", "bad", "warn" or "". */
const char *conf_html_class(pco_conformance_state state);
/* "0.123", "1.2e-05", "inf", "0". */
const char *conf_html_ratio(double ratio, char text[32]);

/* The strip of error / bound of one op: a histogram on a logarithmic scale, the median, the bound. */
void conf_html_plot(pco_writer *out, const pco_conformance_result *result, const pco_conformance_op *op);
void conf_html_axis(pco_writer *out);

/* Op by op: type x regime, and variant x width, with the number of cases in each cell. */
pco_status conf_html_coverage(pco_writer *out, const pco_conformance_result *result, pco_error *err) PCO_NODISCARD;

/* Kernel by kernel: the values that its specialisation constants took. */
void conf_html_constants(pco_writer *out, const pco_conformance_result *result);

/* Cards: what failed, what came closest to its bound, what was refused, what is waived. */
pco_status conf_html_failures(pco_writer *out, const pco_conformance_report *report, uint32_t device,
                              pco_error *err) PCO_NODISCARD;
pco_status conf_html_worst(pco_writer *out, const pco_conformance_result *result, pco_error *err) PCO_NODISCARD;
void conf_html_unsupported(pco_writer *out, const pco_conformance_result *result);
void conf_html_waived(pco_writer *out, const pco_conformance_result *result);
void conf_html_changes(pco_writer *out, const pco_conformance_report *report,
                       const pco_conformance_comparison *comparison, uint32_t device);

/* Device, driver, limits, contract. */
void conf_html_facts(pco_writer *out, const pco_device_info *info);

#endif
