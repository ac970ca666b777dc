/* The table of the OpenCL plugin. */
#include "opencl.h"

/* ---- the backend --------------------------------------------------------------------------------------- */

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
    if (!host || host->size < sizeof *host)
        return ocl_fail(err, PCO_ERROR_ABI, "the host's table of services is shorter than this plugin's");
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

static uint32_t ocl_device_count(pco_backend *backend)
{
    return backend->n_entries;
}

/* ---- programs: gpu/ does it all, but only this side can read the clocks ----------------------------------
 */

static pco_status ocl_supports(pco_device *device, const pco_part *part, uint32_t node, pco_error *err)
{
    return pco_gpu_program_api.supports(device, part, node, err);
}

static uint32_t ocl_variants(pco_device *device, const pco_part *part, uint32_t node, const char **names,
                             uint32_t capacity)
{
    return pco_gpu_program_api.variants(device, part, node, names, capacity);
}

static pco_status ocl_propose(pco_device *device, const pco_part *part, pco_proposal *proposal,
                              pco_error *err)
{
    return pco_gpu_program_api.propose(device, part, proposal, err);
}

static pco_status ocl_convert(pco_device *device, const pco_tensor *tensor, uint32_t layout, const void *from,
                              void *to, uint64_t bytes, pco_error *err)
{
    return pco_gpu_program_api.convert(device, tensor, layout, from, to, bytes, err);
}

static pco_status ocl_prepare(pco_device *device, const pco_part *part, const pco_proposal *proposal,
                              const pco_plan *plan, pco_program **program, pco_error *err)
{
    return pco_gpu_program_api.prepare(device, part, proposal, plan, program, err);
}

static void ocl_destroy_program(pco_device *device, pco_program *program)
{
    pco_gpu_program_api.destroy(device, program);
}

static uint32_t ocl_count_segments(const pco_program *program)
{
    return pco_gpu_program_api.segments(program);
}

static uint32_t ocl_segments_until(const pco_program *program, uint32_t node)
{
    return pco_gpu_program_api.segments_until(program, node);
}

static uint32_t ocl_pipelines(pco_device *device, const pco_part *part, uint32_t node, uint64_t *pipelines,
                             uint32_t capacity)
{
    return pco_gpu_program_api.pipelines(device, part, node, pipelines, capacity);
}

static uint32_t ocl_timings(pco_device *device, pco_program *program, pco_timing *out, uint32_t capacity)
{
    return program->recording ? ocl_queue_timings(device, program->recording, out, capacity) : 0;
}

static pco_status ocl_describe_program(pco_device *device, pco_program *program, uint32_t index,
                                       pco_dispatch_info *info, pco_error *err)
{
    return pco_gpu_program_api.describe(device, program, index, info, err);
}

static const pco_program_api ocl_program_api = {
    .size = sizeof(pco_program_api),
    .supports = ocl_supports,
    .variants = ocl_variants,
    .propose = ocl_propose,
    .convert = ocl_convert,
    .prepare = ocl_prepare,
    .destroy = ocl_destroy_program,
    .segments = ocl_count_segments,
    .timings = ocl_timings,
    .describe = ocl_describe_program,
    .segments_until = ocl_segments_until,
    .pipelines = ocl_pipelines,
};

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
    .program = &ocl_program_api,
    .queue = &ocl_queue_api,
};

PCO_EXPORT const pco_plugin *pco_plugin_query(uint32_t host_abi_version)
{
    if (host_abi_version >> 16 != PCO_ABI_MAJOR || host_abi_version < PCO_ABI_VERSION) return NULL;
    return &ocl_plugin;
}
