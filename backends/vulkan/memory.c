/* Memory of the device: one allocation per buffer. */
#include "vk.h"

#include <string.h>
#include <unistd.h>

/* How well a memory type suits a usage; 0: not at all. Types that need an extension are never taken. */
static uint32_t vk_suits(const vk_physical *physical, uint32_t type, uint32_t usage, uint64_t bytes)
{
    const VkMemoryType *memory = &physical->memory.memoryTypes[type];
    uint64_t heap = physical->memory.memoryHeaps[memory->heapIndex].size;
    VkMemoryPropertyFlags flags = memory->propertyFlags;
    const VkMemoryPropertyFlags known = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                        VK_MEMORY_PROPERTY_HOST_COHERENT_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    if (flags & ~known || bytes > heap) return 0;
    uint32_t local = !!(flags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
    uint32_t visible = !!(flags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT);
    uint32_t coherent = !!(flags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT);
    uint32_t cached = !!(flags & VK_MEMORY_PROPERTY_HOST_CACHED_BIT);

    if (usage & PCO_USAGE_DEVICE) {
        uint32_t direct = visible && coherent;
        if (!physical->unified && !local) return 0; /* out of memory, rather than silently slow */
        if (physical->unified || usage & (PCO_USAGE_UPLOAD | PCO_USAGE_READBACK))
            return 1 + 8 * local + 4 * direct + 2 * (cached && direct);
        return 1 + 8 * local + 4 * !visible; /* a window of the bus is scarce: leave it to uploads */
    }
    if (!visible) return 0;
    if (usage & PCO_USAGE_READBACK) return 1 + 8 * cached + 4 * coherent + 2 * (local == physical->unified);
    return coherent ? 1 + 4 * (local && bytes <= heap / 8) + 2 * !cached : 0;
}

/* Tries the memory types that suit, the best first. */
static VkResult vk_take_memory(pco_device *device, pco_buffer *buffer, const VkMemoryRequirements *needs,
                               uint32_t usage)
{
    const VkPhysicalDeviceMemoryProperties *memory = &device->physical->memory;
    uint32_t left = needs->memoryTypeBits;
    VkResult result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    for (;;) {
        uint32_t best = UINT32_MAX, best_score = 0;
        for (uint32_t i = 0; i < memory->memoryTypeCount; i++) {
            uint32_t score = left >> i & 1 ? vk_suits(device->physical, i, usage, needs->size) : 0;
            if (score > best_score) best = i, best_score = score;
        }
        if (best == UINT32_MAX) return result;
        left &= ~(1u << best);
        VkMemoryAllocateInfo info = {
            .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
            .allocationSize = needs->size,
            .memoryTypeIndex = best,
        };
        result = VK_MAKE(&buffer->memory, device->vk.AllocateMemory, device->handle, &info, NULL);
        if (result == VK_SUCCESS) {
            const VkMemoryType *type = &memory->memoryTypes[best];
            buffer->heap = type->heapIndex;
            buffer->coherent = !!(type->propertyFlags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT);
            if (!(type->propertyFlags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT)) return VK_SUCCESS;
            return device->vk.MapMemory(device->handle, buffer->memory, 0, VK_WHOLE_SIZE, 0, (void **)&buffer->mapped);
        }
        if (result == VK_ERROR_DEVICE_LOST) return result;
    }
}

static pco_status vk_no_memory(pco_device *device, VkResult result, uint64_t bytes, pco_error *err)
{
    uint32_t heap = device->physical->main_heap;
    if (result == VK_ERROR_DEVICE_LOST) return vk_check(device, result, err, "vkAllocateMemory");
    return vk_fail(err, PCO_ERROR_OUT_OF_DEVICE_MEMORY,
                   "%s: no memory for a buffer of %llu bytes: the heap has %llu, %llu are taken by this device "
                   "object, about %llu are left (%s)",
                   device->gpu.name, (unsigned long long)bytes,
                   (unsigned long long)device->physical->memory.memoryHeaps[heap].size,
                   (unsigned long long)device->heap_used[heap], (unsigned long long)vk_memory_left(device),
                   vk_result_name(result));
}

pco_status vk_buffer_create(pco_device *device, uint64_t bytes, uint32_t usage, pco_buffer **out, pco_error *err)
{
    *out = NULL;
    if (device->lost) return vk_fail(err, PCO_ERROR_DEVICE_LOST, "%s was lost", device->gpu.name);
    if (bytes > device->gpu.limits.max_allocation)
        return vk_fail(err, PCO_ERROR_UNSUPPORTED, "%s: a buffer of %llu bytes, and the most is %llu", device->gpu.name,
                       (unsigned long long)bytes, (unsigned long long)device->gpu.limits.max_allocation);
    pco_buffer *buffer = vk_allocate(device->gpu.host, 1, sizeof *buffer);
    if (!buffer) return vk_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a buffer object");
    buffer->bytes = bytes;
    buffer->size = bytes ? (bytes + 15) & ~(uint64_t)15 : 16;
    VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = buffer->size,
        .usage =
            VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT,
        .sharingMode = VK_SHARING_MODE_EXCLUSIVE,
    };
    VkMemoryRequirements needs;
    VkResult result = VK_MAKE(&buffer->handle, device->vk.CreateBuffer, device->handle, &info, NULL);
    if (result != VK_SUCCESS) goto fail;
    device->vk.GetBufferMemoryRequirements(device->handle, buffer->handle, &needs);
    result = vk_take_memory(device, buffer, &needs, usage ? usage : PCO_USAGE_DEVICE);
    if (result != VK_SUCCESS) goto fail;
    result = device->vk.BindBufferMemory(device->handle, buffer->handle, buffer->memory, 0);
    if (result != VK_SUCCESS) goto fail;
    buffer->allocated = needs.size;
    device->heap_used[buffer->heap] += needs.size;
    *out = buffer;
    return PCO_OK;
fail:
    vk_buffer_destroy(device, buffer);
    return vk_no_memory(device, result, bytes, err);
}

