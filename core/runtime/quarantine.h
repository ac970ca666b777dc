/* Verdicts on kernel variants of one device: which have agreed with the reference, and which are kept out of
 * use. Kept in the cache directory, in one blob per device identity: the device's name, driver, platform and
 * uuid, and the plugin's version and file, which holds its kernels. What changes any of them is tested anew.
 * A table is used by one thread at a time. */
#ifndef PCO_RUNTIME_QUARANTINE_H
#define PCO_RUNTIME_QUARANTINE_H

#include "runtime/registry.h"

typedef enum pco_verdict {
    PCO_VERDICT_UNKNOWN,
    PCO_VERDICT_GOOD,
    PCO_VERDICT_BAD,
    PCO_VERDICT_ONCE, /* one process has ended in this test, which the next one makes again; the table's own */
} pco_verdict;

enum { PCO_QUARANTINE_DEVICE = 0 }; /* the key of the verdict on the device as a whole: only ever BAD */
enum { PCO_QUARANTINE_SEEN = 160 }; /* bytes of what was seen, with the final NUL */

typedef struct pco_quarantine pco_quarantine;

/* The table of a device, with what the cache knows; with `fresh`, without. A process may end in a test
 * (pco_quarantine_begin) by the driver's doing or anybody's (the OOM killer, a closed terminal, a job that is
 * cancelled), so the first is a warning, and the test is made again. Only when another process ends in the same
 * test, and none got through it in between, is the device BAD, and that is kept. Processes whose end is found at
 * the same time may have been ended together, and count once. NULL when the host has no memory. */
pco_quarantine *pco_quarantine_open(const pco_config *config, const pco_plugin_entry *plugin,
                                    const pco_device_info *info, int fresh);
void pco_quarantine_close(pco_quarantine *quarantine);

/* `key`: a hash of the test. With BAD, *seen is what was wrong (lives as long as the table is not added to).
 */
pco_verdict pco_quarantine_find(const pco_quarantine *quarantine, uint64_t key, const char **seen);
pco_status pco_quarantine_add(pco_quarantine *quarantine, uint64_t key, pco_verdict verdict, const char *seen,
                              pco_error *err) PCO_NODISCARD;

/* Around a test: should the process end in it, the next one knows by `what`. */
void pco_quarantine_begin(pco_quarantine *quarantine, const char *what);
void pco_quarantine_end(pco_quarantine *quarantine);

/* Writes the table to the cache if it has changed. Not being able to is worth a line of the log only. */
void pco_quarantine_save(pco_quarantine *quarantine);

#endif
