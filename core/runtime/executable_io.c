/* What is seen of an executable from outside beside its bytes: memory of inputs and outputs that the host can address,
 * tensors of DLPack, and what nodes took. */
#include "runtime/session_internal.h"

#include "base/dtype.h"
#include "base/error.h"
#include "graph/infer.h"
#include "runtime/dlpack.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- mapping ---- */

pco_status pco_executable_map(pco_executable *executable, uint32_t handle, void **address, pco_error *err)
{
    PCO_NEEDS(address);
    *address = NULL;
    EXECUTABLE_NEEDS(executable);
    const pco_tensor *x = pco_executable_describe(executable, handle);
    if (!x || (x->kind != PCO_KIND_INPUT && x->kind != PCO_KIND_VALUE && x->kind != PCO_KIND_OUTPUT))
        return pco_fail(err, PCO_ERROR_INVALID, "tensor %u is no input, run value or output of this executable",
                        handle);
    const session_part *only = NULL;
    uint32_t users = 0;
    for (uint32_t p = 0; p < executable->n_parts; p++) {
        if (executable->parts[p].local[handle] == PCO_NONE) continue;
        if (!only) only = &executable->parts[p]; /* of an output: the one that makes it */
        users++;
    }
    if (!only || only->places[only->local[handle]].buffer == PCO_NONE)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "tensor '%s' has no memory: %s", x->name,
                        x->bytes ? "nothing reads it" : "it has no elements");
    if (users > 1 && x->kind != PCO_KIND_OUTPUT)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                        "tensor '%s' is read by %" PRIu32 " parts of the graph, each in memory "
                        "of its own; write it with pco_executable_write",
                        x->name, users);
    const session_slot *slot = &executable->session->slots[only->slot];
    const pco_place *place = &only->places[only->local[handle]];
    unsigned char *base =
        slot->plugin->buffer->map ? slot->plugin->buffer->map(slot->device, only->buffers[place->buffer]) : NULL;
    if (!base)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "the host cannot address tensor '%s' on device %s", x->name,
                        slot->entry->id);
    *address = base + place->offset;
    if (x->kind != PCO_KIND_OUTPUT) executable_take_back(executable, handle);
    if (x->kind != PCO_KIND_OUTPUT) executable_give(executable, handle); /* the host writes it there */
    return PCO_OK;
}

/* ---- memory of the caller ---- */

pco_status pco_executable_lend(pco_executable *executable, uint32_t handle, const void *data, uint64_t bytes,
                               pco_error *err)
{
    EXECUTABLE_NEEDS(executable);
    pco_status status = executable_check(executable, handle, data ? bytes : 0, 0, err);
    if (status) return status;
    const pco_tensor *x = pco_executable_describe(executable, handle);
    const uint64_t unit = pco_dtype_block_bytes(x->dtype);
    if (!data) {
        executable_take_back(executable, handle);
        return PCO_OK;
    }
    if (bytes != x->bytes)
        return pco_fail(err, PCO_ERROR_INVALID, "tensor '%s' has %" PRIu64 " bytes, not %" PRIu64, x->name, x->bytes,
                        bytes);
    if (unit <= 8 && (uintptr_t)data % unit)
        return pco_fail(err, PCO_ERROR_INVALID, "the memory lent for '%s' is not aligned to %" PRIu64 " bytes", x->name,
                        unit);
    int readers = 0;
    for (uint32_t p = 0; p < executable->n_parts; p++) {
        const session_part *part = &executable->parts[p];
        const session_slot *slot = &executable->session->slots[part->slot];
        if (part->local[handle] == PCO_NONE || part->places[part->local[handle]].buffer == PCO_NONE) continue;
        if (!slot->plugin->program->lend)
            return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                            "device %s does not read memory of the host: write '%s' with pco_executable_write",
                            slot->entry->id, x->name);
        readers++;
    }
    if (!readers) return PCO_OK;
    executable_move(executable, handle, data);
    executable_give(executable, handle);
    executable->given[handle] = EXECUTABLE_LENT;
    return PCO_OK;
}

/* ---- DLPack ---- */

