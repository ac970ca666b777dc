#include "runtime/registry.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/paths.h"
#include "base/printable.h"
#include "runtime/cache.h"
#include "runtime/host.h"
#include "runtime/loader.h"
#include "runtime/plugin_file.h"
#include "runtime/trust.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

struct pco_registry {
    pco_host_state host;
    uint32_t n_plugins, plugin_capacity;
    pco_plugin_entry *plugins;
    uint32_t n_devices, device_capacity;
    pco_device_entry *devices;
    int left_out;             /* 1: plugins of our own folder that nobody has asked for are not loaded */
    pid_t process;            /* that made it */
    atomic_uintptr_t caller;  /* the thread that is in a call; 0: none is */
    uint32_t depth;           /* calls of that thread, one in the other */
    uint32_t sessions;        /* that are open */
    void (*last)(void *user); /* to be called without sessions, once the registry was ended; NULL before */
    void *user;
};

/* Folders whose change means that drivers were installed or removed. */
static const char *const DRIVER_FOLDERS[] = {
    "/etc/vulkan/icd.d",   "/usr/share/vulkan/icd.d",   "/usr/local/share/vulkan/icd.d",
    "/etc/OpenCL/vendors", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"};

static uint64_t registry_hash_file(uint64_t hash, const char *path)
{
    struct stat st;
    hash = pco_hash(hash, path, strlen(path));
    if (stat(path, &st) != 0) return hash;
    const int64_t facts[] = {(int64_t)st.st_size, (int64_t)st.st_mtim.tv_sec, (int64_t)st.st_mtim.tv_nsec,
                             (int64_t)st.st_ino};
    return pco_hash(hash, facts, sizeof facts);
}

/* A probe's verdict holds as long as the plugin's file and the drivers stay what they were. */
static void registry_probe_name(const pco_config *config, uint64_t identity, char *name, size_t size)
{
    uint64_t hash = pco_hash(identity, config->drivers, strlen(config->drivers));
    for (size_t i = 0; i < sizeof DRIVER_FOLDERS / sizeof DRIVER_FOLDERS[0]; i++)
        hash = registry_hash_file(hash, DRIVER_FOLDERS[i]);
    snprintf(name, size, "probe-%016llx", (unsigned long long)hash);
}

static const char PROBE_GOOD[] = "ok", PROBE_BROKE[] = "broke ";

/* What an earlier probe has said: 1 for good, -1 with the reason for a crash or a hang, 0 for nothing. */
static int registry_probed(const pco_config *config, const char *name, char *reason, size_t size)
{
    void *data;
    size_t bytes;
    const size_t mark = sizeof PROBE_BROKE - 1;
    if (pco_cache_load(config->cache_dir, name, &data, &bytes)) return 0;
    int verdict = bytes == sizeof PROBE_GOOD - 1 && memcmp(data, PROBE_GOOD, bytes) == 0;
    if (bytes > mark && memcmp(data, PROBE_BROKE, mark) == 0) {
        snprintf(reason, size, "%.*s", (int)(bytes - mark), (const char *)data + mark);
        verdict = -1;
    }
    free(data);
    return verdict;
}

/* A crash or a hang is kept as well: each start would pay for it again. */
static pco_status registry_probe(const pco_config *config, const pco_plugin_entry *entry, pco_error *err)
{
    char name[64], text[400];
    int broke;
    registry_probe_name(config, entry->identity, name, sizeof name);
    const int known = registry_probed(config, name, text, sizeof text);
    if (known > 0) return PCO_OK;
    if (known < 0 && config->self_test != PCO_SELF_TEST_ALWAYS)
        return pco_fail(err, PCO_ERROR_INTERNAL, "%s at an earlier start; PORTICO_SELF_TEST=always tries it again",
                        text);
    pco_status status = pco_loader_probe(entry->path, config->probe_seconds, &broke, err);
    if (status && !broke) return status;
    snprintf(text, sizeof text, "%s%.300s", status ? PROBE_BROKE : PROBE_GOOD, status ? err->message : "");
    const int kept = pco_cache_keep(config, name, text, strlen(text)) == PCO_OK;
    if (!kept) pco_log_line(config, PCO_LOG_DEBUG, "the probe's verdict on %s is not kept", entry->path);
    if (status)
        pco_log_line(config, PCO_LOG_WARNING, "plugin %s is not used: %s%s", entry->path, err->message,
                     kept ? "; it is not tried again before it or a driver has changed, or PORTICO_SELF_TEST is always"
                          : "");
    return status;
}

static pco_status registry_add_device(pco_registry *registry, const pco_plugin_entry *entry, uint32_t index,
                                      pco_error *err)
{
    if (registry->n_devices == registry->device_capacity) {
        uint32_t capacity = registry->device_capacity ? 2 * registry->device_capacity : 8;
        pco_device_entry *devices = realloc(registry->devices, capacity * sizeof *devices);
        if (!devices) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the list of devices");
        registry->devices = devices;
        registry->device_capacity = capacity;
    }
    pco_device_entry *device = &registry->devices[registry->n_devices];
    *device = (pco_device_entry){.plugin = registry->n_plugins, .index = index, .info.size = sizeof device->info};
    snprintf(device->id, sizeof device->id, "%s:%u", entry->name, index);
    pco_status status = entry->plugin->describe(entry->backend, index, &device->info, err);
    if (!status) status = pco_device_info_check(&device->info, err);
    if (status) return status;
    pco_device_info *info = &device->info; /* what a driver says of itself is shown, and not obeyed */
    char *const texts[] = {info->name,         info->driver, info->platform,       info->aliases,
                           info->not_in_build, info->api,    info->driver_version, info->driver_file};
    const size_t sizes[] = {sizeof info->name,           sizeof info->driver,       sizeof info->platform,
                            sizeof info->aliases,        sizeof info->not_in_build, sizeof info->api,
                            sizeof info->driver_version, sizeof info->driver_file};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) pco_printable_line(texts[i], sizes[i]);
    registry->n_devices++;
    return PCO_OK;
}

