/* The wrapper: every call goes to the cpu plugin, and comes back as the device's fault wants it. */
#include "faulty.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FAULTY_AT = 100, FAULTY_MOST = 256 * 1024 };

static const struct {
    const char *name, *words;
} FAULTS[FAULTY_COUNT] = {
#define FAULTY(name, words) {#name, words},
    FAULTY_LIST
#undef FAULTY
};

static pco_status faulty_fail(pco_error *err, pco_status status, const char *message)
{
    if (err) snprintf(err->message, sizeof err->message, "%s", message);
    return status;
}

/* ---- backend ---- */

/* The wrapped plugin stays loaded: this one is never unloaded either. */
static pco_status faulty_create(const pco_host *host, pco_backend **backend, pco_error *err)
{
    void *object = dlopen(FAULTY_WRAPS, RTLD_NOW | RTLD_LOCAL);
    pco_plugin_query_fn query;
    if (!object) return faulty_fail(err, PCO_ERROR_UNSUPPORTED, dlerror());
    *(void **)&query = dlsym(object, "pco_plugin_query");
    const pco_plugin *plugin = query ? query(PCO_ABI_VERSION) : NULL;
    if (!plugin) return faulty_fail(err, PCO_ERROR_ABI, "the plugin to wrap does not serve this host");
    pco_backend *made = host->allocate(host->user, sizeof *made, _Alignof(pco_backend));
    if (!made) return faulty_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the faulty plugin");
    *made = (pco_backend){.host = host, .plugin = plugin};
    pco_status status = plugin->create(host, &made->inner, err);
    if (status) {
        host->release(host->user, made);
        return status;
    }
    for (uint32_t i = 0; i < plugin->device_count(made->inner); i++) {
        pco_device_info info = {.size = sizeof info};
        if (plugin->describe(made->inner, i, &info, err) == PCO_OK && strstr(info.aliases, "native")) made->index = i;
    }
    *backend = made;
    return PCO_OK;
}

static void faulty_destroy(pco_backend *backend)
{
    if (backend->plugin->destroy) backend->plugin->destroy(backend->inner);
    backend->host->release(backend->host->user, backend);
}

static uint32_t faulty_device_count(pco_backend *backend)
{
    (void)backend;
    return FAULTY_COUNT;
}

static pco_status faulty_describe(pco_backend *backend, uint32_t index, pco_device_info *info, pco_error *err)
{
    if (index >= FAULTY_COUNT) return faulty_fail(err, PCO_ERROR_NOT_FOUND, "there is no such fault");
    pco_status status = backend->plugin->describe(backend->inner, backend->index, info, err);
    if (status) return status;
    info->type = PCO_DEVICE_SOFTWARE;
    memset(info->uuid, 0, sizeof info->uuid);
    snprintf(info->name, sizeof info->name, "%s", FAULTS[index].name);
    snprintf(info->aliases, sizeof info->aliases, "%s", FAULTS[index].name);
    snprintf(info->driver, sizeof info->driver, "-");
    info->driver_version[0] = info->driver_file[0] = 0;
    snprintf(info->platform, sizeof info->platform, "-");
    snprintf(info->not_in_build, sizeof info->not_in_build, "%s", FAULTS[index].words);
    if (index == FAULTY_alignment) info->buffer_alignment = 4;
    if (index == FAULTY_subnormal) info->contract.subnormals = 1;
    if (index == FAULTY_accumulator) info->contract.accumulate_f32 = PCO_F32;
    return PCO_OK;
}

static pco_status faulty_open(pco_backend *backend, uint32_t index, pco_device **device, pco_error *err)
{
    const pco_host *host = backend->host;
    if (index >= FAULTY_COUNT) return faulty_fail(err, PCO_ERROR_NOT_FOUND, "there is no such fault");
    if (index == FAULTY_dead) abort();
    pco_device *made = host->allocate(host->user, sizeof *made, _Alignof(pco_device));
    if (!made) return faulty_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a device");
    *made = (pco_device){.host = host, .plugin = backend->plugin, .fault = (faulty_id)index};
    pco_status status = backend->plugin->open(backend->inner, backend->index, &made->inner, err);
    if (status)
        host->release(host->user, made);
    else
        *device = made;
    return status;
}

