/* A lock on what one process at a time may do, as a file that the holder keeps locked (flock): the lock ends with the
 * process however that ends, so a file that is left over locks nothing. */
#ifndef PCO_BASE_LOCK_H
#define PCO_BASE_LOCK_H

#include "portico/plugin.h"

typedef struct pco_lock {
    int held, fd;
    char *path;
} pco_lock;

/* Makes the file `path`, which says who holds it. Errors: INVALID when another process does, with its number and host;
 * UNSUPPORTED where the file system has no locks (some network mounts), with the system's reason: whether to go on
 * without is the caller's choice; IO when the file cannot be made; OUT_OF_HOST_MEMORY. */
pco_status pco_lock_take(pco_lock *lock, const char *path, pco_error *err) PCO_NODISCARD;

/* Removes the file and gives the lock back. One that is not held, or all zero, is left as it is. */
void pco_lock_release(pco_lock *lock);

#endif
