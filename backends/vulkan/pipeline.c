/* Pipelines: one per kernel and set of specialisation constants, made when a program first needs it and kept
 * until the device closes. What a program lacks is compiled on all threads of the host's pool. */
#include "vk.h"

#include <stdio.h>
#include <string.h>

enum { VK_PUSH_BYTES = PCO_GPU_MAX_PARAMS * 4 };

/* Descriptor set layouts and pipeline layouts depend on the number of bindings only. */
static pco_status vk_make_layouts(pco_device *device, pco_error *err)
{
    VkDescriptorSetLayoutBinding bindings[PCO_GPU_MAX_BINDINGS];
    for (uint32_t i = 0; i < PCO_GPU_MAX_BINDINGS; i++)
        bindings[i] = (VkDescriptorSetLayoutBinding){
            .binding = i,
            .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            .descriptorCount = 1,
            .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
        };
    for (uint32_t n = 0; n <= device->gpu.limits.max_bindings; n++) {
        VkDescriptorSetLayoutCreateInfo set = {
            .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
            .bindingCount = n,
            .pBindings = bindings,
        };
        VkPushConstantRange push = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .size = VK_PUSH_BYTES};
        VkPipelineLayoutCreateInfo layout = {
            .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
            .setLayoutCount = 1,
            .pSetLayouts = &device->set_layouts[n],
            .pushConstantRangeCount = 1,
            .pPushConstantRanges = &push,
        };
        VkResult result =
            VK_MAKE(&device->set_layouts[n], device->vk.CreateDescriptorSetLayout, device->handle, &set, NULL);
        if (result == VK_SUCCESS)
            result = VK_MAKE(&device->layouts[n], device->vk.CreatePipelineLayout, device->handle, &layout, NULL);
        if (result != VK_SUCCESS) return vk_check(device, result, err, "a pipeline layout");
    }
    return PCO_OK;
}

pco_status vk_pipelines_open(pco_device *device, pco_error *err)
{
    device->modules = vk_allocate(device->gpu.host, pco_gpu_n_kernels + PCO_GPU_MOST_MADE, sizeof *device->modules);
    if (!device->modules) return vk_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a list of kernels");
    vk_cache_load(device);
    return vk_make_layouts(device, err);
}

void vk_pipelines_close(pco_device *device)
{
    const vk_device_calls *vk = &device->vk;
    vk_cache_store(device);
    for (uint32_t i = 0; i < VK_BUCKETS; i++) {
        for (vk_pipeline *at = device->pipelines[i], *next; at; at = next) {
            next = at->next;
            if (at->handle) vk->DestroyPipeline(device->handle, at->handle, NULL);
            vk_release(device->gpu.host, at);
        }
    }
    for (uint32_t i = 0; device->modules && i < pco_gpu_n_kernels + PCO_GPU_MOST_MADE; i++)
        if (device->modules[i]) vk->DestroyShaderModule(device->handle, device->modules[i], NULL);
    vk_release(device->gpu.host, device->modules);
    vk_release(device->gpu.host, device->described);
    vk_release(device->gpu.host, device->described_source);
    vk_inspection_clear(device);
    for (uint32_t i = 0; i <= PCO_GPU_MAX_BINDINGS; i++) {
        if (device->layouts[i]) vk->DestroyPipelineLayout(device->handle, device->layouts[i], NULL);
        if (device->set_layouts[i]) vk->DestroyDescriptorSetLayout(device->handle, device->set_layouts[i], NULL);
    }
    if (device->cache) vk->DestroyPipelineCache(device->handle, device->cache, NULL);
}

