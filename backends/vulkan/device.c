/* Opening and closing a device. */
#include "vk.h"

#include <stdio.h>
#include <string.h>

enum { VK_MAX_ENABLED = 13 };

/* Names of the extensions that carry what `has` says and that the device's version does not contain. */
static uint32_t vk_extensions_to_enable(const vk_physical *physical, const char **names)
{
    uint32_t n = 0, has = physical->has;
    int before12 = physical->api_version < VK_API_VERSION_1_2;
    int before13 = physical->api_version < VK_API_VERSION_1_3;
    if (has & VK_HAS_PORTABILITY_SUBSET) names[n++] = "VK_KHR_portability_subset";
    if (has & VK_HAS_BUDGET) names[n++] = VK_EXT_MEMORY_BUDGET_EXTENSION_NAME;
    if (has & VK_HAS_IMPORT) names[n++] = VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME;
    if (has & VK_HAS_EXECUTABLES) names[n++] = VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME;
    if (has & VK_HAS_FLOAT_CONTROLS && before12) names[n++] = VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME;
    if (has & VK_HAS_F16 && before12) names[n++] = VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME;
    if (has & (VK_HAS_SUBGROUP_CONTROL | VK_HAS_FULL_SUBGROUPS) && before13)
        names[n++] = VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME;
    if (has & VK_HAS_INTEGER_DOT && before13) names[n++] = VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME;
    if (has & VK_HAS_MIXED_FLOAT_DOT) names[n++] = VK_VALVE_SHADER_MIXED_FLOAT_DOT_PRODUCT_EXTENSION_NAME;
    if (has & VK_HAS_COOPERATIVE_MATRIX) names[n++] = VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME;
    if (has & VK_HAS_COOPERATIVE_MATRIX2) names[n++] = VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME;
    if (has & VK_HAS_COOPERATIVE_MATRIX && before12) names[n++] = VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME;
    return n;
}

static pco_status vk_create_handle(pco_device *device, pco_error *err)
{
    const vk_physical *physical = device->physical;
    const vk_instance_calls *vk = &device->backend->vk;
    uint32_t has = physical->has;
    const char *names[VK_MAX_ENABLED];
    VkPhysicalDeviceShaderIntegerDotProductFeatures dot = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES,
        .shaderIntegerDotProduct = VK_TRUE,
    };
    VkPhysicalDeviceSubgroupSizeControlFeatures sizes = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
        .subgroupSizeControl = VK_TRUE,
        .computeFullSubgroups = !!(has & VK_HAS_FULL_SUBGROUPS),
    };
    VkPhysicalDeviceShaderFloat16Int8Features half = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES,
        .shaderFloat16 = VK_TRUE,
    };
    VkPhysicalDevice16BitStorageFeatures storage = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES,
        .storageBuffer16BitAccess = VK_TRUE,
    };
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR executables = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR,
        .pipelineExecutableInfo = VK_TRUE,
    };
    VkPhysicalDeviceShaderMixedFloatDotProductFeaturesVALVE mixed = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_MIXED_FLOAT_DOT_PRODUCT_FEATURES_VALVE,
        .shaderMixedFloatDotProductFloat16AccFloat32 = VK_TRUE,
    };
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR,
        .cooperativeMatrix = VK_TRUE,
    };
    VkPhysicalDeviceMaintenance4Features maintenance = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES,
        .maintenance4 = VK_TRUE,
    };
    VkPhysicalDeviceCooperativeMatrix2FeaturesNV second = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV,
        .pNext = &maintenance,
        .cooperativeMatrixReductions = VK_TRUE,
        .cooperativeMatrixConversions = VK_TRUE,
        .cooperativeMatrixPerElementOperations = VK_TRUE,
    };
    VkPhysicalDeviceVulkanMemoryModelFeatures model = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES,
        .vulkanMemoryModel = VK_TRUE,
        .vulkanMemoryModelDeviceScope = VK_TRUE, /* that of atomics, in all kernels of the device */
    };
    /* Everything else stays off, robust buffer access above all: it hides out-of-bounds accesses. */
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
    if (has & VK_HAS_INTEGER_DOT) dot.pNext = features.pNext, features.pNext = &dot;
    if (has & (VK_HAS_SUBGROUP_CONTROL | VK_HAS_FULL_SUBGROUPS)) sizes.pNext = features.pNext, features.pNext = &sizes;
    if (has & VK_HAS_EXECUTABLES) executables.pNext = features.pNext, features.pNext = &executables;
    if (has & VK_HAS_F16) half.pNext = features.pNext, features.pNext = &half;
    if (has & VK_HAS_STORAGE_16) storage.pNext = features.pNext, features.pNext = &storage;
    if (has & VK_HAS_MIXED_FLOAT_DOT) mixed.pNext = features.pNext, features.pNext = &mixed;
    if (has & VK_HAS_COOPERATIVE_MATRIX) matrix.pNext = features.pNext, model.pNext = &matrix, features.pNext = &model;
    if (has & VK_HAS_COOPERATIVE_MATRIX2) maintenance.pNext = features.pNext, features.pNext = &second;
    const float priority = 1.0f;
    VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
        .queueFamilyIndex = physical->queue_family,
        .queueCount = 1,
        .pQueuePriorities = &priority,
    };
    VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .pNext = &features,
        .queueCreateInfoCount = 1,
        .pQueueCreateInfos = &queue,
        .enabledExtensionCount = vk_extensions_to_enable(physical, names),
        .ppEnabledExtensionNames = names,
    };
    return vk_check(device, VK_MAKE(&device->handle, vk->CreateDevice, physical->handle, &info, NULL), err,
                    "vkCreateDevice");
}

