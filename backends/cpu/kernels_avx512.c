/* Kernels for x86-64 processors with AVX-512 (F, VL, BW, DQ): sixteen lanes. Empty elsewhere. */
#if defined(__x86_64__)

#include <immintrin.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,avx512f,avx512vl,avx512bw,avx512dq"))), \
                             apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c,avx512f,avx512vl,avx512bw,avx512dq")
#endif

#define CPU_AVX512
#define CPU_LANES      16
#define CPU_TILE_ROWS  14
#define CPU_TABLE      cpu_kernels_avx512
#define CPU_TABLE_NAME "avx512"

#include "simd.h"
#include "simd_math.h"
#include "simd_map.h"
#include "simd_rows.h"
#include "simd_backward.h"
#include "simd_matmul.h"
#include "simd_quants.h"
#include "simd_table.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#else
typedef int cpu_no_avx512; /* a translation unit may not be empty */
#endif