/* Loads one plugin file into `entry`; a failure is its reason. */
static pco_status registry_load(pco_registry *registry, pco_plugin_entry *entry, pco_error *err)
{
    void *handle;
    pco_status status = pco_plugin_file_identity(entry->path, &entry->identity, err);
    if (!status) status = registry_probe(&registry->host.config, entry, err);
    if (status) return status;
    entry->tables = malloc(sizeof *entry->tables);
    if (!entry->tables) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a plugin");
    status = pco_loader_open(entry->path, &handle, entry->tables, err);
    if (status) return status;
    const pco_plugin *plugin = &entry->tables->plugin;
    snprintf(entry->name, sizeof entry->name, "%s", plugin->name);
    for (uint32_t i = 0; i < registry->n_plugins; i++)
        if (registry->plugins[i].plugin && strcmp(registry->plugins[i].name, entry->name) == 0)
            return pco_fail(err, PCO_ERROR_UNSUPPORTED, "another plugin of this name was found first: %s",
                            registry->plugins[i].path);
    status = plugin->create(&registry->host.table, &entry->backend, err);
    if (status) return status;
    entry->plugin = plugin; /* from here on the object stays loaded: drivers do not survive dlclose */
    uint32_t count = plugin->device_count(entry->backend);
    for (uint32_t i = 0; i < count; i++) {
        pco_error why = {""};
        status = registry_add_device(registry, entry, i, &why);
        if (!status) {
            entry->n_devices++;
            continue;
        }
        if (count > 1)
            pco_log_line(&registry->host.config, PCO_LOG_WARNING, "%s: device %u: %s", entry->path, i, why.message);
        (void)pco_fail(err, status, "device %u: %s", i, why.message);
    }
    if (entry->n_devices || !status) return PCO_OK;
    plugin->destroy(entry->backend); /* not one of its devices can be used */
    return status;
}

static const char registry_copy_it[] = "take plugins only from whom you trust: copy it";

/* The file, and the folder that it really lies in. */
static pco_status registry_trust(const char *path, pco_error *err)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    pco_status status = PCO_OK;
    if (slash && slash != folder) {
        *slash = 0;
        status = pco_trust(folder, registry_copy_it, err);
    }
    return status ? status : pco_trust(path, registry_copy_it, err);
}

