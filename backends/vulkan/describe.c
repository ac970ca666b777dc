/* From what the driver reports to the device's description, its limits and its numeric contract. */
#include "vk.h"

#include <stdio.h>
#include <string.h>

/* Newer than the oldest header that this compiles with. */
enum { VK_DRIVER_NVK = 24, VK_DRIVER_HONEYKRISP = 26 };

static const struct {
    uint32_t id;
    const char *platform, *aliases;
} vk_drivers[] = {
    {VK_DRIVER_ID_MESA_LLVMPIPE, "Mesa lavapipe", "lavapipe llvmpipe mesa"},
    {VK_DRIVER_ID_GOOGLE_SWIFTSHADER, "Google SwiftShader", "swiftshader"},
    {VK_DRIVER_ID_MESA_RADV, "Mesa RADV", "radv amd mesa"},
    {VK_DRIVER_ID_AMD_OPEN_SOURCE, "AMDVLK", "amdvlk amd"},
    {VK_DRIVER_ID_AMD_PROPRIETARY, "AMD", "amd"},
    {VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA, "Mesa ANV", "anv intel mesa"},
    {VK_DRIVER_ID_INTEL_PROPRIETARY_WINDOWS, "Intel", "intel"},
    {VK_DRIVER_ID_NVIDIA_PROPRIETARY, "NVIDIA", "nvidia"},
    {VK_DRIVER_NVK, "Mesa NVK", "nvk nvidia mesa"},
    {VK_DRIVER_ID_MESA_TURNIP, "Mesa Turnip", "turnip adreno qualcomm mesa"},
    {VK_DRIVER_ID_QUALCOMM_PROPRIETARY, "Qualcomm", "adreno qualcomm"},
    {VK_DRIVER_ID_ARM_PROPRIETARY, "Arm", "mali arm"},
    {VK_DRIVER_ID_MESA_PANVK, "Mesa PanVK", "panvk mali arm mesa"},
    {VK_DRIVER_ID_IMAGINATION_PROPRIETARY, "Imagination", "powervr imagination"},
    {VK_DRIVER_ID_IMAGINATION_OPEN_SOURCE_MESA, "Mesa PowerVR", "powervr imagination mesa"},
    {VK_DRIVER_ID_BROADCOM_PROPRIETARY, "Broadcom", "broadcom"},
    {VK_DRIVER_ID_MESA_V3DV, "Mesa V3DV", "v3dv broadcom mesa"},
    {VK_DRIVER_ID_MOLTENVK, "MoltenVK", "moltenvk apple metal"},
    {VK_DRIVER_HONEYKRISP, "Mesa Honeykrisp", "honeykrisp apple mesa"},
    {VK_DRIVER_ID_SAMSUNG_PROPRIETARY, "Samsung", "xclipse samsung"},
    {VK_DRIVER_ID_MESA_VENUS, "Mesa Venus", "venus virtio mesa"},
    {VK_DRIVER_ID_MESA_DOZEN, "Mesa Dozen", "dozen mesa"},
};
enum { VK_N_DRIVERS = sizeof vk_drivers / sizeof vk_drivers[0] };

/* NVIDIA's driver counts in other bits than Vulkan's own versions. */
static void vk_driver_version(char *out, size_t room, VkDriverId driver, uint32_t version)
{
    uint32_t part[3] = {VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version), VK_API_VERSION_PATCH(version)};
    if (driver == VK_DRIVER_ID_NVIDIA_PROPRIETARY)
        part[0] = version >> 22, part[1] = version >> 14 & 255, part[2] = version >> 6 & 255;
    snprintf(out, room, "%u.%u.%u", part[0], part[1], part[2]);
}

