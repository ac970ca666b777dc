/* The Vulkan layer of refuse.h, for one instance and one device at a time. */
#include "refuse.h"

#include <stddef.h>
#include <string.h>

#include <vulkan/vulkan.h>
#include <vulkan/vk_layer.h>

static struct {
    PFN_vkGetInstanceProcAddr instance_next;
    PFN_vkGetDeviceProcAddr device_next;
    /* Asked for later, the loader would give the first of the chain, which is not the next. */
    PFN_vkEnumeratePhysicalDevices EnumeratePhysicalDevices;
    PFN_vkDestroyInstance DestroyInstance;
    PFN_vkCreateDevice CreateDevice;
    VkDevice device;
} refuse;

/* X(name, parameters, arguments): what makes an object, *out. */
#define MAKES(X) \
    X(CreateFence, (VkDevice d, const VkFenceCreateInfo *a, const VkAllocationCallbacks *b, VkFence *out), \
      (d, a, b, out)) \
    X(CreateBuffer, (VkDevice d, const VkBufferCreateInfo *a, const VkAllocationCallbacks *b, VkBuffer *out), \
      (d, a, b, out)) \
    X(AllocateMemory, \
      (VkDevice d, const VkMemoryAllocateInfo *a, const VkAllocationCallbacks *b, VkDeviceMemory *out), \
      (d, a, b, out)) \
    X(CreatePipelineCache, \
      (VkDevice d, const VkPipelineCacheCreateInfo *a, const VkAllocationCallbacks *b, VkPipelineCache *out), \
      (d, a, b, out)) \
    X(CreateDescriptorSetLayout, \
      (VkDevice d, const VkDescriptorSetLayoutCreateInfo *a, const VkAllocationCallbacks *b, \
       VkDescriptorSetLayout *out), \
      (d, a, b, out)) \
    X(CreatePipelineLayout, \
      (VkDevice d, const VkPipelineLayoutCreateInfo *a, const VkAllocationCallbacks *b, VkPipelineLayout *out), \
      (d, a, b, out)) \
    X(CreateCommandPool, \
      (VkDevice d, const VkCommandPoolCreateInfo *a, const VkAllocationCallbacks *b, VkCommandPool *out), \
      (d, a, b, out))

#define DESTROYS(X) \
    X(DestroyFence, VkFence) \
    X(DestroyBuffer, VkBuffer) \
    X(FreeMemory, VkDeviceMemory) \
    X(DestroyPipelineCache, VkPipelineCache) \
    X(DestroyDescriptorSetLayout, VkDescriptorSetLayout) \
    X(DestroyPipelineLayout, VkPipelineLayout) \
    X(DestroyCommandPool, VkCommandPool)

/* What can fail and makes nothing that is destroyed by itself. */
#define OTHERS(X) \
    X(MapMemory, (VkDevice d, VkDeviceMemory a, VkDeviceSize b, VkDeviceSize c, VkMemoryMapFlags e, void **f), \
      (d, a, b, c, e, f)) \
    X(BindBufferMemory, (VkDevice d, VkBuffer a, VkDeviceMemory b, VkDeviceSize c), (d, a, b, c)) \
    X(FlushMappedMemoryRanges, (VkDevice d, uint32_t a, const VkMappedMemoryRange *b), (d, a, b)) \
    X(InvalidateMappedMemoryRanges, (VkDevice d, uint32_t a, const VkMappedMemoryRange *b), (d, a, b)) \
    X(AllocateCommandBuffers, (VkDevice d, const VkCommandBufferAllocateInfo *a, VkCommandBuffer *b), (d, a, b)) \
    X(BeginCommandBuffer, (VkCommandBuffer d, const VkCommandBufferBeginInfo *a), (d, a)) \
    X(EndCommandBuffer, (VkCommandBuffer d), (d)) \
    X(ResetFences, (VkDevice d, uint32_t a, const VkFence *b), (d, a, b)) \
    X(WaitForFences, (VkDevice d, uint32_t a, const VkFence *b, VkBool32 c, uint64_t e), (d, a, b, c, e)) \
    X(QueueSubmit, (VkQueue d, uint32_t a, const VkSubmitInfo *b, VkFence c), (d, a, b, c))