/* ---- device ---- */

static void faulty_close(pco_device *device)
{
    device->plugin->device->close(device->inner);
    if (device->kept) device->host->release(device->host->user, device->kept);
    faulty_forget(device);
    device->host->release(device->host->user, device);
}

static uint64_t faulty_memory_left(pco_device *device) { return device->plugin->device->memory_left(device->inner); }

/* ---- buffers ---- */

static pco_status faulty_buffer_create(pco_device *device, uint64_t bytes, uint32_t usage, pco_buffer **buffer,
                                       pco_error *err)
{
    const pco_host *host = device->host;
    device->allocations++;
    if ((device->fault == FAULTY_starved && device->allocations % 50 == 0) ||
        (device->fault == FAULTY_memory && bytes > FAULTY_MOST))
        return faulty_fail(err, PCO_ERROR_OUT_OF_DEVICE_MEMORY, "out of device memory");
    pco_buffer *made = host->allocate(host->user, sizeof *made, _Alignof(pco_buffer));
    if (!made) return faulty_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a buffer");
    *made = (pco_buffer){.bytes = bytes, .before = device->newest};
    pco_status status = device->plugin->buffer->create(device->inner, bytes, usage, &made->inner, err);
    if (status) {
        host->release(host->user, made);
        return status;
    }
    if (made->before) made->before->behind = made;
    device->newest = made;
    if (device->fault == FAULTY_hole) faulty_inherit(device, made);
    *buffer = made;
    return PCO_OK;
}

static void faulty_buffer_destroy(pco_device *device, pco_buffer *buffer)
{
    if (!buffer) return;
    if (device->kept_for == buffer) device->kept_for = NULL;
    if (device->fault == FAULTY_hole) faulty_leave(device, buffer);
    if (buffer->before) buffer->before->behind = buffer->behind;
    if (buffer->behind) buffer->behind->before = buffer->before;
    if (device->newest == buffer) device->newest = buffer->before;
    if (buffer->old) device->host->release(device->host->user, buffer->old);
    device->plugin->buffer->destroy(device->inner, buffer->inner);
    device->host->release(device->host->user, buffer);
}

static pco_status faulty_buffer_write(pco_device *device, pco_buffer *buffer, uint64_t offset, const void *data,
                                      uint64_t bytes, pco_error *err)
{
    return device->plugin->buffer->write(device->inner, buffer->inner, offset, data, bytes, err);
}

static pco_status faulty_buffer_read(pco_device *device, pco_buffer *buffer, uint64_t offset, void *data,
                                     uint64_t bytes, pco_error *err)
{
    return device->plugin->buffer->read(device->inner, buffer->inner, offset, data, bytes, err);
}

static pco_status faulty_buffer_copy(pco_device *device, pco_buffer *from, uint64_t from_offset, pco_buffer *to,
                                     uint64_t to_offset, uint64_t bytes, pco_error *err)
{
    return device->plugin->buffer->copy(device->inner, from->inner, from_offset, to->inner, to_offset, bytes, err);
}

static void *faulty_buffer_map(pco_device *device, pco_buffer *buffer)
{
    return device->plugin->buffer->map(device->inner, buffer->inner);
}

/* ---- programs ---- */

static pco_status faulty_supports(pco_device *device, const pco_part *part, uint32_t node, pco_error *err)
{
    if (device->fault == FAULTY_nothing) return faulty_fail(err, PCO_ERROR_UNSUPPORTED, "there is no op here");
    return device->plugin->program->supports(device->inner, part, node, err);
}

static uint32_t faulty_variants(pco_device *device, const pco_part *part, uint32_t node, pco_variant *variants,
                                uint32_t capacity)
{
    if (device->plugin->program->variants)
        return device->plugin->program->variants(device->inner, part, node, variants, capacity);
    if (capacity) variants[0] = (pco_variant){.name = "default"};
    return 1;
}

static pco_status faulty_propose(pco_device *device, const pco_part *part, pco_proposal *proposal, pco_error *err)
{
    pco_status status = device->plugin->program->propose(device->inner, part, proposal, err);
    for (uint32_t i = 0; device->fault == FAULTY_alignment && i < part->n_tensors; i++)
        proposal->tensors[i].alignment = 4;
    return status;
}

