/* Choosing devices: PORTICO_BACKEND and --device. */
#include "runtime/registry.h"

#include "base/error.h"
#include "base/suggest.h"

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

/* " (did you mean 'cpu:native'?)", or "": of plugins and what their devices are called, the name nearest to a term that
 * names nothing. Numbers of devices are not guessed. */
static const char *select_hint(const pco_registry *registry, const char *term, char *hint)
{
    const pco_device_entry *devices;
    const pco_plugin_entry *plugins;
    const uint32_t count = pco_registry_devices(registry, &devices);
    const size_t backend = strcspn(term, ":");
    const int numbered = strspn(term + backend, ":0123456789") == strlen(term + backend);
    pco_suggestion suggestion = {0};
    char word[PCO_SUGGEST_NAME + 1], name[2 * PCO_SUGGEST_NAME];
    snprintf(word, sizeof word, "%.*s", (int)(numbered ? backend : strlen(term)), term);
    pco_registry_plugins(registry, &plugins);
    for (uint32_t i = 0; i < count; i++) {
        const char *plugin = plugins[devices[i].plugin].name;
        if (strcasecmp(word, plugin) != 0) pco_suggest(&suggestion, word, plugin);
        for (const char *at = devices[i].info.aliases; *at; at += strspn(at, " ")) {
            const size_t length = strcspn(at, " ");
            snprintf(name, sizeof name, "%s:%.*s", plugin, (int)length, at);
            if (!numbered) pco_suggest(&suggestion, word, name);
            at += length;
        }
    }
    return pco_suggest_hint(&suggestion, hint);
}

/* Devices that were found, as sets of one. */
typedef struct select_result {
    pco_device_set *sets;
    uint32_t capacity, count;
} select_result;

static void select_add_set(select_result *result, const pco_device_set *set)
{
    for (uint32_t i = 0; i < result->count && i < result->capacity; i++)
        if (memcmp(&result->sets[i], set, sizeof *set) == 0) return;
    if (result->count < result->capacity) result->sets[result->count] = *set;
    result->count++;
}

static void select_add(select_result *result, uint32_t index)
{
    const pco_device_set set = {.count = 1, .devices = {index}};
    select_add_set(result, &set);
}

/* The devices that "BACKEND[:WHICH]" names, the better kinds first, each given to `visit` until that returns 0. Returns
 * how many were given. */
static uint32_t select_term(const pco_registry *registry, const char *term, int (*visit)(void *user, uint32_t index),
                            void *user)
{
    const pco_device_entry *devices;
    const pco_plugin_entry *plugins;
    uint32_t n = pco_registry_devices(registry, &devices), found = 0;
    const size_t backend = strcspn(term, ":");
    const char *which = term[backend] ? term + backend + 1 : "";
    pco_registry_plugins(registry, &plugins);
    for (int rank = 0; rank <= 5; rank++)
        for (uint32_t i = 0; i < n; i++) {
            const char *name = plugins[devices[i].plugin].name;
            if (select_rank(&devices[i].info) != rank || strlen(name) != backend ||
                strncasecmp(name, term, backend) != 0 || !select_which(&devices[i], which))
                continue;
            found++;
            if (!visit(user, i)) return found;
        }
    return found;
}

static int select_visit_all(void *user, uint32_t index)
{
    select_add(user, index);
    return 1;
}

/* The first that the set does not have yet. */
static int select_visit_one(void *user, uint32_t index)
{
    pco_device_set *set = user;
    for (uint32_t i = 0; i < set->count; i++)
        if (set->devices[i] == index) return 1;
    set->devices[set->count++] = index;
    return 0;
}

/* One term between commas. Returns 1 if all of its parts match; `missed` is then left alone, and otherwise the first
 * part that does not. */
static int select_parts(const pco_registry *registry, char *term, select_result *result, char *missed, size_t size)
{
    pco_device_set set = {0};
    char hint[PCO_SUGGEST_HINT];
    if (!strchr(term, '+')) {
        if (select_term(registry, term, select_visit_all, result)) return 1;
        snprintf(missed, size, "%s", term);
        return 0;
    }
    for (char *at = term, *next; at; at = next) { /* `missed`: what is wrong with the part, and what to do */
        next = strchr(at, '+');
        if (next) *next++ = 0;
        const uint32_t before = set.count;
        uint32_t found = 0;
        if (set.count < PCO_SET_DEVICES) found = select_term(registry, at, select_visit_one, &set);
        if (set.count > before) continue;
        if (set.count == PCO_SET_DEVICES)
            snprintf(missed, size, "'%.150s' is one too many: at most %d devices are joined; leave it out", at,
                     PCO_SET_DEVICES);
        else if (found)
            snprintf(missed, size, "every device that '%.150s' names is joined already; name each once, or another",
                     at);
        else
            snprintf(missed, size, "there is no device for '%.150s'%s", at, select_hint(registry, at, hint));
        return 0;
    }
    select_add_set(result, &set);
    return 1;
}

