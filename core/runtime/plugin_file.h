/* What is in a plugin's file, before its code runs. */
#ifndef PCO_RUNTIME_PLUGIN_FILE_H
#define PCO_RUNTIME_PLUGIN_FILE_H

#include "portico/plugin.h"

/* Hash of the path and of all bytes, so that what is known of a plugin ends with any change of it. Errors: IO. */
pco_status pco_plugin_file_identity(const char *path, uint64_t *identity, pco_error *err) PCO_NODISCARD;

#endif
