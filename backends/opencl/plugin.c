/* The table of the OpenCL plugin. */
#include "opencl.h"

static void ocl_destroy(pco_backend *backend)
{
    if (!backend) return;
    const pco_host *host = backend->host;
    ocl_release(host, backend->entries);
    ocl_release(host, backend);
}

static pco_status ocl_create(const pco_host *host, pco_backend **backend, pco_error *err)
{
    *backend = NULL;
    pco_backend *made = ocl_allocate(host, sizeof *made);
    if (!made) return ocl_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the OpenCL backend");
    made->host = host;
    pco_status status = ocl_api_load(&made->api, err);
    if (status == PCO_OK) status = ocl_devices_find(made, err);
    if (status != PCO_OK) {
        ocl_destroy(made);
        return status;
    }
    *backend = made;
    return PCO_OK;
}

static uint32_t ocl_device_count(pco_backend *backend) { return backend->n_entries; }

static const pco_plugin ocl_plugin = {
    .size = sizeof(pco_plugin),
    .abi_version = PCO_ABI_VERSION,
    .name = "opencl",
    .version = "0.1.0",
    .description = "OpenCL 1.2 and later, of any vendor",
    .create = ocl_create,
    .destroy = ocl_destroy,
    .device_count = ocl_device_count,
    .describe = ocl_devices_describe,
    .open = ocl_device_open,
    .device = &ocl_device_api,
    .buffer = &ocl_buffer_api,
    .program = &pco_gpu_program_api,
    .queue = &ocl_queue_api,
};

PCO_EXPORT const pco_plugin *pco_plugin_query(uint32_t host_abi_version)
{
    if (host_abi_version >> 16 != PCO_ABI_MAJOR || host_abi_version < PCO_ABI_VERSION) return NULL;
    return &ocl_plugin;
}