void vk_buffer_destroy(pco_device *device, pco_buffer *buffer)
{
    if (!buffer) return;
    if (buffer->handle) device->vk.DestroyBuffer(device->handle, buffer->handle, NULL);
    if (buffer->memory) device->vk.FreeMemory(device->handle, buffer->memory, NULL);
    device->heap_used[buffer->heap] -= buffer->allocated;
    vk_release(device->gpu.host, buffer);
}

/* Makes the buffer and memory objects around pages of the host. */
static VkResult vk_import_pages(pco_device *device, pco_buffer *buffer, const void *data)
{
    VkMemoryHostPointerPropertiesEXT pages = {.sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
    const VkExternalMemoryHandleTypeFlagBits kind = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
    VkResult result = device->vk.GetMemoryHostPointerPropertiesEXT(device->handle, kind, data, &pages);
    if (result != VK_SUCCESS) return result;
    VkExternalMemoryBufferCreateInfo external = {
        .sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
        .handleTypes = kind,
    };
    VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .pNext = &external,
        .size = buffer->size,
        .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT,
        .sharingMode = VK_SHARING_MODE_EXCLUSIVE,
    };
    result = VK_MAKE(&buffer->handle, device->vk.CreateBuffer, device->handle, &info, NULL);
    if (result != VK_SUCCESS) return result;
    VkMemoryRequirements needs;
    device->vk.GetBufferMemoryRequirements(device->handle, buffer->handle, &needs);
    const VkPhysicalDeviceMemoryProperties *memory = &device->physical->memory;
    uint32_t types = needs.memoryTypeBits & pages.memoryTypeBits, type = 0;
    while (type < memory->memoryTypeCount &&
           !(types >> type & 1 && memory->memoryTypes[type].propertyFlags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT))
        type++;
    if (type == memory->memoryTypeCount || needs.size > buffer->size) return VK_ERROR_FEATURE_NOT_PRESENT;
    union {
        const void *in;
        void *out;
    } pointer = {data}; /* the API takes a pointer to non-const; nothing writes through it */
    VkImportMemoryHostPointerInfoEXT import = {
        .sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT,
        .handleType = kind,
        .pHostPointer = pointer.out,
    };
    VkMemoryAllocateInfo allocate = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
        .pNext = &import,
        .allocationSize = buffer->size,
        .memoryTypeIndex = type,
    };
    result = VK_MAKE(&buffer->memory, device->vk.AllocateMemory, device->handle, &allocate, NULL);
    if (result != VK_SUCCESS) return result;
    buffer->mapped = pointer.out;
    return device->vk.BindBufferMemory(device->handle, buffer->handle, buffer->memory, 0);
}

