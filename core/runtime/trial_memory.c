/* Memory of a trial: each tensor in a region of its own, with guards around it if wanted. */
#include "runtime/trial.h"

#include "base/error.h"
#include "runtime/trial_step.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static uint64_t trial_align(uint64_t offset, uint64_t alignment)
{
    return (offset + alignment - 1) / alignment * alignment;
}

/* ---- where everything lies ---- */

static uint32_t trial_root(const pco_trial *trial, uint32_t tensor)
{
    while (trial->part.tensors[tensor].alias != PCO_NONE) tensor = trial->part.tensors[tensor].alias;
    return tensor;
}

void pco_trial_lay_out(const pco_trial *trial, const pco_trial_placement *placement, const void *const *data,
                       pco_trial_memory *memory)
{
    const pco_part *part = &trial->part;
    *memory = (pco_trial_memory){.trial = trial, .placement = *placement, .n_regions = part->n_tensors + part->n_nodes};
    for (uint32_t t = 0; t < part->n_tensors; t++) {
        const pco_tensor *tensor = &part->tensors[t];
        const pco_tensor_proposal *p = &trial->tensors[t];
        pco_trial_region *region = &memory->regions[t];
        *region = (pco_trial_region){.shares = tensor->alias == PCO_NONE ? PCO_NONE : trial_root(trial, t),
                                     .written = tensor->kind == PCO_KIND_OUTPUT || tensor->kind == PCO_KIND_STATE ||
                                                tensor->kind == PCO_KIND_TRANSIENT,
                                     .bytes = tensor->bytes ? trial_room(p->bytes) : 0,
                                     .alignment = p->alignment,
                                     .data = trial->converted[t] ? trial->converted[t] : data[t],
                                     .data_bytes = trial->converted[t] ? p->bytes : tensor->bytes};
    }
    for (uint32_t i = 0; i < part->n_nodes; i++)
        memory->regions[part->n_tensors + i] = (pco_trial_region){.shares = PCO_NONE,
                                                                  .written = 1,
                                                                  .bytes = trial_room(trial->nodes[i].workspace),
                                                                  .alignment = trial->on.info->buffer_alignment};
}

void pco_trial_share(pco_trial_memory *memory, uint32_t one, uint32_t owner)
{
    if (memory->regions[owner].bytes < memory->regions[one].bytes)
        memory->regions[owner].bytes = memory->regions[one].bytes;
    memory->regions[owner].written |= memory->regions[one].written;
    memory->regions[one].shares = owner;
}

static void trial_place(pco_trial_memory *memory)
{
    const pco_trial_placement *placement = &memory->placement;
    const uint64_t behind = placement->last ? 0 : placement->guard;
    uint64_t offset = 0;
    for (uint32_t r = 0; r < memory->n_regions; r++) {
        pco_trial_region *region = &memory->regions[r];
        if (region->bytes == 0 || region->shares != PCO_NONE) continue;
        const uint64_t alignment = region->alignment > placement->alignment ? region->alignment : placement->alignment;
        if (!placement->single) offset = 0;
        region->buffer = placement->single ? 0 : memory->n_buffers;
        region->offset = trial_align(offset + placement->guard, alignment);
        if (placement->odd_or_even && region->offset / alignment % 2 != (placement->odd >> r % 32 & 1))
            region->offset += alignment;
        region->offset += placement->shift * alignment;
        offset = trial_align(region->offset + region->bytes, 4) + behind;
        if (placement->single)
            memory->n_buffers = 1, memory->sizes[0] = offset;
        else
            memory->sizes[memory->n_buffers++] = offset;
    }
    for (uint32_t r = 0; r < memory->n_regions; r++) {
        pco_trial_region *region = &memory->regions[r];
        if (region->bytes == 0 || region->shares == PCO_NONE) continue;
        const pco_trial_region *owner = &memory->regions[region->shares];
        region->buffer = owner->buffer, region->offset = owner->offset, region->bytes = owner->bytes;
    }
    for (uint32_t b = 0; b < memory->n_buffers; b++) {
        memory->starts[b] = memory->total;
        memory->total += trial_align(memory->sizes[b], 8);
    }
}

static pco_status trial_check_sizes(const pco_trial_memory *memory, pco_error *err)
{
    const uint64_t most = memory->trial->on.info->max_allocation;
    for (uint32_t b = 0; b < memory->n_buffers; b++)
        if (memory->sizes[b] > most)
            return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                            "size: %" PRIu64 " bytes in one buffer, and the device has %" PRIu64 " at most",
                            memory->sizes[b], most);
    return PCO_OK;
}

/* ---- buffers ---- */