#define NEXT(name) ((PFN_vk##name)refuse.device_next(refuse.device, "vk" #name))
#define WRAP(name, parameters, arguments) \
    static VKAPI_ATTR VkResult VKAPI_CALL refuse_##name parameters \
    { \
        if (refuse_now("vk" #name)) { \
            memset(out, 0x5a, sizeof *out); \
            return VK_ERROR_OUT_OF_DEVICE_MEMORY; \
        } \
        const VkResult result = NEXT(name) arguments; \
        refuse_counted.alive += result == VK_SUCCESS; \
        return result; \
    }
MAKES(WRAP)
#undef WRAP
#define WRAP(name, type) \
    static VKAPI_ATTR void VKAPI_CALL refuse_##name(VkDevice d, type object, const VkAllocationCallbacks *a) \
    { \
        refuse_counted.alive -= object != VK_NULL_HANDLE; \
        NEXT(name)(d, object, a); \
    }
DESTROYS(WRAP)
#undef WRAP
#define WRAP(name, parameters, arguments) \
    static VKAPI_ATTR VkResult VKAPI_CALL refuse_##name parameters \
    { \
        if (refuse_now("vk" #name)) return VK_ERROR_OUT_OF_HOST_MEMORY; \
        return NEXT(name) arguments; \
    }
OTHERS(WRAP)
#undef WRAP

static VKAPI_ATTR VkResult VKAPI_CALL refuse_DeviceWaitIdle(VkDevice device)
{
    refuse_counted.waits++;
    return NEXT(DeviceWaitIdle)(device);
}

static VKAPI_ATTR void VKAPI_CALL refuse_DestroyDevice(VkDevice device, const VkAllocationCallbacks *allocator)
{
    PFN_vkDestroyDevice destroy = NEXT(DestroyDevice);
    refuse_counted.alive--;
    destroy(device, allocator);
}

static VKAPI_ATTR void VKAPI_CALL refuse_DestroyInstance(VkInstance instance, const VkAllocationCallbacks *allocator)
{
    refuse_counted.alive--;
    refuse.DestroyInstance(instance, allocator);
}

static VKAPI_ATTR VkResult VKAPI_CALL refuse_EnumeratePhysicalDevices(VkInstance instance, uint32_t *count,
                                                                      VkPhysicalDevice *devices)
{
    if (refuse_now("vkEnumeratePhysicalDevices")) return VK_ERROR_INITIALIZATION_FAILED;
    return refuse.EnumeratePhysicalDevices(instance, count, devices);
}

static VKAPI_ATTR VkResult VKAPI_CALL refuse_CreateInstance(const VkInstanceCreateInfo *info,
                                                            const VkAllocationCallbacks *allocator, VkInstance *out)
{
    VkLayerInstanceCreateInfo *link = (VkLayerInstanceCreateInfo *)(uintptr_t)info->pNext;
    while (link &&
           (link->sType != VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO || link->function != VK_LAYER_LINK_INFO))
        link = (VkLayerInstanceCreateInfo *)(uintptr_t)link->pNext;
    if (!link || refuse_now("vkCreateInstance")) return VK_ERROR_INITIALIZATION_FAILED;
    refuse.instance_next = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    const VkResult result =
        ((PFN_vkCreateInstance)refuse.instance_next(NULL, "vkCreateInstance"))(info, allocator, out);
    if (result != VK_SUCCESS) return result;
#define FIND(name) refuse.name = (PFN_vk##name)refuse.instance_next(*out, "vk" #name)
    FIND(EnumeratePhysicalDevices);
    FIND(DestroyInstance);
    FIND(CreateDevice);
#undef FIND
    refuse_counted.alive++;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL refuse_CreateDevice(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                                                          const VkAllocationCallbacks *allocator, VkDevice *out)
{
    VkLayerDeviceCreateInfo *link = (VkLayerDeviceCreateInfo *)(uintptr_t)info->pNext;
    while (link && (link->sType != VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO || link->function != VK_LAYER_LINK_INFO))
        link = (VkLayerDeviceCreateInfo *)(uintptr_t)link->pNext;
    if (!link || refuse_now("vkCreateDevice")) {
        memset(out, 0x5a, sizeof *out);
        return VK_ERROR_INITIALIZATION_FAILED;
    }
    refuse.device_next = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    const VkResult result = refuse.CreateDevice(physical, info, allocator, out);
    if (result == VK_SUCCESS) refuse.device = *out, refuse_counted.alive++;
    return result;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL refuse_GetDeviceProcAddr(VkDevice device, const char *name);
static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL refuse_GetInstanceProcAddr(VkInstance instance, const char *name);

static PFN_vkVoidFunction refuse_own(const char *name)
{
#define ROW(member, ...) {"vk" #member, (PFN_vkVoidFunction)refuse_##member},
    static const struct {
        const char *name;
        PFN_vkVoidFunction function;
    } rows[] = {MAKES(ROW) DESTROYS(ROW) OTHERS(ROW) ROW(DeviceWaitIdle, ) ROW(DestroyDevice, ) ROW(DestroyInstance, )
                    ROW(EnumeratePhysicalDevices, ) ROW(CreateInstance, ) ROW(CreateDevice, ) ROW(GetDeviceProcAddr, )
                        ROW(GetInstanceProcAddr, )};
#undef ROW
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].name, name) == 0) return rows[i].function;
    return NULL;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL refuse_GetDeviceProcAddr(VkDevice device, const char *name)
{
    PFN_vkVoidFunction own = refuse_own(name);
    return own ? own : refuse.device_next(device, name);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL refuse_GetInstanceProcAddr(VkInstance instance, const char *name)
{
    PFN_vkVoidFunction own = refuse_own(name);
    return own || !instance ? own : refuse.instance_next(instance, name);
}

REFUSE_VISIBLE VKAPI_ATTR VkResult VKAPI_CALL vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *layer)
{
    if (layer->loaderLayerInterfaceVersion < 2) return VK_ERROR_INITIALIZATION_FAILED;
    layer->loaderLayerInterfaceVersion = 2;
    layer->pfnGetInstanceProcAddr = refuse_GetInstanceProcAddr;
    layer->pfnGetDeviceProcAddr = refuse_GetDeviceProcAddr;
    layer->pfnGetPhysicalDeviceProcAddr = NULL;
    return VK_SUCCESS;
}
