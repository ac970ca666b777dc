/* The driver's pipeline cache, kept between processes by the host. */
#include "vk.h"

#include <stdio.h>
#include <string.h>

enum { VK_CACHE_NAME = 101, VK_CACHE_HEADER = 16 + VK_UUID_SIZE };

/* One blob per device, driver and set of kernels. */
static void vk_cache_name(const pco_device *device, char name[VK_CACHE_NAME])
{
    const vk_physical *physical = device->physical;
    char uuid[2 * VK_UUID_SIZE + 1];
    for (uint32_t i = 0; i < VK_UUID_SIZE; i++) snprintf(&uuid[2 * i], 3, "%02x", physical->cache_uuid[i]);
    /* The UUID that identifies the driver is a constant in some drivers, so its description counts as well.
     */
    uint64_t kernels = vk_hash(physical->float_modes, physical->info.uuid, sizeof physical->info.uuid);
    for (uint32_t i = 0; i < pco_gpu_n_kernels; i++)
        kernels = vk_hash(kernels, &pco_gpu_kernels[i].hash, sizeof pco_gpu_kernels[i].hash);
    snprintf(name, VK_CACHE_NAME, "vulkan-%08x-%08x-%s-%016llx", physical->vendor, physical->device, uuid,
             (unsigned long long)kernels);
}

/* Drivers check this as well, or should: some crash on a blob that is not theirs. */
static int vk_cache_is_ours(const pco_device *device, const uint8_t *data, size_t bytes)
{
    uint32_t header[4];
    if (bytes < VK_CACHE_HEADER) return 0;
    memcpy(header, data, sizeof header);
    return header[0] >= VK_CACHE_HEADER && header[0] <= bytes && header[1] == VK_PIPELINE_CACHE_HEADER_VERSION_ONE &&
           header[2] == device->physical->vendor && header[3] == device->physical->device &&
           memcmp(data + sizeof header, device->physical->cache_uuid, VK_UUID_SIZE) == 0;
}

/* Never an error: without a cache, pipelines only take longer. */
void vk_cache_load(pco_device *device)
{
    const pco_host *host = device->gpu.host;
    char name[VK_CACHE_NAME];
    void *data = NULL;
    size_t bytes = 0;
    vk_cache_name(device, name);
    int found = host->cache_load && host->cache_load(host->user, name, &data, &bytes) == PCO_OK && data;
    if (found && !vk_cache_is_ours(device, data, bytes)) {
        vk_log(host, PCO_LOG_INFO, "vulkan: %s: the pipeline cache %s is not this driver's", device->gpu.name, name);
        bytes = 0;
    }
    VkPipelineCacheCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
        .initialDataSize = found ? bytes : 0,
        .pInitialData = found && bytes ? data : NULL,
    };
    VkResult result = VK_MAKE(&device->cache, device->vk.CreatePipelineCache, device->handle, &info, NULL);
    if (result != VK_SUCCESS) {
        info.initialDataSize = 0;
        info.pInitialData = NULL;
        result = VK_MAKE(&device->cache, device->vk.CreatePipelineCache, device->handle, &info, NULL);
    }
    if (result != VK_SUCCESS) device->cache = VK_NULL_HANDLE;
    device->cache_bytes = info.initialDataSize;
    vk_release(host, data);
}

void vk_cache_store(pco_device *device)
{
    const pco_host *host = device->gpu.host;
    if (!device->compiled || !device->cache || !host->cache_store || device->lost) return;
    device->compiled = 0;
    size_t bytes = 0;
    VkResult result = device->vk.GetPipelineCacheData(device->handle, device->cache, &bytes, NULL);
    if (result != VK_SUCCESS || bytes <= VK_CACHE_HEADER) return; /* lavapipe keeps its own elsewhere */
    if (bytes == device->cache_bytes) return;                     /* all of it came from there */
    device->cache_bytes = bytes;
    void *data = vk_allocate(host, bytes, 1);
    if (!data) return;
    char name[VK_CACHE_NAME];
    vk_cache_name(device, name);
    result = device->vk.GetPipelineCacheData(device->handle, device->cache, &bytes, data);
    if (result == VK_SUCCESS && host->cache_store(host->user, name, data, bytes) != PCO_OK)
        vk_log(host, PCO_LOG_DEBUG, "vulkan: %s: the pipeline cache was not stored", device->gpu.name);
    vk_release(host, data);
}
