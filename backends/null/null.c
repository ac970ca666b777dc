/* The skeleton of a backend: the smallest plugin that loads. Copy this file, rename `null`, and fill in from
 * the top.
 *
 * Portico finds a plugin by scanning directories (PORTICO_PLUGIN_PATH first), loads it, and calls
 * pco_plugin_query. Include nothing of Portico but <portico/plugin.h>, link nothing of it, export that one
 * symbol. The header says what each call promises; three rules hold for all of them:
 *   - never abort, exit, print or throw: return a pco_status, and one line in err;
 *   - never allocate, log or start threads behind the host's back where it offers a service (pco_host);
 *   - refuse in words what cannot be done: Portico then runs that node elsewhere and tells the user why.
 *
 * `portico devices` shows whether the plugin is found; `portico conformance --devices null` runs every op
 * that `supports` accepts against an oracle, and says when you are done. */
#include <portico/plugin.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wunused-parameter" /* goes when they are used */

/* The four objects are yours to define. Portico only passes pointers to them around. */
struct pco_backend { /* the driver library, once it is loaded */
    const pco_host *host;
};
struct pco_device { /* a context, a queue, compiled kernels */
    const pco_host *host;
};
/* struct pco_buffer: an allocation. struct pco_program: recorded commands, one entry per segment. There is no
 * need for either while no op is supported. */

static pco_status null_fail(pco_error *err, pco_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (err) vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    return status;
}

/* ---- backend: open the driver, count devices, describe them without opening them ---- */

static pco_status null_create(const pco_host *host, pco_backend **backend, pco_error *err)
{
    /* A real backend loads its driver's library here; UNSUPPORTED, with a reason, where there is none. */
    *backend = host->allocate(host->user, sizeof **backend, 16);
    if (!*backend) return null_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the backend");
    (*backend)->host = host;
    return PCO_OK;
}

static void null_destroy(pco_backend *backend)
{
    backend->host->release(backend->host->user, backend);
}

static uint32_t null_device_count(pco_backend *backend)
{
    return 1;
}

static pco_status null_describe(pco_backend *backend, uint32_t index, pco_device_info *info, pco_error *err)
{
    if (index != 0) return null_fail(err, PCO_ERROR_NOT_FOUND, "there is no device %u", index);
    if (info->size < sizeof *info) return null_fail(err, PCO_ERROR_ABI, "the host is too old");
    /* The contract is what the conformance suite judges by: promise what the hardware's manual promises. */
    /* clang-format off */
    *info = (pco_device_info){
        .size = sizeof *info, .type = PCO_DEVICE_OTHER,
        .name = "null device", .driver = "none", .aliases = "null",
        .max_allocation = 1u << 30, .max_binding = 1u << 30, .buffer_alignment = 64, .max_workgroup = 1,
        .contract = {.size = sizeof(pco_contract), .accumulate_f32 = PCO_F32, .accumulate_f16 = PCO_F32,
                     .accumulate_bf16 = PCO_F32, .compute = PCO_F32, .div_ulp = 2.5f, .sqrt_ulp = 3.0f,
                     .rsqrt_ulp = 2.0f, .function_ulp = 4.0f},
    };
    /* clang-format on */
    return PCO_OK;
}

/* ---- device ---- */

static pco_status null_open(pco_backend *backend, uint32_t index, pco_device **device, pco_error *err)
{
    if (index != 0) return null_fail(err, PCO_ERROR_NOT_FOUND, "there is no device %u", index);
    *device = backend->host->allocate(backend->host->user, sizeof **device, 16);
    if (!*device) return null_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the device");
    (*device)->host = backend->host;
    return PCO_OK;
}

static void null_close(pco_device *device)
{
    device->host->release(device->host->user, device);
}

static uint64_t null_memory_left(pco_device *device)
{
    return 0;
}

/* ---- buffers: the core places tensors in them at offsets that are multiples of buffer_alignment ---- */

static pco_status null_buffer_create(pco_device *device, uint64_t bytes, uint32_t usage, pco_buffer **buffer,
                                     pco_error *err)
{
    *buffer = NULL;
    return null_fail(err, PCO_ERROR_OUT_OF_DEVICE_MEMORY, "the null device has no memory for %llu bytes",
                     (unsigned long long)bytes);
}

static void null_buffer_destroy(pco_device *device, pco_buffer *buffer) {}

