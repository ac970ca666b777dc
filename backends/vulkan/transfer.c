/* Reading and writing buffers. Where the host can address the memory it does; elsewhere two transfers
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

/* Command buffers and fences of the transfers; staging memory only when it is asked for. */
static pco_status vk_transfers_open(pco_device *device, int staging, pco_error *err)
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
    for (uint32_t i = 0; i < VK_TRANSFERS && status == PCO_OK; i++) {
        vk_transfer *transfer = &device->transfers[i];
        VkCommandBufferAllocateInfo commands = {
            .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
            .commandPool = device->transfer_pool,
            .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
            .commandBufferCount = 1,
        };
        VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
        if (!transfer->commands)
            status = vk_check(
                device, VK_MAKE(&transfer->commands, device->vk.AllocateCommandBuffers, device->handle, &commands), err,
                "vkAllocateCommandBuffers");
        if (status == PCO_OK && !transfer->fence)
            status = vk_check(device, VK_MAKE(&transfer->fence, device->vk.CreateFence, device->handle, &fence, NULL),
                              err, "vkCreateFence");
        if (status == PCO_OK && staging && !transfer->staging)
            status = vk_buffer_create(device, VK_STAGING_BYTES, PCO_USAGE_READBACK, &transfer->staging, err);
    }
    return status;
}

void vk_transfer_close(pco_device *device)
{
    for (uint32_t i = 0; i < VK_TRANSFERS; i++) {
        if (device->transfers[i].fence) device->vk.DestroyFence(device->handle, device->transfers[i].fence, NULL);
        vk_buffer_destroy(device, device->transfers[i].staging);
    }
    if (device->transfer_pool) device->vk.DestroyCommandPool(device->handle, device->transfer_pool, NULL);
}

/* Waits for a copy; a download then goes from staging memory to where it was wanted. */
static pco_status vk_transfer_finish(pco_device *device, vk_transfer *transfer, pco_error *err)
{
    if (!transfer->busy) return PCO_OK;
    transfer->busy = 0;
    pco_status status =
        vk_check(device, device->vk.WaitForFences(device->handle, 1, &transfer->fence, VK_TRUE, UINT64_MAX), err,
                 "waiting for a copy");
    if (status == PCO_OK && transfer->out) {
        status = vk_invalidate(device, transfer->staging, 0, transfer->bytes, err);
        if (status == PCO_OK) memcpy(transfer->out, transfer->staging->mapped, transfer->bytes);
    }
    transfer->out = NULL;
    return status;
}

static pco_status vk_transfer_copy(pco_device *device, vk_transfer *transfer, VkBuffer from, uint64_t from_offset,
                                   VkBuffer to, uint64_t to_offset, uint64_t bytes, pco_error *err)
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
        .pCommandBuffers = &transfer->commands,
    };
    VkResult result = vk->BeginCommandBuffer(transfer->commands, &begin);
    if (result != VK_SUCCESS) goto fail;
    vk->CmdPipelineBarrier(transfer->commands, stages, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1, &before, 0, NULL, 0, NULL);
    vk->CmdCopyBuffer(transfer->commands, from, to, 1, &region);
    vk->CmdPipelineBarrier(transfer->commands, VK_PIPELINE_STAGE_TRANSFER_BIT, stages, 0, 1, &after, 0, NULL, 0, NULL);
    result = vk->EndCommandBuffer(transfer->commands);
    if (result == VK_SUCCESS) result = vk->ResetFences(device->handle, 1, &transfer->fence);
    if (result == VK_SUCCESS) result = vk->QueueSubmit(device->queue, 1, &submit, transfer->fence);
    if (result == VK_SUCCESS) transfer->busy = 1;
fail:
    return vk_check(device, result, err, "submitting a copy");
}

/* Moves bytes between the host and a buffer that it cannot address. Exactly one of `in` and `out` is set. */
static pco_status vk_stage(pco_device *device, pco_buffer *buffer, uint64_t offset, const uint8_t *in, uint8_t *out,
                           uint64_t bytes, pco_error *err)
{
    pco_status status = vk_transfers_open(device, 1, err);
    for (uint64_t done = 0, turn = 0; done < bytes && status == PCO_OK; turn++) {
        vk_transfer *transfer = &device->transfers[turn % VK_TRANSFERS];
        uint64_t chunk = bytes - done < VK_STAGING_BYTES ? bytes - done : VK_STAGING_BYTES;
        VkBuffer staging = transfer->staging->handle;
        status = vk_transfer_finish(device, transfer, err);
        if (status == PCO_OK && in) {
            memcpy(transfer->staging->mapped, in + done, chunk);
            status = vk_flush(device, transfer->staging, 0, chunk, err);
            if (status == PCO_OK)
                status = vk_transfer_copy(device, transfer, staging, 0, buffer->handle, offset + done, chunk, err);
        } else if (status == PCO_OK) {
            transfer->bytes = chunk;
            status = vk_transfer_copy(device, transfer, buffer->handle, offset + done, staging, 0, chunk, err);
            if (status == PCO_OK) transfer->out = out + done;
        }
        done += chunk;
    }
    pco_error later;
    for (uint32_t i = 0; i < VK_TRANSFERS; i++) {
        pco_status end = vk_transfer_finish(device, &device->transfers[i], status == PCO_OK ? err : &later);
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
    status = vk_transfers_open(device, 0, err);
    if (status != PCO_OK) return status;
    status =
        vk_transfer_copy(device, &device->transfers[0], from->handle, from_offset, to->handle, to_offset, bytes, err);
    return status == PCO_OK ? vk_transfer_finish(device, &device->transfers[0], err) : status;
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
