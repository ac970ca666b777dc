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
        return vk_fail(err, PCO_ERROR_UNSUPPORTED, "no Vulkan device can be listed: %s",
                       vk_result_name(result));
    VkPhysicalDevice *handles = vk_allocate(host, count, sizeof *handles);
    backend->devices = vk_allocate(host, count, sizeof *backend->devices);
    if (!handles || !backend->devices) {
        status = vk_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a list of %u devices", count);
        goto fail;
    }
    result = backend->vk.EnumeratePhysicalDevices(backend->instance, &count, handles);
    if (result != VK_SUCCESS && result != VK_INCOMPLETE) {
        status =
            vk_fail(err, PCO_ERROR_UNSUPPORTED, "no Vulkan device can be listed: %s", vk_result_name(result));
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
    if (!host || host->size < sizeof *host)
        return vk_fail(err, PCO_ERROR_ABI, "the host's table of services is too short");
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

static uint32_t vk_device_count(pco_backend *backend)
{
    return backend->n_devices;
}

static pco_status vk_describe_device(pco_backend *backend, uint32_t index, pco_device_info *info,
                                     pco_error *err)
{
    if (index >= backend->n_devices)
        return vk_fail(err, PCO_ERROR_NOT_FOUND, "Vulkan device %u of %u", index, backend->n_devices);
    uint32_t size = info->size ? info->size : (uint32_t)sizeof *info;
    if (size > sizeof *info) size = (uint32_t)sizeof *info;
    memcpy(info, &backend->devices[index].info, size);
    info->size = size;
    return PCO_OK;
}

/* ---- programs: gpu/ does it all, but only this side can read the timestamps ---------------------------- */

static pco_status vk_supports(pco_device *device, const pco_part *part, uint32_t node, pco_error *err)
{
    return pco_gpu_program_api.supports(device, part, node, err);
}

static uint32_t vk_variants(pco_device *device, const pco_part *part, uint32_t node, const char **names,
                            uint32_t capacity)
{
    if (pco_gpu_program_api.variants)
        return pco_gpu_program_api.variants(device, part, node, names, capacity);
    if (capacity) names[0] = "default";
    return 1;
}

static pco_status vk_propose(pco_device *device, const pco_part *part, pco_proposal *proposal, pco_error *err)
{
    return pco_gpu_program_api.propose(device, part, proposal, err);
}

static pco_status vk_convert(pco_device *device, const pco_tensor *tensor, uint32_t layout, const void *from,
                             void *to, uint64_t bytes, pco_error *err)
{
    if (!pco_gpu_program_api.convert)
        return vk_fail(err, PCO_ERROR_INTERNAL, "'%s': there is no layout %u", tensor->name, layout);
    return pco_gpu_program_api.convert(device, tensor, layout, from, to, bytes, err);
}

static pco_status vk_prepare(pco_device *device, const pco_part *part, const pco_proposal *proposal,
                             const pco_plan *plan, pco_program **program, pco_error *err)
{
    return pco_gpu_program_api.prepare(device, part, proposal, plan, program, err);
}

static void vk_destroy_program(pco_device *device, pco_program *program)
{
    pco_gpu_program_api.destroy(device, program);
}

static uint32_t vk_segments(const pco_program *program)
{
    return pco_gpu_program_api.segments(program);
}

static uint32_t vk_segments_until(const pco_program *program, uint32_t node)
{
    return pco_gpu_program_api.segments_until(program, node);
}

static uint32_t vk_pipelines(pco_device *device, const pco_part *part, uint32_t node, uint64_t *pipelines,
                             uint32_t capacity)
{
    return pco_gpu_program_api.pipelines(device, part, node, pipelines, capacity);
}

static uint32_t vk_timings(pco_device *device, pco_program *program, pco_timing *out, uint32_t capacity)
{
    return program->recording ? vk_recording_timings(device, program->recording, out, capacity) : 0;
}

static pco_status vk_describe_program(pco_device *device, pco_program *program, uint32_t index,
                                      pco_dispatch_info *info, pco_error *err)
{
    return pco_gpu_program_api.describe(device, program, index, info, err);
}

static const pco_program_api vk_program_table = {
    .size = sizeof(pco_program_api),
    .supports = vk_supports,
    .variants = vk_variants,
    .propose = vk_propose,
    .convert = vk_convert,
    .prepare = vk_prepare,
    .destroy = vk_destroy_program,
    .segments = vk_segments,
    .timings = vk_timings,
    .describe = vk_describe_program,
    .segments_until = vk_segments_until,
    .pipelines = vk_pipelines,
};

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
    .program = &vk_program_table,
    .queue = &vk_queue_table,
};

PCO_EXPORT const pco_plugin *pco_plugin_query(uint32_t host_abi_version)
{
    uint32_t major = host_abi_version >> 16;
    if (major != PCO_ABI_MAJOR || host_abi_version < PCO_ABI_VERSION) return NULL;
    return &vk_plugin;
}