/* A kernel's code with the device's float modes patched in: *out (release with vk_release) of *n words. */
static pco_status vk_patched_code(const pco_device *device, uint32_t kernel, uint32_t **out, size_t *n, pco_error *err)
{
    const pco_gpu_code *code = pco_gpu_code_of(&device->gpu, kernel);
    const char *name = pco_gpu_row(&device->gpu, kernel)->name;
    *out = NULL;
    if (!code->data) return vk_fail(err, PCO_ERROR_UNSUPPORTED, "kernel '%s' is not in this build", name);
    uint32_t *words = vk_allocate(device->gpu.host, code->bytes / 4 + VK_PATCH_WORDS, 4);
    if (!words) return vk_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for kernel '%s'", name);
    *n = vk_spirv_patch(code->data, code->bytes / 4, device->physical->float_modes, words);
    if (*n) {
        *out = words;
        return PCO_OK;
    }
    vk_release(device->gpu.host, words);
    return vk_fail(err, PCO_ERROR_INTERNAL, "kernel '%s' is no SPIR-V module with one entry point", name);
}

static pco_status vk_load_module(pco_device *device, uint32_t kernel, pco_error *err)
{
    uint32_t *words;
    size_t n;
    if (device->modules[kernel]) return PCO_OK;
    pco_status status = vk_patched_code(device, kernel, &words, &n, err);
    if (status != PCO_OK) return status;
    VkShaderModuleCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = n * 4,
        .pCode = words,
    };
    char what[160];
    snprintf(what, sizeof what, "kernel '%s': vkCreateShaderModule", pco_gpu_row(&device->gpu, kernel)->name);
    status =
        vk_check(device, VK_MAKE(&device->modules[kernel], device->vk.CreateShaderModule, device->handle, &info, NULL),
                 err, what);
    vk_release(device->gpu.host, words);
    return status;
}

/* Drivers may crash on what they do not allow, so nothing beyond a limit reaches them. */
static pco_status vk_check_workgroup(const pco_device *device, const pco_gpu_dispatch *dispatch, pco_error *err)
{
    const pco_gpu_limits *limits = &device->gpu.limits;
    const pco_gpu_kernel *kernel = pco_gpu_row(&device->gpu, dispatch->kernel);
    uint64_t size = 1;
    if (dispatch->n_specs < 3 || dispatch->n_specs > PCO_GPU_MAX_SPECS)
        return vk_fail(err, PCO_ERROR_INTERNAL, "kernel '%s': %u specialisation constants", kernel->name,
                       dispatch->n_specs);
    if (kernel->needs & ~limits->needs_met)
        return vk_fail(err, PCO_ERROR_INTERNAL, "kernel '%s' needs what %s does not have (needs 0x%x, has 0x%x)",
                       kernel->name, device->gpu.name, kernel->needs, limits->needs_met);
    for (uint32_t i = 0; i < 3; i++) {
        int32_t local = dispatch->specs[i];
        if (local < 1 || (uint32_t)local > limits->max_local[i])
            return vk_fail(err, PCO_ERROR_INTERNAL, "kernel '%s': workgroup of %d in dimension %u, %s allows %u",
                           kernel->name, local, i, device->gpu.name, limits->max_local[i]);
        size *= (uint64_t)local;
    }
    if (size > limits->max_workgroup)
        return vk_fail(err, PCO_ERROR_INTERNAL, "kernel '%s': workgroup of %llu invocations, %s allows %u",
                       kernel->name, (unsigned long long)size, device->gpu.name, limits->max_workgroup);
    return PCO_OK;
}

/* Fixes the subgroup width of kernels that use subgroups, where the device lets us: without this some drivers
 * choose a width per shader. Returns the flags of the stage. */
