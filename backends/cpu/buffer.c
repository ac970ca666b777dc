/* Buffers: host memory, 64-byte aligned, or memory of the host that is looked at without a copy. */
#include "program.h"

static pco_status cpu_buffer_make(pco_device *device, uint64_t bytes, pco_buffer **buffer, pco_error *err)
{
    const pco_host *host = device->host;
    *buffer = host->allocate(host->user, sizeof **buffer, 16);
    if (!*buffer) return cpu_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a buffer's description");
    **buffer = (pco_buffer){.bytes = bytes};
    return PCO_OK;
}

static pco_status cpu_buffer_create(pco_device *device, uint64_t bytes, uint32_t usage, pco_buffer **buffer,
                                    pco_error *err)
{
    (void)usage;
    *buffer = NULL;
    const pco_host *host = device->host;
    if (bytes > SIZE_MAX - 64)
        return cpu_fail(err, PCO_ERROR_UNSUPPORTED, "%llu bytes are more than can be addressed",
                        (unsigned long long)bytes);
    pco_status status = cpu_buffer_make(device, bytes, buffer, err);
    if (status) return status;
    (*buffer)->data = host->allocate(host->user, bytes ? (size_t)bytes : 64, 64);
    if ((*buffer)->data) return PCO_OK;
    host->release(host->user, *buffer);
    *buffer = NULL;
    return cpu_fail(err, PCO_ERROR_OUT_OF_DEVICE_MEMORY, "no memory for a buffer of %llu bytes",
                    (unsigned long long)bytes);
}

static pco_status cpu_buffer_import(pco_device *device, const void *data, uint64_t bytes, pco_buffer **buffer,
                                    pco_error *err)
{
    *buffer = NULL;
    if (!data || (uintptr_t)data % 64)
        return cpu_fail(err, PCO_ERROR_INVALID, "imported memory is not aligned to 64 bytes");
    pco_status status = cpu_buffer_make(device, bytes, buffer, err);
    if (status) return status;
    (*buffer)->data = (unsigned char *)(uintptr_t)data;
    (*buffer)->imported = true;
    return PCO_OK;
}

static void cpu_buffer_destroy(pco_device *device, pco_buffer *buffer)
{
    if (!buffer) return;
    if (!buffer->imported) device->host->release(device->host->user, buffer->data);
    device->host->release(device->host->user, buffer);
}

static pco_status cpu_buffer_check(const pco_buffer *buffer, uint64_t offset, uint64_t bytes, pco_error *err)
{
    if (offset <= buffer->bytes && bytes <= buffer->bytes - offset) return PCO_OK;
    return cpu_fail(err, PCO_ERROR_INVALID, "%llu bytes at %llu are outside a buffer of %llu",
                    (unsigned long long)bytes, (unsigned long long)offset, (unsigned long long)buffer->bytes);
}

static pco_status cpu_buffer_write(pco_device *device, pco_buffer *buffer, uint64_t offset, const void *data,
                                   uint64_t bytes, pco_error *err)
{
    (void)device;
    pco_status status = cpu_buffer_check(buffer, offset, bytes, err);
    if (status) return status;
    if (buffer->imported) return cpu_fail(err, PCO_ERROR_INVALID, "imported memory is read only");
    if (bytes) memcpy(buffer->data + offset, data, (size_t)bytes);
    return PCO_OK;
}

static pco_status cpu_buffer_read(pco_device *device, pco_buffer *buffer, uint64_t offset, void *data, uint64_t bytes,
                                  pco_error *err)
{
    (void)device;
    pco_status status = cpu_buffer_check(buffer, offset, bytes, err);
    if (!status && bytes) memcpy(data, buffer->data + offset, (size_t)bytes);
    return status;
}

static pco_status cpu_buffer_copy(pco_device *device, pco_buffer *from, uint64_t from_offset, pco_buffer *to,
                                  uint64_t to_offset, uint64_t bytes, pco_error *err)
{
    (void)device;
    pco_status status = cpu_buffer_check(from, from_offset, bytes, err);
    if (!status) status = cpu_buffer_check(to, to_offset, bytes, err);
    if (status) return status;
    if (to->imported) return cpu_fail(err, PCO_ERROR_INVALID, "imported memory is read only");
    if (bytes) memmove(to->data + to_offset, from->data + from_offset, (size_t)bytes);
    return PCO_OK;
}

static void *cpu_buffer_map(pco_device *device, pco_buffer *buffer)
{
    (void)device;
    return buffer->data;
}

const pco_buffer_api cpu_buffer_api = {
    .size = sizeof(pco_buffer_api),
    .create = cpu_buffer_create,
    .destroy = cpu_buffer_destroy,
    .write = cpu_buffer_write,
    .read = cpu_buffer_read,
    .copy = cpu_buffer_copy,
    .map = cpu_buffer_map,
    .import = cpu_buffer_import,
};