/* The reference is no device to work on. A plugin that somebody tries out is not to take over from the CPU because its
 * folder is on the path: only a GPU is expected to be better. */
static int select_only_named(const pco_plugin_entry *plugin, const pco_device_info *info)
{
    if (strstr(info->aliases, "reference")) return 1;
    return plugin->on_path && (info->type == PCO_DEVICE_CPU || info->type == PCO_DEVICE_OTHER);
}

/* Nothing was asked for: hardware, Vulkan before OpenCL within a kind, then the CPU. */
static void select_automatic(const pco_registry *registry, select_result *result)
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
                    !select_only_named(&plugins[devices[i].plugin], &devices[i].info))
                    select_add(result, i);
}

static pco_status select_all(const pco_registry *registry, select_result *result, pco_error *err)
{
    const pco_device_entry *devices;
    uint32_t n = pco_registry_devices(registry, &devices);
    for (uint32_t i = 0; i < n; i++) select_add(result, i);
    return result->count ? PCO_OK : pco_fail(err, PCO_ERROR_NOT_FOUND, "there is no device; see `portico devices`");
}

pco_status pco_registry_select_sets(const pco_registry *registry, const char *selection, pco_device_set *sets,
                                    uint32_t capacity, uint32_t *count, pco_error *err)
{
    select_result result = {.sets = sets, .capacity = capacity};
    char there[900], term[256], missed[320] = "", first[320] = "", hint[PCO_SUGGEST_HINT];
    int failed = 0;
    pco_status status = PCO_OK;
    *count = 0;
    if (!selection || !*selection) {
        select_automatic(registry, &result);
        if (!result.count)
            status = pco_fail(err, PCO_ERROR_NOT_FOUND,
                              "no device can be used without being named; `portico devices` lists devices and plugins");
    } else if (strcmp(selection, "all") == 0) {
        status = select_all(registry, &result, err);
    } else {
        for (const char *at = selection; *at;) {
            size_t length = strcspn(at, ",");
            snprintf(term, sizeof term, "%.*s", (int)length, at);
            at += length + (at[length] == ',');
            if (select_parts(registry, term, &result, missed, sizeof missed) || failed++) continue;
            memcpy(first, missed, sizeof first);
        }
        if (!result.count) {
            select_list(registry, there, sizeof there);
            const char *what = failed ? first : selection;
            status = strchr(selection, '+')
                         ? pco_fail(err, PCO_ERROR_NOT_FOUND, "%s: %s; there are: %s", selection, what, there)
                         : pco_fail(err, PCO_ERROR_NOT_FOUND, "no device matches '%s'%s; there are: %s", what,
                                    select_hint(registry, what, hint), there);
        }
    }
    *count = result.count;
    return status;
}

pco_status pco_registry_select(const pco_registry *registry, const char *selection, uint32_t *indices,
                               uint32_t capacity, uint32_t *count, pco_error *err)
{
    *count = 0;
    if (selection && strchr(selection, '+'))
        return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                        "'%s' names devices to be used together (+), and here each is on "
                        "its own: separate them with commas",
                        selection);
    pco_device_set *sets = calloc(capacity ? capacity : 1, sizeof *sets);
    if (!sets) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a list of devices");
    pco_status status = pco_registry_select_sets(registry, selection, sets, capacity, count, err);
    for (uint32_t i = 0; !status && i < *count && i < capacity; i++) indices[i] = sets[i].devices[0];
    free(sets);
    return status;
}

static void select_append(char *text, size_t size, const char *separator, const char *part)
{
    const size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", used ? separator : "", part);
}

void pco_registry_describe_set(const pco_registry *registry, const pco_device_set *set, pco_device_entry *entry)
{
    const pco_device_entry *devices;
    pco_registry_devices(registry, &devices);
    *entry = devices[set->devices[0]];
    for (uint32_t i = 1; i < set->count; i++) {
        const pco_device_entry *other = &devices[set->devices[i]];
        pco_device_info *info = &entry->info;
        select_append(entry->id, sizeof entry->id, "+", other->id);
        select_append(info->name, sizeof info->name, " + ", other->info.name);
        /* Unknown is 0, and then the sum is unknown too. */
        info->memory = info->memory && other->info.memory ? info->memory + other->info.memory : 0;
        info->aliases[0] = 0;
    }
}