static pco_status faulty_convert(pco_device *device, const pco_tensor *tensor, uint32_t layout, const void *from,
                                 void *to, uint64_t bytes, pco_error *err)
{
    if (!device->plugin->program->convert) return faulty_fail(err, PCO_ERROR_INVALID, "there is no such layout");
    return device->plugin->program->convert(device->inner, tensor, layout, from, to, bytes, err);
}

static faulty_tensor faulty_tensor_of(const pco_part *part, const pco_plan *plan, uint32_t index)
{
    faulty_tensor t = {0};
    if (index == PCO_NONE) return t;
    const pco_tensor *tensor = &part->tensors[index];
    const pco_place *place = &plan->tensors[index];
    if (place->buffer == PCO_NONE && tensor->alias != PCO_NONE) place = &plan->tensors[tensor->alias];
    t = (faulty_tensor){
        .offset = place->offset, .bytes = tensor->bytes, .count = 1, .dtype = tensor->dtype, .rank = tensor->rank};
    memcpy(t.shape, tensor->shape, sizeof t.shape);
    for (uint32_t d = 0; d < t.rank; d++) t.count *= (uint64_t)t.shape[d];
    if (place->buffer != PCO_NONE && t.bytes) t.buffer = plan->buffers[place->buffer];
    return t;
}

static void faulty_note(const pco_part *part, const pco_plan *plan, uint32_t index, faulty_node *to)
{
    const pco_node *node = &part->nodes[index];
    *to = (faulty_node){.op = node->op, .n_inputs = node->n_inputs, .n_outputs = node->n_outputs};
    if (node->attrs) memcpy(to->attrs, node->attrs, node->attrs_size < 256 ? node->attrs_size : 256);
    for (uint32_t i = 0; i < node->n_inputs; i++) to->in[i] = faulty_tensor_of(part, plan, node->inputs[i]);
    for (uint32_t i = 0; i < node->n_outputs; i++) to->out[i] = faulty_tensor_of(part, plan, node->outputs[i]);
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (to->in[i].buffer && to->in[i].buffer == to->out[0].buffer && to->in[i].offset == to->out[0].offset)
            to->in_place = true;
}

static pco_status faulty_prepare(pco_device *device, const pco_part *part, const pco_proposal *proposal,
                                 const pco_plan *plan, pco_program **program, pco_error *err)
{
    const pco_host *host = device->host;
    pco_plan inner = *plan;
    pco_program *made = host->allocate(host->user, sizeof *made + part->n_nodes * sizeof(faulty_node), 16);
    pco_buffer **buffers = host->allocate(host->user, (plan->n_buffers + 1) * sizeof *buffers, 16);
    pco_place *places = host->allocate(host->user, (part->n_tensors + 1) * sizeof *places, 16);
    pco_status status = PCO_ERROR_OUT_OF_HOST_MEMORY;
    const bool softmax = part->n_nodes && part->nodes[0].op == PCO_OP_SOFTMAX;
    if (softmax && device->fault == FAULTY_compiler) abort();
    if (softmax && device->fault == FAULTY_uncompiled) {
        status = faulty_fail(err, PCO_ERROR_INTERNAL, "kernel 'softmax' does not compile: too many registers");
    } else if (made && buffers && places) {
        *made = (pco_program){.n_nodes = part->n_nodes, .nodes = (faulty_node *)(made + 1)};
        for (uint32_t i = 0; i < plan->n_buffers; i++) buffers[i] = plan->buffers[i]->inner;
        for (uint32_t i = 0; i < part->n_tensors; i++) {
            places[i] = plan->tensors[i];
            if (device->fault == FAULTY_alignment) places[i].offset &= ~UINT64_C(63);
        }
        for (uint32_t i = 0; i < part->n_nodes; i++) faulty_note(part, plan, i, &made->nodes[i]);
        inner.buffers = buffers, inner.tensors = places;
        status = device->plugin->program->prepare(device->inner, part, proposal, &inner, &made->inner, err);
    }
    if (buffers) host->release(host->user, buffers);
    if (places) host->release(host->user, places);
    if (status) {
        if (made) host->release(host->user, made);
        return status;
    }
    made->number = ++device->programs;
    made->fault = device->fault, made->api = device->plugin->program;
    made->segments = device->fault == FAULTY_empty ? 0 : device->plugin->program->segments(made->inner);
    *program = made;
    return PCO_OK;
}

