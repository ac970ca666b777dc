/* The inside of the Vulkan plugin. No op and no kernel has a name here: gpu/ makes lists of dispatches, and
 * this folder turns them into pipelines, descriptor sets and command buffers. */
#ifndef PCO_VK_H
#define PCO_VK_H

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include "gpu/gpu.h"

/* ---- entry points, found at run time ------------------------------------------------------------------ */

#define VK_INSTANCE_CALLS(X) \
    X(DestroyInstance) \
    X(EnumeratePhysicalDevices) \
    X(EnumerateDeviceExtensionProperties) \
    X(GetPhysicalDeviceProperties2) \
    X(GetPhysicalDeviceFeatures2) \
    X(GetPhysicalDeviceMemoryProperties2) \
    X(GetPhysicalDeviceQueueFamilyProperties) \
    X(CreateDevice) \
    X(GetDeviceProcAddr)

#define VK_DEVICE_CALLS(X) \
    X(DestroyDevice) \
    X(DeviceWaitIdle) \
    X(GetDeviceQueue) \
    X(QueueSubmit) \
    X(CreateFence) \
    X(DestroyFence) \
    X(ResetFences) \
    X(WaitForFences) \
    X(CreateBuffer) \
    X(DestroyBuffer) \
    X(GetBufferMemoryRequirements) \
    X(BindBufferMemory) \
    X(AllocateMemory) \
    X(FreeMemory) \
    X(MapMemory) \
    X(FlushMappedMemoryRanges) \
    X(InvalidateMappedMemoryRanges) \
    X(CreateShaderModule) \
    X(DestroyShaderModule) \
    X(CreatePipelineCache) \
    X(DestroyPipelineCache) \
    X(GetPipelineCacheData) \
    X(CreateComputePipelines) \
    X(DestroyPipeline) \
    X(CreatePipelineLayout) \
    X(DestroyPipelineLayout) \
    X(CreateDescriptorSetLayout) \
    X(DestroyDescriptorSetLayout) \
    X(CreateDescriptorPool) \
    X(DestroyDescriptorPool) \
    X(AllocateDescriptorSets) \
    X(UpdateDescriptorSets) \
    X(CreateCommandPool) \
    X(DestroyCommandPool) \
    X(AllocateCommandBuffers) \
    X(BeginCommandBuffer) \
    X(EndCommandBuffer) \
    X(CmdBindPipeline) \
    X(CmdBindDescriptorSets) \
    X(CmdPushConstants) \
    X(CmdDispatch) \
    X(CmdPipelineBarrier) \
    X(CmdCopyBuffer) \
    X(CreateQueryPool) \
    X(DestroyQueryPool) \
    X(GetQueryPoolResults) \
    X(CmdResetQueryPool) \
    X(CmdWriteTimestamp)

#define VK_MEMBER(name) PFN_vk##name name;
typedef struct vk_instance_calls {
    VK_INSTANCE_CALLS(VK_MEMBER)
} vk_instance_calls;

typedef struct vk_device_calls {
    VK_DEVICE_CALLS(VK_MEMBER)
    PFN_vkGetMemoryHostPointerPropertiesEXT GetMemoryHostPointerPropertiesEXT; /* NULL without VK_HAS_IMPORT */
    /* NULL without VK_HAS_EXECUTABLES */
    PFN_vkGetPipelineExecutablePropertiesKHR GetPipelineExecutablePropertiesKHR;
    PFN_vkGetPipelineExecutableStatisticsKHR GetPipelineExecutableStatisticsKHR;
    PFN_vkGetPipelineExecutableInternalRepresentationsKHR GetPipelineExecutableInternalRepresentationsKHR;
} vk_device_calls;
#undef VK_MEMBER

