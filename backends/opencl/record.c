/* A list of dispatches made ready: one kernel object each, with all its arguments set once, so that a run
 * only enqueues. */
#include "opencl.h"

#include <string.h>

static void ocl_discard(pco_gpu_device *gpu, pco_gpu_recording *recording)
{
    pco_device *device = (pco_device *)gpu;
    if (!recording) return;
    for (uint32_t i = 0; recording->steps && i < recording->count; i++) {
        if (recording->steps[i].event) device->api->ReleaseEvent(recording->steps[i].event);
        if (recording->steps[i].kernel) device->api->ReleaseKernel(recording->steps[i].kernel);
    }
    for (uint32_t i = 0; i < recording->n_windows; i++) device->api->ReleaseMemObject(recording->windows[i]);
    ocl_release(gpu->host, recording->windows);
    ocl_release(gpu->host, recording->steps);
    ocl_release(gpu->host, recording);
}

/* What a kernel gets for a binding: the whole buffer, or its window as a sub-buffer. */
static pco_status ocl_bound(pco_device *device, pco_gpu_recording *recording, const pco_buffer *buffer,
                            const pco_gpu_binding *binding, cl_mem *out, pco_error *err)
{
    /* Access flags come from the buffer; kernels read whole words. */
    const cl_buffer_region region = {(size_t)binding->offset, (size_t)((binding->bytes + 3) & ~(uint64_t)3)};
    cl_int code = CL_SUCCESS;
    *out = buffer->mem;
    if (!device->sub_buffers || !region.size || (!region.origin && region.size == buffer->room)) return PCO_OK;
    *out = device->api->CreateSubBuffer(buffer->mem, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
    if (!*out)
        return ocl_fail_code(device, err, code == CL_OUT_OF_RESOURCES ? CL_MEM_OBJECT_ALLOCATION_FAILURE : code,
                             "making a sub-buffer");
    recording->windows[recording->n_windows++] = *out;
    return PCO_OK;
}

/* The buffers, and behind them where the windows begin, in units of 16 bytes: what kernels with SUB_BUFFERS ignore. */
static pco_status ocl_set_buffers(pco_device *device, pco_gpu_recording *recording, const pco_plan *plan,
                                  const pco_gpu_dispatch *dispatch, cl_kernel kernel, pco_error *err)
{
    cl_uint8 at;
    memset(&at, 0, sizeof at);
    for (uint32_t i = 0; i < dispatch->n_bindings; i++) {
        const pco_gpu_binding *binding = &dispatch->bindings[i];
        const pco_buffer *buffer = binding->buffer < plan->n_buffers ? plan->buffers[binding->buffer] : NULL;
        if (!buffer || binding->bytes > device->gpu.limits.max_binding || binding->offset % 16 ||
            binding->offset > buffer->room || binding->bytes > buffer->room - binding->offset)
            return ocl_fail(err, PCO_ERROR_INTERNAL, "kernel %s: binding %u is no window of a buffer",
                            pco_gpu_row(&device->gpu, dispatch->kernel)->name, i);
        at.s[i] = (cl_uint)(binding->offset / 16);
        cl_mem bound = NULL;
        pco_status status = ocl_bound(device, recording, buffer, binding, &bound, err);
        if (status != PCO_OK) return status;
        cl_int code = device->api->SetKernelArg(kernel, i, sizeof bound, &bound);
        if (code != CL_SUCCESS) return ocl_fail_code(device, err, code, "setting a buffer argument");
    }
    cl_int code = device->api->SetKernelArg(kernel, dispatch->n_bindings, sizeof at, &at);
    return code == CL_SUCCESS ? PCO_OK : ocl_fail_code(device, err, code, "setting where windows begin");
}

static pco_status ocl_set_params(pco_device *device, const pco_gpu_dispatch *dispatch, cl_kernel kernel, pco_error *err)
{
    cl_uint16 halves[2];
    memset(halves, 0, sizeof halves);
    memcpy(halves, dispatch->params, dispatch->n_params * sizeof dispatch->params[0]);
    for (cl_uint i = 0; i < 2; i++) {
        cl_int code = device->api->SetKernelArg(kernel, dispatch->n_bindings + 1 + i, sizeof halves[i], &halves[i]);
        if (code != CL_SUCCESS) return ocl_fail_code(device, err, code, "setting the parameters");
    }
    return PCO_OK;
}

static pco_status ocl_record_step(pco_device *device, pco_gpu_recording *recording, const pco_plan *plan,
                                  const pco_gpu_dispatch *dispatch, ocl_step *step, pco_error *err)
{
    if (dispatch->n_bindings > PCO_GPU_MAX_BINDINGS || dispatch->n_params > PCO_GPU_MAX_PARAMS)
        return ocl_fail(err, PCO_ERROR_INTERNAL, "a dispatch with too many bindings or parameters");
    step->node = dispatch->node;
    ocl_program *program = NULL;
    pco_status status = ocl_program_find(device, dispatch->kernel, dispatch->specs, dispatch->n_specs, &program, err);
    if (status != PCO_OK) return status;
    for (int d = 0; d < 3; d++) {
        step->local[d] = (size_t)dispatch->specs[d];
        step->global[d] = (size_t)dispatch->groups[d] * step->local[d];
        if (step->local[d] > device->gpu.limits.max_local[d] || dispatch->groups[d] > device->gpu.limits.max_groups[d])
            return ocl_fail(err, PCO_ERROR_INTERNAL,
                            "kernel %s: %u groups of %u along dimension %d are beyond the limits of %s",
                            pco_gpu_row(&device->gpu, dispatch->kernel)->name, dispatch->groups[d],
                            (unsigned)step->local[d], d, device->gpu.name);
    }
    if (!dispatch->groups[0] || !dispatch->groups[1] || !dispatch->groups[2]) return PCO_OK;
    cl_int code = CL_SUCCESS;
    step->kernel = device->api->CreateKernel(program->program, "pco_main", &code);
    if (!step->kernel)
        return ocl_fail_code(device, err, code == CL_OUT_OF_RESOURCES ? CL_OUT_OF_HOST_MEMORY : code,
                             "creating a kernel");
    status = ocl_set_buffers(device, recording, plan, dispatch, step->kernel, err);
    return status == PCO_OK ? ocl_set_params(device, dispatch, step->kernel, err) : status;
}

static pco_status ocl_record(pco_gpu_device *gpu, const pco_plan *plan, const pco_gpu_dispatch *list, uint32_t count,
                             uint32_t per_segment, pco_gpu_recording **out, pco_error *err)
{
    pco_device *device = (pco_device *)gpu;
    *out = NULL;
    pco_status status = ocl_alive(device, err);
    if (status != PCO_OK) return status;
    size_t n_bindings = 0;
    for (uint32_t i = 0; i < count; i++) n_bindings += list[i].n_bindings;
    pco_gpu_recording *recording = ocl_allocate(gpu->host, sizeof *recording);
    if (recording) {
        recording->steps = ocl_allocate(gpu->host, count * sizeof *recording->steps);
        recording->windows = ocl_allocate(gpu->host, n_bindings * sizeof *recording->windows);
    }
    if (!recording || !recording->steps || !recording->windows) {
        status = ocl_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a program of %u dispatches", count);
        goto fail;
    }
    recording->count = count;
    recording->per_segment = per_segment ? per_segment : count ? count : 1;
    recording->timed = gpu->profile;
    for (uint32_t i = 0; i < count; i++) {
        status = ocl_record_step(device, recording, plan, &list[i], &recording->steps[i], err);
        if (status != PCO_OK) goto fail;
    }
    *out = recording;
    return PCO_OK;
fail:
    ocl_discard(gpu, recording);
    return status;
}

static uint32_t ocl_segments(const pco_gpu_recording *recording)
{
    return (recording->count + recording->per_segment - 1) / recording->per_segment;
}

const pco_gpu_driver ocl_gpu_driver = {
    .record = ocl_record,
    .discard = ocl_discard,
    .segments = ocl_segments,
    .describe = ocl_program_describe,
    .timings = ocl_queue_timings,
};