static void faulty_program_destroy(pco_device *device, pco_program *program)
{
    if (!program) return;
    device->plugin->program->destroy(device->inner, program->inner);
    device->host->release(device->host->user, program);
}

/* ---- running ---- */

/* Does nothing at all for this program, and says that it did. */
static bool faulty_skips(const pco_device *device, const pco_program *program)
{
    return (device->fault == FAULTY_idle && program->nodes[0].op == PCO_OP_SOFTMAX) ||
           (device->fault == FAULTY_once && program->runs > 1);
}

static pco_status faulty_clear(pco_device *device, const pco_program *program, pco_error *err)
{
    static const unsigned char ZERO[4096];
    for (uint32_t n = 0; n < program->n_nodes; n++) {
        const faulty_tensor *t = &program->nodes[n].out[0];
        for (uint64_t at = 0; t->buffer && at < t->bytes; at += sizeof ZERO) {
            const uint64_t bytes = t->bytes - at < sizeof ZERO ? t->bytes - at : sizeof ZERO;
            pco_status status =
                device->plugin->buffer->write(device->inner, t->buffer->inner, t->offset + at, ZERO, bytes, err);
            if (status) return status;
        }
    }
    return PCO_OK;
}

/* What a device does when its time has come; 1 if the submission ends here. */
static int faulty_at_last(pco_device *device, const pco_program *program, pco_status *status, pco_error *err)
{
    if (device->runs < FAULTY_AT) return 0;
    switch (device->fault) {
    case FAULTY_lost: *status = faulty_fail(err, PCO_ERROR_DEVICE_LOST, "the device is lost"); return 1;
    case FAULTY_reset: *status = faulty_clear(device, program, err); return 1;
    case FAULTY_hang:
        for (;;) pause();
    case FAULTY_crash: abort();
    default: return 0;
    }
}

static pco_status faulty_submit_sound(pco_device *device, pco_program *program, uint32_t first, uint32_t count,
                                      pco_error *err)
{
    uint64_t ticket;
    pco_status status = device->plugin->queue->submit(device->inner, program->inner, first, count, &ticket, err);
    return status ? status : device->plugin->queue->wait(device->inner, ticket, UINT64_MAX, err);
}

/* Results that were held back are written now. */
static pco_status faulty_deliver(pco_device *device, pco_error *err)
{
    pco_buffer *to = device->kept_for;
    device->kept_for = NULL;
    if (device->fault != FAULTY_late || !to) return PCO_OK;
    return device->plugin->buffer->write(device->inner, to->inner, device->kept_offset, device->kept,
                                         device->kept_bytes, err);
}

/* Notes that a program runs, and which other one ran before it. */
static void faulty_count(pco_device *device, pco_program *program)
{
    device->runs++;
    program->runs++;
    if (device->last != program->number) device->other = device->last;
    device->last = program->number;
    if (program->runs == 1) program->other = device->other;
    device->disturbed = device->other != program->other;
}

static pco_status faulty_submit(pco_device *device, pco_program *program, uint32_t first, uint32_t count,
                                uint64_t *ticket, pco_error *err)
{
    const pco_host *host = device->host;
    const faulty_node *node = &program->nodes[0];
    const faulty_tensor *y = &node->out[0];
    unsigned char *before = NULL;
    faulty_count(device, program);
    *ticket = device->runs;
    pco_status status = faulty_deliver(device, err);
    if (status || faulty_at_last(device, program, &status, err) || faulty_skips(device, program)) return status;
    if (y->buffer) {
        before = host->allocate(host->user, y->bytes, 16);
        if (!before) return faulty_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory");
        status = device->plugin->buffer->read(device->inner, y->buffer->inner, y->offset, before, y->bytes, err);
    }
    if (!status) status = faulty_round(device, node, err);
    if (!status) status = faulty_submit_sound(device, program, first, count, err);
    if (!status) status = faulty_restore(device, node, err);
    const faulty_id fault = device->fault;
    if (!status && (fault == FAULTY_cached || fault == FAULTY_pointer || fault == FAULTY_prefix))
        status = faulty_remember(device, program, node, err);
    for (uint32_t n = 0; n < program->n_nodes && !status && device->fault != FAULTY_sound; n++)
        status = faulty_spoil(device, &program->nodes[n], n == 0 ? before : NULL, err);
    if (before) host->release(host->user, before);
    return status;
}

