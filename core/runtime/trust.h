/* Whether files that hold code come from whom it may come from: plugins, and compiled kernels in the cache. */
#ifndef PCO_RUNTIME_TRUST_H
#define PCO_RUNTIME_TRUST_H

#include "portico/plugin.h"

/* Refuses a folder or a file that somebody else could change: one that is writable by a group or by everybody, or that
 * belongs to neither root, nor the user, nor whom Portico's own file belongs to. `path` is what it says it is, links
 * resolved. `advice`: what to do about another owner. Errors: UNSUPPORTED, with what to do; IO. */
pco_status pco_trust(const char *path, const char *advice, pco_error *err) PCO_NODISCARD;

#endif
