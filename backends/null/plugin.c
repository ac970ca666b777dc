/* The smallest plugin that loads: one device that can run nothing. Copy this folder to begin a backend, and fill it
 * in from the top: describe the device truly, give it buffers, then add ops to supports and prepare one by one,
 * running `portico conformance --devices NAME` after each. CONTRIBUTING.md has the checklist; plugin.h says what
 * every call must do. */
#include "portico/plugin.h"

#include <stdio.h>
#include <string.h>

/* Yours to define: what a plugin keeps for itself, a device, a buffer and a program. */
struct pco_backend {
    const pco_host *host; /* lives as long as the plugin */
};

struct pco_device {
    const pco_host *host;
};

struct pco_buffer {
    uint64_t bytes;
    unsigned char *data;
};

static pco_status null_fail(pco_error *err, pco_status status, const char *message)
{
    if (err) snprintf(err->message, sizeof err->message, "%s", message);
    return status;
}

/* ---- backend: load your driver library here (dlopen), and say UNSUPPORTED with the reason if it is missing ---- */

static pco_status null_create(const pco_host *host, pco_backend **backend, pco_error *err)
{
    *backend = host->allocate(host->user, sizeof **backend, _Alignof(pco_backend));
    if (!*backend) return null_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the null plugin");
    (*backend)->host = host;
    return PCO_OK;
}

static void null_destroy(pco_backend *backend) { backend->host->release(backend->host->user, backend); }

static uint32_t null_device_count(pco_backend *backend)
{
    (void)backend;
    return 1;
}

/* The contract is a promise that the conformance suite holds the device to: see docs/numerics.md. */
static pco_status null_describe(pco_backend *backend, uint32_t index, pco_device_info *info, pco_error *err)
{
    (void)backend;
    if (index != 0) return null_fail(err, PCO_ERROR_NOT_FOUND, "the null plugin has one device, 0");
    *info = (pco_device_info){.size = sizeof *info, .type = PCO_DEVICE_SOFTWARE};
    snprintf(info->name, sizeof info->name, "null device");
    snprintf(info->driver, sizeof info->driver, "null, supports no op");
    info->memory = info->max_allocation = info->max_binding = UINT64_C(1) << 30;
    info->buffer_alignment = 64;
    info->max_workgroup = 1;
    info->contract = (pco_contract){.round_to_nearest = 1,
                                    .subnormals = 1,
                                    .nan_inf = 1,
                                    .div_ulp = 0.5f,
                                    .sqrt_ulp = 0.5f,
                                    .rsqrt_ulp = 1,
                                    .function_ulp = 4};
    return PCO_OK;
}

static pco_status null_open(pco_backend *backend, uint32_t index, pco_device **device, pco_error *err)
{
    const pco_host *host = backend->host;
    if (index != 0) return null_fail(err, PCO_ERROR_NOT_FOUND, "the null plugin has one device, 0");
    *device = host->allocate(host->user, sizeof **device, _Alignof(pco_device));
    if (!*device) return null_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the null device");
    (*device)->host = host;
    return PCO_OK;
}

/* ---- device ---- */

static void null_close(pco_device *device) { device->host->release(device->host->user, device); }

static uint64_t null_memory_left(pco_device *device)
{
    (void)device;
    return UINT64_C(1) << 30;
}

/* ---- buffers: here, host memory ---- */

static pco_status null_buffer_create(pco_device *device, uint64_t bytes, uint32_t usage, pco_buffer **buffer,
                                     pco_error *err)
{
    const pco_host *host = device->host;
    (void)usage;
    *buffer = host->allocate(host->user, sizeof **buffer, _Alignof(pco_buffer));
    if (!*buffer) return null_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a buffer");
    (*buffer)->bytes = bytes;
    (*buffer)->data = host->allocate(host->user, bytes ? bytes : 1, 64);
    if ((*buffer)->data) return PCO_OK;
    host->release(host->user, *buffer);
    *buffer = NULL;
    return null_fail(err, PCO_ERROR_OUT_OF_DEVICE_MEMORY, "out of memory for a buffer");
}

static void null_buffer_destroy(pco_device *device, pco_buffer *buffer)
{
    if (!buffer) return;
    device->host->release(device->host->user, buffer->data);
    device->host->release(device->host->user, buffer);
}