static pco_status dlpack_type(const pco_tensor *x, DLDataType *type, pco_error *err)
{
    switch (x->dtype) {
    case PCO_F32: *type = (DLDataType){DL_FLOAT, 32, 1}; return PCO_OK;
    case PCO_F16: *type = (DLDataType){DL_FLOAT, 16, 1}; return PCO_OK;
    case PCO_BF16: *type = (DLDataType){DL_BFLOAT, 16, 1}; return PCO_OK;
    case PCO_I32: *type = (DLDataType){DL_INT, 32, 1}; return PCO_OK;
    case PCO_BOOL: *type = (DLDataType){DL_BOOL, 8, 1}; return PCO_OK;
    default:
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "tensor '%s' is %s, which DLPack has no type for", x->name,
                        pco_dtype_name(x->dtype));
    }
}

/* Does the tensor from outside have the type and shape of x, and lie in memory of the host? */
static pco_status dlpack_check(const pco_tensor *x, const DLTensor *tensor, pco_error *err)
{
    DLDataType type;
    char text[128];
    pco_status status = dlpack_type(x, &type, err);
    if (status) return status;
    if (tensor->device.device_type != DL_CPU)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                        "the DLPack tensor for '%s' is on a device of DLPack's type %d; move it "
                        "to the CPU (type %d)",
                        x->name, (int)tensor->device.device_type, DL_CPU);
    if (tensor->dtype.code != type.code || tensor->dtype.bits != type.bits || tensor->dtype.lanes != 1)
        return pco_fail(err, PCO_ERROR_INVALID,
                        "the DLPack tensor for '%s' has type code %u of %u bits and %u lanes, and "
                        "must be %s: code %u of %u bits and 1 lane",
                        x->name, tensor->dtype.code, tensor->dtype.bits, tensor->dtype.lanes, pco_dtype_name(x->dtype),
                        type.code, type.bits);
    int same = tensor->ndim == (int32_t)x->rank;
    for (uint32_t i = 0; same && i < x->rank; i++) same = tensor->shape && tensor->shape[i] == x->shape[i];
    if (!same)
        return pco_fail(err, PCO_ERROR_INVALID,
                        "the DLPack tensor for '%s' has %d dimensions and another shape than %s", x->name,
                        (int)tensor->ndim, pco_tensor_shape_text(x, text));
    if (x->bytes && !tensor->data)
        return pco_fail(err, PCO_ERROR_INVALID, "the DLPack tensor for '%s' has no data", x->name);
    return PCO_OK;
}

static int dlpack_is_contiguous(const DLTensor *tensor)
{
    int64_t step = 1;
    for (int32_t i = tensor->ndim; tensor->strides && i-- > 0;) {
        if (tensor->shape[i] != 1 && tensor->strides[i] != step) return 0;
        step *= tensor->shape[i];
    }
    return 1;
}

/* Element by element, in the order of a contiguous tensor. */
static void dlpack_gather(const DLTensor *tensor, size_t size, int64_t count, unsigned char *to)
{
    const unsigned char *from = (const unsigned char *)tensor->data + tensor->byte_offset;
    int64_t index[PCO_MAX_RANK] = {0};
    for (int64_t i = 0; i < count; i++) {
        int64_t at = 0;
        for (int32_t d = 0; d < tensor->ndim; d++) at += index[d] * tensor->strides[d];
        memcpy(to + (size_t)i * size, from + at * (int64_t)size, size);
        for (int32_t d = tensor->ndim; d-- > 0 && ++index[d] == tensor->shape[d];) index[d] = 0;
    }
}

