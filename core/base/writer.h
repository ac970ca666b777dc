/* A text or a file that is made in memory. The first error is kept and what comes after it is dropped, so
 * that only the end has to ask: nobody can take a part for the whole. */
#ifndef PCO_BASE_WRITER_H
#define PCO_BASE_WRITER_H

#include "portico/plugin.h"

#include <stddef.h>

typedef struct pco_writer { /* zero-initialised: empty */
    char *data;             /* with a NUL behind it; NULL before the first byte */
    size_t size, capacity;
    pco_status status; /* OK or OUT_OF_HOST_MEMORY */
} pco_writer;

void pco_write(pco_writer *out, const void *data, size_t size);
void pco_write_char(pco_writer *out, char c);
void pco_write_text(pco_writer *out, const char *text);
/* In XML and HTML, as text or as the value of an attribute: markup is escaped, and what XML 1.0 does not know
 * (control characters, bytes that are not UTF-8) becomes U+FFFD. */
void pco_write_xml(pco_writer *out, const char *text);
void pco_print(pco_writer *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* OK, or the error that was kept; `what` is what was being made. */
pco_status pco_writer_check(const pco_writer *out, const char *what, pco_error *err) PCO_NODISCARD;

/* Writes it to `path` with pco_file_write. Errors: those, and OUT_OF_HOST_MEMORY, when nothing is written. */
pco_status pco_writer_save(const pco_writer *out, const char *path, pco_error *err) PCO_NODISCARD;

/* Writes it to a file that is open, called `label` in messages, and empties it for more. Errors: the same. */
pco_status pco_writer_flush(pco_writer *out, int fd, const char *label, pco_error *err) PCO_NODISCARD;

void pco_writer_release(pco_writer *out);

#endif