/* Newer than the oldest header that this compiles with, as far as they are used. */
#ifndef VK_NV_cooperative_matrix2
#define VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME                          "VK_NV_cooperative_matrix2"
#define VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV ((VkStructureType)1000593000)
typedef struct VkPhysicalDeviceCooperativeMatrix2FeaturesNV {
    VkStructureType sType;
    void *pNext;
    VkBool32 cooperativeMatrixWorkgroupScope, cooperativeMatrixFlexibleDimensions, cooperativeMatrixReductions;
    VkBool32 cooperativeMatrixConversions, cooperativeMatrixPerElementOperations, cooperativeMatrixTensorAddressing;
    VkBool32 cooperativeMatrixBlockLoads;
} VkPhysicalDeviceCooperativeMatrix2FeaturesNV;
#endif
#ifndef VK_VALVE_shader_mixed_float_dot_product
#define VK_VALVE_SHADER_MIXED_FLOAT_DOT_PRODUCT_EXTENSION_NAME                          "VK_VALVE_shader_mixed_float_dot_product"
#define VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_MIXED_FLOAT_DOT_PRODUCT_FEATURES_VALVE ((VkStructureType)1000673000)
typedef struct VkPhysicalDeviceShaderMixedFloatDotProductFeaturesVALVE {
    VkStructureType sType;
    void *pNext;
    VkBool32 shaderMixedFloatDotProductFloat16AccFloat32, shaderMixedFloatDotProductFloat16AccFloat16;
    VkBool32 shaderMixedFloatDotProductBFloat16Acc, shaderMixedFloatDotProductFloat8AccFloat32;
} VkPhysicalDeviceShaderMixedFloatDotProductFeaturesVALVE;
#endif
#ifndef VK_KHR_cooperative_matrix
#define VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME                            "VK_KHR_cooperative_matrix"
#define VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR   ((VkStructureType)1000506000)
#define VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR                 ((VkStructureType)1000506001)
#define VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_PROPERTIES_KHR ((VkStructureType)1000506002)
enum { VK_COMPONENT_TYPE_FLOAT16_KHR = 0, VK_COMPONENT_TYPE_FLOAT32_KHR = 1, VK_SCOPE_SUBGROUP_KHR = 3 };
typedef struct VkPhysicalDeviceCooperativeMatrixFeaturesKHR {
    VkStructureType sType;
    void *pNext;
    VkBool32 cooperativeMatrix, cooperativeMatrixRobustBufferAccess;
} VkPhysicalDeviceCooperativeMatrixFeaturesKHR;
typedef struct VkPhysicalDeviceCooperativeMatrixPropertiesKHR {
    VkStructureType sType;
    void *pNext;
    VkShaderStageFlags cooperativeMatrixSupportedStages;
} VkPhysicalDeviceCooperativeMatrixPropertiesKHR;
typedef struct VkCooperativeMatrixPropertiesKHR {
    VkStructureType sType;
    void *pNext;
    uint32_t MSize, NSize, KSize;
    int32_t AType, BType, CType, ResultType;
    VkBool32 saturatingAccumulation;
    int32_t scope;
} VkCooperativeMatrixPropertiesKHR;
typedef VkResult(VKAPI_PTR *PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR)(VkPhysicalDevice, uint32_t *,
                                                                                   VkCooperativeMatrixPropertiesKHR *);
#endif

/* ---- a physical device, as probed at create ------------------------------------------------------------ */