/* Before the run's own buffers: three of each size that hold numbers, of which the middle one is given back. What an
 * allocator hands out next is likely to be that, or to lie behind the others. */
static pco_status trial_use(pco_trial_memory *memory, pco_error *err)
{
    const pco_open_device *on = &memory->trial->on;
    const pco_buffer_api *api = on->plugin->buffer;
    for (uint32_t b = 0; b < memory->n_buffers; b++) {
        const uint64_t bytes = memory->sizes[b];
        float *numbers = malloc(bytes + 4);
        pco_buffer *middle = NULL;
        if (!numbers) return trial_no_memory(err);
        for (uint64_t i = 0; i < bytes / 4; i++) numbers[i] = 1.0f + (float)(i % 61) / 64;
        pco_buffer **made[3] = {&memory->alive[2 * b], &middle, &memory->alive[2 * b + 1]};
        pco_status status = PCO_OK;
        for (int i = 0; i < 3 && !status; i++) {
            status = api->create(on->device, bytes, PCO_USAGE_DEVICE, made[i], err);
            if (!status) status = api->write(on->device, *made[i], 0, numbers, bytes / 4 * 4, err);
        }
        if (middle) api->destroy(on->device, middle);
        free(numbers);
        if (status) return TRIAL_STEP(memory->trial, err, status, "a buffer of %" PRIu64 " bytes", bytes);
    }
    return PCO_OK;
}

pco_status pco_trial_memory_create(pco_trial_memory *memory, pco_error *err)
{
    const pco_trial *trial = memory->trial;
    trial_place(memory);
    pco_status status = trial_check_sizes(memory, err);
    if (status) return status;
    memory->image = malloc(memory->total + 8);
    if (!memory->image) return trial_no_memory(err);
    for (uint64_t i = 0; i < memory->total; i++) memory->image[i] = memory->placement.around[i % 4];
    for (uint32_t r = 0; r < memory->n_regions; r++) {
        const pco_trial_region *region = &memory->regions[r];
        if (region->bytes && region->data)
            memcpy(memory->image + memory->starts[region->buffer] + region->offset, region->data, region->data_bytes);
    }
    if (memory->placement.recycled) {
        status = trial_use(memory, err);
        if (status) return status;
    }
    for (uint32_t b = 0; b < memory->n_buffers; b++) {
        status = trial->on.plugin->buffer->create(trial->on.device, memory->sizes[b], PCO_USAGE_DEVICE,
                                                  &memory->buffers[b], err);
        if (status) return TRIAL_STEP(trial, err, status, "creating a buffer of %" PRIu64 " bytes", memory->sizes[b]);
    }
    return PCO_OK;
}

void pco_trial_memory_destroy(pco_trial_memory *memory)
{
    for (uint32_t b = 0; b < memory->n_buffers; b++)
        if (memory->buffers[b]) memory->trial->on.plugin->buffer->destroy(memory->trial->on.device, memory->buffers[b]);
    for (uint32_t i = 0; i < sizeof memory->alive / sizeof memory->alive[0]; i++)
        if (memory->alive[i]) memory->trial->on.plugin->buffer->destroy(memory->trial->on.device, memory->alive[i]);
    free(memory->image);
    free(memory->after);
    memset(memory, 0, sizeof *memory);
}

pco_status pco_trial_memory_write(pco_trial_memory *memory, pco_error *err)
{
    const pco_open_device *on = &memory->trial->on;
    memory->read = 0;
    for (uint32_t b = 0; b < memory->n_buffers; b++) {
        pco_status status = on->plugin->buffer->write(on->device, memory->buffers[b], 0,
                                                      memory->image + memory->starts[b], memory->sizes[b], err);
        if (status) return TRIAL_STEP(memory->trial, err, status, "writing a buffer");
    }
    return PCO_OK;
}

/* A state is an operand and a result: every run begins with what it held at first. */
pco_status pco_trial_memory_restore(pco_trial_memory *memory, pco_error *err)
{
    const pco_open_device *on = &memory->trial->on;
    for (uint32_t r = 0; r < memory->n_regions; r++) {
        const pco_trial_region *region = &memory->regions[r];
        if (!region->bytes || !region->written || !region->data) continue;
        pco_status status = on->plugin->buffer->write(on->device, memory->buffers[region->buffer], region->offset,
                                                      region->data, region->data_bytes, err);
        if (status) return TRIAL_STEP(memory->trial, err, status, "writing a buffer");
    }
    return PCO_OK;
}

