/* What is looked at of a plugin's file before its code runs: whose it is, and what is in it. */
#ifndef PCO_RUNTIME_PLUGIN_FILE_H
#define PCO_RUNTIME_PLUGIN_FILE_H

#include "portico/plugin.h"

/* Refuses a folder or a file that somebody else could change: one that is writable by a group or by everybody, or that
 * belongs to neither root, nor the user, nor whom Portico's own file belongs to. `path` is what it says it is, links
 * resolved. Errors: UNSUPPORTED, with what to do; IO. */
pco_status pco_plugin_file_trust(const char *path, pco_error *err) PCO_NODISCARD;

/* Hash of the path and of all bytes, so that what is known of a plugin ends with any change of it. Errors: IO. */
pco_status pco_plugin_file_identity(const char *path, uint64_t *identity, pco_error *err) PCO_NODISCARD;

#endif
