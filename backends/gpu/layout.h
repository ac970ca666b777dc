/* Quantised constants in planes: blocks in the file straddle words, so what every weight has and what weights share are
 * parted. The conversion of constants that pco_gpu_program_api offers. */
#ifndef PCO_GPU_LAYOUT_H
#define PCO_GPU_LAYOUT_H

#include "gpu.h"

/* A quantised type (core/base/dtypes.def). Both planes are in block order; the scales follow the quants. */
typedef struct gpu_format {
    uint32_t number;         /* of its rows among those of a COMPILED_QUANT in shaders/ */
    uint32_t block, bytes;   /* weights of a block; its bytes in the file */
    uint32_t quants, scales; /* its bytes in either plane */
    void (*part)(const unsigned char *block, unsigned char *quants, unsigned char *scales);
} gpu_format;

/* NULL: the type is not quantised. */
const gpu_format *gpu_format_of(uint32_t dtype);

pco_status gpu_convert(pco_device *device, const pco_tensor *tensor, uint32_t layout, const void *from, void *to,
                       uint64_t bytes, pco_error *err);

#endif
