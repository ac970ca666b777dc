/* Opening and closing a device: context and queue, what gpu/ must know of it, memory left. */
#include "opencl.h"

#include <stdio.h>
#include <string.h>

/* The driver's own remarks. May come from any thread, and from oclgrind without the pointer it was given. */
static void CL_CALLBACK ocl_remark(const char *text, const void *data, size_t bytes, void *user)
{
    (void)data;
    (void)bytes;
    if (user && text) ocl_log(user, PCO_LOG_DEBUG, "opencl: the driver remarks: %.900s", text);
}

static pco_status ocl_open_queue(pco_device *device, int timed, pco_error *err)
{
    cl_int code = CL_SUCCESS;
    cl_command_queue queue = device->api->CreateCommandQueue(device->context, device->entry.id,
                                                             timed ? CL_QUEUE_PROFILING_ENABLE : 0, &code);
    if (!queue)
        return ocl_fail(err, PCO_ERROR_UNSUPPORTED, "%s gives no command queue (%s, %d)", device->gpu.name,
                        ocl_code_name(code), code);
    if (device->queue) device->api->ReleaseCommandQueue(device->queue);
    device->queue = queue;
    device->gpu.profile = timed ? 1 : 0;
    return PCO_OK;
}

static void ocl_device_close(pco_device *device)
{
    if (!device) return;
    const ocl_api *api = device->api;
    if (device->queue && !device->lost) api->Finish(device->queue);
    for (uint32_t i = 0; i < OCL_TICKETS; i++)
        if (device->events[i]) api->ReleaseEvent(device->events[i]);
    ocl_programs_destroy(device);
    if (device->queue) api->ReleaseCommandQueue(device->queue);
    if (device->context) api->ReleaseContext(device->context);
    pco_gpu_forget_made(&device->gpu);
    ocl_release(device->gpu.host, device);
}

pco_status ocl_device_open(pco_backend *backend, uint32_t index, pco_device **out, pco_error *err)
{
    *out = NULL;
    if (index >= backend->n_entries)
        return ocl_fail(err, PCO_ERROR_NOT_FOUND, "there is no OpenCL device %u, only %u", index, backend->n_entries);
    const pco_host *host = backend->host;
    ocl_facts facts;
    pco_status status = ocl_devices_facts(&backend->api, &backend->entries[index], &facts, err);
    if (status) return status;
    pco_device *device = ocl_allocate(host, sizeof *device);
    if (!device) return ocl_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for an OpenCL device");
    device->api = &backend->api;
    device->entry = backend->entries[index];
    device->gpu.host = host;
    device->gpu.driver = &ocl_gpu_driver;
    device->gpu.limits = facts.limits;
    snprintf(device->gpu.name, sizeof device->gpu.name, "%s", facts.name);
    device->memory = facts.memory;
    device->identity = facts.identity;
    device->correctly_rounded = facts.correctly_rounded;
    device->has_bytes = facts.has_bytes;
    device->has_dot2 = facts.has_dot2;
    device->unified = facts.unified;
    device->sub_buffers = facts.sub_buffers;
    device->kernel_limit_unknown = facts.kernel_limit_unknown;
    device->clock_unknown = facts.clock_unknown;

    cl_int code = CL_SUCCESS;
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)device->entry.platform, 0};
    device->context =
        device->api->CreateContext(properties, 1, &device->entry.id, ocl_remark, (void *)(uintptr_t)host, &code);
    if (!device->context)
        status =
            ocl_fail(err, PCO_ERROR_UNSUPPORTED, "%s gives no context (%s, %d)", facts.name, ocl_code_name(code), code);
    if (status == PCO_OK) status = ocl_open_queue(device, 0, err);
    if (status != PCO_OK) {
        ocl_device_close(device);
        return status;
    }
    *out = device;
    return PCO_OK;
}

/* OpenCL does not tell how much others use: what is left is what this device did not take itself. */
static uint64_t ocl_memory_left(pco_device *device)
{
    return device->memory > device->allocated ? device->memory - device->allocated : 0;
}

/* Timings need another queue. Programs take theirs from the device when they are submitted. */
static pco_status ocl_profile(pco_device *device, int on, pco_error *err)
{
    pco_status status = ocl_alive(device, err);
    if (status != PCO_OK || device->gpu.profile == (on ? 1u : 0u)) return status;
    cl_int code = device->api->Finish(device->queue);
    if (code != CL_SUCCESS) return ocl_fail_code(device, err, code, "waiting for the queue to run dry");
    return ocl_open_queue(device, on, err);
}

/* OpenCL tells of any kernel, at any time. */
static pco_status ocl_inspect(pco_device *device, int on, pco_error *err)
{
    (void)err;
    device->gpu.inspect = on ? 1 : 0;
    return PCO_OK;
}

const pco_device_api ocl_device_api = {
    .size = sizeof(pco_device_api),
    .close = ocl_device_close,
    .memory_left = ocl_memory_left,
    .profile = ocl_profile,
    .inspect = ocl_inspect,
};
