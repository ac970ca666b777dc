/* Recording: a list of dispatches becomes one command buffer per segment, submitted again and again. */
#include "vk.h"

#include <string.h>

static uint64_t vk_rounded(uint64_t bytes) { return (bytes + 3) & ~(uint64_t)3; }

static pco_status vk_check_binding(const pco_device *device, const pco_plan *plan, const pco_gpu_dispatch *dispatch,
                                   uint32_t i, pco_error *err)
{
    const pco_gpu_limits *limits = &device->gpu.limits;
    const pco_gpu_binding *binding = &dispatch->bindings[i];
    const char *kernel = pco_gpu_row(&device->gpu, dispatch->kernel)->name;
    if (binding->buffer >= plan->n_buffers || !plan->buffers[binding->buffer])
        return vk_fail(err, PCO_ERROR_INTERNAL, "kernel '%s', binding %u: buffer %u of %u", kernel, i, binding->buffer,
                       plan->n_buffers);
    const pco_buffer *buffer = plan->buffers[binding->buffer];
    if (binding->offset % limits->offset_alignment)
        return vk_fail(err, PCO_ERROR_INTERNAL, "kernel '%s', binding %u: offset %llu is no multiple of %u", kernel, i,
                       (unsigned long long)binding->offset, limits->offset_alignment);
    if (binding->bytes == 0 || vk_rounded(binding->bytes) > limits->max_binding)
        return vk_fail(err, PCO_ERROR_INTERNAL, "kernel '%s', binding %u: %llu bytes, %s allows 1 to %llu", kernel, i,
                       (unsigned long long)binding->bytes, device->gpu.name, (unsigned long long)limits->max_binding);
    if (binding->offset > buffer->size || vk_rounded(binding->bytes) > buffer->size - binding->offset)
        return vk_fail(err, PCO_ERROR_INTERNAL, "kernel '%s', binding %u: %llu bytes at %llu of a buffer of %llu",
                       kernel, i, (unsigned long long)binding->bytes, (unsigned long long)binding->offset,
                       (unsigned long long)buffer->bytes);
    if (binding->write && buffer->imported)
        return vk_fail(err, PCO_ERROR_INTERNAL, "kernel '%s', binding %u writes to imported memory", kernel, i);
    return PCO_OK;
}

/* Nothing on the device checks these, so an error of the lowering ends here and not in a neighbour's memory.
 */
static pco_status vk_check_dispatch(const pco_device *device, const pco_plan *plan, const pco_gpu_dispatch *dispatch,
                                    pco_error *err)
{
    const pco_gpu_limits *limits = &device->gpu.limits;
    const pco_gpu_kernel *kernel = pco_gpu_row(&device->gpu, dispatch->kernel);
    if (!kernel) return vk_fail(err, PCO_ERROR_INTERNAL, "kernel %u of %u", dispatch->kernel, pco_gpu_n_kernels);
    if (dispatch->n_bindings != kernel->n_bindings || dispatch->n_bindings > limits->max_bindings)
        return vk_fail(err, PCO_ERROR_INTERNAL, "kernel '%s': %u bindings, it has %u and %s allows %u", kernel->name,
                       dispatch->n_bindings, kernel->n_bindings, device->gpu.name, limits->max_bindings);
    if (dispatch->n_params > PCO_GPU_MAX_PARAMS)
        return vk_fail(err, PCO_ERROR_INTERNAL, "kernel '%s': %u parameters", kernel->name, dispatch->n_params);
    for (uint32_t i = 0; i < 3; i++)
        if (dispatch->groups[i] > limits->max_groups[i])
            return vk_fail(err, PCO_ERROR_INTERNAL, "kernel '%s': %u workgroups in dimension %u, %s allows %u",
                           kernel->name, dispatch->groups[i], i, device->gpu.name, limits->max_groups[i]);
    for (uint32_t i = 0; i < dispatch->n_bindings; i++) {
        pco_status status = vk_check_binding(device, plan, dispatch, i, err);
        if (status != PCO_OK) return status;
    }
    return PCO_OK;
}

