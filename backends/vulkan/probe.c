/* What a physical device can do: asked once, when the backend is created. */
#include "vk.h"

#include <string.h>

typedef struct vk_extensions {
    VkExtensionProperties *all;
    uint32_t count;
} vk_extensions;

static int vk_offers(const vk_extensions *extensions, const char *name)
{
    for (uint32_t i = 0; i < extensions->count; i++)
        if (strcmp(extensions->all[i].extensionName, name) == 0) return 1;
    return 0;
}

static pco_status vk_list_extensions(const pco_backend *backend, VkPhysicalDevice handle, vk_extensions *out,
                                     pco_error *err)
{
    VkResult result = backend->vk.EnumerateDeviceExtensionProperties(handle, NULL, &out->count, NULL);
    if (result == VK_SUCCESS) {
        out->all = vk_allocate(backend->host, out->count, sizeof *out->all);
        if (!out->all) return vk_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a list of extensions");
        result = backend->vk.EnumerateDeviceExtensionProperties(handle, NULL, &out->count, out->all);
    }
    if (result != VK_SUCCESS && result != VK_INCOMPLETE)
        return vk_fail(err, PCO_ERROR_UNSUPPORTED, "a device does not list its extensions: %s", vk_result_name(result));
    return PCO_OK;
}

/* Takes the first queue family with compute. */
static int vk_find_queue(const pco_backend *backend, vk_physical *physical)
{
    enum { VK_MAX_FAMILIES = 32 };
    VkQueueFamilyProperties families[VK_MAX_FAMILIES];
    uint32_t count = VK_MAX_FAMILIES;
    backend->vk.GetPhysicalDeviceQueueFamilyProperties(physical->handle, &count, families);
    uint32_t found = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++)
        if (families[i].queueCount && families[i].queueFlags & VK_QUEUE_COMPUTE_BIT && found == UINT32_MAX) found = i;
    if (found == UINT32_MAX) return 0;
    physical->queue_family = found;
    physical->timestamp_bits = families[found].timestampValidBits;
    return 1;
}

/* Puts a structure in front of a chain. */
static void vk_chain(VkBaseOutStructure *head, void *link, VkStructureType type)
{
    VkBaseOutStructure *base = link;
    base->sType = type;
    base->pNext = head->pNext;
    head->pNext = base;
}

static void vk_ask_properties(const pco_backend *backend, vk_physical *physical, const vk_extensions *ext,
                              vk_report *report)
{
    VkPhysicalDeviceProperties2 head = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    VkBaseOutStructure *at = (VkBaseOutStructure *)&head;
    uint32_t v12 = physical->api_version >= VK_API_VERSION_1_2;
    uint32_t v13 = physical->api_version >= VK_API_VERSION_1_3;
    vk_chain(at, &report->id, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES);
    vk_chain(at, &report->maintenance3, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES);
    vk_chain(at, &report->subgroup, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES);
    if (v12 || vk_offers(ext, VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME))
        vk_chain(at, &report->driver, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES);
    if (v12 || vk_offers(ext, VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME)) {
        vk_chain(at, &report->floats, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES);
        physical->has |= VK_HAS_FLOAT_CONTROLS;
    }
    if (v13 || vk_offers(ext, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME))
        vk_chain(at, &report->subgroup_sizes, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES);
    if (v13 || vk_offers(ext, VK_KHR_MAINTENANCE_4_EXTENSION_NAME))
        vk_chain(at, &report->maintenance4, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES);
    if (vk_offers(ext, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME)) {
        vk_chain(at, &report->import, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT);
        physical->has |= VK_HAS_IMPORT;
    }
    if (vk_offers(ext, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME))
        vk_chain(at, &report->matrices, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_PROPERTIES_KHR);
    backend->vk.GetPhysicalDeviceProperties2(physical->handle, &head);
    report->core = head.properties;
}

