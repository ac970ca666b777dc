/* Stop strings: text up to the first of them, as it comes in pieces of bytes. */
#ifndef PCO_API_STOP_H
#define PCO_API_STOP_H

#include "base/writer.h"

typedef struct api_stop {
    const char *const *strings; /* [count], none empty */
    size_t count;
    pco_writer held; /* not given out yet */
} api_stop;

/* Adds a piece. Returns how many bytes of stop->held can be given out; api_stop_given follows. *found: 1 when a stop
 * string begins behind them. Errors are kept in held.status. */
size_t api_stop_add(api_stop *stop, const char *piece, size_t bytes, int *found);

/* The first `bytes` of what was held are no more. */
void api_stop_given(api_stop *stop, size_t bytes);

#endif