static pco_status registry_add_plugin(pco_registry *registry, const char *path, int on_path, pco_error *err)
{
    for (uint32_t i = 0; i < registry->n_plugins; i++)
        if (!on_path && strcmp(registry->plugins[i].path, path) == 0) {
            registry->plugins[i].on_path = 0; /* our own, which somebody put on the path, too */
            return PCO_OK;
        }
    if (registry->n_plugins == registry->plugin_capacity) {
        uint32_t capacity = registry->plugin_capacity ? 2 * registry->plugin_capacity : 8;
        pco_plugin_entry *plugins = realloc(registry->plugins, capacity * sizeof *plugins);
        if (!plugins) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the list of plugins");
        registry->plugins = plugins;
        registry->plugin_capacity = capacity;
    }
    pco_plugin_entry *entry = &registry->plugins[registry->n_plugins];
    *entry = (pco_plugin_entry){.on_path = on_path};
    snprintf(entry->path, sizeof entry->path, "%.511s", path);
    pco_error why = {""};
    const pco_status refused =
        strlen(path) < sizeof entry->path /* what is looked at is what is loaded */
            ? registry_trust(path, &why)
            : pco_fail(&why, PCO_ERROR_IO, "its path is longer than %zu bytes", sizeof entry->path - 1);
    const pco_status status = refused ? refused : registry_load(registry, entry, &why);
    if (status) {
        free(entry->tables);
        entry->tables = NULL;
        entry->plugin = NULL;
        entry->failed = status != PCO_ERROR_UNSUPPORTED;
        snprintf(entry->reason, sizeof entry->reason, "%.500s", why.message);
        pco_printable_line(entry->reason, sizeof entry->reason);
        pco_log_line(&registry->host.config, refused ? PCO_LOG_WARNING : PCO_LOG_INFO, "plugin %s is not used: %s",
                     path, why.message);
    }
    registry->n_plugins++;
    return PCO_OK;
}

static int registry_is_plugin(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return entry->d_name[0] != '.' && length > 3 && strcmp(entry->d_name + length - 3, ".so") == 0;
}

/* A file of our own folder is called as its plugin. */
static int registry_is_called(const char *file, const char *name, size_t length)
{
    return strlen(file) == length + 3 && strncasecmp(file, name, length) == 0;
}

/* Are all plugins that a selection names of our own folder, which has these files, or loaded already? If not, or if it
 * names none, every plugin may be meant. */
static int registry_knows(const pco_registry *registry, const char *asked, struct dirent **names, int count)
{
    if (!*asked || strcmp(asked, "all") == 0) return 0;
    for (const char *at = asked; *at; at += strcspn(at, ",+"), at += *at != 0) {
        const size_t length = strcspn(at, ",:+");
        int known = 0;
        for (int i = 0; i < count && !known; i++) known = registry_is_called(names[i]->d_name, at, length);
        for (uint32_t i = 0; i < registry->n_plugins && !known; i++)
            known =
                strlen(registry->plugins[i].name) == length && strncasecmp(registry->plugins[i].name, at, length) == 0;
        if (!known) return 0;
    }
    return 1;
}

/* The CPU always is: it runs what others cannot. */
static int registry_is_asked(const char *file, const char *asked)
{
    if (registry_is_called(file, "cpu", 3)) return 1;
    for (const char *at = asked; *at; at += strcspn(at, ",+"), at += *at != 0)
        if (registry_is_called(file, at, strcspn(at, ",:+"))) return 1;
    return 0;
}

/* All *.so files of a folder, in the order of their names; those of our own that a selection does not name are left out
 * (asked; NULL: none is). A folder that does not exist is worth a line only. */
static pco_status registry_scan(pco_registry *registry, const char *folder, int on_path, const char *asked,
                                pco_error *err)
{
    pco_error why = {""};
    if (pco_trust(folder, registry_copy_it, &why) == PCO_ERROR_UNSUPPORTED) {
        pco_log_line(&registry->host.config, PCO_LOG_WARNING, "a folder of plugins is not used: %s", why.message);
        return PCO_OK;
    }
    struct dirent **names;
    int count = scandir(folder, &names, registry_is_plugin, alphasort);
    if (count < 0) {
        pco_log_line(&registry->host.config, PCO_LOG_WARNING, "plugin folder '%s' cannot be read", folder);
        return PCO_OK;
    }
    pco_status status = PCO_OK;
    if (asked && !registry_knows(registry, asked, names, count)) asked = NULL;
    for (int i = 0; i < count; i++) {
        char path[PATH_MAX + sizeof names[i]->d_name], real[PATH_MAX];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        if (asked && !registry_is_asked(names[i]->d_name, asked))
            registry->left_out = 1;
        else if (!status)
            status = registry_add_plugin(registry, realpath(path, real) ? real : path, on_path, err);
        free(names[i]);
    }
    free(names);
    return status;
}

pco_status pco_registry_create(const pco_config *config, pco_registry **out, pco_error *err)
{
    return pco_registry_create_for(config, NULL, out, err);
}