/* Optional things that open enables. */
enum {
    VK_HAS_PORTABILITY_SUBSET = 1u << 0,
    VK_HAS_FLOAT_CONTROLS = 1u << 1,
    VK_HAS_SUBGROUP_CONTROL = 1u << 2, /* a pipeline's subgroup size can be required, in compute */
    VK_HAS_FULL_SUBGROUPS = 1u << 3,
    VK_HAS_F16 = 1u << 4,
    VK_HAS_STORAGE_16 = 1u << 5,
    VK_HAS_INTEGER_DOT = 1u << 6,
    VK_HAS_BUDGET = 1u << 7,
    VK_HAS_IMPORT = 1u << 8,
    VK_HAS_COOPERATIVE_MATRIX = 1u << 9, /* with the memory model that its modules declare */
    VK_HAS_EXECUTABLES = 1u << 10,       /* the driver tells what its compiler made of a pipeline */
    VK_HAS_MIXED_FLOAT_DOT = 1u << 11,   /* of f16, with f16 arithmetic, which its modules declare */
    /* NVIDIA's extension to them: reductions, conversions and functions of elements; with maintenance4 and Vulkan 1.3,
     * which its modules need (SPIR-V 1.6 gives a workgroup's size in a way of its own). */
    VK_HAS_COOPERATIVE_MATRIX2 = 1u << 12,
};

/* Execution modes for 32-bit floats that spirv_patch.c writes into every module. */
enum {
    VK_MODE_ROUND_TO_EVEN = 1u << 0,
    VK_MODE_KEEP_NAN_INF = 1u << 1,
    VK_MODE_KEEP_SUBNORMALS = 1u << 2,
};

typedef struct vk_physical {
    VkPhysicalDevice handle;
    uint32_t api_version; /* the lower of the device's and the instance's */
    uint32_t has, float_modes;
    uint32_t queue_family, timestamp_bits;
    float timestamp_period; /* nanoseconds per tick */
    uint32_t subgroup_size, max_workgroup_subgroups;
    uint32_t vendor, device;
    uint8_t cache_uuid[VK_UUID_SIZE];
    uint32_t unified; /* 1: device memory is host memory, written directly */
    uint32_t main_heap;
    uint64_t atom, import_alignment;
    VkPhysicalDeviceMemoryProperties memory;
    pco_device_info info;
    pco_gpu_limits limits;
} vk_physical;

struct pco_backend {
    const pco_host *host;
    void *library;
    PFN_vkGetInstanceProcAddr get;
    VkInstance instance;
    uint32_t api_version; /* asked for: at most 1.3 */
    vk_instance_calls vk;
    uint32_t n_devices;
    vk_physical *devices;
};

/* ---- an open device ------------------------------------------------------------------------------------ */

enum { VK_RING = 16, VK_BUCKETS = 256, VK_TRANSFERS = 2 };
#define VK_STAGING_BYTES (8u << 20)

struct pco_buffer {
    VkBuffer handle;
    VkDeviceMemory memory;
    uint64_t bytes, allocated; /* as asked for; as taken from the heap */
    uint64_t size;             /* of handle: bytes rounded up */
    uint32_t heap;
    uint32_t coherent, imported;
    uint8_t *mapped; /* NULL where the host cannot address it */
};

/* A pipeline and what identifies it; chained in the device's hash map until close. */
typedef struct vk_pipeline {
    struct vk_pipeline *next;
    uint64_t hash;
    uint32_t kernel, n_specs;
    uint32_t width; /* of subgroups, required; 0: the device's usual one */
    int32_t specs[PCO_GPU_MAX_SPECS];
    VkPipeline handle;
    VkResult result;
    uint32_t inspected; /* the driver kept what its compiler says of it */
} vk_pipeline;

/* A copy under way. Its half of the staging memory is filled by the host while the device empties the other. */
typedef struct vk_transfer {
    pco_buffer *staging;
    VkCommandBuffer commands;
    VkFence fence;
    uint32_t busy;
    void *out; /* where a finished download goes, and how much of it */
    uint64_t bytes;
} vk_transfer;

struct pco_device {
    pco_gpu_device gpu;
    const pco_backend *backend;
    const vk_physical *physical;
    vk_device_calls vk;
    VkDevice handle;
    VkQueue queue;
    uint32_t opened; /* all of it: it may have been used */
    uint32_t lost;
    uint64_t heap_used[VK_MAX_MEMORY_HEAPS];