static VkResult vk_make_pools(pco_device *device, pco_gpu_recording *recording, const pco_gpu_dispatch *list)
{
    const vk_device_calls *vk = &device->vk;
    VkCommandPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .queueFamilyIndex = device->physical->queue_family,
    };
    VkDescriptorPoolSize size = {.type = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, .descriptorCount = 1};
    for (uint32_t i = 0; i < recording->n_dispatches; i++) size.descriptorCount += list[i].n_bindings;
    VkDescriptorPoolCreateInfo sets = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = recording->n_dispatches,
        .poolSizeCount = 1,
        .pPoolSizes = &size,
    };
    VkQueryPoolCreateInfo queries = {
        .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
        .queryType = VK_QUERY_TYPE_TIMESTAMP,
        .queryCount = recording->n_dispatches + recording->n_segments,
    };
    VkResult result = VK_MAKE(&recording->pool, vk->CreateCommandPool, device->handle, &pool, NULL);
    if (result == VK_SUCCESS) result = VK_MAKE(&recording->sets, vk->CreateDescriptorPool, device->handle, &sets, NULL);
    if (result == VK_SUCCESS && recording->nodes)
        result = VK_MAKE(&recording->queries, vk->CreateQueryPool, device->handle, &queries, NULL);
    if (result != VK_SUCCESS) return result;
    VkCommandBufferAllocateInfo commands = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = recording->pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = recording->n_segments,
    };
    return vk->AllocateCommandBuffers(device->handle, &commands, recording->commands);
}

static VkResult vk_make_set(pco_device *device, const pco_gpu_recording *recording, const pco_plan *plan,
                            const pco_gpu_dispatch *dispatch, VkDescriptorSet *set)
{
    VkDescriptorSetAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
        .descriptorPool = recording->sets,
        .descriptorSetCount = 1,
        .pSetLayouts = &device->set_layouts[dispatch->n_bindings],
    };
    VkResult result = device->vk.AllocateDescriptorSets(device->handle, &info, set);
    if (result != VK_SUCCESS || dispatch->n_bindings == 0) return result;
    VkDescriptorBufferInfo windows[PCO_GPU_MAX_BINDINGS];
    VkWriteDescriptorSet writes[PCO_GPU_MAX_BINDINGS];
    for (uint32_t i = 0; i < dispatch->n_bindings; i++) {
        const pco_gpu_binding *binding = &dispatch->bindings[i];
        windows[i] = (VkDescriptorBufferInfo){
            .buffer = plan->buffers[binding->buffer]->handle,
            .offset = binding->offset,
            .range = vk_rounded(binding->bytes),
        };
        writes[i] = (VkWriteDescriptorSet){
            .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
            .dstSet = *set,
            .dstBinding = i,
            .descriptorCount = 1,
            .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            .pBufferInfo = &windows[i],
        };
    }
    device->vk.UpdateDescriptorSets(device->handle, dispatch->n_bindings, writes, 0, NULL);
    return VK_SUCCESS;
}

static void vk_barrier(pco_device *device, VkCommandBuffer commands, VkPipelineStageFlags from_stages,
                       VkAccessFlags from, VkPipelineStageFlags to_stages, VkAccessFlags to)
{
    VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = from,
        .dstAccessMask = to,
    };
    device->vk.CmdPipelineBarrier(commands, from_stages, to_stages, 0, 1, &barrier, 0, NULL, 0, NULL);
}

static const VkPipelineStageFlags vk_compute = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
static const VkAccessFlags vk_shader = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;

static VkResult vk_record_dispatch(pco_device *device, const pco_gpu_recording *recording, VkCommandBuffer commands,
                                   const pco_plan *plan, const pco_gpu_dispatch *dispatch, const vk_pipeline *pipeline)
{
    const vk_device_calls *vk = &device->vk;
    VkPipelineLayout layout = device->layouts[dispatch->n_bindings];
    VkDescriptorSet set;
    VkResult result = vk_make_set(device, recording, plan, dispatch, &set);
    if (result != VK_SUCCESS) return result;
    uint32_t params[PCO_GPU_MAX_PARAMS] = {0};
    memcpy(params, dispatch->params, dispatch->n_params * sizeof *params);
    vk->CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline->handle);
    vk->CmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &set, 0, NULL);
    vk->CmdPushConstants(commands, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof params, params);
    vk->CmdDispatch(commands, dispatch->groups[0], dispatch->groups[1], dispatch->groups[2]);
    return VK_SUCCESS;
}

