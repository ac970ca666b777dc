#include "api/api.h"

#include "base/env.h"
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef PCO_VERSION
#define PCO_VERSION "0.1.0"
#endif

const char *pco_version(void) { return PCO_VERSION; }

const char *pco_status_text(pco_status status)
{
    switch (status) {
    case PCO_OK: return "ok";
    case PCO_ERROR_INVALID: return "invalid argument";
    case PCO_ERROR_UNSUPPORTED: return "not supported";
    case PCO_ERROR_OUT_OF_HOST_MEMORY: return "out of host memory";
    case PCO_ERROR_OUT_OF_DEVICE_MEMORY: return "out of device memory";
    case PCO_ERROR_DEVICE_LOST: return "device lost";
    case PCO_ERROR_IO: return "input or output failed";
    case PCO_ERROR_FORMAT: return "malformed file";
    case PCO_ERROR_NOT_FOUND: return "not found";
    case PCO_ERROR_TIMEOUT: return "timed out";
    case PCO_ERROR_CANCELLED: return "cancelled";
    case PCO_ERROR_ABI: return "plugin of another ABI";
    case PCO_ERROR_INTERNAL: return "internal error";
    }
    return "unknown status";
}

void pco_free(void *memory) { free(memory); }

pco_status api_context_create(const pco_context_params *params, const char *asked, pco_context **out, pco_error *err)
{
    pco_context_params known = {.size = sizeof known};
    pco_config config;
    *out = NULL;
    pco_status status = params ? pco_copy_sized(&known, sizeof known, params, params->size, err) : PCO_OK;
    if (!status) status = pco_config_read(&config, err);
    if (status) return status;
    params = &known;
    if (params->log_level > PCO_LOG_DEBUG + 1)
        return pco_fail(err, PCO_ERROR_INVALID, "log_level is %u, and must be 0 or 1 + a pco_log_level",
                        params->log_level);
    if (params->log_level) config.log = (pco_log_level)(params->log_level - 1);
    if (params->log) {
        config.log_fn = params->log;
        config.log_user = params->log_user;
    }
    if (params->backend) {
        if (strlen(params->backend) >= sizeof config.backend)
            return pco_fail(err, PCO_ERROR_INVALID, "backend is longer than %zu bytes", sizeof config.backend - 1);
        snprintf(config.backend, sizeof config.backend, "%s", params->backend);
    }
    pco_context *context = calloc(1, sizeof *context);
    if (!context) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a context");
    status = pco_registry_create_for(&config, asked, &context->registry, err);
    if (status) {
        free(context);
        return status;
    }
    api_plugin_operations(context);
    *out = context;
    return PCO_OK;
}

pco_status pco_context_create(const pco_context_params *params, pco_context **context, pco_error *err)
{
    PCO_NEEDS(context);
    pco_device_set set;
    uint32_t count;
    pco_status status = api_context_create(params, NULL, context, err);
    if (status) return status;
    const char *backend = pco_registry_config((*context)->registry)->backend;
    if (*backend) status = pco_registry_select_sets((*context)->registry, backend, &set, 1, &count, err);
    if (status) {
        pco_context_destroy(*context);
        *context = NULL;
    }
    return status;
}

static void context_free(void *user)
{
    pco_context *context = user;
    api_drop_operations(context);
    pco_registry_destroy(context->registry);
    free(context);
}

void pco_context_destroy(pco_context *context)
{
    if (!context || pco_registry_check(context->registry, NULL))
        return; /* a child would wait for threads that are not there */
    pco_registry_end(context->registry, context_free, context);
}

uint32_t pco_context_devices(const pco_context *context, pco_device_description *devices, uint32_t capacity)
{
    if (!context || pco_registry_check(context->registry, NULL)) return 0;
    const size_t size = devices && capacity ? devices->size : 0;
    if (!devices || pco_check_sized(sizeof *devices, size, NULL)) capacity = 0;
    const pco_device_entry *entries;
    uint32_t count = pco_registry_devices(context->registry, &entries), matching = 0;
    pco_device_set first = {0};
    const char *backend = pco_registry_config(context->registry)->backend;
    if (pco_registry_select_sets(context->registry, backend, &first, 1, &matching, NULL)) first.count = 0;
    for (uint32_t i = 0; i < count && i < capacity; i++) {
        pco_device_description device = {.size = size, .info = entries[i].info};
        for (uint32_t k = 0; k < first.count; k++) device.preferred |= i == first.devices[k];
        memcpy(device.id, entries[i].id, sizeof device.id);
        memcpy((char *)devices + i * size, &device, size);
    }
    return count;
}

uint32_t pco_context_plugins(const pco_context *context, pco_plugin_description *plugins, uint32_t capacity)
{
    if (!context || pco_registry_check(context->registry, NULL)) return 0;
    const size_t size = plugins && capacity ? plugins->size : 0;
    if (!plugins || pco_check_sized(sizeof *plugins, size, NULL)) capacity = 0;
    const pco_plugin_entry *entries;
    uint32_t count = pco_registry_plugins(context->registry, &entries);
    for (uint32_t i = 0; i < count && i < capacity; i++) {
        pco_plugin_description plugin = {.size = size, .devices = entries[i].n_devices};
        memcpy(plugin.name, entries[i].name, sizeof plugin.name);
        memcpy(plugin.path, entries[i].path, sizeof plugin.path);
        memcpy(plugin.reason, entries[i].reason, sizeof plugin.reason);
        memcpy((char *)plugins + i * size, &plugin, size);
    }
    return count;
}