static void vk_describe_names(pco_device_info *info, const vk_report *report)
{
    char numbers[32];
    const VkPhysicalDeviceDriverProperties *driver = &report->driver;
    uint32_t version = report->core.driverVersion;
    vk_driver_version(numbers, sizeof numbers, driver->driverID, version);
    snprintf(info->name, sizeof info->name, "%s", report->core.deviceName);
    if (driver->driverName[0] && driver->driverInfo[0])
        snprintf(info->driver, sizeof info->driver, "%.126s %.126s", driver->driverName, driver->driverInfo);
    else
        snprintf(info->driver, sizeof info->driver, "%.200s%s%s", driver->driverName, driver->driverName[0] ? " " : "",
                 numbers);
    for (uint32_t i = 0; i < VK_N_DRIVERS; i++) {
        if (driver->driverID != (VkDriverId)vk_drivers[i].id) continue;
        snprintf(info->platform, sizeof info->platform, "%s", vk_drivers[i].platform);
        snprintf(info->aliases, sizeof info->aliases, "%s", vk_drivers[i].aliases);
    }
    info->vendor_id = report->core.vendorID;
    info->device_id = report->core.deviceID;
    snprintf(info->api, sizeof info->api, "Vulkan %u.%u.%u", VK_API_VERSION_MAJOR(report->core.apiVersion),
             VK_API_VERSION_MINOR(report->core.apiVersion), VK_API_VERSION_PATCH(report->core.apiVersion));
    snprintf(info->driver_version, sizeof info->driver_version, "%s (0x%08x)", numbers, version);
    uint64_t half[2];
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t hash = vk_hash(i, report->id.deviceUUID, VK_UUID_SIZE);
        hash = vk_hash(hash, report->id.driverUUID, VK_UUID_SIZE);
        hash = vk_hash(hash, report->core.pipelineCacheUUID, VK_UUID_SIZE);
        half[i] = vk_hash(hash, info->driver, strlen(info->driver));
    }
    memcpy(info->uuid, half, sizeof info->uuid);
}

static uint32_t vk_type_of(VkPhysicalDeviceType type)
{
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return PCO_DEVICE_DISCRETE;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return PCO_DEVICE_INTEGRATED;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return PCO_DEVICE_VIRTUAL;
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return PCO_DEVICE_SOFTWARE;
    default: return PCO_DEVICE_OTHER;
    }
}

/* The largest device-local heap counts as the device's memory. Memory is unified when the device is no card
 * of its own and has a type that is both device-local and directly written by the host. */
static void vk_describe_memory(vk_physical *physical, const vk_report *report)
{
    const VkPhysicalDeviceMemoryProperties *memory = &physical->memory;
    const VkMemoryPropertyFlags both = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                       VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    uint64_t largest = 0;
    for (uint32_t i = 0; i < memory->memoryHeapCount; i++) {
        if (!(memory->memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)) continue;
        if (memory->memoryHeaps[i].size <= largest) continue;
        largest = memory->memoryHeaps[i].size;
        physical->main_heap = i;
    }
    uint32_t type = physical->info.type;
    if (type == PCO_DEVICE_INTEGRATED || type == PCO_DEVICE_SOFTWARE)
        for (uint32_t i = 0; i < memory->memoryTypeCount; i++)
            physical->unified |= (memory->memoryTypes[i].propertyFlags & both) == both;

    physical->info.memory = memory->memoryHeaps[physical->main_heap].size;
    uint64_t most = report->maintenance3.maxMemoryAllocationSize;
    if (most == 0) most = 1u << 30; /* the minimum that the specification allows */
    if (report->maintenance4.maxBufferSize && report->maintenance4.maxBufferSize < most)
        most = report->maintenance4.maxBufferSize;
    if (physical->info.memory < most) most = physical->info.memory;
    physical->info.max_allocation = most & ~(uint64_t)15;
    physical->atom = report->core.limits.nonCoherentAtomSize ? report->core.limits.nonCoherentAtomSize : 1;
    physical->import_alignment = report->import.minImportedHostPointerAlignment;
}

/* What the modules may declare. Where widths cannot be set independently, nothing is said about 32 bits. */
static void vk_describe_floats(vk_physical *physical, const vk_report *report)
{
    const VkPhysicalDeviceFloatControlsProperties *floats = &report->floats;
    if (!(physical->has & VK_HAS_FLOAT_CONTROLS)) return;
    if (floats->shaderSignedZeroInfNanPreserveFloat32) physical->float_modes |= VK_MODE_KEEP_NAN_INF;
    if (floats->shaderRoundingModeRTEFloat32 &&
        floats->roundingModeIndependence != VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE)
        physical->float_modes |= VK_MODE_ROUND_TO_EVEN;
    if (floats->shaderDenormPreserveFloat32 &&
        floats->denormBehaviorIndependence != VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE)
        physical->float_modes |= VK_MODE_KEEP_SUBNORMALS;
}

/* Figures of the Vulkan specification, "Precision and operation of SPIR-V instructions". sqrt is
 * 1/inversesqrt: 2 ulp, up to 4 after the division moved the binade, and 2.5 of the division itself. The
 * functions are our own polynomials; their bound is the kernels', for a device that rounds each operation
 * within one ulp. */
