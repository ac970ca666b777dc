/* What a plugin hands over is looked at before it is used, so that its mistakes are lines and not crashes: its table
 * when it is loaded, the description of a device, a device
 * that was opened, and each proposal. */
#ifndef PCO_RUNTIME_PLUGIN_CHECK_H
#define PCO_RUNTIME_PLUGIN_CHECK_H

#include "portico/plugin.h"

/* The tables of a plugin as the host calls them: of this host's size, whatever size the plugin's have. */
typedef struct pco_plugin_tables {
    pco_plugin plugin; /* points to the others */
    pco_device_api device;
    pco_buffer_api buffer;
    pco_program_api program;
    pco_queue_api queue;
    pco_ops_query_fn operations; /* that it declares; NULL: none */
} pco_plugin_tables;

/* Checks ABI number, name, and every function that plugin.h does not say may be NULL, and copies the tables. `from` may
 * be NULL. Errors: ABI. */
pco_status pco_plugin_adopt(const pco_plugin *from, pco_plugin_tables *to, pco_error *err) PCO_NODISCARD;

/* Strings that end, limits that can be kept, a contract of known types. Errors: INVALID. */
pco_status pco_device_info_check(const pco_device_info *info, pco_error *err) PCO_NODISCARD;

/* Opens device `index` of a backend; *device is NULL after an error. A plugin that says that all is well and gives no
 * device is an error too, INTERNAL. */
pco_status pco_plugin_open_device(const pco_plugin *plugin, pco_backend *backend, uint32_t index, pco_device **device,
                                  pco_error *err) PCO_NODISCARD;

/* What propose answered. Errors: INTERNAL. */
pco_status pco_proposal_check(const pco_plugin *plugin, const pco_part *part, const pco_proposal *proposal,
                              pco_error *err) PCO_NODISCARD;

#endif
