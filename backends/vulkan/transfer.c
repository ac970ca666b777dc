/* Reading and writing buffers. Where the host can address the memory it does; elsewhere two staging slots
 * take turns, so that the host copies one chunk while the device moves the other. */
#include "vk.h"

#include <string.h>

static pco_status vk_in_range(pco_device *device, const pco_buffer *buffer, uint64_t offset, uint64_t bytes,
                              pco_error *err)
{
    if (device->lost) return vk_fail(err, PCO_ERROR_DEVICE_LOST, "%s was lost", device->gpu.name);
    if (offset <= buffer->bytes && bytes <= buffer->bytes - offset) return PCO_OK;
    return vk_fail(err, PCO_ERROR_INVALID, "bytes %llu to %llu of a buffer of %llu", (unsigned long long)offset,
                   (unsigned long long)(offset + bytes), (unsigned long long)buffer->bytes);
}

/* Command buffers and fences of the slots; staging memory only when it is asked for. */
static pco_status vk_slots_open(pco_device *device, int staging, pco_error *err)
{
    pco_status status = PCO_OK;
    if (!device->transfer_pool) {
        VkCommandPoolCreateInfo pool = {
            .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
            .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT | VK_COMMAND_POOL_CREATE_TRANSIENT_BIT,
            .queueFamilyIndex = device->physical->queue_family,
        };
        status =
            vk_check(device, VK_MAKE(&device->transfer_pool, device->vk.CreateCommandPool, device->handle, &pool, NULL),
                     err, "vkCreateCommandPool");
    }
    for (uint32_t i = 0; i < VK_SLOTS && status == PCO_OK; i++) {
        vk_slot *slot = &device->slots[i];
        VkCommandBufferAllocateInfo commands = {
            .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
            .commandPool = device->transfer_pool,
            .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
            .commandBufferCount = 1,
        };
        VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
        if (!slot->commands)
            status =
                vk_check(device, VK_MAKE(&slot->commands, device->vk.AllocateCommandBuffers, device->handle, &commands),
                         err, "vkAllocateCommandBuffers");
        if (status == PCO_OK && !slot->fence)
            status = vk_check(device, VK_MAKE(&slot->fence, device->vk.CreateFence, device->handle, &fence, NULL), err,
                              "vkCreateFence");
        if (status == PCO_OK && staging && !slot->staging)
            status = vk_buffer_create(device, VK_SLOT_BYTES, PCO_USAGE_READBACK, &slot->staging, err);
    }
    return status;
}

void vk_transfer_close(pco_device *device)
{
    for (uint32_t i = 0; i < VK_SLOTS; i++) {
        if (device->slots[i].fence) device->vk.DestroyFence(device->handle, device->slots[i].fence, NULL);
        vk_buffer_destroy(device, device->slots[i].staging);
    }
    if (device->transfer_pool) device->vk.DestroyCommandPool(device->handle, device->transfer_pool, NULL);
}

/* Waits for a slot's copy; a download then goes from staging memory to where it was wanted. */
static pco_status vk_slot_finish(pco_device *device, vk_slot *slot, pco_error *err)
{
    if (!slot->busy) return PCO_OK;
    slot->busy = 0;
    pco_status status = vk_check(device, device->vk.WaitForFences(device->handle, 1, &slot->fence, VK_TRUE, UINT64_MAX),
                                 err, "waiting for a copy");
    if (status == PCO_OK && slot->out) {
        status = vk_invalidate(device, slot->staging, 0, slot->bytes, err);
        if (status == PCO_OK) memcpy(slot->out, slot->staging->mapped, slot->bytes);
    }
    slot->out = NULL;
    return status;
}

static pco_status vk_slot_copy(pco_device *device, vk_slot *slot, VkBuffer from, uint64_t from_offset, VkBuffer to,
                               uint64_t to_offset, uint64_t bytes, pco_error *err)
{
    const vk_device_calls *vk = &device->vk;
    VkCommandBufferBeginInfo begin = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
    };
    VkMemoryBarrier before = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT | VK_ACCESS_HOST_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
    };
    VkMemoryBarrier after = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_READ_BIT |
                         VK_ACCESS_TRANSFER_WRITE_BIT | VK_ACCESS_HOST_READ_BIT,
    };
    const VkPipelineStageFlags stages =
        VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT | VK_PIPELINE_STAGE_HOST_BIT;
    VkBufferCopy region = {.srcOffset = from_offset, .dstOffset = to_offset, .size = bytes};
    VkSubmitInfo submit = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .commandBufferCount = 1,
        .pCommandBuffers = &slot->commands,
    };
    VkResult result = vk->BeginCommandBuffer(slot->commands, &begin);
    if (result != VK_SUCCESS) goto fail;
    vk->CmdPipelineBarrier(slot->commands, stages, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1, &before, 0, NULL, 0, NULL);
    vk->CmdCopyBuffer(slot->commands, from, to, 1, &region);
    vk->CmdPipelineBarrier(slot->commands, VK_PIPELINE_STAGE_TRANSFER_BIT, stages, 0, 1, &after, 0, NULL, 0, NULL);
    result = vk->EndCommandBuffer(slot->commands);
    if (result == VK_SUCCESS) result = vk->ResetFences(device->handle, 1, &slot->fence);
    if (result == VK_SUCCESS) result = vk->QueueSubmit(device->queue, 1, &submit, slot->fence);
    if (result == VK_SUCCESS) slot->busy = 1;
