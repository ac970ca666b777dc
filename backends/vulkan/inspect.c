/* What the driver's compiler says of a pipeline (VK_KHR_pipeline_executable_properties): figures, and the listing. */
#include "vk.h"

#include <string.h>

enum { VK_MAX_CODES = 8, VK_MAX_FIGURES = 64, VK_MAX_REPRESENTATIONS = 16 };

typedef struct vk_inspection {
    pco_machine_code codes[VK_MAX_CODES];
    VkPipelineExecutablePropertiesKHR properties[VK_MAX_CODES];
    VkPipelineExecutableStatisticKHR statistics[VK_MAX_CODES][VK_MAX_FIGURES];
    pco_code_figure figures[VK_MAX_CODES][VK_MAX_FIGURES];
    char *listings[VK_MAX_CODES];
} vk_inspection;

pco_status vk_inspect(pco_device *device, int on, pco_error *err)
{
    if (on && !(device->physical->has & VK_HAS_EXECUTABLES))
        return vk_fail(err, PCO_ERROR_UNSUPPORTED, "%s: its driver has no VK_KHR_pipeline_executable_properties",
                       device->gpu.name);
    device->gpu.inspect = on ? 1 : 0;
    return PCO_OK;
}

void vk_inspection_clear(pco_device *device)
{
    vk_inspection *inspection = device->inspection;
    for (uint32_t i = 0; inspection && i < VK_MAX_CODES; i++) vk_release(device->gpu.host, inspection->listings[i]);
    vk_release(device->gpu.host, inspection);
    device->inspection = NULL;
}

static double vk_figure(const VkPipelineExecutableStatisticKHR *statistic)
{
    switch (statistic->format) {
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR: return statistic->value.b32;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR: return (double)statistic->value.i64;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR: return (double)statistic->value.u64;
    default: return statistic->value.f64;
    }
}

static VkResult vk_read_figures(pco_device *device, const VkPipelineExecutableInfoKHR *which, vk_inspection *to)
{
    const uint32_t at = which->executableIndex;
    uint32_t count = VK_MAX_FIGURES;
    VkPipelineExecutableStatisticKHR *statistics = to->statistics[at];
    for (uint32_t i = 0; i < count; i++) statistics[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR;
    VkResult result = device->vk.GetPipelineExecutableStatisticsKHR(device->handle, which, &count, statistics);
    if (result != VK_SUCCESS && result != VK_INCOMPLETE) return result;
    for (uint32_t i = 0; i < count; i++)
        to->figures[at][i] = (pco_code_figure){statistics[i].name, vk_figure(&statistics[i])};
    to->codes[at].figures = to->figures[at];
    to->codes[at].n_figures = count;
    return VK_SUCCESS;
}

/* Of the texts that the driver offers, from the shader as it came to what the processor runs, the last. */
static VkResult vk_read_listing(pco_device *device, const VkPipelineExecutableInfoKHR *which, vk_inspection *to)
{
    const uint32_t at = which->executableIndex;
    VkPipelineExecutableInternalRepresentationKHR offers[VK_MAX_REPRESENTATIONS];
    uint32_t count = VK_MAX_REPRESENTATIONS, last = UINT32_MAX;
    memset(offers, 0, sizeof offers);
    for (uint32_t i = 0; i < count; i++)
        offers[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR;
    VkResult result = device->vk.GetPipelineExecutableInternalRepresentationsKHR(device->handle, which, &count, offers);
    if (result != VK_SUCCESS && result != VK_INCOMPLETE) return result;
    for (uint32_t i = 0; i < count; i++)
        if (offers[i].isText && offers[i].dataSize) last = i;
    if (last == UINT32_MAX) return VK_SUCCESS;
    const size_t size = offers[last].dataSize;
    to->listings[at] = vk_allocate(device->gpu.host, size + 1, 1);
    if (!to->listings[at]) return VK_ERROR_OUT_OF_HOST_MEMORY;
    offers[last].pData = to->listings[at];
    result = device->vk.GetPipelineExecutableInternalRepresentationsKHR(device->handle, which, &count, offers);
    if (result != VK_SUCCESS && result != VK_INCOMPLETE) return result;
    to->codes[at].listing = to->listings[at];
    to->codes[at].listing_bytes = strlen(to->listings[at]);
    return VK_SUCCESS;
}

pco_status vk_inspection_read(pco_device *device, const vk_pipeline *pipeline, pco_dispatch_info *info, pco_error *err)
{
    vk_inspection_clear(device);
    vk_inspection *to = vk_allocate(device->gpu.host, 1, sizeof *to);
    if (!to) return vk_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for what the compiler says");
    device->inspection = to;
    VkPipelineInfoKHR of = {.sType = VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR, .pipeline = pipeline->handle};
    uint32_t count = VK_MAX_CODES;
    for (uint32_t i = 0; i < count; i++) to->properties[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR;
    VkResult result = device->vk.GetPipelineExecutablePropertiesKHR(device->handle, &of, &count, to->properties);
    if (result == VK_INCOMPLETE) result = VK_SUCCESS;
    for (uint32_t i = 0; i < count && result == VK_SUCCESS; i++) {
        VkPipelineExecutableInfoKHR which = {
            .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR,
            .pipeline = pipeline->handle,
            .executableIndex = i,
        };
        to->codes[i].name = to->properties[i].name;
        to->codes[i].subgroup_size = to->properties[i].subgroupSize;
        result = vk_read_figures(device, &which, to);
        if (result == VK_SUCCESS) result = vk_read_listing(device, &which, to);
    }
    if (result != VK_SUCCESS) return vk_check(device, result, err, "asking for a pipeline's statistics");
    info->codes = to->codes;
    info->n_codes = count;
    return PCO_OK;
}