static pco_status faulty_wait(pco_device *device, uint64_t ticket, uint64_t nanoseconds, pco_error *err)
{
    (void)device, (void)ticket, (void)nanoseconds, (void)err;
    return PCO_OK;
}

static uint32_t faulty_segments(const pco_program *program) { return program->segments; }

static uint32_t faulty_segments_until(const pco_program *program, uint32_t node)
{
    const uint32_t until = program->api->segments_until(program->inner, node);
    switch (program->fault) {
    case FAULTY_early:
    case FAULTY_empty: return 0;
    case FAULTY_beyond: return program->segments + 1;
    default: return until;
    }
}

/* ---- what its compiler says, to those who asked ---- */

static pco_status faulty_inspect(pco_device *device, int on, pco_error *err)
{
    (void)err;
    device->inspected = on;
    return PCO_OK;
}

/* One launch for a node. Its figures are made up: registers as many as the op's number, spills in matmul. */
static pco_status faulty_describe_launch(pco_device *device, pco_program *program, uint32_t index,
                                         pco_dispatch_info *info, pco_error *err)
{
    if (!device->inspected || index >= program->n_nodes)
        return faulty_fail(err, PCO_ERROR_NOT_FOUND, "there is no such launch");
    const uint32_t op = program->nodes[index].op;
    device->figures[0] = (pco_code_figure){"VGPRs", op};
    device->figures[1] = (pco_code_figure){"Spilled VGPRs", op == PCO_OP_MATMUL ? 3 : 0};
    device->code = (pco_machine_code){
        .name = "code", .figures = device->figures, .n_figures = 2, .listing = "s_endpgm\n", .listing_bytes = 9};
    snprintf(device->kernel, sizeof device->kernel, "kernel_%u", (unsigned)op);
    *info = (pco_dispatch_info){.size = sizeof *info,
                                .api = PCO_DISPATCH_OPENCL,
                                .node = index,
                                .kernel = device->kernel,
                                .entry = "main",
                                .options = "",
                                .workgroup = {1, 1, 1},
                                .groups = {1, 1, 1},
                                .n_codes = 1,
                                .codes = &device->code};
    return PCO_OK;
}

static const pco_device_api DEVICE = {
    .size = sizeof DEVICE, .close = faulty_close, .memory_left = faulty_memory_left, .inspect = faulty_inspect};
static const pco_buffer_api BUFFER = {.size = sizeof BUFFER,
                                      .create = faulty_buffer_create,
                                      .destroy = faulty_buffer_destroy,
                                      .write = faulty_buffer_write,
                                      .read = faulty_buffer_read,
                                      .copy = faulty_buffer_copy,
                                      .map = faulty_buffer_map};
static const pco_program_api PROGRAM = {.size = sizeof PROGRAM,
                                        .supports = faulty_supports,
                                        .variants = faulty_variants,
                                        .propose = faulty_propose,
                                        .convert = faulty_convert,
                                        .prepare = faulty_prepare,
                                        .destroy = faulty_program_destroy,
                                        .segments = faulty_segments,
                                        .describe = faulty_describe_launch,
                                        .segments_until = faulty_segments_until};
static const pco_queue_api QUEUE = {.size = sizeof QUEUE, .submit = faulty_submit, .wait = faulty_wait};
static const pco_plugin TABLE = {.size = sizeof TABLE,
                                 .abi_version = PCO_ABI_VERSION,
                                 .name = "faulty",
                                 .version = "1",
                                 .description = "the cpu plugin with one fault per device, to measure the suite",
                                 .create = faulty_create,
                                 .destroy = faulty_destroy,
                                 .device_count = faulty_device_count,
                                 .describe = faulty_describe,
                                 .open = faulty_open,
                                 .device = &DEVICE,
                                 .buffer = &BUFFER,
                                 .program = &PROGRAM,
                                 .queue = &QUEUE};

const pco_plugin *pco_plugin_query(uint32_t host_abi_version)
{
    (void)host_abi_version;
    return &TABLE;
}
