/* What a plugin hands over is looked at before it is used, so that its mistakes are lines and not crashes: its table
 * when it is loaded, the description of a device, and each proposal. */
#ifndef PCO_RUNTIME_PLUGIN_CHECK_H
#define PCO_RUNTIME_PLUGIN_CHECK_H

#include "portico/plugin.h"

/* ABI number, sizes, name, and every function that plugin.h does not say may be NULL. `plugin` may be NULL. Errors:
 * ABI. */
pco_status pco_plugin_check(const pco_plugin *plugin, pco_error *err) PCO_NODISCARD;

/* Strings that end, limits that can be kept, a contract of known types. Errors: INVALID. */
pco_status pco_device_info_check(const pco_device_info *info, pco_error *err) PCO_NODISCARD;

/* What propose answered. Errors: INTERNAL. */
pco_status pco_proposal_check(const pco_plugin *plugin, const pco_part *part, const pco_proposal *proposal,
                              pco_error *err) PCO_NODISCARD;

#endif
