/* Which shared object drives each device. The loader does not say, so its drivers are found among the objects of this
 * process: they export vk_icdGetInstanceProcAddr. Where there is more than one, each is asked for its devices. */
#include "vk.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <link.h>
#endif

enum { VK_OBJECTS = 1024, VK_ICDS = 32 };

typedef struct vk_icd {
    char file[PATH_MAX];
    PFN_vkGetInstanceProcAddr get;
} vk_icd;

#if defined(__linux__)
typedef struct vk_objects {
    const pco_host *host;
    uint32_t count;
    char *names[VK_OBJECTS];
} vk_objects;

static int vk_note_object(struct dl_phdr_info *object, size_t size, void *user)
{
    (void)size;
    vk_objects *objects = user;
    if (!object->dlpi_name || !*object->dlpi_name || objects->count == VK_OBJECTS) return 0;
    size_t length = strlen(object->dlpi_name);
    char *name = vk_allocate(objects->host, length + 1, 1);
    if (name) objects->names[objects->count++] = memcpy(name, object->dlpi_name, length + 1);
    return 0;
}

/* Is the object a driver itself, and not one that links a driver? */
static int vk_read_icd(const char *name, vk_icd *icd)
{
    void *handle = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle) return 0;
    Dl_info at;
    void *symbol = dlsym(handle, "vk_icdGetInstanceProcAddr");
    int found =
        symbol && dladdr(symbol, &at) && at.dli_fname && strcmp(at.dli_fname, name) == 0 && realpath(name, icd->file);
    if (found) memcpy(&icd->get, &symbol, sizeof symbol);
    dlclose(handle); /* the loader has it open */
    return found;
}

static uint32_t vk_list_icds(const pco_backend *backend, vk_icd *icds)
{
    uint32_t count = 0;
    vk_objects *objects = vk_allocate(backend->host, 1, sizeof *objects);
    if (!objects) return 0;
    *objects = (vk_objects){.host = backend->host};
    dl_iterate_phdr(vk_note_object, objects);
    for (uint32_t i = 0; i < objects->count; i++) {
        if (count < VK_ICDS && vk_read_icd(objects->names[i], &icds[count])) count++;
        vk_release(backend->host, objects->names[i]);
    }
    vk_release(backend->host, objects);
    return count;
}
#else
static uint32_t vk_list_icds(const pco_backend *backend, vk_icd *icds)
{
    (void)backend, (void)icds;
    return 0;
}
#endif

static int vk_is_same(const VkPhysicalDeviceProperties *a, const VkPhysicalDeviceProperties *b)
{
    return a->vendorID == b->vendorID && a->deviceID == b->deviceID && a->driverVersion == b->driverVersion &&
           strcmp(a->deviceName, b->deviceName) == 0 &&
           memcmp(a->pipelineCacheUUID, b->pipelineCacheUUID, sizeof a->pipelineCacheUUID) == 0;
}

static void vk_name_driver(pco_device_info *info, const char *file)
{
    if (strlen(file) < sizeof info->driver_file) snprintf(info->driver_file, sizeof info->driver_file, "%s", file);
}

/* Names this driver for the devices that it lists. */
static void vk_match_icd(pco_backend *backend, const vk_icd *icd)
{
    enum { MOST = 16 };
    VkPhysicalDevice handles[MOST];
    uint32_t count = MOST;
    VkInstance instance;
    VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .pApplicationName = "portico", .apiVersion = backend->api_version};
    VkInstanceCreateInfo make = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application};
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)icd->get(NULL, "vkCreateInstance");
    if (!create || create(&make, NULL, &instance) != VK_SUCCESS) return;
    PFN_vkEnumeratePhysicalDevices list =
        (PFN_vkEnumeratePhysicalDevices)icd->get(instance, "vkEnumeratePhysicalDevices");
    PFN_vkGetPhysicalDeviceProperties ask =
        (PFN_vkGetPhysicalDeviceProperties)icd->get(instance, "vkGetPhysicalDeviceProperties");
    PFN_vkDestroyInstance destroy = (PFN_vkDestroyInstance)icd->get(instance, "vkDestroyInstance");
    VkResult result = list && ask ? list(instance, &count, handles) : VK_ERROR_INITIALIZATION_FAILED;
    if (result != VK_SUCCESS && result != VK_INCOMPLETE) count = 0;
    for (uint32_t i = 0; i < count; i++) {
        VkPhysicalDeviceProperties theirs;
        ask(handles[i], &theirs);
        for (uint32_t d = 0; d < backend->n_devices; d++) {
            VkPhysicalDeviceProperties2 ours = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
            backend->vk.GetPhysicalDeviceProperties2(backend->devices[d].handle, &ours);
            if (vk_is_same(&theirs, &ours.properties)) vk_name_driver(&backend->devices[d].info, icd->file);
        }
    }
    if (destroy) destroy(instance, NULL);
}

/* The cache has what was found before: starting drivers a second time takes long where they are slow. */
static void vk_cache_name(const pco_device_info *info, char name[64])
{
    int length = snprintf(name, 64, "vulkan-file-");
    for (uint32_t i = 0; i < sizeof info->uuid; i++)
        length += snprintf(name + length, 64 - (size_t)length, "%02x", info->uuid[i]);
}

static int vk_recall_driver(const pco_host *host, pco_device_info *info, const vk_icd *icds, uint32_t count)
{
    char name[64];
    void *data;
    size_t bytes;
    vk_cache_name(info, name);
    if (host->cache_load(host->user, name, &data, &bytes) != PCO_OK) return 0;
    for (uint32_t i = 0; i < count; i++) /* as long as it is among those that are loaded */
        if (strlen(icds[i].file) == bytes && memcmp(icds[i].file, data, bytes) == 0) vk_name_driver(info, icds[i].file);
    host->release(host->user, data);
    return *info->driver_file != 0;
}

static void vk_remember_driver(const pco_host *host, const pco_device_info *info)
{
    char name[64];
    vk_cache_name(info, name);
    if (*info->driver_file) (void)host->cache_store(host->user, name, info->driver_file, strlen(info->driver_file));
}

void vk_find_driver_files(pco_backend *backend)
{
    const pco_host *host = backend->host;
    uint32_t known = 0;
    vk_icd *icds = vk_allocate(host, VK_ICDS, sizeof *icds);
    if (!icds) return;
    const uint32_t count = vk_list_icds(backend, icds);
    for (uint32_t d = 0; count == 1 && d < backend->n_devices; d++)
        vk_name_driver(&backend->devices[d].info, icds[0].file);
    for (uint32_t d = 0; count > 1 && d < backend->n_devices; d++)
        known += (uint32_t)vk_recall_driver(host, &backend->devices[d].info, icds, count);
    if (count > 1 && known < backend->n_devices) {
        for (uint32_t i = 0; i < count; i++) vk_match_icd(backend, &icds[i]);
        for (uint32_t d = 0; d < backend->n_devices; d++) vk_remember_driver(host, &backend->devices[d].info);
    }
    vk_release(host, icds);
}
