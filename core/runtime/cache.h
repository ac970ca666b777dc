/* The cache directory: blobs by name, each with a checksum, written whole or not at all. */
#ifndef PCO_RUNTIME_CACHE_H
#define PCO_RUNTIME_CACHE_H

#include <stddef.h>

#include "base/env.h"

/* `name`: [a-z0-9._-], at most 100 characters. Load gives a malloc'ed blob. Errors: NOT_FOUND when there is none
 * or it is damaged (a damaged one is removed); IO. `dir` "" means no cache. */
pco_status pco_cache_load(const char *dir, const char *name, void **data, size_t *bytes);
pco_status pco_cache_store(const char *dir, const char *name, const void *data, size_t bytes, pco_error *err);

/* Stores into the configuration's folder. That it cannot be used is a warning, once for each registry: nothing fails
 * without a cache, and much takes longer. */
pco_status pco_cache_keep(const pco_config *config, const char *name, const void *data, size_t bytes);

/* What lies in the cache is run: compiled kernels. A folder that somebody else could write is used no more, after a
 * warning; one that is not there yet will be the user's own. */
void pco_cache_distrust(pco_config *config);

/* mkdir -p, private to the user. Errors: IO. */
pco_status pco_cache_make(const char *dir, pco_error *err);

#endif
