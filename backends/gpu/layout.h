/* The conversion of constants that pco_gpu_program_api offers. */
#ifndef PCO_GPU_LAYOUT_H
#define PCO_GPU_LAYOUT_H

#include "gpu.h"

pco_status gpu_convert(pco_device *device, const pco_tensor *tensor, uint32_t layout, const void *from,
                       void *to, uint64_t bytes, pco_error *err);

#endif
