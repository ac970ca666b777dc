/* The exported table. */
#include "vk.h"

#include <stdio.h>
#include <string.h>

static void vk_destroy(pco_backend *backend)
{
    if (!backend) return;
    const pco_host *host = backend->host;
    vk_instance_destroy(backend);
    vk_release(host, backend->devices);
    vk_release(host, backend);
}

static pco_status vk_enumerate(pco_backend *backend, pco_error *err)
{
    const pco_host *host = backend->host;
    pco_status status = PCO_OK;
    uint32_t count = 0;
    VkResult result = backend->vk.EnumeratePhysicalDevices(backend->instance, &count, NULL);
    if (result != VK_SUCCESS)
        return vk_fail(err, PCO_ERROR_UNSUPPORTED, "no Vulkan device can be listed: %s", vk_result_name(result));
    VkPhysicalDevice *handles = vk_allocate(host, count, sizeof *handles);
    backend->devices = vk_allocate(host, count, sizeof *backend->devices);
    if (!handles || !backend->devices) {
        status = vk_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a list of %u devices", count);
        goto fail;
    }
    result = backend->vk.EnumeratePhysicalDevices(backend->instance, &count, handles);
    if (result != VK_SUCCESS && result != VK_INCOMPLETE) {
        status = vk_fail(err, PCO_ERROR_UNSUPPORTED, "no Vulkan device can be listed: %s", vk_result_name(result));
        goto fail;
    }
    pco_error why = {"the Vulkan drivers offer no device"};
    for (uint32_t i = 0; i < count; i++) {
        if (vk_probe(backend, handles[i], &backend->devices[backend->n_devices], &why) == PCO_OK)
            backend->n_devices++;
        else
            vk_log(host, PCO_LOG_INFO, "vulkan: %s", why.message);
    }
    vk_find_driver_files(backend);
    if (backend->n_devices == 0) status = vk_fail(err, PCO_ERROR_UNSUPPORTED, "%s", why.message);
fail:
    vk_release(host, handles);
    return status;
}

static pco_status vk_create(const pco_host *host, pco_backend **out, pco_error *err)
{
    *out = NULL;
    pco_backend *backend = vk_allocate(host, 1, sizeof *backend);
    if (!backend) return vk_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the Vulkan backend");
    backend->host = host;
    pco_status status = vk_instance_create(backend, err);
    if (status == PCO_OK) status = vk_enumerate(backend, err);
    if (status != PCO_OK) {
        vk_destroy(backend);
        return status;
    }
    *out = backend;
    return PCO_OK;
}

static uint32_t vk_device_count(pco_backend *backend) { return backend->n_devices; }

static pco_status vk_describe_device(pco_backend *backend, uint32_t index, pco_device_info *info, pco_error *err)
{
    if (index >= backend->n_devices)
        return vk_fail(err, PCO_ERROR_NOT_FOUND, "Vulkan device %u of %u", index, backend->n_devices);
    *info = backend->devices[index].info;
    return PCO_OK;
}

static const pco_plugin vk_plugin = {
    .size = sizeof(pco_plugin),
    .abi_version = PCO_ABI_VERSION,
    .name = "vulkan",
    .version = "0.1.0",
    .description = "GPUs and software drivers through Vulkan 1.1 or newer",
    .create = vk_create,
    .destroy = vk_destroy,
    .device_count = vk_device_count,
    .describe = vk_describe_device,
    .open = vk_device_open,
    .device = &vk_device_table,
    .buffer = &vk_buffer_table,
    .program = &pco_gpu_program_api,
    .queue = &vk_queue_table,
};

PCO_EXPORT const pco_plugin *pco_plugin_query(uint32_t host_abi_version)
{
    uint32_t major = host_abi_version >> 16;
    if (major != PCO_ABI_MAJOR || host_abi_version < PCO_ABI_VERSION) return NULL;
    return &vk_plugin;
}