static VkPipelineShaderStageCreateFlags vk_subgroups(const pco_device *device, const vk_pipeline *pipeline,
                                                     VkPipelineShaderStageRequiredSubgroupSizeCreateInfo *width,
                                                     const void **chain)
{
    const vk_physical *physical = device->physical;
    const int32_t *specs = pipeline->specs;
    uint32_t size = pipeline->width ? pipeline->width : physical->subgroup_size;
    uint64_t group = (uint64_t)specs[0] * (uint64_t)specs[1] * (uint64_t)specs[2];
    const uint32_t subgroups = PCO_GPU_NEEDS_SUBGROUPS | PCO_GPU_NEEDS_COOPERATIVE_MATRIX;
    if (!(pco_gpu_row(&device->gpu, pipeline->kernel)->needs & subgroups) || !size) return 0;
    if (physical->has & VK_HAS_SUBGROUP_CONTROL && size >= physical->info.subgroup_min &&
        size <= physical->info.subgroup_max && group <= (uint64_t)size * physical->max_workgroup_subgroups) {
        width->requiredSubgroupSize = size;
        *chain = width;
    }
    return physical->has & VK_HAS_FULL_SUBGROUPS && (uint32_t)specs[0] % size == 0
               ? VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT
               : 0;
}

static void vk_compile(pco_device *device, vk_pipeline *pipeline)
{
    VkSpecializationMapEntry entries[PCO_GPU_MAX_SPECS];
    for (uint32_t i = 0; i < pipeline->n_specs; i++)
        entries[i] = (VkSpecializationMapEntry){.constantID = i, .offset = i * 4, .size = 4};
    VkSpecializationInfo specs = {
        .mapEntryCount = pipeline->n_specs,
        .pMapEntries = entries,
        .dataSize = pipeline->n_specs * 4,
        .pData = pipeline->specs,
    };
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo width = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
    };
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = device->modules[pipeline->kernel],
                  .pName = "main",
                  .pSpecializationInfo = &specs},
        .layout = device->layouts[pco_gpu_row(&device->gpu, pipeline->kernel)->n_bindings],
    };
    info.stage.flags = vk_subgroups(device, pipeline, &width, &info.stage.pNext);
    /* What comes from a cache may have nothing to say. */
    VkPipelineCache cache = device->gpu.inspect ? VK_NULL_HANDLE : device->cache;
    if (device->gpu.inspect)
        info.flags =
            VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR | VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR;
    pipeline->inspected = device->gpu.inspect;
    pipeline->result =
        VK_MAKE(&pipeline->handle, device->vk.CreateComputePipelines, device->handle, cache, 1, &info, NULL);
    if (pipeline->result != VK_SUCCESS) pipeline->handle = VK_NULL_HANDLE;
}

typedef struct vk_compile_task {
    pco_device *device;
    vk_pipeline **pending;
} vk_compile_task;

static void vk_compile_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    const vk_compile_task *compile = task;
    (void)worker;
    for (int64_t i = begin; i < end; i++) vk_compile(compile->device, compile->pending[i]);
}

/* Finds an entry of the map, or adds one without a pipeline. */
static vk_pipeline *vk_find_pipeline(pco_device *device, const pco_gpu_dispatch *dispatch)
{
    uint32_t bytes = dispatch->n_specs * 4;
    uint64_t hash = vk_hash(dispatch->kernel + ((uint64_t)dispatch->width << 32), dispatch->specs, bytes);
    vk_pipeline **bucket = &device->pipelines[hash % VK_BUCKETS];
    for (vk_pipeline *at = *bucket; at; at = at->next)
        if (at->hash == hash && at->kernel == dispatch->kernel && at->n_specs == dispatch->n_specs &&
            at->width == dispatch->width && memcmp(at->specs, dispatch->specs, bytes) == 0)
            return at;
    vk_pipeline *added = vk_allocate(device->gpu.host, 1, sizeof *added);
    if (!added) return NULL;
    added->hash = hash;
    added->kernel = dispatch->kernel;
    added->n_specs = dispatch->n_specs;
    added->width = dispatch->width;
    added->result = VK_NOT_READY;
    memcpy(added->specs, dispatch->specs, bytes);
    added->next = *bucket;
    *bucket = added;
    return added;
}