static int null_outside(const pco_buffer *buffer, uint64_t offset, uint64_t bytes)
{
    return offset > buffer->bytes || bytes > buffer->bytes - offset;
}

static pco_status null_write(pco_device *device, pco_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes,
                             pco_error *err)
{
    (void)device;
    if (null_outside(buffer, offset, bytes)) return null_fail(err, PCO_ERROR_INVALID, "a write outside a buffer");
    if (bytes) memcpy(buffer->data + offset, data, bytes);
    return PCO_OK;
}

static pco_status null_read(pco_device *device, pco_buffer *buffer, uint64_t offset, void *data, uint64_t bytes,
                            pco_error *err)
{
    (void)device;
    if (null_outside(buffer, offset, bytes)) return null_fail(err, PCO_ERROR_INVALID, "a read outside a buffer");
    if (bytes) memcpy(data, buffer->data + offset, bytes);
    return PCO_OK;
}

/* ---- programs: say no in words; the core then decomposes the op, or gives it to the CPU ---- */

static pco_status null_supports(pco_device *device, const pco_part *part, uint32_t node, pco_error *err)
{
    (void)device, (void)part, (void)node;
    return null_fail(err, PCO_ERROR_UNSUPPORTED, "the null device runs nothing");
}

static pco_status null_propose(pco_device *device, const pco_part *part, pco_proposal *proposal, pco_error *err)
{
    (void)device, (void)part, (void)proposal, (void)err;
    return PCO_OK; /* the defaults that the core filled in */
}

static pco_status null_prepare(pco_device *device, const pco_part *part, const pco_proposal *proposal,
                               const pco_plan *plan, pco_program **program, pco_error *err)
{
    (void)device, (void)part, (void)proposal, (void)plan;
    *program = NULL;
    return null_fail(err, PCO_ERROR_UNSUPPORTED, "the null device runs nothing");
}

static void null_program_destroy(pco_device *device, pco_program *program) { (void)device, (void)program; }

static uint32_t null_segments(const pco_program *program)
{
    (void)program;
    return 0;
}

/* ---- queue ---- */

static pco_status null_submit(pco_device *device, pco_program *program, uint32_t first, uint32_t count,
                              uint64_t *ticket, pco_error *err)
{
    (void)device, (void)program, (void)first, (void)count, (void)ticket;
    return null_fail(err, PCO_ERROR_UNSUPPORTED, "the null device runs nothing");
}

static pco_status null_wait(pco_device *device, uint64_t ticket, uint64_t nanoseconds, pco_error *err)
{
    (void)device, (void)ticket, (void)nanoseconds, (void)err;
    return PCO_OK;
}

static const pco_device_api null_device_api = {
    .size = sizeof(pco_device_api), .close = null_close, .memory_left = null_memory_left};

static const pco_buffer_api null_buffer_api = {.size = sizeof(pco_buffer_api),
                                               .create = null_buffer_create,
                                               .destroy = null_buffer_destroy,
                                               .write = null_write,
                                               .read = null_read};

static const pco_program_api null_program_api = {.size = sizeof(pco_program_api),
                                                 .supports = null_supports,
                                                 .propose = null_propose,
                                                 .prepare = null_prepare,
                                                 .destroy = null_program_destroy,
                                                 .segments = null_segments};

static const pco_queue_api null_queue_api = {.size = sizeof(pco_queue_api), .submit = null_submit, .wait = null_wait};

static const pco_plugin null_plugin = {.size = sizeof(pco_plugin),
                                       .abi_version = PCO_ABI_VERSION,
                                       .name = "null",
                                       .version = "0.1.0",
                                       .description = "the skeleton of a plugin: runs nothing",
                                       .create = null_create,
                                       .destroy = null_destroy,
                                       .device_count = null_device_count,
                                       .describe = null_describe,
                                       .open = null_open,
                                       .device = &null_device_api,
                                       .buffer = &null_buffer_api,
                                       .program = &null_program_api,
                                       .queue = &null_queue_api};

const pco_plugin *pco_plugin_query(uint32_t host_abi_version)
{
    return host_abi_version >> 16 == PCO_ABI_MAJOR ? &null_plugin : NULL;
}