pco_status pco_registry_complete(pco_registry *registry, int *found, pco_error *err)
{
    char own[PATH_MAX];
    *found = registry->left_out;
    if (!registry->left_out || !pco_path_plugins(own, sizeof own)) return PCO_OK;
    registry->left_out = 0;
    return registry_scan(registry, own, 0, NULL, err);
}

pco_status pco_registry_create_for(const pco_config *config, const char *asked, pco_registry **out, pco_error *err)
{
    pco_registry *registry = calloc(1, sizeof *registry);
    if (!registry) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the registry");
    registry->process = getpid();
    pco_status status = pco_host_init(&registry->host, config, err);
    if (!status) pco_cache_distrust(&registry->host.config);
    const char *at = registry->host.config.plugin_path;
    while (!status && *at) {
        char folder[sizeof config->plugin_path];
        size_t length = strcspn(at, ":");
        snprintf(folder, sizeof folder, "%.*s", (int)length, at);
        at += length + (at[length] == ':');
        if (*folder) status = registry_scan(registry, folder, 1, NULL, err);
    }
    char own[PATH_MAX];
    if (asked && !*asked) asked = registry->host.config.backend;
    if (!status && pco_path_plugins(own, sizeof own)) status = registry_scan(registry, own, 0, asked, err);
    if (status) {
        pco_registry_destroy(registry);
        registry = NULL;
    }
    *out = registry;
    return status;
}

void pco_registry_destroy(pco_registry *registry)
{
    if (!registry) return;
    for (uint32_t i = 0; i < registry->n_plugins; i++) {
        const pco_plugin_entry *entry = &registry->plugins[i];
        if (entry->plugin) entry->plugin->destroy(entry->backend);
        free(entry->tables);
    }
    pco_host_release(&registry->host);
    free(registry->plugins);
    free(registry->devices);
    free(registry);
}

void pco_registry_watch(pco_registry *registry, const volatile sig_atomic_t *interrupted)
{
    registry->host.config.interrupted = interrupted;
}

pco_status pco_registry_check(const pco_registry *registry, pco_error *err)
{
    if (registry->process == getpid()) return PCO_OK;
    return pco_fail(err, PCO_ERROR_INVALID,
                    "the context belongs to process %ld, and this is a child of it: devices and threads do not survive "
                    "a fork; let the child exec a program, or fork before there is a context",
                    (long)registry->process);
}

pco_status pco_registry_enter(pco_registry *registry, pco_registry **entered, pco_error *err)
{
    const uintptr_t me = (uintptr_t)pthread_self();
    uintptr_t nobody = 0;
    pco_status status = pco_registry_check(registry, err);
    if (status) return status;
    if (registry->last) return pco_fail(err, PCO_ERROR_INVALID, "the context was destroyed before what was made in it");
    if (atomic_load_explicit(&registry->caller, memory_order_relaxed) != me &&
        !atomic_compare_exchange_strong_explicit(&registry->caller, &nobody, me, memory_order_acquire,
                                                 memory_order_relaxed))
        return pco_fail(err, PCO_ERROR_INVALID,
                        "another thread is in a call of this context; let one call at a time, or give each thread a "
                        "context of its own");
    registry->depth++;
    *entered = registry;
    return PCO_OK;
}

void pco_registry_leave(pco_registry **entered)
{
    pco_registry *registry = *entered;
    if (registry && --registry->depth == 0) atomic_store_explicit(&registry->caller, 0, memory_order_release);
}

void pco_registry_opened(pco_registry *registry) { registry->sessions++; }

void pco_registry_closed(pco_registry *registry)
{
    if (--registry->sessions == 0 && registry->last) registry->last(registry->user);
}

void pco_registry_end(pco_registry *registry, void (*last)(void *user), void *user)
{
    if (registry->sessions && !registry->last)
        pco_log_line(
            &registry->host.config, PCO_LOG_ERROR,
            "pco_context_destroy: %u of the context's sessions and models %s not closed, and can do nothing any "
            "more; close them first",
            registry->sessions, registry->sessions == 1 ? "was" : "were");
    registry->last = last, registry->user = user;
    if (!registry->sessions) last(user);
}

const pco_config *pco_registry_config(const pco_registry *registry) { return &registry->host.config; }

uint32_t pco_registry_plugins(const pco_registry *registry, const pco_plugin_entry **entries)
{
    *entries = registry->plugins;
    return registry->n_plugins;
}

uint32_t pco_registry_devices(const pco_registry *registry, const pco_device_entry **entries)
{
    *entries = registry->devices;
    return registry->n_devices;
}