    /* queue.c: ticket t is signalled by fences[t % VK_RING]. */
    VkFence fences[VK_RING];
    uint64_t submitted, completed;

    VkCommandPool transfer_pool;
    vk_transfer transfers[VK_TRANSFERS];

    VkPipelineCache cache;
    size_t cache_bytes;      /* as loaded or last stored */
    uint32_t compiled;       /* pipelines made since then */
    VkShaderModule *modules; /* one per kernel, made when first needed */
    uint32_t *described;     /* code and source of the last launch that was described */
    char *described_source;
    struct vk_inspection *inspection; /* of that launch's pipeline */
    VkDescriptorSetLayout set_layouts[PCO_GPU_MAX_BINDINGS + 1];
    VkPipelineLayout layouts[PCO_GPU_MAX_BINDINGS + 1];
    vk_pipeline *pipelines[VK_BUCKETS];
};

/* The command buffers of a program, one per segment. Query 0 of a segment is its start, then one per
 * dispatch. */
struct pco_gpu_recording {
    uint32_t n_segments, n_dispatches, per_segment;
    VkCommandPool pool;
    VkDescriptorPool sets;
    VkQueryPool queries;       /* only when recorded with profiling on */
    VkCommandBuffer *commands; /* n_segments */
    uint64_t *tickets;         /* n_segments: the last submission of each */
    uint32_t *nodes;           /* n_dispatches, only with queries */
    uint64_t *stamps;          /* n_dispatches + n_segments pairs of value and availability */
};

/* ---- status.c ------------------------------------------------------------------------------------------ */