pco_status vk_pipeline_describe(pco_device *device, const pco_gpu_dispatch *dispatch, pco_dispatch_info *info,
                                pco_error *err)
{
    const pco_host *host = device->gpu.host;
    size_t n = 0, bytes = 0;
    vk_release(host, device->described);
    vk_release(host, device->described_source);
    device->described_source = NULL;
    pco_status status = vk_patched_code(device, dispatch->kernel, &device->described, &n, err);
    if (status != PCO_OK) return status;
    device->described_source = pco_gpu_source_text(&device->gpu, dispatch->kernel, &bytes);
    if (!device->described_source) return vk_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a kernel's source");
    vk_pipeline pipeline = {.kernel = dispatch->kernel, .n_specs = dispatch->n_specs, .width = dispatch->width};
    memcpy(pipeline.specs, dispatch->specs, dispatch->n_specs * sizeof *pipeline.specs);
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo width = {0};
    const void *chain = NULL;
    info->full_subgroups = vk_subgroups(device, &pipeline, &width, &chain) != 0;
    info->subgroup_size = chain ? width.requiredSubgroupSize : 0;
    info->api = PCO_DISPATCH_VULKAN;
    info->entry = "main";
    info->source = device->described_source;
    info->source_bytes = bytes;
    info->binary = device->described;
    info->binary_bytes = n * 4;
    const vk_pipeline *made = vk_find_pipeline(device, dispatch);
    return made && made->inspected && made->handle ? vk_inspection_read(device, made, info, err) : PCO_OK;
}

static pco_status vk_report_compile(pco_device *device, const vk_pipeline *pipeline, pco_error *err)
{
    const int32_t *specs = pipeline->specs;
    if (pipeline->result == VK_SUCCESS) return PCO_OK;
    if (pipeline->result == VK_ERROR_DEVICE_LOST || pipeline->result == VK_ERROR_OUT_OF_HOST_MEMORY)
        return vk_check(device, pipeline->result, err, "vkCreateComputePipelines");
    return vk_fail(
        err, PCO_ERROR_INTERNAL, "%s: kernel '%s' (%s %s), workgroup %dx%dx%d: vkCreateComputePipelines says %s (%d)",
        device->gpu.name, pco_gpu_row(&device->gpu, pipeline->kernel)->name,
        pco_gpu_row(&device->gpu, pipeline->kernel)->file, pco_gpu_row(&device->gpu, pipeline->kernel)->defines,
        specs[0], specs[1], specs[2], vk_result_name(pipeline->result), (int)pipeline->result);
}

pco_status vk_pipelines_require(pco_device *device, const pco_gpu_dispatch *list, uint32_t count, vk_pipeline **out,
                                pco_error *err)
{
    const pco_host *host = device->gpu.host;
    pco_status status = PCO_OK;
    uint32_t n_pending = 0;
    vk_pipeline **pending = vk_allocate(host, count, sizeof(vk_pipeline *));
    if (!pending) return vk_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for %u pipelines", count);
    for (uint32_t i = 0; i < count && status == PCO_OK; i++) {
        status = vk_check_workgroup(device, &list[i], err);
        if (status == PCO_OK) status = vk_load_module(device, list[i].kernel, err);
        if (status != PCO_OK) break;
        out[i] = vk_find_pipeline(device, &list[i]);
        if (!out[i]) {
            status = vk_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a pipeline");
        } else if (!out[i]->handle && out[i]->result != VK_INCOMPLETE) {
            out[i]->result = VK_INCOMPLETE; /* on the list */
            pending[n_pending++] = out[i];
        }
    }
    vk_compile_task task = {device, pending};
    if (status == PCO_OK && n_pending > 1 && host->parallel_for)
        host->parallel_for(host->user, n_pending, 1, vk_compile_slice, &task);
    else if (status == PCO_OK)
        vk_compile_slice(&task, 0, n_pending, 0);
    for (uint32_t i = 0; i < n_pending; i++) {
        if (pending[i]->result == VK_INCOMPLETE) pending[i]->result = VK_NOT_READY;
        if (status == PCO_OK) status = vk_report_compile(device, pending[i], err);
    }
    device->compiled += n_pending;
    vk_release(host, pending);
    vk_cache_store(device);
    return status;
}
