/* Markers in the cache directory that say what a process is doing. A marker is locked (flock) by the process that set
 * it; the lock ends with the process however that ends, so a marker without one is of a process that is gone: no
 * process number has to be believed, and processes that run at the same time do not disturb each other. */
#ifndef PCO_RUNTIME_MARKER_H
#define PCO_RUNTIME_MARKER_H

#include <stddef.h>

typedef struct pco_marker {
    int set, fd;
    char path[700];
} pco_marker;

/* Makes the file NAME-XXXXXX in `dir`, which holds `text`. `name` as for the cache. Not being able to (no cache
 * directory, no room) leaves the marker unset. */
void pco_marker_set(pco_marker *marker, const char *dir, const char *name, const char *text);
void pco_marker_clear(pco_marker *marker);

/* Removes the markers of that name whose processes are gone, and hands over the text of each that held one, cut to
 * PCO_MARKER_TEXT. */
enum { PCO_MARKER_TEXT = 160 };
typedef void (*pco_marker_fn)(void *user, const char *text);
void pco_marker_collect(const char *dir, const char *name, pco_marker_fn found, void *user);

#endif