/* Check ranges: offset and bytes come from the caller. Complete when they return. */
static pco_status null_write(pco_device *device, pco_buffer *buffer, uint64_t offset, const void *data,
                             uint64_t bytes, pco_error *err)
{
    return null_fail(err, PCO_ERROR_INVALID, "there are no buffers");
}

static pco_status null_read(pco_device *device, pco_buffer *buffer, uint64_t offset, void *data,
                            uint64_t bytes, pco_error *err)
{
    return null_fail(err, PCO_ERROR_INVALID, "there are no buffers");
}

static pco_status null_copy(pco_device *device, pco_buffer *from, uint64_t from_offset, pco_buffer *to,
                            uint64_t to_offset, uint64_t bytes, pco_error *err)
{
    return null_fail(err, PCO_ERROR_INVALID, "there are no buffers");
}

static void *null_map(pco_device *device, pco_buffer *buffer)
{
    return NULL; /* the host cannot address it: the core then uses read and write */
}

/* ---- programs: supports, propose, (the core plans memory,) prepare; then submit, again and again ---- */

static pco_status null_supports(pco_device *device, const pco_part *part, uint32_t node, pco_error *err)
{
    /* Start with one op: accept PCO_OP_ADD of f32 here, compute it in submit, run the suite. Next op. */
    return null_fail(err, PCO_ERROR_UNSUPPORTED, "op %u is not known to the null device",
                     part->nodes[node].op);
}

static pco_status null_propose(pco_device *device, const pco_part *part, pco_proposal *proposal,
                               pco_error *err)
{
    /* The core's defaults stand: no workspace, nothing in place, nothing fused, the file's layouts. */
    return PCO_OK;
}

static pco_status null_prepare(pco_device *device, const pco_part *part, const pco_proposal *proposal,
                               const pco_plan *plan, pco_program **program, pco_error *err)
{
    /* Compile, record, and copy what is needed of part and plan: they are gone when this returns. */
    *program = NULL;
    return null_fail(err, PCO_ERROR_UNSUPPORTED, "the null device runs none of %u nodes", part->n_nodes);
}

static void null_program_destroy(pco_device *device, pco_program *program) {}

static uint32_t null_segments(const pco_program *program)
{
    return 0;
}

/* ---- queue: submit starts segments and allocates nothing; wait ends when they are complete ---- */

static pco_status null_submit(pco_device *device, pco_program *program, uint32_t first, uint32_t count,
                              uint64_t *ticket, pco_error *err)
{
    return null_fail(err, PCO_ERROR_INVALID, "there are no programs");
}

static pco_status null_wait(pco_device *device, uint64_t ticket, uint64_t nanoseconds, pco_error *err)
{
    return PCO_OK;
}

/* ---- the tables ---- */

/* clang-format off */
static const pco_device_api NULL_DEVICE = {
    .size = sizeof(pco_device_api), .close = null_close, .memory_left = null_memory_left};
static const pco_buffer_api NULL_BUFFER = {
    .size = sizeof(pco_buffer_api), .create = null_buffer_create, .destroy = null_buffer_destroy,
    .write = null_write, .read = null_read, .copy = null_copy, .map = null_map};
static const pco_program_api NULL_PROGRAM = {
    .size = sizeof(pco_program_api), .supports = null_supports, .propose = null_propose,
    .prepare = null_prepare, .destroy = null_program_destroy, .segments = null_segments};
static const pco_queue_api NULL_QUEUE = {
    .size = sizeof(pco_queue_api), .submit = null_submit, .wait = null_wait};
static const pco_plugin NULL_PLUGIN = {
    .size = sizeof(pco_plugin), .abi_version = PCO_ABI_VERSION,
    .name = "null", .version = "0.1.0", .description = "The skeleton of a backend; computes nothing",
    .create = null_create, .destroy = null_destroy, .device_count = null_device_count,
    .describe = null_describe, .open = null_open,
    .device = &NULL_DEVICE, .buffer = &NULL_BUFFER, .program = &NULL_PROGRAM, .queue = &NULL_QUEUE};
/* clang-format on */

const pco_plugin *pco_plugin_query(uint32_t host_abi_version)
{
    return host_abi_version >> 16 == PCO_ABI_MAJOR ? &NULL_PLUGIN : NULL;
}
