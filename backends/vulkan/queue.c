/* Submission. A ticket counts submissions; a ring of fences says how far the queue has come. The queue
 * signals in order, so a ticket is complete when its own fence or any later one is. */
#include "vk.h"

pco_status vk_queue_open(pco_device *device, pco_error *err)
{
    device->vk.GetDeviceQueue(device->handle, device->physical->queue_family, 0, &device->queue);
    for (uint32_t i = 0; i < VK_RING; i++) {
        VkFenceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
        VkResult result = VK_MAKE(&device->fences[i], device->vk.CreateFence, device->handle, &info, NULL);
        if (result != VK_SUCCESS) return vk_check(device, result, err, "vkCreateFence");
    }
    return PCO_OK;
}

void vk_queue_close(pco_device *device)
{
    for (uint32_t i = 0; i < VK_RING; i++)
        if (device->fences[i]) device->vk.DestroyFence(device->handle, device->fences[i], NULL);
}

pco_status vk_queue_wait(pco_device *device, uint64_t ticket, uint64_t nanoseconds, pco_error *err)
{
    if (ticket <= device->completed) return PCO_OK;
    if (ticket > device->submitted)
        return vk_fail(err, PCO_ERROR_INVALID, "ticket %llu, and the last is %llu", (unsigned long long)ticket,
                       (unsigned long long)device->submitted);
    if (device->lost) return vk_fail(err, PCO_ERROR_DEVICE_LOST, "%s was lost", device->gpu.name);
    VkFence fence = device->fences[ticket % VK_RING];
    VkResult result = device->vk.WaitForFences(device->handle, 1, &fence, VK_TRUE, nanoseconds);
    if (result == VK_TIMEOUT) return vk_fail(err, PCO_ERROR_TIMEOUT, "%s is still busy", device->gpu.name);
    if (result != VK_SUCCESS) return vk_check(device, result, err, "waiting for the queue");
    device->completed = ticket;
    return PCO_OK;
}

/* Segments that an earlier run has not finished are waited for: a command buffer is pending once at a time.
 */
static pco_status vk_submit(pco_device *device, pco_program *program, uint32_t first, uint32_t count, uint64_t *ticket,
                            pco_error *err)
{
    pco_gpu_recording *recording = program->recording;
    uint32_t available = recording ? recording->n_segments : 0;
    *ticket = device->submitted;
    if (device->lost) return vk_fail(err, PCO_ERROR_DEVICE_LOST, "%s was lost", device->gpu.name);
    if (first > available || count > available - first)
        return vk_fail(err, PCO_ERROR_INVALID, "segments %u and %u more of %u", first, count, available);
    if (count == 0) return PCO_OK;
    uint64_t next = device->submitted + 1, busy = 0;
    if (next > VK_RING) busy = next - VK_RING;
    for (uint32_t i = first; i < first + count; i++)
        if (recording->tickets[i] > busy) busy = recording->tickets[i];
    pco_status status = vk_queue_wait(device, busy, UINT64_MAX, err);
    if (status != PCO_OK) return status;
    VkFence fence = device->fences[next % VK_RING];
    VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .commandBufferCount = count,
        .pCommandBuffers = &recording->commands[first],
    };
    VkResult result = device->vk.ResetFences(device->handle, 1, &fence);
    if (result == VK_SUCCESS) result = device->vk.QueueSubmit(device->queue, 1, &info, fence);
    if (result != VK_SUCCESS) return vk_check(device, result, err, "vkQueueSubmit");
    for (uint32_t i = first; i < first + count; i++) recording->tickets[i] = next;
    device->submitted = *ticket = next;
    return PCO_OK;
}

const pco_queue_api vk_queue_table = {
    .size = sizeof(pco_queue_api),
    .submit = vk_submit,
    .wait = vk_queue_wait,
};
