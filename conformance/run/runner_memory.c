/* Memory of a run: each tensor in a region of its own with 256 bytes of canary before and behind. Poison and
 * canaries are the same word, a NaN in f32, f16 and bf16: what is read from outside its tensor shows, too. */
#include "run/runner.h"

#include "base/error.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { CANARY = 256 };
static const uint8_t POISON[4] = {0xe5, 0x7f, 0xe5, 0x7f};

static uint64_t conf_run_align(uint64_t offset, uint64_t alignment)
{
    return (offset + alignment - 1) / alignment * alignment;
}

/* Before the run's own buffers: three of each size that hold numbers, of which the middle one is given back. What an
 * allocator hands out next is likely to be that, or to lie behind the others. */
static pco_status conf_run_memory_use(conf_run_memory *memory, pco_error *err)
{
    const pco_conformance_device *device = memory->device;
    const pco_buffer_api *api = device->plugin->buffer;
    for (uint32_t b = 0; b < memory->n_buffers; b++) {
        const uint64_t bytes = memory->sizes[b];
        float *numbers = malloc(bytes + 4);
        pco_buffer *middle = NULL;
        if (!numbers) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory");
        for (uint64_t i = 0; i < bytes / 4; i++) numbers[i] = 1.0f + (float)(i % 61) / 64;
        pco_buffer **made[3] = {&memory->alive[2 * b], &middle, &memory->alive[2 * b + 1]};
        pco_status status = PCO_OK;
        for (int i = 0; i < 3 && !status; i++) {
            status = api->create(device->device, bytes, PCO_USAGE_DEVICE, made[i], err);
            if (!status) status = api->write(device->device, *made[i], 0, numbers, bytes / 4 * 4, err);
        }
        if (middle) api->destroy(device->device, middle);
        free(numbers);
        if (status) return pco_fail_prefix(err, status, "a buffer of %" PRIu64 " bytes", bytes);
    }
    return PCO_OK;
}

pco_status conf_run_memory_create(conf_run_memory *memory, pco_error *err)
{
    uint64_t offset = 0, behind = memory->placement && memory->placement->last ? 0 : CANARY;
    for (uint32_t r = 0; r < memory->n_regions; r++) {
        conf_run_region *region = &memory->regions[r];
        if (region->bytes == 0 || region->shares != PCO_NONE) continue;
        uint64_t alignment = memory->alignment[r];
        if (!memory->single) offset = 0;
        region->buffer = memory->single ? 0 : memory->n_buffers;
        region->offset = conf_run_align(offset + CANARY, alignment);
        if (region->offset / alignment % 2 != (memory->odd >> r % 32 & 1)) region->offset += alignment;
        if (memory->placement) region->offset += memory->placement->shift * alignment;
        offset = conf_run_align(region->offset + region->bytes, 4) + behind;
        if (memory->single)
            memory->n_buffers = 1, memory->sizes[0] = offset;
        else
            memory->sizes[memory->n_buffers++] = offset;
    }
    for (uint32_t r = 0; r < memory->n_regions; r++) {
        conf_run_region *region = &memory->regions[r];
        if (region->bytes == 0 || region->shares == PCO_NONE) continue;
        const conf_run_region *owner = &memory->regions[region->shares];
        region->buffer = owner->buffer, region->offset = owner->offset, region->bytes = owner->bytes;
    }
    for (uint32_t b = 0; b < memory->n_buffers; b++) {
        memory->starts[b] = memory->total;
        memory->total += conf_run_align(memory->sizes[b], 8);
        if (memory->sizes[b] > memory->device->info->max_allocation)
            return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                            "size: %" PRIu64 " bytes in one buffer, and the device has %" PRIu64 " at most",
                            memory->sizes[b], memory->device->info->max_allocation);
    }
    memory->image = malloc(memory->total + 8);
    memory->after = malloc(memory->total + 8);
    if (!memory->image || !memory->after) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory");
    const uint8_t *around = memory->placement ? memory->placement->around : POISON;
    for (uint64_t i = 0; i < memory->total; i++) memory->image[i] = around[i % 4];
    for (uint32_t r = 0; r < memory->n_regions; r++) {
        const conf_run_region *region = &memory->regions[r];
        if (region->bytes && region->data)
            memcpy(memory->image + memory->starts[region->buffer] + region->offset, region->data,
                   region->data_bytes);
    }
    const pco_conformance_device *device = memory->device;
    if (memory->placement && memory->placement->recycled) {
        pco_status status = conf_run_memory_use(memory, err);
        if (status) return status;
    }
    for (uint32_t b = 0; b < memory->n_buffers; b++) {
        pco_status status = device->plugin->buffer->create(device->device, memory->sizes[b], PCO_USAGE_DEVICE,
                                                           &memory->buffers[b], err);
        if (status)
            return pco_fail_prefix(err, status, "creating a buffer of %" PRIu64 " bytes", memory->sizes[b]);
    }
    return PCO_OK;
}

