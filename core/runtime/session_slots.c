/* The devices of a session, each in a slot. */
#include "runtime/session_internal.h"

#include "base/error.h"
#include "runtime/quarantine.h"

#include <string.h>

/* May this device be opened? DEVICE_LOST when a process ended in its self-test before, by the device's driver most
 * likely; the message says in which, and how to try again. */
static pco_status session_admit(const pco_registry *registry, const pco_plugin_entry *plugin,
                                const pco_device_entry *device, pco_error *err)
{
    const pco_config *config = pco_registry_config(registry);
    const char *what;
    pco_status status = PCO_OK;
    if (config->self_test != PCO_SELF_TEST_ON || strcmp(plugin->name, "cpu") == 0) return PCO_OK;
    pco_quarantine *verdicts = pco_quarantine_open(config, plugin, &device->info, 0);
    if (!verdicts) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the self-test");
    if (pco_quarantine_find(verdicts, PCO_QUARANTINE_DEVICE, &what) == PCO_VERDICT_BAD)
        status = pco_fail(err, PCO_ERROR_DEVICE_LOST,
                          "device %s is not used: processes ended in its self-test of %s, killed by the driver or from "
                          "outside; PORTICO_SELF_TEST=always tests it again, off uses it untested",
                          device->id, what);
    pco_quarantine_close(verdicts);
    return status;
}

pco_status session_open_slot(pco_session *session, uint32_t slot, uint32_t device, pco_error *err)
{
    const pco_plugin_entry *plugins;
    const pco_device_entry *devices;
    pco_registry_plugins(session->registry, &plugins);
    pco_registry_devices(session->registry, &devices);
    const pco_plugin_entry *plugin = &plugins[devices[device].plugin];
    pco_device *opened = NULL;
    pco_status status = session_admit(session->registry, plugin, &devices[device], err);
    if (status) return status;
    status = pco_plugin_open_device(plugin->plugin, plugin->backend, devices[device].index, &opened, err);
    if (status) return pco_fail_prefix(err, status, "device %s", devices[device].id);
    session->slots[slot] = (session_slot){.plugin = plugin->plugin, .device = opened, .entry = &devices[device]};
    return PCO_OK;
}

pco_status session_reopen(pco_session *session, uint32_t slot, pco_error *err)
{
    const pco_device_entry *devices, *entry = session->slots[slot].entry;
    pco_registry_devices(session->registry, &devices);
    session->slots[slot].plugin->device->close(session->slots[slot].device);
    session->slots[slot] = (session_slot){.entry = entry}; /* no plugin: no executable can be made any more */
    return session_open_slot(session, slot, (uint32_t)(entry - devices), err);
}

pco_status session_noted(pco_session *session, uint32_t slot, pco_status status)
{
    if (status == PCO_ERROR_DEVICE_LOST) session->slots[slot].lost = 1;
    return status;
}

int session_supports(pco_session *session, uint32_t slot, const pco_graph *graph, uint32_t node, pco_error *why)
{
    const session_slot *s = &session->slots[slot];
    const pco_part view = {.size = sizeof view,
                           .n_tensors = graph->n_tensors,
                           .n_nodes = graph->n_nodes,
                           .tensors = graph->tensors,
                           .nodes = graph->nodes};
    return s->plugin->program->supports(s->device, &view, node, why) == PCO_OK;
}

void session_close_slots(pco_session *session)
{
    for (uint32_t i = 0; i < SESSION_SLOTS; i++) {
        if (session->slots[i].plugin) session->slots[i].plugin->device->close(session->slots[i].device);
        session->slots[i] = (session_slot){0};
    }
}
