/* Filling a pco_error. Every function of the core that can fail takes one and returns a pco_status. */
#ifndef PCO_BASE_ERROR_H
#define PCO_BASE_ERROR_H

#include "portico/plugin.h"

/* Writes the message (printf-style, one line, without a full stop; control characters in it become escapes, and of what
 * is too long the middle is left out) into `err`, which may be NULL, and returns `status`, so that a function can
 * `return pco_fail(err, PCO_ERROR_FORMAT, "...")`. */
pco_status pco_fail(pco_error *err, pco_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Puts "prefix: " in front of the message that `err` already holds; returns `status`. */
pco_status pco_fail_prefix(pco_error *err, pco_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* INVALID, naming the function and the argument that is NULL; and what the functions of the public headers begin with.
 */
pco_status pco_fail_missing(pco_error *err, const char *function, const char *argument);
#define PCO_NEEDS(argument) \
    do { \
        if (!(argument)) return pco_fail_missing(err, __func__, #argument); \
    } while (0)
#define PCO_NEEDS_SOME(argument, count) \
    do { \
        if (!(argument) && (count)) return pco_fail_missing(err, __func__, #argument); \
    } while (0)

/* Structs of the public headers begin with their size, as the caller's header has it, and grow at their ends. INVALID
 * for a size of 0 and for one above `known`, the library's own. */
pco_status pco_check_sized(size_t known, size_t size, pco_error *err);
/* Copies what the caller has of a struct; the rest of `to`, which is `known` bytes, stays. */
pco_status pco_copy_sized(void *to, size_t known, const void *from, size_t size, pco_error *err);
/* Copies `from`, of `known` bytes, into the caller's struct as far as that goes, and leaves its size. */
pco_status pco_fill_sized(void *to, const void *from, size_t known, pco_error *err);

#endif
