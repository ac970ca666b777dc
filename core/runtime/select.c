/* Choosing devices: PORTICO_BACKEND and --device. */
#include "runtime/registry.h"

#include "base/error.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Preference without a word from the user; software devices are used only when they are named. */
static int select_rank(const pco_device_info *info)
{
    switch (info->type) {
    case PCO_DEVICE_DISCRETE: return 0;
    case PCO_DEVICE_INTEGRATED: return 1;
    case PCO_DEVICE_VIRTUAL: return 2;
    case PCO_DEVICE_OTHER: return 3;
    case PCO_DEVICE_CPU: return 4;
    default: return 5;
    }
}

static int select_contains(const char *text, const char *part)
{
    size_t length = strlen(part);
    for (; *text; text++)
        if (strncasecmp(text, part, length) == 0) return 1;
    return 0;
}

static int select_which(const pco_device_entry *device, const char *which)
{
    if (!*which) return 1;
    if (strspn(which, "0123456789") == strlen(which)) return device->index == (uint32_t)strtoul(which, NULL, 10);
    return select_contains(device->info.name, which) || select_contains(device->info.driver, which) ||
           select_contains(device->info.platform, which) || select_contains(device->info.aliases, which);
}

static void select_list(const pco_registry *registry, char *text, size_t size)
{
    const pco_device_entry *devices;
    uint32_t count = pco_registry_devices(registry, &devices);
    size_t used = 0;
    snprintf(text, size, "none");
    for (uint32_t i = 0; i < count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s (%.60s)", i ? ", " : "", devices[i].id,
                                 devices[i].info.name);
}

/* Appends an index once. */
static void select_add(uint32_t *indices, uint32_t capacity, uint32_t *count, uint32_t index)
{
    for (uint32_t i = 0; i < *count && i < capacity; i++)
        if (indices[i] == index) return;
    if (*count < capacity) indices[*count] = index;
    ++*count;
}

/* Devices that one term names, the better kinds first. */
static uint32_t select_term(const pco_registry *registry, const char *backend, const char *which, uint32_t *indices,
                            uint32_t capacity, uint32_t *count)
{
    const pco_device_entry *devices;
    const pco_plugin_entry *plugins;
    uint32_t n = pco_registry_devices(registry, &devices), found = 0;
    pco_registry_plugins(registry, &plugins);
    for (int rank = 0; rank <= 5; rank++)
        for (uint32_t i = 0; i < n; i++) {
            const char *name = plugins[devices[i].plugin].name;
            if (select_rank(&devices[i].info) != rank || strcasecmp(name, backend) != 0 ||
                !select_which(&devices[i], which))
                continue;
            select_add(indices, capacity, count, i);
            found++;
        }
    return found;
}

/* Nothing was asked for: hardware, Vulkan before OpenCL within a kind, then the CPU. */
static void select_automatic(const pco_registry *registry, uint32_t *indices, uint32_t capacity, uint32_t *count)
{
    const pco_device_entry *devices;
    const pco_plugin_entry *plugins;
    uint32_t n = pco_registry_devices(registry, &devices);
    pco_registry_plugins(registry, &plugins);
    for (int rank = 0; rank < 5; rank++)
        for (int vulkan = 1; vulkan >= 0; vulkan--)
            for (uint32_t i = 0; i < n; i++)
                if (select_rank(&devices[i].info) == rank &&
                    (strcmp(plugins[devices[i].plugin].name, "vulkan") == 0) == vulkan &&
                    strstr(devices[i].info.aliases, "reference") == NULL)
                    select_add(indices, capacity, count, i);
}

pco_status pco_registry_select(const pco_registry *registry, const char *selection, uint32_t *indices,
                               uint32_t capacity, uint32_t *count, pco_error *err)
{
    const pco_device_entry *devices;
    uint32_t n = pco_registry_devices(registry, &devices);
    char there[900];
    *count = 0;
    if (!selection || !*selection) {
        select_automatic(registry, indices, capacity, count);
        if (*count) return PCO_OK;
        return pco_fail(err, PCO_ERROR_NOT_FOUND, "no device can be used; `portico devices` says why for each plugin");
    }
    if (strcmp(selection, "all") == 0) {
        const pco_plugin_entry *plugins;
        pco_registry_plugins(registry, &plugins);
        for (uint32_t i = 0; i < n; i++)
            if (strcmp(plugins[devices[i].plugin].name, "null") != 0) select_add(indices, capacity, count, i);
        return *count ? PCO_OK : pco_fail(err, PCO_ERROR_NOT_FOUND, "there is no device; see `portico devices`");
    }
    if (strchr(selection, '+'))
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "'%s': using several devices together (+) is not available yet",
                        selection);
    const char *missing = NULL;
    char term[256] = "", missed[256] = "";
    for (const char *at = selection; *at;) {
        size_t length = strcspn(at, ",");
        snprintf(term, sizeof term, "%.*s", (int)length, at);
        at += length + (at[length] == ',');
        char *which = strchr(term, ':');
        if (which) *which++ = 0;
        if (select_term(registry, term, which ? which : "", indices, capacity, count) == 0 && !missing) {
            snprintf(missed, sizeof missed, "%s%s%s", term, which ? ":" : "", which ? which : "");
            missing = missed;
        }
    }
    if (*count) return PCO_OK;
    select_list(registry, there, sizeof there);
    return pco_fail(err, PCO_ERROR_NOT_FOUND, "no device matches '%s'; there are: %s", missing ? missing : selection, there);
}
