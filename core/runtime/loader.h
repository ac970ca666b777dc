/* Opening one plugin file: the probe in a helper process, dlopen, and the checks of its table. */
#ifndef PCO_RUNTIME_LOADER_H
#define PCO_RUNTIME_LOADER_H

#include "runtime/registry.h"

/* dlopen, query, check size and ABI. On success *plugin is its table and *handle stays open. Errors: ABI, IO
 * (not a shared object), with the reason in words. */
pco_status pco_loader_open(const char *path, void **handle, const pco_plugin **plugin, pco_error *err) PCO_NODISCARD;

/* Runs the probe program on a plugin file and waits for its verdict. A crash, a hang (30 s) or an error gives
 * INTERNAL or what the plugin said, with the reason in words. */
pco_status pco_loader_probe(const char *path, pco_error *err) PCO_NODISCARD;

#endif