pco_status vk_buffer_import(pco_device *device, const void *data, uint64_t bytes, pco_buffer **out, pco_error *err)
{
    *out = NULL;
    uint64_t alignment = device->physical->import_alignment, page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (device->lost) return vk_fail(err, PCO_ERROR_DEVICE_LOST, "%s was lost", device->gpu.name);
    if (!(device->physical->has & VK_HAS_IMPORT) || !alignment)
        return vk_fail(err, PCO_ERROR_UNSUPPORTED, "%s: the driver cannot import host memory", device->gpu.name);
    if (!device->physical->unified)
        return vk_fail(err, PCO_ERROR_UNSUPPORTED, "%s has memory of its own", device->gpu.name);
    if (!bytes || (uintptr_t)data % alignment || alignment > page)
        return vk_fail(err, PCO_ERROR_UNSUPPORTED, "%s imports memory in units of %llu bytes", device->gpu.name,
                       (unsigned long long)alignment);
    uint64_t size = (bytes + alignment - 1) / alignment * alignment;
    if (size > device->gpu.limits.max_allocation)
        return vk_fail(err, PCO_ERROR_UNSUPPORTED, "%s: a buffer of %llu bytes, and the most is %llu", device->gpu.name,
                       (unsigned long long)bytes, (unsigned long long)device->gpu.limits.max_allocation);
    pco_buffer *buffer = vk_allocate(device->gpu.host, 1, sizeof *buffer);
    if (!buffer) return vk_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a buffer object");
    buffer->bytes = bytes;
    buffer->size = size;
    buffer->coherent = buffer->imported = 1;
    VkResult result = vk_import_pages(device, buffer, data);
    if (result == VK_SUCCESS) {
        *out = buffer;
        return PCO_OK;
    }
    vk_buffer_destroy(device, buffer);
    if (result == VK_ERROR_DEVICE_LOST) return vk_check(device, result, err, "importing host memory");
    return vk_fail(err, PCO_ERROR_UNSUPPORTED, "%s: the driver does not import this memory: %s", device->gpu.name,
                   vk_result_name(result));
}

/* A range of mapped memory, widened to whole atoms. */
static VkMappedMemoryRange vk_range(const pco_device *device, const pco_buffer *buffer, uint64_t offset, uint64_t bytes)
{
    uint64_t atom = device->physical->atom, begin = offset / atom * atom;
    uint64_t end = (offset + bytes + atom - 1) / atom * atom;
    return (VkMappedMemoryRange){
        .sType = VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE,
        .memory = buffer->memory,
        .offset = begin,
        .size = end >= buffer->allocated ? VK_WHOLE_SIZE : end - begin,
    };
}

pco_status vk_flush(pco_device *device, const pco_buffer *buffer, uint64_t offset, uint64_t bytes, pco_error *err)
{
    if (buffer->coherent || !bytes) return PCO_OK;
    VkMappedMemoryRange range = vk_range(device, buffer, offset, bytes);
    return vk_check(device, device->vk.FlushMappedMemoryRanges(device->handle, 1, &range), err,
                    "vkFlushMappedMemoryRanges");
}

pco_status vk_invalidate(pco_device *device, const pco_buffer *buffer, uint64_t offset, uint64_t bytes, pco_error *err)
{
    if (buffer->coherent || !bytes) return PCO_OK;
    VkMappedMemoryRange range = vk_range(device, buffer, offset, bytes);
    return vk_check(device, device->vk.InvalidateMappedMemoryRanges(device->handle, 1, &range), err,
                    "vkInvalidateMappedMemoryRanges");
}

uint64_t vk_memory_left(pco_device *device)
{
    const vk_physical *physical = device->physical;
    uint32_t heap = physical->main_heap;
    uint64_t total = physical->memory.memoryHeaps[heap].size, used = device->heap_used[heap];
    if (physical->has & VK_HAS_BUDGET) {
        VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
            .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT,
        };
        VkPhysicalDeviceMemoryProperties2 memory = {
            .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
            .pNext = &budget,
        };
        device->backend->vk.GetPhysicalDeviceMemoryProperties2(physical->handle, &memory);
        total = budget.heapBudget[heap];
        used = budget.heapUsage[heap];
    }
    return total > used ? total - used : 0;
}