/* A segment begins after everything that was submitted before it, and leaves its writes to whatever comes
 * next: segments may be submitted one by one, with transfers in between. */
static VkResult vk_record_segment(pco_device *device, pco_gpu_recording *recording, uint32_t segment,
                                  const pco_plan *plan, const pco_gpu_dispatch *list, vk_pipeline *const *pipelines)
{
    const vk_device_calls *vk = &device->vk;
    VkCommandBuffer commands = recording->commands[segment];
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    uint32_t first = segment * recording->per_segment, last = first + recording->per_segment;
    uint32_t query = first + segment;
    if (last > recording->n_dispatches || last < first) last = recording->n_dispatches;
    VkResult result = vk->BeginCommandBuffer(commands, &begin);
    if (result != VK_SUCCESS) return result;
    vk_barrier(device, commands, vk_compute | VK_PIPELINE_STAGE_TRANSFER_BIT | VK_PIPELINE_STAGE_HOST_BIT,
               VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT | VK_ACCESS_HOST_WRITE_BIT, vk_compute,
               vk_shader);
    if (recording->queries) {
        vk->CmdResetQueryPool(commands, recording->queries, query, last - first + 1);
        vk->CmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, recording->queries, query);
    }
    for (uint32_t i = first; i < last && result == VK_SUCCESS; i++) {
        /* Timings are of one dispatch at a time. */
        if (i > first && (list[i].barrier_before || recording->queries))
            vk_barrier(device, commands, vk_compute, VK_ACCESS_SHADER_WRITE_BIT, vk_compute, vk_shader);
        result = vk_record_dispatch(device, recording, commands, plan, &list[i], pipelines[i]);
        if (recording->queries)
            vk->CmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, recording->queries,
                                  query + 1 + i - first);
    }
    if (result != VK_SUCCESS) return result;
    vk_barrier(device, commands, vk_compute, VK_ACCESS_SHADER_WRITE_BIT,
               vk_compute | VK_PIPELINE_STAGE_TRANSFER_BIT | VK_PIPELINE_STAGE_HOST_BIT,
               vk_shader | VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT | VK_ACCESS_HOST_READ_BIT);
    return vk->EndCommandBuffer(commands);
}

static void vk_discard(pco_gpu_device *gpu, pco_gpu_recording *recording)
{
    pco_device *device = (pco_device *)gpu;
    const pco_host *host = gpu->host;
    if (!recording) return;
    for (uint32_t i = 0; recording->tickets && i < recording->n_segments; i++)
        if (vk_queue_wait(device, recording->tickets[i], UINT64_MAX, NULL) != PCO_OK) break;
    if (recording->queries) device->vk.DestroyQueryPool(device->handle, recording->queries, NULL);
    if (recording->sets) device->vk.DestroyDescriptorPool(device->handle, recording->sets, NULL);
    if (recording->pool) device->vk.DestroyCommandPool(device->handle, recording->pool, NULL);
    vk_release(host, recording->commands);
    vk_release(host, recording->tickets);
    vk_release(host, recording->nodes);
    vk_release(host, recording->stamps);
    vk_release(host, recording);
}

static pco_gpu_recording *vk_new_recording(pco_gpu_device *gpu, const pco_gpu_dispatch *list, uint32_t count,
                                           uint32_t per_segment)
{
    const pco_host *host = gpu->host;
    pco_gpu_recording *recording = vk_allocate(host, 1, sizeof *recording);
    if (!recording) return NULL;
    recording->n_dispatches = count;
    recording->per_segment = per_segment && per_segment < count ? per_segment : count;
    recording->n_segments = count ? (count - 1) / recording->per_segment + 1 : 0;
    recording->commands = vk_allocate(host, recording->n_segments, sizeof(VkCommandBuffer));
    recording->tickets = vk_allocate(host, recording->n_segments, sizeof *recording->tickets);
    int complete = recording->commands && recording->tickets;
    if (gpu->profile) {
        recording->nodes = vk_allocate(host, count, sizeof *recording->nodes);
        recording->stamps = vk_allocate(host, 2 * (size_t)(count + recording->n_segments), sizeof(uint64_t));
        complete = complete && recording->nodes && recording->stamps;
        for (uint32_t i = 0; complete && i < count; i++) recording->nodes[i] = list[i].node;
    }
    if (complete) return recording;
    vk_release(host, recording->commands);
    vk_release(host, recording->tickets);
    vk_release(host, recording->nodes);
    vk_release(host, recording->stamps);
    vk_release(host, recording);
    return NULL;
}