void conf_run_memory_destroy(conf_run_memory *memory)
{
    for (uint32_t b = 0; b < memory->n_buffers; b++)
        if (memory->buffers[b])
            memory->device->plugin->buffer->destroy(memory->device->device, memory->buffers[b]);
    for (uint32_t i = 0; i < sizeof memory->alive / sizeof memory->alive[0]; i++)
        if (memory->alive[i])
            memory->device->plugin->buffer->destroy(memory->device->device, memory->alive[i]);
    free(memory->image);
    free(memory->after);
    memset(memory, 0, sizeof *memory);
}

pco_status conf_run_memory_reset(conf_run_memory *memory, pco_error *err)
{
    const pco_conformance_device *device = memory->device;
    memory->read = false;
    for (uint32_t b = 0; b < memory->n_buffers; b++) {
        pco_status status = device->plugin->buffer->write(
            device->device, memory->buffers[b], 0, memory->image + memory->starts[b], memory->sizes[b], err);
        if (status) return pco_fail_prefix(err, status, "writing a buffer");
    }
    return PCO_OK;
}

/* A state is an operand and a result: every run begins with what it held at first. */
pco_status conf_run_memory_states(conf_run_memory *memory, pco_error *err)
{
    const pco_conformance_device *device = memory->device;
    for (uint32_t r = 0; r < memory->n_regions; r++) {
        const conf_run_region *region = &memory->regions[r];
        if (!region->bytes || !region->written || !region->data) continue;
        pco_status status = device->plugin->buffer->write(device->device, memory->buffers[region->buffer],
                                                          region->offset, region->data, region->data_bytes, err);
        if (status) return pco_fail_prefix(err, status, "writing a buffer");
    }
    return PCO_OK;
}

/* State keeps what it holds, and so do operands in whose memory the result lies. */
pco_status conf_run_memory_zero(conf_run_memory *memory, pco_error *err)
{
    const pco_conformance_device *device = memory->device;
    for (uint32_t r = 0; r < memory->n_regions; r++) {
        const conf_run_region *region = &memory->regions[r];
        if (!region->bytes || !region->written || region->data || region->shares != PCO_NONE) continue;
        void *zeros = calloc(1, region->bytes);
        if (!zeros) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory");
        pco_status status = device->plugin->buffer->write(device->device, memory->buffers[region->buffer],
                                                          region->offset, zeros, region->bytes, err);
        free(zeros);
        if (status) return pco_fail_prefix(err, status, "writing a buffer");
    }
    return PCO_OK;
}

static const char *conf_run_region_name(const conf_run_memory *memory, const pco_tensor *tensors,
                                        uint32_t region)
{
    return region + 1 < memory->n_regions ? tensors[region].name : "workspace";
}

/* Says what byte `at` of buffer b is, now that it changed. */
static pco_status conf_run_memory_blame(const conf_run_memory *memory, const pco_tensor *tensors, uint32_t b,
                                        uint64_t at, pco_error *err)
{
    uint64_t best = UINT64_MAX;
    uint32_t near = 0;
    const char *where = "";
    for (uint32_t r = 0; r < memory->n_regions; r++) {
        const conf_run_region *region = &memory->regions[r];
        if (!region->bytes || region->buffer != b) continue;
        uint64_t end = region->offset + region->bytes;
        if (at >= region->offset && at < end)
            return pco_fail(err, PCO_ERROR_INTERNAL, "operand '%s' was changed at byte %" PRIu64,
                            conf_run_region_name(memory, tensors, r), at - region->offset);
        uint64_t distance = at < region->offset ? region->offset - at : at - end + 1;
        if (distance < best) best = distance, near = r, where = at < region->offset ? "before" : "behind";
    }
    return pco_fail(err, PCO_ERROR_INTERNAL, "write out of place: %" PRIu64 " bytes %s '%s'", best, where,
                    conf_run_region_name(memory, tensors, near));
}

pco_status conf_run_memory_check(conf_run_memory *memory, const pco_tensor *tensors, pco_error *err)
{
    const pco_conformance_device *device = memory->device;
    for (uint32_t b = 0; b < memory->n_buffers; b++) {
        uint8_t *after = memory->after + memory->starts[b];
        pco_status status =
            device->plugin->buffer->read(device->device, memory->buffers[b], 0, after, memory->sizes[b], err);
        if (status) return pco_fail_prefix(err, status, "reading a buffer");
    }
    memory->read = true;
    for (uint32_t b = 0; b < memory->n_buffers; b++) {
        const uint8_t *image = memory->image + memory->starts[b], *after = memory->after + memory->starts[b];
        uint64_t at = 0;
        while (at < memory->sizes[b]) {
            uint64_t next = memory->sizes[b]; /* end of the stretch that must be unchanged */
            uint64_t skip = next;             /* where the next one starts */
            for (uint32_t r = 0; r < memory->n_regions; r++) {
                const conf_run_region *region = &memory->regions[r];
                if (region->bytes && region->buffer == b && region->written && region->offset >= at &&
                    region->offset < next)
                    next = region->offset, skip = region->offset + region->bytes;
            }
            for (; at < next; at++)
                if (image[at] != after[at]) return conf_run_memory_blame(memory, tensors, b, at, err);
            at = skip;
        }
    }
    return PCO_OK;
}

const void *conf_run_memory_result(const conf_run_memory *memory, uint32_t region)
{
    return memory->after + memory->starts[memory->regions[region].buffer] + memory->regions[region].offset;
}