PCO_NODISCARD pco_status vk_fail(pco_error *err, pco_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* PCO_OK for VK_SUCCESS; otherwise the status that fits and "WHAT: NAME OF RESULT". Marks a device lost. */
PCO_NODISCARD pco_status vk_check(pco_device *device, VkResult result, pco_error *err, const char *what);
/* Calls a function that makes an object, *out. Where it fails, what is there is undefined, and made null: nobody is to
 * destroy it. */
#define VK_MAKE(out, function, ...) vk_made(function(__VA_ARGS__, out), out, sizeof *(out))
VkResult vk_made(VkResult result, void *out, size_t size);
const char *vk_result_name(VkResult result);
void vk_log(const pco_host *host, pco_log_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Zeroed memory from the host, or NULL. */
void *vk_allocate(const pco_host *host, size_t count, size_t bytes);
void vk_release(const pco_host *host, void *memory);
uint64_t vk_hash(uint64_t seed, const void *data, size_t bytes);

/* ---- instance.c, probe.c, device.c --------------------------------------------------------------------- */

PCO_NODISCARD pco_status vk_instance_create(pco_backend *backend, pco_error *err);
void vk_instance_destroy(pco_backend *backend);
/* PCO_OK and a filled vk_physical, or UNSUPPORTED and why the device is left out. */
PCO_NODISCARD pco_status vk_probe(const pco_backend *backend, VkPhysicalDevice handle, vk_physical *out,
                                  pco_error *err);
PCO_NODISCARD pco_status vk_device_open(pco_backend *backend, uint32_t index, pco_device **out, pco_error *err);
extern const pco_device_api vk_device_table;

/* driver_file.c: names the shared objects of the drivers in the descriptions of the devices, where they are found. */
void vk_find_driver_files(pco_backend *backend);

/* describe.c: fills info and limits from what the driver reported. */
typedef struct vk_report {
    VkPhysicalDeviceProperties core;
    VkPhysicalDeviceIDProperties id;
    VkPhysicalDeviceMaintenance3Properties maintenance3;
    VkPhysicalDeviceMaintenance4Properties maintenance4;
    VkPhysicalDeviceSubgroupProperties subgroup;
    VkPhysicalDeviceSubgroupSizeControlProperties subgroup_sizes;
    VkPhysicalDeviceDriverProperties driver;
    VkPhysicalDeviceFloatControlsProperties floats;
    VkPhysicalDeviceExternalMemoryHostPropertiesEXT import;
    VkPhysicalDeviceCooperativeMatrixPropertiesKHR matrices;
    uint32_t float64;
} vk_report;
void vk_describe(vk_physical *physical, const vk_report *report);

/* ---- memory.c, transfer.c ------------------------------------------------------------------------------ */

PCO_NODISCARD pco_status vk_buffer_create(pco_device *device, uint64_t bytes, uint32_t usage, pco_buffer **out,
                                          pco_error *err);
void vk_buffer_destroy(pco_device *device, pco_buffer *buffer);
PCO_NODISCARD pco_status vk_buffer_import(pco_device *device, const void *data, uint64_t bytes, pco_buffer **out,
                                          pco_error *err);
/* Makes host writes visible to the device, or device writes to the host, where memory is not coherent. */
PCO_NODISCARD pco_status vk_flush(pco_device *device, const pco_buffer *buffer, uint64_t offset, uint64_t bytes,
                                  pco_error *err);
PCO_NODISCARD pco_status vk_invalidate(pco_device *device, const pco_buffer *buffer, uint64_t offset, uint64_t bytes,
                                       pco_error *err);
uint64_t vk_memory_left(pco_device *device);
void vk_transfer_close(pco_device *device);
extern const pco_buffer_api vk_buffer_table;

/* ---- pipeline.c, pipeline_cache.c, spirv_patch.c ------------------------------------------------------- */

/* Finds or makes the pipeline of every dispatch; out has room for count. */
PCO_NODISCARD pco_status vk_pipelines_require(pco_device *device, const pco_gpu_dispatch *list, uint32_t count,
                                              vk_pipeline **out, pco_error *err);
/* What pipeline.c knows of a launch: the driver's part of pco_dispatch_info. */
PCO_NODISCARD pco_status vk_pipeline_describe(pco_device *device, const pco_gpu_dispatch *dispatch,
                                              pco_dispatch_info *info, pco_error *err);
PCO_NODISCARD pco_status vk_pipelines_open(pco_device *device, pco_error *err);
void vk_pipelines_close(pco_device *device);
void vk_cache_load(pco_device *device);
void vk_cache_store(pco_device *device);

enum { VK_PATCH_WORDS = 32 }; /* the most that a patch adds */
/* Copies a module to `out` (n + VK_PATCH_WORDS words), with the execution modes added to every entry point.
 * Returns the number of words, or 0 when the module is malformed. */
size_t vk_spirv_patch(const uint32_t *words, size_t n, uint32_t modes, uint32_t *out);

/* ---- inspect.c: what the driver's compiler says of a pipeline ------------------------------------------- */

pco_status vk_inspect(pco_device *device, int on, pco_error *err);
/* Fills the machine code of a description, from a pipeline that was made under inspection. It is valid until the next
 * call, or vk_inspection_clear. */
PCO_NODISCARD pco_status vk_inspection_read(pco_device *device, const vk_pipeline *pipeline, pco_dispatch_info *info,
                                            pco_error *err);
void vk_inspection_clear(pco_device *device);

/* ---- record.c, queue.c --------------------------------------------------------------------------------- */

extern const pco_gpu_driver vk_driver;

/* ---- shaderc.c: pco_gpu_driver.compile ------------------------------------------------------------------- */

PCO_NODISCARD pco_status vk_shaderc_compile(pco_gpu_device *gpu, const char *name, const pco_gpu_code *source,
                                            pco_gpu_code *code, pco_error *err);
extern const pco_queue_api vk_queue_table;
PCO_NODISCARD pco_status vk_queue_open(pco_device *device, pco_error *err);
void vk_queue_close(pco_device *device);
PCO_NODISCARD pco_status vk_queue_wait(pco_device *device, uint64_t ticket, uint64_t nanoseconds, pco_error *err);

#endif
