/* Opening one plugin file: the probe in a helper process, dlopen, and the checks of its table. */
#ifndef PCO_RUNTIME_LOADER_H
#define PCO_RUNTIME_LOADER_H

#include "runtime/plugin_check.h"

/* dlopen, query, pco_plugin_adopt. On success *handle stays open. Errors: ABI, IO (not a shared object), with the
 * reason in words. */
pco_status pco_loader_open(const char *path, void **handle, pco_plugin_tables *tables, pco_error *err) PCO_NODISCARD;

/* dlopen of a library that declares operations. On success *handle stays open as long as they are used. Errors: IO (not
 * a shared object); INVALID: it declares none. */
pco_status pco_loader_operations(const char *path, void **handle, pco_ops_query_fn *query,
                                 pco_error *err) PCO_NODISCARD;

/* Runs the probe program on a plugin file and waits for its verdict, for so many seconds. A crash, a hang (TIMEOUT) or
 * an error gives INTERNAL or what the plugin said, with the reason in words. *broke: 1 for a crash or a hang of its
 * own, which the next probe would show again at the same cost; a process that was ended from outside says nothing of
 * the plugin. */
pco_status pco_loader_probe(const char *path, uint32_t seconds, int *broke, pco_error *err) PCO_NODISCARD;

#endif
