/* The cache directory: blobs by name, each with a checksum, written whole or not at all. */
#ifndef PCO_RUNTIME_CACHE_H
#define PCO_RUNTIME_CACHE_H

#include <stddef.h>

#include "portico/plugin.h"

/* `name`: [a-z0-9._-], at most 100 characters. Load gives a malloc'ed blob. Errors: NOT_FOUND when there is none
 * or it is damaged (a damaged one is removed); IO. `dir` "" means no cache. */
pco_status pco_cache_load(const char *dir, const char *name, void **data, size_t *bytes);
pco_status pco_cache_store(const char *dir, const char *name, const void *data, size_t bytes);

/* mkdir -p, private to the user; who writes into it will see whether it worked. */
void pco_cache_make(const char *dir);

#endif