pco_status pco_executable_write_dlpack(pco_executable *executable, uint32_t handle,
                                       const struct DLManagedTensor *tensor, pco_error *err)
{
    EXECUTABLE_NEEDS(executable);
    PCO_NEEDS(tensor);
    const DLTensor *from = &tensor->dl_tensor;
    pco_status status = executable_check(executable, handle, 0, 0, err);
    if (status) return status;
    const pco_tensor *x = pco_executable_describe(executable, handle);
    status = dlpack_check(x, from, err);
    if (status || !x->bytes) return status;
    if (dlpack_is_contiguous(from))
        return pco_executable_write(executable, handle, (const unsigned char *)from->data + from->byte_offset, x->bytes,
                                    err);
    unsigned char *copy = malloc(x->bytes);
    if (!copy) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for '%s'", x->name);
    const int64_t count = pco_tensor_elements(x);
    dlpack_gather(from, (size_t)(x->bytes / (uint64_t)count), count, copy);
    status = pco_executable_write(executable, handle, copy, x->bytes, err);
    free(copy);
    return status;
}

/* The tensor that is handed out, its shape and its data in one. */
typedef struct dlpack_made {
    DLManagedTensor managed;
    int64_t shape[PCO_MAX_RANK], strides[PCO_MAX_RANK];
    _Alignas(64) unsigned char data[];
} dlpack_made;

static void dlpack_delete(DLManagedTensor *managed) { free(managed); }

pco_status pco_executable_read_dlpack(pco_executable *executable, uint32_t handle, struct DLManagedTensor **tensor,
                                      pco_error *err)
{
    PCO_NEEDS(tensor);
    *tensor = NULL;
    EXECUTABLE_NEEDS(executable);
    DLDataType type;
    pco_status status = executable_check(executable, handle, 0, 1, err);
    if (status) return status;
    const pco_tensor *x = pco_executable_describe(executable, handle);
    status = dlpack_type(x, &type, err);
    if (status) return status;
    dlpack_made *made = aligned_alloc(64, (sizeof *made + x->bytes + 63) / 64 * 64);
    if (!made) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for '%s'", x->name);
    memcpy(made->shape, x->shape, sizeof made->shape);
    int64_t step = 1;
    for (uint32_t d = x->rank; d-- > 0;) {
        made->strides[d] = step;
        step *= x->shape[d];
    }
    made->managed = (DLManagedTensor){.dl_tensor = {.data = made->data,
                                                    .device = {DL_CPU, 0},
                                                    .ndim = (int32_t)x->rank,
                                                    .dtype = type,
                                                    .shape = made->shape,
                                                    .strides = made->strides},
                                      .deleter = dlpack_delete};
    status = pco_executable_read(executable, handle, made->data, x->bytes, err);
    if (status)
        free(made);
    else
        *tensor = &made->managed;
    return status;
}

/* ---- timings ---- */

pco_status pco_executable_timings(const pco_executable *executable, pco_node_timing *timings, uint32_t capacity,
                                  uint32_t *count, pco_error *err)
{
    PCO_NEEDS(count);
    *count = 0;
    EXECUTABLE_NEEDS(executable);
    if (!timings) capacity = 0;
    const size_t size = capacity ? timings->size : 0;
    pco_status status = capacity ? pco_check_sized(sizeof *timings, size, err) : PCO_OK;
    if (!status && !executable->session->profiling)
        status = pco_fail(err, PCO_ERROR_INVALID, "nothing was timed: pco_session_profile comes before the executable");
    for (uint32_t p = 0; !status && p < executable->n_parts; p++) {
        const session_part *part = &executable->parts[p];
        const session_slot *slot = &executable->session->slots[part->slot];
        pco_timing *taken = calloc(part->n_nodes + 1, sizeof *taken);
        if (!taken) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for timings");
        const uint32_t n = slot->plugin->program->timings
                               ? slot->plugin->program->timings(slot->device, part->program, taken, part->n_nodes)
                               : 0;
        for (uint32_t i = 0; i < n && i < part->n_nodes; i++, ++*count) {
            const uint32_t node = part->first_node + taken[i].node;
            if (*count >= capacity || taken[i].node >= part->n_nodes) continue;
            const pco_node_timing one = {.size = size,
                                         .node = executable->graph->nodes[node].name,
                                         .op = pco_node_op(&executable->graph->nodes[node])->name,
                                         .device = slot->entry->id,
                                         .index = node,
                                         .nanoseconds = taken[i].nanoseconds};
            memcpy((char *)timings + *count * size, &one, size);
        }
        free(taken);
    }
    return status;
}
