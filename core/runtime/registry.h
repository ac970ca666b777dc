/* The registry: plugins found on this machine, and the devices that they offer. */
#ifndef PCO_RUNTIME_REGISTRY_H
#define PCO_RUNTIME_REGISTRY_H

#include "base/env.h"
#include "runtime/plugin_check.h"

typedef struct pco_registry pco_registry;

/* A plugin file that was found, loaded or not. */
typedef struct pco_plugin_entry {
    char path[512];
    char name[64];    /* the plugin's own name; "" when it could not be asked */
    char reason[512]; /* why it could not be loaded; "" when it was */
    int failed;       /* 1: that is a fault of the plugin or of a driver, 0: there is nothing for it on this machine, or
                       * another one of its name was found first */
    int on_path;      /* 1: found through PORTICO_PLUGIN_PATH, and not in Portico's own folder */
    const pco_plugin *plugin;  /* NULL when it could not be loaded */
    pco_plugin_tables *tables; /* that `plugin` belongs to */
    pco_backend *backend;
    uint32_t n_devices;
    uint64_t identity; /* hash of the file's path and content: changes with the plugin's kernels */
} pco_plugin_entry;

/* A device that a plugin offers. */
typedef struct pco_device_entry {
    uint32_t plugin; /* index of the plugin entry */
    uint32_t index;  /* within the plugin */
    char id[96];     /* "vulkan:0" */
    pco_device_info info;
} pco_device_entry;

/* Scans PORTICO_PLUGIN_PATH, then the install's or build tree's plugin folder; probes each plugin in a helper
 * process before it is loaded. A plugin that cannot be used is an entry with a reason, not an error; a folder that
 * others can write is left out, with a line. `config` is copied. Errors: OUT_OF_HOST_MEMORY. */
pco_status pco_registry_create(const pco_config *config, pco_registry **registry, pco_error *err) PCO_NODISCARD;
/* The same for who uses what a selection names ("": what PORTICO_BACKEND says): of Portico's own folder only these
 * plugins and the CPU's are loaded, if each of them is there, so that neither the time nor a fault of other drivers
 * counts. NULL, or a selection that names no plugin: all. */
pco_status pco_registry_create_for(const pco_config *config, const char *asked, pco_registry **registry,
                                   pco_error *err) PCO_NODISCARD;
/* Loads what that left out, *found 1 if it was anything: for a selection that matches nothing, and for lists. */
pco_status pco_registry_complete(pco_registry *registry, int *found, pco_error *err) PCO_NODISCARD;
void pco_registry_destroy(pco_registry *registry);

/* INVALID in a child of the process that made the registry, with what to do: threads and devices do not survive a fork.
 */
pco_status pco_registry_check(const pco_registry *registry, pco_error *err);

/* What a call of the public interface begins and ends with: from one to the other the context is that thread's, which
 * may call again (from a callback). Errors: as check; INVALID while another thread is in a call. *entered is for leave,
 * which runs by itself where the variable ends: PCO_ENTER. */
pco_status pco_registry_enter(pco_registry *registry, pco_registry **entered, pco_error *err) PCO_NODISCARD;
void pco_registry_leave(pco_registry **entered);
#define PCO_ENTER(registry) \
    __attribute__((cleanup(pco_registry_leave))) pco_registry *entered_registry = NULL; \
    do { \
        pco_status entered_status = pco_registry_enter(registry, &entered_registry, err); \
        if (entered_status) return entered_status; \
    } while (0)

/* Sessions that are there, those of models among them. */
void pco_registry_opened(pco_registry *registry);
/* Where the registry was ended, the last one calls `last`. */
void pco_registry_closed(pco_registry *registry);
/* From now on every call is INVALID. Calls last(user), which destroys the registry: at once, or once there is no
 * session any more, of which a line of the log then says how many there are. */
void pco_registry_end(pco_registry *registry, void (*last)(void *user), void *user);

const pco_config *pco_registry_config(const pco_registry *registry);
/* Sets the configuration's `interrupted`: for the program, which handles signals; the library handles none. */
void pco_registry_watch(pco_registry *registry, const volatile sig_atomic_t *interrupted);
uint32_t pco_registry_plugins(const pco_registry *registry, const pco_plugin_entry **entries);
uint32_t pco_registry_devices(const pco_registry *registry, const pco_device_entry **entries);

/* Devices that are used together. */
enum { PCO_SET_DEVICES = 8 };
typedef struct pco_device_set {
    uint32_t count;
    uint32_t devices[PCO_SET_DEVICES]; /* indices of device entries, in the order in which they were named */
} pco_device_set;

/* Resolves "BACKEND[:WHICH][+...][,...]" (NULL or "": automatic) into sets of devices, best first: at most `capacity`
 * of them; *count receives how many there are. A term without + gives a set of one for each device that it matches;
 * one with + gives one set, in which each part stands for the best device that it matches and no part before it has.
 * Automatic leaves out software devices, and devices of type CPU and OTHER that were found through PORTICO_PLUGIN_PATH:
 * they are used only when they are named. `all` gives every device. Errors: NOT_FOUND, naming what matches nothing (or
 * is left over: a part beyond PCO_SET_DEVICES, a device named twice) and listing what there is. */
pco_status pco_registry_select_sets(const pco_registry *registry, const char *selection, pco_device_set *sets,
                                    uint32_t capacity, uint32_t *count, pco_error *err) PCO_NODISCARD;

/* A set as if it were one device: "vulkan:0+opencl:0", names joined, memory summed, the rest as the first device. */
void pco_registry_describe_set(const pco_registry *registry, const pco_device_set *set, pco_device_entry *entry);

/* The same for callers who want single devices. Errors also: UNSUPPORTED for a term with +. */
pco_status pco_registry_select(const pco_registry *registry, const char *selection, uint32_t *indices,
                               uint32_t capacity, uint32_t *count, pco_error *err) PCO_NODISCARD;

#endif
