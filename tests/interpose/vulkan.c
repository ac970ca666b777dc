/* The same library as a Vulkan layer: counts what is made, recorded and submitted through it. */
#include "interpose.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <vulkan/vulkan.h>
#include <vulkan/vk_layer.h>

#define VISIBLE __attribute__((visibility("default")))

/* X(kind, name, result type, parameters, arguments): functions that return something, and those that do not. */
#define VALUES(X) \
    X(OBJECTS, CreateBuffer, (VkDevice d, const VkBufferCreateInfo *a, const VkAllocationCallbacks *b, VkBuffer *c), \
      (d, a, b, c)) \
    X(OBJECTS, AllocateMemory, \
      (VkDevice d, const VkMemoryAllocateInfo *a, const VkAllocationCallbacks *b, VkDeviceMemory *c), (d, a, b, c)) \
    X(OBJECTS, MapMemory, \
      (VkDevice d, VkDeviceMemory a, VkDeviceSize b, VkDeviceSize c, VkMemoryMapFlags e, void **f), \
      (d, a, b, c, e, f)) \
    X(OBJECTS, CreateShaderModule, \
      (VkDevice d, const VkShaderModuleCreateInfo *a, const VkAllocationCallbacks *b, VkShaderModule *c), \
      (d, a, b, c)) \
    X(OBJECTS, CreateComputePipelines, \
      (VkDevice d, VkPipelineCache a, uint32_t b, const VkComputePipelineCreateInfo *c, \
       const VkAllocationCallbacks *e, VkPipeline *f), \
      (d, a, b, c, e, f)) \
    X(OBJECTS, CreateDescriptorPool, \
      (VkDevice d, const VkDescriptorPoolCreateInfo *a, const VkAllocationCallbacks *b, VkDescriptorPool *c), \
      (d, a, b, c)) \
    X(OBJECTS, AllocateDescriptorSets, (VkDevice d, const VkDescriptorSetAllocateInfo *a, VkDescriptorSet *b), \
      (d, a, b)) \
    X(OBJECTS, CreateCommandPool, \
      (VkDevice d, const VkCommandPoolCreateInfo *a, const VkAllocationCallbacks *b, VkCommandPool *c), (d, a, b, c)) \
    X(OBJECTS, AllocateCommandBuffers, (VkDevice d, const VkCommandBufferAllocateInfo *a, VkCommandBuffer *b), \
      (d, a, b)) \
    X(OBJECTS, CreateFence, (VkDevice d, const VkFenceCreateInfo *a, const VkAllocationCallbacks *b, VkFence *c), \
      (d, a, b, c)) \
    X(RECORDS, BeginCommandBuffer, (VkCommandBuffer d, const VkCommandBufferBeginInfo *a), (d, a)) \
    X(RECORDS, EndCommandBuffer, (VkCommandBuffer d), (d)) \
    X(RECORDS, ResetCommandBuffer, (VkCommandBuffer d, VkCommandBufferResetFlags a), (d, a)) \
    X(SUBMITS, QueueSubmit, (VkQueue d, uint32_t a, const VkSubmitInfo *b, VkFence c), (d, a, b, c))