static pco_status vk_record(pco_gpu_device *gpu, const pco_plan *plan, const pco_gpu_dispatch *list, uint32_t count,
                            uint32_t per_segment, pco_gpu_recording **out, pco_error *err)
{
    pco_device *device = (pco_device *)gpu;
    *out = NULL;
    if (device->lost) return vk_fail(err, PCO_ERROR_DEVICE_LOST, "%s was lost", gpu->name);
    for (uint32_t i = 0; i < count; i++) {
        pco_status status = vk_check_dispatch(device, plan, &list[i], err);
        if (status != PCO_OK) return status;
    }
    pco_gpu_recording *recording = vk_new_recording(gpu, list, count, per_segment);
    vk_pipeline **pipelines = vk_allocate(gpu->host, count, sizeof(vk_pipeline *));
    pco_status status = PCO_OK;
    if (!recording || !pipelines) {
        status = vk_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a program of %u dispatches", count);
        goto fail;
    }
    status = vk_pipelines_require(device, list, count, pipelines, err);
    if (status != PCO_OK) goto fail;
    VkResult result = count ? vk_make_pools(device, recording, list) : VK_SUCCESS;
    for (uint32_t i = 0; i < recording->n_segments && result == VK_SUCCESS; i++)
        result = vk_record_segment(device, recording, i, plan, list, pipelines);
    status = vk_check(device, result, err, "recording a program");
    if (status != PCO_OK) goto fail;
    *out = recording;
    recording = NULL;
fail:
    vk_release(gpu->host, pipelines);
    vk_discard(gpu, recording);
    return status;
}

static uint32_t vk_segment_count(const pco_gpu_recording *recording) { return recording->n_segments; }

static pco_status vk_describe_dispatch(pco_gpu_device *gpu, const pco_gpu_dispatch *dispatch, pco_dispatch_info *info,
                                       pco_error *err)
{
    pco_status status = vk_pipeline_describe((pco_device *)gpu, dispatch, info, err);
    for (uint32_t i = 0; i < info->n_bindings; i++) info->bindings[i].bytes = vk_rounded(info->bindings[i].bytes);
    return status;
}

static uint32_t vk_timings(pco_gpu_device *gpu, pco_gpu_recording *recording, pco_timing *out, uint32_t capacity)
{
    pco_device *device = (pco_device *)gpu;
    pco_gpu_timings sum = {.out = out, .capacity = capacity};
    uint32_t n_queries = recording->n_dispatches + recording->n_segments;
    uint32_t bits = device->physical->timestamp_bits;
    uint64_t mask = bits < 64 ? ((uint64_t)1 << bits) - 1 : UINT64_MAX;
    if (!recording->queries || device->lost) return 0;
    for (uint32_t i = 0; i < recording->n_segments; i++)
        if (!recording->tickets[i] || vk_queue_wait(device, recording->tickets[i], UINT64_MAX, NULL) != PCO_OK)
            return 0; /* not all of it has run */
    uint64_t *stamps = recording->stamps;
    VkResult result = device->vk.GetQueryPoolResults(device->handle, recording->queries, 0, n_queries,
                                                     n_queries * 2 * sizeof *stamps, stamps, 2 * sizeof *stamps,
                                                     VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WITH_AVAILABILITY_BIT);
    if (result != VK_SUCCESS) return 0;
    for (uint32_t i = 0; i < recording->n_dispatches; i++) {
        uint32_t query = i + i / recording->per_segment; /* of the moment before */
        uint64_t ticks = (stamps[2 * query + 2] - stamps[2 * query]) & mask;
        uint64_t time = (uint64_t)((double)ticks * (double)device->physical->timestamp_period);
        if (stamps[2 * query + 1] && stamps[2 * query + 3]) pco_gpu_add_timing(&sum, recording->nodes[i], time);
    }
    return sum.n;
}

const pco_gpu_driver vk_driver = {
    .record = vk_record,
    .discard = vk_discard,
    .segments = vk_segment_count,
    .describe = vk_describe_dispatch,
    .compile = vk_shaderc_compile,
    .timings = vk_timings,
};
