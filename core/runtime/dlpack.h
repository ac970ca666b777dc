/* DLPack's structs, version 0.8 and before (github.com/dmlc/dlpack, whose header programs include; what lies where in
 * memory is the same). */
#ifndef PCO_RUNTIME_DLPACK_H
#define PCO_RUNTIME_DLPACK_H

#include <stdint.h>

enum { DL_CPU = 1 };                                                        /* DLDeviceType: kDLCPU */
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_BOOL = 6 }; /* DLDataTypeCode */

typedef struct DLDevice {
    int32_t device_type, device_id;
} DLDevice;

typedef struct DLDataType {
    uint8_t code, bits;
    uint16_t lanes;
} DLDataType;

typedef struct DLTensor {
    void *data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape, *strides; /* strides in elements; NULL: contiguous */
    uint64_t byte_offset;
} DLTensor;

typedef struct DLManagedTensor {
    DLTensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;

#endif
