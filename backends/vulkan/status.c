/* Results, messages and memory: the small change of the plugin. */
#include "vk.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

pco_status vk_fail(pco_error *err, pco_status status, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->message, sizeof err->message, format, args);
        va_end(args);
    }
    return status;
}

const char *vk_result_name(VkResult result)
{
    switch (result) {
    case VK_SUCCESS: return "VK_SUCCESS";
    case VK_NOT_READY: return "VK_NOT_READY";
    case VK_TIMEOUT: return "VK_TIMEOUT";
    case VK_INCOMPLETE: return "VK_INCOMPLETE";
    case VK_ERROR_OUT_OF_HOST_MEMORY: return "VK_ERROR_OUT_OF_HOST_MEMORY";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY: return "VK_ERROR_OUT_OF_DEVICE_MEMORY";
    case VK_ERROR_INITIALIZATION_FAILED: return "VK_ERROR_INITIALIZATION_FAILED";
    case VK_ERROR_DEVICE_LOST: return "VK_ERROR_DEVICE_LOST";
    case VK_ERROR_MEMORY_MAP_FAILED: return "VK_ERROR_MEMORY_MAP_FAILED";
    case VK_ERROR_LAYER_NOT_PRESENT: return "VK_ERROR_LAYER_NOT_PRESENT";
    case VK_ERROR_EXTENSION_NOT_PRESENT: return "VK_ERROR_EXTENSION_NOT_PRESENT";
    case VK_ERROR_FEATURE_NOT_PRESENT: return "VK_ERROR_FEATURE_NOT_PRESENT";
    case VK_ERROR_INCOMPATIBLE_DRIVER: return "VK_ERROR_INCOMPATIBLE_DRIVER";
    case VK_ERROR_TOO_MANY_OBJECTS: return "VK_ERROR_TOO_MANY_OBJECTS";
    case VK_ERROR_FRAGMENTED_POOL: return "VK_ERROR_FRAGMENTED_POOL";
    case VK_ERROR_OUT_OF_POOL_MEMORY: return "VK_ERROR_OUT_OF_POOL_MEMORY";
    case VK_ERROR_INVALID_EXTERNAL_HANDLE: return "VK_ERROR_INVALID_EXTERNAL_HANDLE";
    case VK_ERROR_INVALID_SHADER_NV: return "VK_ERROR_INVALID_SHADER_NV";
    case VK_ERROR_UNKNOWN: return "VK_ERROR_UNKNOWN";
    default: return "an unknown VkResult";
    }
}

static pco_status vk_status_of(VkResult result)
{
    switch (result) {
    case VK_SUCCESS: return PCO_OK;
    case VK_TIMEOUT: return PCO_ERROR_TIMEOUT;
    case VK_ERROR_OUT_OF_HOST_MEMORY: return PCO_ERROR_OUT_OF_HOST_MEMORY;
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_OUT_OF_POOL_MEMORY:
    case VK_ERROR_FRAGMENTED_POOL:
    case VK_ERROR_TOO_MANY_OBJECTS: return PCO_ERROR_OUT_OF_DEVICE_MEMORY;
    case VK_ERROR_DEVICE_LOST: return PCO_ERROR_DEVICE_LOST;
    case VK_ERROR_EXTENSION_NOT_PRESENT:
    case VK_ERROR_FEATURE_NOT_PRESENT:
    case VK_ERROR_INCOMPATIBLE_DRIVER: return PCO_ERROR_UNSUPPORTED;
    default: return PCO_ERROR_INTERNAL;
    }
}

pco_status vk_check(pco_device *device, VkResult result, pco_error *err, const char *what)
{
    if (result == VK_SUCCESS) return PCO_OK;
    if (result == VK_ERROR_DEVICE_LOST) device->lost = 1;
    return vk_fail(err, vk_status_of(result), "%s on %s: %s (%d)", what, device->gpu.name, vk_result_name(result),
                   (int)result);
}

VkResult vk_made(VkResult result, void *out, size_t size)
{
    if (result != VK_SUCCESS) memset(out, 0, size);
    return result;
}

void vk_log(const pco_host *host, pco_log_level level, const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    host->log(host->user, level, line);
}

void *vk_allocate(const pco_host *host, size_t count, size_t bytes)
{
    if (bytes && count > SIZE_MAX / bytes) return NULL;
    size_t total = count * bytes;
    if (total == 0) total = 1;
    void *memory = host->allocate(host->user, total, 16);
    if (memory) memset(memory, 0, total);
    return memory;
}

void vk_release(const pco_host *host, void *memory)
{
    if (memory) host->release(host->user, memory);
}

/* FNV-1a, 64 bits. */
uint64_t vk_hash(uint64_t seed, const void *data, size_t bytes)
{
    const uint8_t *byte = data;
    uint64_t hash = seed ^ 0xcbf29ce484222325u;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ byte[i]) * 0x100000001b3u;
    return hash;
}
