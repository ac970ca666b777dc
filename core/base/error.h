/* Filling a pco_error. Every function of the core that can fail takes one and returns a pco_status. */
#ifndef PCO_BASE_ERROR_H
#define PCO_BASE_ERROR_H

#include "portico/plugin.h"

/* Writes the message (printf-style, one line, without a full stop; control characters in it become escapes) into `err`,
 * which may be NULL, and returns `status`, so that a function can `return pco_fail(err, PCO_ERROR_FORMAT, "...")`. */
pco_status pco_fail(pco_error *err, pco_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Puts "prefix: " in front of the message that `err` already holds; returns `status`. */
pco_status pco_fail_prefix(pco_error *err, pco_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
