/* Kernels for any processor: four lanes (SSE2 on x86-64, NEON on aarch64). */
#define CPU_LANES 4
#if defined(__aarch64__)
#define CPU_TILE_ROWS 8
#else
#define CPU_TILE_ROWS 6
#endif
#define CPU_TABLE      cpu_kernels_generic
#define CPU_TABLE_NAME "generic"

#include "simd.h"
#include "simd_math.h"
#include "simd_map.h"
#include "simd_rows.h"
#include "simd_backward.h"
#include "simd_matmul.h"
#include "simd_quants.h"
#include "simd_table.h"
