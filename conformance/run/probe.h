/* What a device does with numbers, seen from outside: how wide its accumulators are and in which order they
 * sum, what it rounds, flushes and fuses. See docs/numerics.md. */
#ifndef CONF_PROBE_H
#define CONF_PROBE_H

#include "conformance.h"

#include "formats/json.h"

enum { CONF_PROBE_TERMS = 64, CONF_PROBE_PAIRS = CONF_PROBE_TERMS * (CONF_PROBE_TERMS - 1) / 2 };

/* ---- the order of a sum (probe_order.c) ---- */

/* leaves[i][j], i < j: how many of the terms have been added up when terms i and j meet. Names the order in
 * words, into text[size]; an order without a name gets a number that follows from it. */
typedef uint8_t conf_probe_leaves[CONF_PROBE_TERMS][CONF_PROBE_TERMS];
void conf_probe_order(conf_probe_leaves leaves, char *text, size_t size);

/* ---- lines (probe.c) ---- */

/* Adds a copy of the line. Errors: OUT_OF_HOST_MEMORY. */
pco_status conf_probe_add(pco_conformance_probe *probe, const pco_conformance_probe_line *line,
                          pco_error *err) PCO_NODISCARD;
/* The fingerprint over all lines, and how many are broken: when all are there. */
void conf_probe_finish(pco_conformance_probe *probe);
/* Reads a line from an object of JSON (probe_apart.c). Errors: FORMAT. */
pco_status conf_probe_line_read(const cJSON *object, const char *label, pco_conformance_probe_line *line,
                                pco_error *err) PCO_NODISCARD;

#endif