#define VK_LOAD(name) \
    device->vk.name = (PFN_vk##name)get(device->handle, "vk" #name); \
    if (!device->vk.name) missing = "vk" #name;

static pco_status vk_load_calls(pco_device *device, pco_error *err)
{
    PFN_vkGetDeviceProcAddr get = device->backend->vk.GetDeviceProcAddr;
    const char *missing = NULL;
    VK_DEVICE_CALLS(VK_LOAD)
    if (device->physical->has & VK_HAS_IMPORT) {
        VK_LOAD(GetMemoryHostPointerPropertiesEXT)
    }
    if (device->physical->has & VK_HAS_EXECUTABLES) {
        VK_LOAD(GetPipelineExecutablePropertiesKHR)
        VK_LOAD(GetPipelineExecutableStatisticsKHR)
        VK_LOAD(GetPipelineExecutableInternalRepresentationsKHR)
    }
    if (missing) return vk_fail(err, PCO_ERROR_UNSUPPORTED, "%s: the driver lacks %s", device->gpu.name, missing);
    return PCO_OK;
}

static void vk_device_close(pco_device *device)
{
    if (!device) return;
    const pco_host *host = device->gpu.host;
    if (device->handle && device->vk.DestroyDevice) {
        /* Not where opening failed half way: nothing was submitted, and Mesa 22.3's RADV may crash then. */
        if (device->opened) device->vk.DeviceWaitIdle(device->handle);
        vk_transfer_close(device);
        vk_pipelines_close(device);
        vk_queue_close(device);
        device->vk.DestroyDevice(device->handle, NULL);
    }
    pco_gpu_forget_made(&device->gpu);
    vk_release(host, device);
}

pco_status vk_device_open(pco_backend *backend, uint32_t index, pco_device **out, pco_error *err)
{
    *out = NULL;
    if (index >= backend->n_devices)
        return vk_fail(err, PCO_ERROR_NOT_FOUND, "Vulkan device %u of %u", index, backend->n_devices);
    pco_device *device = vk_allocate(backend->host, 1, sizeof *device);
    if (!device) return vk_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a Vulkan device");
    device->backend = backend;
    device->physical = &backend->devices[index];
    device->gpu.host = backend->host;
    device->gpu.driver = &vk_driver;
    device->gpu.limits = device->physical->limits;
    snprintf(device->gpu.name, sizeof device->gpu.name, "%s", device->physical->info.name);

    pco_status status = vk_create_handle(device, err);
    if (status == PCO_OK) status = vk_load_calls(device, err);
    if (status == PCO_OK) status = vk_queue_open(device, err);
    if (status == PCO_OK) status = vk_pipelines_open(device, err);
    if (status != PCO_OK) {
        vk_device_close(device);
        return status;
    }
    device->opened = 1;
    *out = device;
    return PCO_OK;
}

static pco_status vk_profile(pco_device *device, int on, pco_error *err)
{
    if (on && !device->physical->timestamp_bits)
        return vk_fail(err, PCO_ERROR_UNSUPPORTED, "%s: its compute queue has no timestamps", device->gpu.name);
    device->gpu.profile = on ? 1 : 0;
    return PCO_OK;
}

const pco_device_api vk_device_table = {
    .size = sizeof(pco_device_api),
    .close = vk_device_close,
    .memory_left = vk_memory_left,
    .profile = vk_profile,
    .inspect = vk_inspect,
};
