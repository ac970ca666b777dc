/* Memory of the device. */
#include "opencl.h"

#include <string.h>

/* Kernels read whole words, and some read four at a time. */
static uint64_t ocl_round16(uint64_t bytes) { return bytes ? (bytes + 15) & ~(uint64_t)15 : 16; }

static pco_status ocl_no_room(pco_device *device, uint64_t bytes, cl_int code, pco_error *err)
{
    return ocl_fail(err, PCO_ERROR_OUT_OF_DEVICE_MEMORY,
                    "%s has no room for a buffer of %llu bytes: %llu of %llu are taken by Portico (%s)",
                    device->gpu.name, (unsigned long long)bytes, (unsigned long long)device->allocated,
                    (unsigned long long)device->memory, code ? ocl_code_name(code) : "counted");
}

static pco_status ocl_buffer_create(pco_device *device, uint64_t bytes, uint32_t usage, pco_buffer **out,
                                    pco_error *err)
{
    *out = NULL;
    pco_status status = ocl_alive(device, err);
    if (status != PCO_OK) return status;
    uint64_t room = ocl_round16(bytes);
    if (bytes > device->gpu.limits.max_allocation || room > SIZE_MAX)
        return ocl_fail(err, PCO_ERROR_UNSUPPORTED, "%s allocates at most %llu bytes at once, not %llu",
                        device->gpu.name, (unsigned long long)device->gpu.limits.max_allocation,
                        (unsigned long long)bytes);
    if (room > device->gpu.limits.max_allocation) room = device->gpu.limits.max_allocation;
    /* Drivers on the CPU hand out more than there is and die later. */
    if (device->allocated > device->memory || room > device->memory - device->allocated)
        return ocl_no_room(device, bytes, CL_SUCCESS, err);
    pco_buffer *buffer = ocl_allocate(device->gpu.host, sizeof *buffer);
    if (!buffer) return ocl_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a buffer's record");
    cl_mem_flags flags = CL_MEM_READ_WRITE;
    if (usage & (PCO_USAGE_UPLOAD | PCO_USAGE_READBACK)) flags |= CL_MEM_ALLOC_HOST_PTR;
    cl_int code = CL_SUCCESS;
    buffer->mem = device->api->CreateBuffer(device->context, flags, (size_t)room, NULL, &code);
    if (buffer->mem) {
        /* Many drivers allocate at first use: better now, when it is a plain out of memory. */
        static const uint32_t touch[4];
        code = device->api->EnqueueWriteBuffer(device->queue, buffer->mem, CL_TRUE, 0,
                                               room < sizeof touch ? (size_t)room : sizeof touch, touch, 0, NULL, NULL);
        if (code != CL_SUCCESS) device->api->ReleaseMemObject(buffer->mem);
    }
    if (!buffer->mem || code != CL_SUCCESS) {
        ocl_release(device->gpu.host, buffer);
        if (code == CL_DEVICE_NOT_AVAILABLE) return ocl_fail_code(device, err, code, "creating a buffer");
        return ocl_no_room(device, bytes, code ? code : CL_OUT_OF_RESOURCES, err);
    }
    buffer->bytes = bytes;
    buffer->room = buffer->counted = room;
    device->allocated += room;
    *out = buffer;
    return PCO_OK;
}

static void ocl_buffer_destroy(pco_device *device, pco_buffer *buffer)
{
    if (!buffer) return;
    device->api->ReleaseMemObject(buffer->mem);
    device->allocated -= buffer->counted;
    ocl_release(device->gpu.host, buffer);
}

static pco_status ocl_check_range(const pco_buffer *buffer, uint64_t offset, uint64_t bytes, const char *what,
                                  pco_error *err)
{
    if (offset > buffer->bytes || bytes > buffer->bytes - offset)
        return ocl_fail(err, PCO_ERROR_INVALID, "%s %llu bytes at %llu of a buffer of %llu bytes", what,
                        (unsigned long long)bytes, (unsigned long long)offset, (unsigned long long)buffer->bytes);
    return PCO_OK;
}

static pco_status ocl_buffer_write(pco_device *device, pco_buffer *buffer, uint64_t offset, const void *data,
                                   uint64_t bytes, pco_error *err)
{
    pco_status status = ocl_alive(device, err);
    if (status == PCO_OK) status = ocl_check_range(buffer, offset, bytes, "writing", err);
    if (status != PCO_OK || !bytes) return status;
    cl_int code = device->api->EnqueueWriteBuffer(device->queue, buffer->mem, CL_TRUE, (size_t)offset, (size_t)bytes,
                                                  data, 0, NULL, NULL);
    return code == CL_SUCCESS ? PCO_OK : ocl_fail_code(device, err, code, "writing a buffer");
}

static pco_status ocl_buffer_read(pco_device *device, pco_buffer *buffer, uint64_t offset, void *data, uint64_t bytes,
                                  pco_error *err)
{
    pco_status status = ocl_alive(device, err);
    if (status == PCO_OK) status = ocl_check_range(buffer, offset, bytes, "reading", err);
    if (status != PCO_OK || !bytes) return status;
    cl_int code = device->api->EnqueueReadBuffer(device->queue, buffer->mem, CL_TRUE, (size_t)offset, (size_t)bytes,
                                                 data, 0, NULL, NULL);
    return code == CL_SUCCESS ? PCO_OK : ocl_fail_code(device, err, code, "reading a buffer");
}

static pco_status ocl_buffer_copy(pco_device *device, pco_buffer *from, uint64_t from_offset, pco_buffer *to,
                                  uint64_t to_offset, uint64_t bytes, pco_error *err)
{
    pco_status status = ocl_alive(device, err);
    if (status == PCO_OK) status = ocl_check_range(from, from_offset, bytes, "copying", err);
    if (status == PCO_OK) status = ocl_check_range(to, to_offset, bytes, "copying to", err);
    if (status != PCO_OK || !bytes) return status;
    if (from == to && from_offset < to_offset + bytes && to_offset < from_offset + bytes)
        return ocl_fail(err, PCO_ERROR_INVALID, "copying within a buffer between ranges that overlap");
    cl_event event = NULL;
    cl_int code = device->api->EnqueueCopyBuffer(device->queue, from->mem, to->mem, (size_t)from_offset,
                                                 (size_t)to_offset, (size_t)bytes, 0, NULL, &event);
    if (code == CL_SUCCESS) { /* otherwise it says nothing of the event */
        code = device->api->WaitForEvents(1, &event);
        device->api->ReleaseEvent(event);
    }
    return code == CL_SUCCESS ? PCO_OK : ocl_fail_code(device, err, code, "copying between buffers");
}

/* No `map`: in OpenCL 1.2 memory may not stay mapped while kernels use it. No `import`: nothing forbids a driver to
 * write to memory that it was given (CL_MEM_USE_HOST_PTR), and a file's pages cannot be written. */
const pco_buffer_api ocl_buffer_api = {
    .size = sizeof(pco_buffer_api),
    .create = ocl_buffer_create,
    .destroy = ocl_buffer_destroy,
    .write = ocl_buffer_write,
    .read = ocl_buffer_read,
    .copy = ocl_buffer_copy,
};