static void vk_describe_contract(vk_physical *physical)
{
    uint32_t modes = physical->float_modes;
    physical->info.contract = (pco_contract){
        .accumulate_f32 = PCO_F32,
        .accumulate_f16 = PCO_F32,
        .accumulate_bf16 = PCO_F32,
        .compute = PCO_F32,
        .round_to_nearest = !!(modes & VK_MODE_ROUND_TO_EVEN),
        .subnormals = !!(modes & VK_MODE_KEEP_SUBNORMALS),
        .contraction = 1,
        .nan_inf = !!(modes & VK_MODE_KEEP_NAN_INF),
        .div_ulp = 2.5f,
        .sqrt_ulp = 6.5f,
        .rsqrt_ulp = 2.0f,
        .function_ulp = PCO_GPU_FUNCTION_ULP,
    };
}

static void vk_describe_features(vk_physical *physical, const vk_report *report)
{
    pco_device_info *info = &physical->info;
    uint32_t has = physical->has, needs = 0, features = 0;
    const VkSubgroupFeatureFlags wanted = VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_ARITHMETIC_BIT;
    if (report->subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) {
        info->subgroup_min = info->subgroup_max = report->subgroup.subgroupSize;
        if (report->subgroup_sizes.minSubgroupSize && report->subgroup_sizes.maxSubgroupSize) {
            info->subgroup_min = report->subgroup_sizes.minSubgroupSize;
            info->subgroup_max = report->subgroup_sizes.maxSubgroupSize;
        }
        if ((report->subgroup.supportedOperations & wanted) == wanted)
            features |= PCO_FEATURE_SUBGROUPS, needs |= PCO_GPU_NEEDS_SUBGROUPS;
    }
    if (has & VK_HAS_STORAGE_16) features |= PCO_FEATURE_STORAGE_16, needs |= PCO_GPU_NEEDS_STORAGE_16;
    if (has & VK_HAS_F16) features |= PCO_FEATURE_F16_ARITHMETIC, needs |= PCO_GPU_NEEDS_F16;
    if (has & VK_HAS_INTEGER_DOT) features |= PCO_FEATURE_INTEGER_DOT, needs |= PCO_GPU_NEEDS_INTEGER_DOT;
    if (has & VK_HAS_MIXED_FLOAT_DOT) features |= PCO_FEATURE_MIXED_FLOAT_DOT, needs |= PCO_GPU_NEEDS_MIXED_FLOAT_DOT;
    if (has & VK_HAS_COOPERATIVE_MATRIX) features |= PCO_FEATURE_COOPERATIVE_MATRIX;
    if (has & VK_HAS_COOPERATIVE_MATRIX2) features |= PCO_FEATURE_COOPERATIVE_MATRIX2;
    const int one_width = has & VK_HAS_SUBGROUP_CONTROL || info->subgroup_min == info->subgroup_max;
    if (physical->limits.matrix[0] && one_width && has & VK_HAS_F16 && has & VK_HAS_FULL_SUBGROUPS &&
        features & PCO_FEATURE_SUBGROUPS) {
        physical->limits.matrix_width = info->subgroup_min;
        needs |= PCO_GPU_NEEDS_COOPERATIVE_MATRIX;
        if (has & VK_HAS_COOPERATIVE_MATRIX2) needs |= PCO_GPU_NEEDS_COOPERATIVE_MATRIX2;
    }
    if (physical->unified) features |= PCO_FEATURE_UNIFIED_MEMORY;
    if (report->float64) features |= PCO_FEATURE_F64;
    if (physical->timestamp_bits) features |= PCO_FEATURE_TIMESTAMPS;
    info->features = features;
    /* Of a glslc that does not know a feature there is no code. */
    uint32_t built = 0;
    for (uint32_t i = 0; i < pco_gpu_n_kernels; i++)
        if (pco_gpu_codes[i].data) built |= pco_gpu_kernels[i].needs;
    physical->limits.needs_met |= needs & built;
    /* All kernels do without the others: no row needs f16 arithmetic, and every glslc knows subgroups. */
    const uint32_t told = PCO_FEATURE_COOPERATIVE_MATRIX | PCO_FEATURE_COOPERATIVE_MATRIX2 | PCO_FEATURE_INTEGER_DOT |
                          PCO_FEATURE_MIXED_FLOAT_DOT;
    pco_gpu_not_in_build(features & told, built, info->not_in_build, sizeof info->not_in_build);
}

/* GPUs of phones and small boards: Adreno has 192 registers for an invocation, but few waves where it takes so many,
 * and the oldest spill; Mali and VideoCore have 64. VideoCore's compiler spills tiles of 32 sums (docs/gpus). */
