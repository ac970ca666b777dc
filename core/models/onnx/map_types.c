/* ONNX's element types on the few that graphs have: whole numbers are i32, floats of 8 and 4 bits and doubles are f32,
 * and what is narrower than these is rounded, wrapped or limited to its own values where it is made. */
#include "models/onnx/map_internal.h"

uint32_t pco_onnx_map_type(int32_t type)
{
    double low, high;
    switch (type) {
    case PCO_ONNX_FLOAT:
    case PCO_ONNX_DOUBLE: return PCO_F32;
    case PCO_ONNX_FLOAT16: return PCO_F16;
    case PCO_ONNX_BFLOAT16: return PCO_BF16;
    case PCO_ONNX_INT64:
    case PCO_ONNX_UINT32:
    case PCO_ONNX_UINT64: return PCO_I32;
    case PCO_ONNX_BOOL: return PCO_BOOL;
    default: break;
    }
    if (onnx_range(type, &low, &high)) return PCO_I32;
    pco_onnx_small small;
    return pco_onnx_small_float(type, &small) ? PCO_F32 : PCO_NONE;
}

bool onnx_range(int32_t type, double *low, double *high)
{
    static const struct {
        int32_t type;
        double low, high;
    } RANGES[] = {
        {PCO_ONNX_INT8, -128, 127},  {PCO_ONNX_UINT8, 0, 255}, {PCO_ONNX_INT16, -32768, 32767},
        {PCO_ONNX_UINT16, 0, 65535}, {PCO_ONNX_INT4, -8, 7},   {PCO_ONNX_UINT4, 0, 15},
        {PCO_ONNX_INT2, -2, 1},      {PCO_ONNX_UINT2, 0, 3},   {PCO_ONNX_INT32, INT32_MIN, INT32_MAX},
    };
    for (size_t i = 0; i < sizeof RANGES / sizeof *RANGES; i++) {
        if (RANGES[i].type != type) continue;
        *low = RANGES[i].low, *high = RANGES[i].high;
        return true;
    }
    return false;
}