fail:
    return vk_check(device, result, err, "submitting a copy");
}

/* Moves bytes between the host and a buffer that it cannot address. Exactly one of `in` and `out` is set. */
static pco_status vk_stage(pco_device *device, pco_buffer *buffer, uint64_t offset, const uint8_t *in, uint8_t *out,
                           uint64_t bytes, pco_error *err)
{
    pco_status status = vk_slots_open(device, 1, err);
    for (uint64_t done = 0, turn = 0; done < bytes && status == PCO_OK; turn++) {
        vk_slot *slot = &device->slots[turn % VK_SLOTS];
        uint64_t chunk = bytes - done < VK_SLOT_BYTES ? bytes - done : VK_SLOT_BYTES;
        VkBuffer staging = slot->staging->handle;
        status = vk_slot_finish(device, slot, err);
        if (status == PCO_OK && in) {
            memcpy(slot->staging->mapped, in + done, chunk);
            status = vk_flush(device, slot->staging, 0, chunk, err);
            if (status == PCO_OK)
                status = vk_slot_copy(device, slot, staging, 0, buffer->handle, offset + done, chunk, err);
        } else if (status == PCO_OK) {
            slot->bytes = chunk;
            status = vk_slot_copy(device, slot, buffer->handle, offset + done, staging, 0, chunk, err);
            if (status == PCO_OK) slot->out = out + done;
        }
        done += chunk;
    }
    pco_error later;
    for (uint32_t i = 0; i < VK_SLOTS; i++) {
        pco_status end = vk_slot_finish(device, &device->slots[i], status == PCO_OK ? err : &later);
        if (status == PCO_OK) status = end;
    }
    return status;
}

static pco_status vk_buffer_write(pco_device *device, pco_buffer *buffer, uint64_t offset, const void *data,
                                  uint64_t bytes, pco_error *err)
{
    pco_status status = vk_in_range(device, buffer, offset, bytes, err);
    if (status != PCO_OK || !bytes) return status;
    if (buffer->imported) return vk_fail(err, PCO_ERROR_INVALID, "an imported buffer is not written");
    if (!buffer->mapped) return vk_stage(device, buffer, offset, data, NULL, bytes, err);
    memcpy(buffer->mapped + offset, data, bytes);
    return vk_flush(device, buffer, offset, bytes, err);
}

static pco_status vk_buffer_read(pco_device *device, pco_buffer *buffer, uint64_t offset, void *data, uint64_t bytes,
                                 pco_error *err)
{
    pco_status status = vk_in_range(device, buffer, offset, bytes, err);
    if (status != PCO_OK || !bytes) return status;
    if (!buffer->mapped) return vk_stage(device, buffer, offset, NULL, data, bytes, err);
    status = vk_invalidate(device, buffer, offset, bytes, err);
    if (status == PCO_OK) memcpy(data, buffer->mapped + offset, bytes);
    return status;
}

static pco_status vk_buffer_copy(pco_device *device, pco_buffer *from, uint64_t from_offset, pco_buffer *to,
                                 uint64_t to_offset, uint64_t bytes, pco_error *err)
{
    pco_status status = vk_in_range(device, from, from_offset, bytes, err);
    if (status == PCO_OK) status = vk_in_range(device, to, to_offset, bytes, err);
    if (status != PCO_OK || !bytes) return status;
    if (to->imported) return vk_fail(err, PCO_ERROR_INVALID, "an imported buffer is not written");
    if (from == to && from_offset < to_offset + bytes && to_offset < from_offset + bytes)
        return vk_fail(err, PCO_ERROR_INVALID, "a copy within one buffer whose ranges overlap");
    if (device->physical->unified && from->mapped && to->mapped && from->coherent && to->coherent) {
        memcpy(to->mapped + to_offset, from->mapped + from_offset, bytes);
        return PCO_OK;
    }
    status = vk_slots_open(device, 0, err);
    if (status != PCO_OK) return status;
    status = vk_slot_copy(device, &device->slots[0], from->handle, from_offset, to->handle, to_offset, bytes, err);
    return status == PCO_OK ? vk_slot_finish(device, &device->slots[0], err) : status;
}

static void *vk_buffer_map(pco_device *device, pco_buffer *buffer)
{
    (void)device;
    return buffer->coherent && !buffer->imported ? buffer->mapped : NULL;
}

const pco_buffer_api vk_buffer_table = {
    .size = sizeof(pco_buffer_api),
    .create = vk_buffer_create,
    .destroy = vk_buffer_destroy,
    .write = vk_buffer_write,
    .read = vk_buffer_read,
    .copy = vk_buffer_copy,
    .map = vk_buffer_map,
    .import = vk_buffer_import,
};