#define VOIDS(X) \
    X(OBJECTS, UpdateDescriptorSets, \
      (VkDevice d, uint32_t a, const VkWriteDescriptorSet *b, uint32_t c, const VkCopyDescriptorSet *e), \
      (d, a, b, c, e)) \
    X(RECORDS, CmdBindPipeline, (VkCommandBuffer d, VkPipelineBindPoint a, VkPipeline b), (d, a, b)) \
    X(RECORDS, CmdBindDescriptorSets, \
      (VkCommandBuffer d, VkPipelineBindPoint a, VkPipelineLayout b, uint32_t c, uint32_t e, const VkDescriptorSet *f, \
       uint32_t g, const uint32_t *h), \
      (d, a, b, c, e, f, g, h)) \
    X(RECORDS, CmdPushConstants, \
      (VkCommandBuffer d, VkPipelineLayout a, VkShaderStageFlags b, uint32_t c, uint32_t e, const void *f), \
      (d, a, b, c, e, f)) \
    X(RECORDS, CmdDispatch, (VkCommandBuffer d, uint32_t a, uint32_t b, uint32_t c), (d, a, b, c)) \
    X(RECORDS, CmdDispatchIndirect, (VkCommandBuffer d, VkBuffer a, VkDeviceSize b), (d, a, b)) \
    X(RECORDS, CmdPipelineBarrier, \
      (VkCommandBuffer d, VkPipelineStageFlags a, VkPipelineStageFlags b, VkDependencyFlags c, uint32_t e, \
       const VkMemoryBarrier *f, uint32_t g, const VkBufferMemoryBarrier *h, uint32_t i, \
       const VkImageMemoryBarrier *j), \
      (d, a, b, c, e, f, g, h, i, j)) \
    X(RECORDS, CmdCopyBuffer, (VkCommandBuffer d, VkBuffer a, VkBuffer b, uint32_t c, const VkBufferCopy *e), \
      (d, a, b, c, e)) \
    X(RECORDS, CmdUpdateBuffer, (VkCommandBuffer d, VkBuffer a, VkDeviceSize b, VkDeviceSize c, const void *e), \
      (d, a, b, c, e)) \
    X(RECORDS, CmdFillBuffer, (VkCommandBuffer d, VkBuffer a, VkDeviceSize b, VkDeviceSize c, uint32_t e), \
      (d, a, b, c, e))

/* What comes after this layer, per instance and per device. Handles of the same device (queues, command buffers)
 * begin with the same pointer, which is its key. */
typedef struct vulkan_instance {
    void *key;
    PFN_vkGetInstanceProcAddr next;
} vulkan_instance;

typedef struct vulkan_device {
    void *key;
    PFN_vkGetDeviceProcAddr next;
#define MEMBER(kind, name, parameters, arguments) PFN_vk##name name;
    VALUES(MEMBER)
    VOIDS(MEMBER)
#undef MEMBER
} vulkan_device;

enum { VULKAN_MOST = 64 };

static struct {
    pthread_mutex_t lock;
    vulkan_instance instances[VULKAN_MOST];
    vulkan_device devices[VULKAN_MOST];
    unsigned n_instances, n_devices;
} vulkan = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *vulkan_key(const void *handle) { return *(void *const *)handle; }

/* Later entries win: a key may be used again after a destroy. */
static const vulkan_device *vulkan_find(const void *handle)
{
    for (unsigned i = vulkan.n_devices; i-- > 0;)
        if (vulkan.devices[i].key == vulkan_key(handle)) return &vulkan.devices[i];
    abort();
}