/* State keeps what it holds, and so do operands in whose memory the result lies. */
pco_status pco_trial_memory_zero(pco_trial_memory *memory, pco_error *err)
{
    const pco_open_device *on = &memory->trial->on;
    for (uint32_t r = 0; r < memory->n_regions; r++) {
        const pco_trial_region *region = &memory->regions[r];
        if (!region->bytes || !region->written || region->data || region->shares != PCO_NONE) continue;
        void *zeros = calloc(1, region->bytes);
        if (!zeros) return trial_no_memory(err);
        pco_status status = on->plugin->buffer->write(on->device, memory->buffers[region->buffer], region->offset,
                                                      zeros, region->bytes, err);
        free(zeros);
        if (status) return TRIAL_STEP(memory->trial, err, status, "writing a buffer");
    }
    return PCO_OK;
}

pco_status pco_trial_memory_read(pco_trial_memory *memory, pco_error *err)
{
    const pco_open_device *on = &memory->trial->on;
    if (!memory->after && !(memory->after = malloc(memory->total + 8))) return trial_no_memory(err);
    for (uint32_t b = 0; b < memory->n_buffers; b++) {
        pco_status status = on->plugin->buffer->read(on->device, memory->buffers[b], 0,
                                                     memory->after + memory->starts[b], memory->sizes[b], err);
        if (status) return TRIAL_STEP(memory->trial, err, status, "reading a buffer");
    }
    memory->read = 1;
    return PCO_OK;
}

/* ---- what lies around ---- */

static const char *trial_region_name(const pco_trial_memory *memory, uint32_t region)
{
    const pco_part *part = &memory->trial->part;
    return region < part->n_tensors ? part->tensors[region].name : "workspace";
}

/* Says what byte `at` of buffer b is, now that it changed. */
static pco_status trial_blame(const pco_trial_memory *memory, uint32_t b, uint64_t at, pco_error *err)
{
    uint64_t best = UINT64_MAX;
    uint32_t near = 0;
    const char *where = "";
    for (uint32_t r = 0; r < memory->n_regions; r++) {
        const pco_trial_region *region = &memory->regions[r];
        if (!region->bytes || region->buffer != b) continue;
        uint64_t end = region->offset + region->bytes;
        if (at >= region->offset && at < end)
            return pco_fail(err, PCO_ERROR_INTERNAL, "operand '%s' was changed at byte %" PRIu64,
                            trial_region_name(memory, r), at - region->offset);
        uint64_t distance = at < region->offset ? region->offset - at : at - end + 1;
        if (distance < best) best = distance, near = r, where = at < region->offset ? "before" : "behind";
    }
    return pco_fail(err, PCO_ERROR_INTERNAL, "write out of place: %" PRIu64 " bytes %s '%s'", best, where,
                    trial_region_name(memory, near));
}

pco_status pco_trial_memory_check(const pco_trial_memory *memory, pco_error *err)
{
    for (uint32_t b = 0; b < memory->n_buffers; b++) {
        const uint8_t *image = memory->image + memory->starts[b], *after = memory->after + memory->starts[b];
        uint64_t at = 0;
        while (at < memory->sizes[b]) {
            uint64_t next = memory->sizes[b]; /* end of the stretch that must be unchanged */
            uint64_t skip = next;             /* where the next one starts */
            for (uint32_t r = 0; r < memory->n_regions; r++) {
                const pco_trial_region *region = &memory->regions[r];
                if (region->bytes && region->buffer == b && region->written && region->offset >= at &&
                    region->offset < next)
                    next = region->offset, skip = region->offset + region->bytes;
            }
            for (; at < next; at++)
                if (image[at] != after[at]) return trial_blame(memory, b, at, err);
            at = skip;
        }
    }
    return PCO_OK;
}

pco_status pco_trial_memory_check_rest(const pco_trial_memory *memory, pco_error *err)
{
    for (uint32_t t = 0; t < memory->trial->part.n_tensors; t++) {
        const pco_trial_region *region = &memory->regions[t];
        if (!region->written) continue;
        const uint64_t start = memory->starts[region->buffer] + region->offset;
        for (uint64_t at = region->data_bytes; at < region->bytes; at++)
            if (memory->after[start + at] && memory->after[start + at] != memory->image[start + at])
                return pco_fail(err, PCO_ERROR_INTERNAL,
                                "write behind the last element: byte %" PRIu64 " of '%s', which has %" PRIu64, at,
                                trial_region_name(memory, t), region->data_bytes);
    }
    return PCO_OK;
}

const void *pco_trial_memory_result(const pco_trial_memory *memory, uint32_t region)
{
    return memory->after + memory->starts[memory->regions[region].buffer] + memory->regions[region].offset;
}