static int vk_is_matrix_size(uint32_t size) { return size == 8 || size == 16 || size == 32; }

/* The largest matrices that a subgroup multiplies, f16 by f16 added to f32, as the device lists them. */
static pco_status vk_ask_matrices(const pco_backend *backend, vk_physical *physical, pco_error *err)
{
    PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR list =
        (PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR)backend->get(
            backend->instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    uint32_t count = 0, most = 0;
    if (!(physical->has & VK_HAS_COOPERATIVE_MATRIX) || !list || list(physical->handle, &count, NULL) != VK_SUCCESS)
        return PCO_OK;
    VkCooperativeMatrixPropertiesKHR *all = vk_allocate(backend->host, count, sizeof *all);
    if (!all) return vk_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a list of matrices");
    for (uint32_t i = 0; i < count; i++) all[i].sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR;
    if (list(physical->handle, &count, all) < 0) count = 0;
    for (uint32_t i = 0; i < count; i++) {
        const VkCooperativeMatrixPropertiesKHR *one = &all[i];
        const uint32_t size = one->MSize * one->NSize * one->KSize;
        if (one->AType != VK_COMPONENT_TYPE_FLOAT16_KHR || one->BType != VK_COMPONENT_TYPE_FLOAT16_KHR ||
            one->CType != VK_COMPONENT_TYPE_FLOAT32_KHR || one->ResultType != VK_COMPONENT_TYPE_FLOAT32_KHR)
            continue;
        if (one->saturatingAccumulation || one->scope != VK_SCOPE_SUBGROUP_KHR || !vk_is_matrix_size(one->MSize) ||
            !vk_is_matrix_size(one->NSize) || !vk_is_matrix_size(one->KSize) || size <= most)
            continue;
        most = size;
        physical->limits.matrix[0] = one->MSize;
        physical->limits.matrix[1] = one->NSize;
        physical->limits.matrix[2] = one->KSize;
    }
    vk_release(backend->host, all);
    return PCO_OK;
}

static void vk_ask_features(const pco_backend *backend, vk_physical *physical, const vk_extensions *ext,
                            vk_report *report)
{
    VkPhysicalDeviceFeatures2 head = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
    VkPhysicalDevice16BitStorageFeatures storage = {0};
    VkPhysicalDeviceShaderFloat16Int8Features half = {0};
    VkPhysicalDeviceSubgroupSizeControlFeatures sizes = {0};
    VkPhysicalDeviceShaderIntegerDotProductFeatures dot = {0};
    VkPhysicalDeviceShaderMixedFloatDotProductFeaturesVALVE mixed = {0};
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR executables = {0};
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix = {0};
    VkPhysicalDeviceCooperativeMatrix2FeaturesNV second = {0};
    VkPhysicalDeviceMaintenance4Features maintenance = {0};
    VkPhysicalDeviceVulkanMemoryModelFeatures model = {0};
    VkBaseOutStructure *at = (VkBaseOutStructure *)&head;
    uint32_t v12 = physical->api_version >= VK_API_VERSION_1_2;
    uint32_t v13 = physical->api_version >= VK_API_VERSION_1_3;
    vk_chain(at, &storage, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES);
    if (v12 || vk_offers(ext, VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME))
        vk_chain(at, &half, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES);
    if (v13 || vk_offers(ext, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME))
        vk_chain(at, &sizes, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES);
    if (v13 || vk_offers(ext, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME))
        vk_chain(at, &dot, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES);
    if (vk_offers(ext, VK_VALVE_SHADER_MIXED_FLOAT_DOT_PRODUCT_EXTENSION_NAME))
        vk_chain(at, &mixed, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_MIXED_FLOAT_DOT_PRODUCT_FEATURES_VALVE);
    if (vk_offers(ext, VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME))
        vk_chain(at, &executables, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR);
    if (vk_offers(ext, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME))
        vk_chain(at, &matrix, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR);
    if (v13 && vk_offers(ext, VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME)) {
        vk_chain(at, &second, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV);
        vk_chain(at, &maintenance, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES);
    }
    if (v12 || vk_offers(ext, VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME))
        vk_chain(at, &model, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES);
    backend->vk.GetPhysicalDeviceFeatures2(physical->handle, &head);
    report->float64 = head.features.shaderFloat64;
    if (storage.storageBuffer16BitAccess) physical->has |= VK_HAS_STORAGE_16;
    if (half.shaderFloat16) physical->has |= VK_HAS_F16;
    if (executables.pipelineExecutableInfo) physical->has |= VK_HAS_EXECUTABLES;
    if (dot.shaderIntegerDotProduct) physical->has |= VK_HAS_INTEGER_DOT;
    if (mixed.shaderMixedFloatDotProductFloat16AccFloat32 && half.shaderFloat16)
        physical->has |= VK_HAS_MIXED_FLOAT_DOT;
    if (sizes.subgroupSizeControl && report->subgroup_sizes.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT)
        physical->has |= VK_HAS_SUBGROUP_CONTROL;
    if (sizes.subgroupSizeControl && sizes.computeFullSubgroups) physical->has |= VK_HAS_FULL_SUBGROUPS;
    if (vk_offers(ext, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME)) physical->has |= VK_HAS_BUDGET;
    if (vk_offers(ext, "VK_KHR_portability_subset")) physical->has |= VK_HAS_PORTABILITY_SUBSET;
    if (matrix.cooperativeMatrix && model.vulkanMemoryModel && model.vulkanMemoryModelDeviceScope &&
        report->matrices.cooperativeMatrixSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT)
        physical->has |= VK_HAS_COOPERATIVE_MATRIX;
    if (physical->has & VK_HAS_COOPERATIVE_MATRIX && maintenance.maintenance4 && second.cooperativeMatrixReductions &&
        second.cooperativeMatrixConversions && second.cooperativeMatrixPerElementOperations)
        physical->has |= VK_HAS_COOPERATIVE_MATRIX2;
}

static void vk_ask_memory(const pco_backend *backend, vk_physical *physical)
{
    VkPhysicalDeviceMemoryProperties2 memory = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
    backend->vk.GetPhysicalDeviceMemoryProperties2(physical->handle, &memory);
    physical->memory = memory.memoryProperties;
}

pco_status vk_probe(const pco_backend *backend, VkPhysicalDevice handle, vk_physical *out, pco_error *err)
{
    memset(out, 0, sizeof *out);
    out->handle = handle;
    VkPhysicalDeviceProperties2 first = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    backend->vk.GetPhysicalDeviceProperties2(handle, &first);
    const char *name = first.properties.deviceName;
    uint32_t version = first.properties.apiVersion;
    if (version < VK_API_VERSION_1_1)
        return vk_fail(err, PCO_ERROR_UNSUPPORTED, "%s: Vulkan %u.%u, and 1.1 is needed", name,
                       VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version));
    out->api_version = version < backend->api_version ? version : backend->api_version;
    if (!vk_find_queue(backend, out)) return vk_fail(err, PCO_ERROR_UNSUPPORTED, "%s: no queue that computes", name);

    vk_report *report = vk_allocate(backend->host, 1, sizeof *report);
    if (!report) return vk_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "%s: no memory to describe it", name);
    vk_extensions extensions = {0};
    pco_status status = vk_list_extensions(backend, handle, &extensions, err);
    if (status != PCO_OK) goto fail;
    vk_ask_properties(backend, out, &extensions, report);
    vk_ask_features(backend, out, &extensions, report);
    vk_ask_memory(backend, out);
    status = vk_ask_matrices(backend, out, err);
    if (status != PCO_OK) goto fail;
    vk_describe(out, report);
fail:
    vk_release(backend->host, extensions.all);
    vk_release(backend->host, report);
    return status;
}