#define WRAP(kind, name, parameters, arguments) \
    static VKAPI_ATTR VkResult VKAPI_CALL count_##name parameters \
    { \
        interpose_add(INTERPOSE_VK_##kind, 1, INTERPOSE_VK_##kind == INTERPOSE_VK_SUBMITS ? NULL : "vk" #name); \
        return vulkan_find(d)->name arguments; \
    }
VALUES(WRAP)
#undef WRAP
#define WRAP(kind, name, parameters, arguments) \
    static VKAPI_ATTR void VKAPI_CALL count_##name parameters \
    { \
        interpose_add(INTERPOSE_VK_##kind, 1, "vk" #name); \
        vulkan_find(d)->name arguments; \
    }
VOIDS(WRAP)
#undef WRAP

static VKAPI_ATTR VkResult VKAPI_CALL layer_CreateInstance(const VkInstanceCreateInfo *info,
                                                           const VkAllocationCallbacks *allocator, VkInstance *instance)
{
    VkLayerInstanceCreateInfo *link = (VkLayerInstanceCreateInfo *)info->pNext;
    while (link &&
           (link->sType != VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO || link->function != VK_LAYER_LINK_INFO))
        link = (VkLayerInstanceCreateInfo *)link->pNext;
    if (!link || vulkan.n_instances == VULKAN_MOST) return VK_ERROR_INITIALIZATION_FAILED;
    PFN_vkGetInstanceProcAddr next = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)next(NULL, "vkCreateInstance");
    VkResult result = create(info, allocator, instance);
    if (result != VK_SUCCESS) return result;
    pthread_mutex_lock(&vulkan.lock);
    vulkan.instances[vulkan.n_instances++] = (vulkan_instance){vulkan_key(*instance), next};
    pthread_mutex_unlock(&vulkan.lock);
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL layer_CreateDevice(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                                                         const VkAllocationCallbacks *allocator, VkDevice *device)
{
    VkLayerDeviceCreateInfo *link = (VkLayerDeviceCreateInfo *)info->pNext;
    while (link && (link->sType != VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO || link->function != VK_LAYER_LINK_INFO))
        link = (VkLayerDeviceCreateInfo *)link->pNext;
    if (!link || vulkan.n_devices == VULKAN_MOST) return VK_ERROR_INITIALIZATION_FAILED;
    PFN_vkGetInstanceProcAddr next_instance = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    PFN_vkGetDeviceProcAddr next = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    PFN_vkCreateDevice create = (PFN_vkCreateDevice)next_instance(NULL, "vkCreateDevice");
    VkResult result = create(physical, info, allocator, device);
    if (result != VK_SUCCESS) return result;
    pthread_mutex_lock(&vulkan.lock);
    vulkan_device *row = &vulkan.devices[vulkan.n_devices];
    row->key = vulkan_key(*device);
    row->next = next;
#define FIND(kind, name, parameters, arguments) row->name = (PFN_vk##name)next(*device, "vk" #name);
    VALUES(FIND)
    VOIDS(FIND)
#undef FIND
    vulkan.n_devices++;
    interpose_state()->vk_devices++;
    pthread_mutex_unlock(&vulkan.lock);
    return VK_SUCCESS;
}

static PFN_vkVoidFunction layer_own(const char *name)
{
#define ROW(kind, member, parameters, arguments) {"vk" #member, (PFN_vkVoidFunction)count_##member},
    static const struct {
        const char *name;
        PFN_vkVoidFunction function;
    } rows[] = {VALUES(ROW) VOIDS(ROW)};
#undef ROW
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].name, name) == 0) return rows[i].function;
    return NULL;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL layer_GetDeviceProcAddr(VkDevice device, const char *name)
{
    if (strcmp(name, "vkGetDeviceProcAddr") == 0) return (PFN_vkVoidFunction)layer_GetDeviceProcAddr;
    PFN_vkVoidFunction own = layer_own(name);
    return own ? own : vulkan_find(device)->next(device, name);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL layer_GetInstanceProcAddr(VkInstance instance, const char *name)
{
    if (strcmp(name, "vkGetInstanceProcAddr") == 0) return (PFN_vkVoidFunction)layer_GetInstanceProcAddr;
    if (strcmp(name, "vkGetDeviceProcAddr") == 0) return (PFN_vkVoidFunction)layer_GetDeviceProcAddr;
    if (strcmp(name, "vkCreateInstance") == 0) return (PFN_vkVoidFunction)layer_CreateInstance;
    if (strcmp(name, "vkCreateDevice") == 0) return (PFN_vkVoidFunction)layer_CreateDevice;
    PFN_vkVoidFunction own = layer_own(name);
    if (own || !instance) return own;
    for (unsigned i = vulkan.n_instances; i-- > 0;)
        if (vulkan.instances[i].key == vulkan_key(instance)) return vulkan.instances[i].next(instance, name);
    return NULL;
}

VISIBLE VKAPI_ATTR VkResult VKAPI_CALL vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *layer)
{
    if (layer->loaderLayerInterfaceVersion < 2) return VK_ERROR_INITIALIZATION_FAILED;
    layer->loaderLayerInterfaceVersion = 2;
    layer->pfnGetInstanceProcAddr = layer_GetInstanceProcAddr;
    layer->pfnGetDeviceProcAddr = layer_GetDeviceProcAddr;
    layer->pfnGetPhysicalDeviceProcAddr = NULL;
    return VK_SUCCESS;
}