static uint32_t vk_tiles(VkDriverId driver)
{
    switch (driver) {
    case VK_DRIVER_ID_MESA_TURNIP:
    case VK_DRIVER_ID_QUALCOMM_PROPRIETARY:
    case VK_DRIVER_ID_MESA_PANVK:
    case VK_DRIVER_ID_ARM_PROPRIETARY: return PCO_GPU_TILES_SMALL;
    case VK_DRIVER_ID_MESA_V3DV:
    case VK_DRIVER_ID_BROADCOM_PROPRIETARY: return PCO_GPU_TILES_SMALLEST;
    default: return 0;
    }
}

static uint32_t vk_least(uint32_t a, uint32_t b) { return a < b ? a : b; }

static void vk_describe_limits(vk_physical *physical, const vk_report *report)
{
    const VkPhysicalDeviceLimits *core = &report->core.limits;
    pco_device_info *info = &physical->info;
    pco_gpu_limits *limits = &physical->limits;
    uint64_t alignment = core->minStorageBufferOffsetAlignment;
    info->buffer_alignment = alignment < 16 ? 16 : (uint32_t)alignment; /* kernels may load 4 words at once */
    info->max_binding = core->maxStorageBufferRange & ~3u;
    info->max_workgroup = core->maxComputeWorkGroupInvocations;
    info->shared_memory = core->maxComputeSharedMemorySize;

    limits->type = info->type;
    limits->max_bindings = vk_least(core->maxPerStageDescriptorStorageBuffers, core->maxDescriptorSetStorageBuffers);
    limits->max_bindings = vk_least(limits->max_bindings, PCO_GPU_MAX_BINDINGS);
    limits->max_binding = info->max_binding;
    limits->max_allocation = info->max_allocation;
    limits->offset_alignment = info->buffer_alignment;
    limits->max_workgroup = info->max_workgroup;
    limits->shared_memory = info->shared_memory;
    limits->subgroup_min = info->subgroup_min;
    limits->subgroup_max = info->subgroup_max;
    limits->contract = info->contract;
    limits->tiles = vk_tiles(report->driver.driverID);
    limits->small_kernels = report->driver.driverID == VK_DRIVER_ID_GOOGLE_SWIFTSHADER; /* its JIT: minutes a tile */
    if (report->driver.driverID == VK_DRIVER_ID_MESA_LLVMPIPE)
        limits->max_rounds = pco_gpu_llvmpipe_rounds(VK_API_VERSION_MAJOR(report->core.driverVersion));
    limits->subgroups_settable = physical->has & VK_HAS_SUBGROUP_CONTROL ? physical->max_workgroup_subgroups : 0;
    pco_gpu_describe_edges(limits, info);
    for (uint32_t i = 0; i < 3; i++) {
        limits->max_local[i] = core->maxComputeWorkGroupSize[i];
        limits->max_groups[i] = core->maxComputeWorkGroupCount[i];
    }
}

/* The width of subgroups where no variant asks for one. A thread of Intel's GPUs has 128 registers of 32 bytes, however
 * many invocations share them: 16 have 64 words each, and 32, the driver's usual width, have 32 and spill. */
static uint32_t vk_subgroup_size(const vk_report *report)
{
    enum { INTEL = 0x8086, ENOUGH = 16 };
    const VkPhysicalDeviceSubgroupSizeControlProperties *sizes = &report->subgroup_sizes;
    if (report->core.vendorID == INTEL && sizes->minSubgroupSize <= ENOUGH && sizes->maxSubgroupSize >= ENOUGH)
        return ENOUGH;
    return report->subgroup.subgroupSize;
}

void vk_describe(vk_physical *physical, const vk_report *report)
{
    physical->info.size = sizeof physical->info;
    physical->info.type = vk_type_of(report->core.deviceType);
    physical->timestamp_period = report->core.limits.timestampPeriod;
    physical->subgroup_size = vk_subgroup_size(report);
    physical->max_workgroup_subgroups = report->subgroup_sizes.maxComputeWorkgroupSubgroups;
    physical->vendor = report->core.vendorID;
    physical->device = report->core.deviceID;
    memcpy(physical->cache_uuid, report->core.pipelineCacheUUID, VK_UUID_SIZE);
    vk_describe_names(&physical->info, report);
    vk_describe_memory(physical, report);
    vk_describe_floats(physical, report);
    vk_describe_contract(physical);
    vk_describe_features(physical, report);
    vk_describe_limits(physical, report);
}
