/* Quantised constants in planes: blocks of 18 and 34 bytes straddle words, so quants and scales are parted.
 */
#include "layout.h"
#include "lower.h"

#include <stdio.h>
#include <string.h>

enum { GPU_BLOCK = 32 };

static uint32_t gpu_block_quants(uint32_t dtype)
{
    return dtype == PCO_Q8_0 ? 32 : dtype == PCO_Q4_0 ? 16 : 0;
}

uint64_t gpu_plane_quants(const pco_tensor *tensor)
{
    return gpu_count(tensor) / GPU_BLOCK * gpu_block_quants(tensor->dtype);
}

uint64_t gpu_plane_bytes(const pco_tensor *tensor)
{
    return gpu_plane_quants(tensor) + (gpu_count(tensor) / GPU_BLOCK * 2 + 3) / 4 * 4;
}

void gpu_want_planes(pco_proposal *proposal, const pco_part *part, uint32_t tensor)
{
    const pco_tensor *t = &part->tensors[tensor];
    if (gpu_block_quants(t->dtype) == 0 || t->kind != PCO_KIND_CONSTANT) return;
    proposal->tensors[tensor].layout = GPU_LAYOUT_PLANES;
    proposal->tensors[tensor].bytes = gpu_plane_bytes(t);
}

pco_status gpu_convert(pco_device *device, const pco_tensor *tensor, uint32_t layout, const void *from,
                       void *to, uint64_t bytes, pco_error *err)
{
    (void)device;
    const uint32_t quants = gpu_block_quants(tensor->dtype);
    if (layout != GPU_LAYOUT_PLANES || quants == 0 || bytes < gpu_plane_bytes(tensor)) {
        snprintf(err->message, sizeof err->message, "%s: no layout %u of %llu bytes for this type",
                 tensor->name, layout, (unsigned long long)bytes);
        return PCO_ERROR_INVALID;
    }
    const uint64_t blocks = gpu_count(tensor) / GPU_BLOCK;
    const unsigned char *block = from;
    unsigned char *quant = to, *scale = quant + gpu_plane_quants(tensor);
    memset(to, 0, (size_t)bytes);
    for (uint64_t i = 0; i < blocks; i++, block += 2 + quants) {
        memcpy(scale + 2 * i, block, 2);
        memcpy(quant + quants * i, block + 2, quants);
    }
    return PCO_OK;
}
