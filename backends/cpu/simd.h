/* Vectors of f32 for one instruction set. The including file defines CPU_LANES and CPU_SET (avx512, avx2 or
 * generic); GCC's vector extensions do the rest, and intrinsics only what those cannot say. */
#include "kernels.h"
#include "types.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#elif defined(CPU_AVX2) || defined(CPU_AVX512)
#include <immintrin.h>
#endif

#pragma GCC diagnostic ignored "-Wpsabi" /* all functions with vector arguments are inlined */

#define CPU_INLINE static inline __attribute__((always_inline))

enum { LANES = CPU_LANES };

typedef float v_f32 __attribute__((vector_size(4 * CPU_LANES)));
typedef int32_t v_i32 __attribute__((vector_size(4 * CPU_LANES)));
typedef uint32_t v_u32 __attribute__((vector_size(4 * CPU_LANES)));
typedef uint16_t v_u16 __attribute__((vector_size(2 * CPU_LANES)));
typedef int8_t v_i8 __attribute__((vector_size(CPU_LANES)));
typedef uint8_t v_u8 __attribute__((vector_size(CPU_LANES)));
typedef double v_f64 __attribute__((vector_size(8 * CPU_LANES)));

CPU_INLINE v_f32 v_load(const float *p)
{
    v_f32 v;
    memcpy(&v, p, sizeof v);
    return v;
}

CPU_INLINE void v_store(float *p, v_f32 v) { memcpy(p, &v, sizeof v); }

CPU_INLINE v_f32 v_splat(float x)
{
#if defined(CPU_AVX512)
    return (v_f32)_mm512_set1_ps(x);
#elif defined(CPU_AVX2)
    return (v_f32)_mm256_set1_ps(x);
#else
    return (v_f32){x, x, x, x};
#endif
}

/* The first n < LANES elements, the others `rest`. */
CPU_INLINE v_f32 v_load_part(const float *p, int64_t n, float rest)
{
    float part[LANES];
    for (int i = 0; i < LANES; i++) part[i] = i < n ? p[i] : rest;
    return v_load(part);
}

CPU_INLINE void v_store_part(float *p, v_f32 v, int64_t n)
{
    float part[LANES];
    v_store(part, v);
    for (int i = 0; i < n; i++) p[i] = part[i];
}

/* a * b + c: rounded once where the instruction set has it, twice elsewhere, but always the same way here. */
CPU_INLINE v_f32 v_fma(v_f32 a, v_f32 b, v_f32 c)
{
#if defined(CPU_AVX512)
    return (v_f32)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(CPU_AVX2)
    return (v_f32)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
    return (v_f32)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    v_f32 product = a * b;
    return product + c;
#endif
}

CPU_INLINE v_i32 v_bits(v_f32 v) { return (v_i32)v; }

CPU_INLINE v_f32 v_select(v_i32 mask, v_f32 yes, v_f32 no)
{
    return (v_f32)((mask & (v_i32)yes) | (~mask & (v_i32)no));
}

CPU_INLINE v_f32 v_abs(v_f32 v) { return (v_f32)((v_i32)v & INT32_MAX); }

/* v with the sign of s, which must be where v >= 0. */
CPU_INLINE v_f32 v_with_sign(v_f32 v, v_f32 s) { return (v_f32)((v_i32)v | ((v_i32)s & INT32_MIN)); }

/* Lanes added in a fixed tree: halves, quarters ... */
CPU_INLINE float v_sum(v_f32 v)
{
    typedef float v4 __attribute__((vector_size(16)));
#if CPU_LANES == 16
    typedef float v8 __attribute__((vector_size(32)));
    v8 eight = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
               __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
#elif CPU_LANES == 8
    v_f32 eight = v;
#endif
#if CPU_LANES >= 8
    v4 four = __builtin_shufflevector(eight, eight, 0, 1, 2, 3) + __builtin_shufflevector(eight, eight, 4, 5, 6, 7);
#else
    v4 four = v;
#endif
    v4 two = four + __builtin_shufflevector(four, four, 2, 3, 0, 1);
    return two[0] + two[1];
}

/* ---- stored types ---- */

/* LANES integers of 8 or 16 bits in 32; compilers do not find these instructions themselves. */
CPU_INLINE v_i32 v_widen_u16(const void *p)
{
#if defined(CPU_AVX512)
    return (v_i32)_mm512_cvtepu16_epi32(_mm256_loadu_si256(p));
#elif defined(CPU_AVX2)
    return (v_i32)_mm256_cvtepu16_epi32(_mm_loadu_si128(p));
#else
    v_u16 h;
    memcpy(&h, p, sizeof h);
    return __builtin_convertvector(h, v_i32);
#endif
}

CPU_INLINE v_i32 v_widen_i8(const void *p)
{
#if defined(CPU_AVX512)
    return (v_i32)_mm512_cvtepi8_epi32(_mm_loadu_si128(p));
#elif defined(CPU_AVX2)
    return (v_i32)_mm256_cvtepi8_epi32(_mm_loadl_epi64(p));
#elif defined(__aarch64__)
    uint32_t word;
    memcpy(&word, p, 4);
    return (v_i32)vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(word)))));
#else
    v_i8 q;
    memcpy(&q, p, sizeof q);
    return __builtin_convertvector(q, v_i32);
#endif
}

CPU_INLINE v_i32 v_widen_u8(const void *p)
{
#if defined(CPU_AVX512)
    return (v_i32)_mm512_cvtepu8_epi32(_mm_loadu_si128(p));
#elif defined(CPU_AVX2)
    return (v_i32)_mm256_cvtepu8_epi32(_mm_loadl_epi64(p));
#elif defined(__aarch64__)
    uint32_t word;
    memcpy(&word, p, 4);
    return (v_i32)vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(word)))));
#else
    v_u8 q;
    memcpy(&q, p, sizeof q);
    return __builtin_convertvector(q, v_i32);
#endif
}

CPU_INLINE v_f32 v_load_bf16(const void *p) { return (v_f32)(v_widen_u16(p) << 16); }

CPU_INLINE v_f32 v_load_f16(const void *p)
{
#if defined(CPU_AVX512)
    return (v_f32)_mm512_cvtph_ps(_mm256_loadu_si256(p));
#elif defined(CPU_AVX2)
    return (v_f32)_mm256_cvtph_ps(_mm_loadu_si128(p));
#elif defined(__aarch64__)
    v_u16 h;
    memcpy(&h, p, sizeof h);
    return (v_f32)vcvt_f32_f16((float16x4_t)h);
#else
    /* As cpu_f16_to_f32, lane by lane. */
    v_i32 w = v_widen_u16(p);
    v_i32 rest = (w & 0x7fff) << 13, special = rest >= (0x7c00 << 13);
    v_f32 scaled = (v_f32)rest * 0x1p112f;
    v_i32 bits = (special & (rest | 0x7f800000)) | (~special & (v_i32)scaled);
    return (v_f32)(bits | (w & 0x8000) << 16);
#endif
}

CPU_INLINE void v_store_f16(void *p, v_f32 v)
{
#if defined(CPU_AVX512)
    __m256i h = _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(CPU_AVX2)
    __m128i h = _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(__aarch64__)
    float16x4_t h = vcvt_f16_f32((float32x4_t)v);
#else
    uint16_t h[LANES];
    for (int i = 0; i < LANES; i++) h[i] = cpu_f32_to_f16(v[i]);
#endif
    memcpy(p, &h, sizeof h);
}

CPU_INLINE void v_store_bf16(void *p, v_f32 v)
{
    v_u32 bits = (v_u32)v;
    v_u32 rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, quiet = bits >> 16 | 0x40;
    v_u32 nan = (v_u32)(v != v);
    v_u16 h = __builtin_convertvector((nan & quiet) | (~nan & rounded), v_u16);
    memcpy(p, &h, sizeof h);
}

/* LANES signed bytes. */
CPU_INLINE v_f32 v_load_i8(const void *p) { return __builtin_convertvector(v_widen_i8(p), v_f32); }

#define CPU_LOAD(name, stored, vector_load, scalar) \
    static void name(void *to, const void *from, int64_t n) \
    { \
        float *y = to; \
        const stored *x = from; \
        int64_t i = 0; \
        for (; i + LANES <= n; i += LANES) v_store(y + i, vector_load(x + i)); \
        for (; i < n; i++) y[i] = scalar(x[i]); \
    }
CPU_LOAD(load_f16, uint16_t, v_load_f16, cpu_f16_to_f32)
CPU_LOAD(load_bf16, uint16_t, v_load_bf16, cpu_bf16_to_f32)

#define CPU_STORE(name, vector_store, scalar) \
    static void name(void *to, const float *x, int64_t n) \
    { \
        uint16_t *y = to; \
        int64_t i = 0; \
        for (; i + LANES <= n; i += LANES) vector_store(y + i, v_load(x + i)); \
        for (; i < n; i++) y[i] = scalar(x[i]); \
    }
CPU_STORE(store_f16, v_store_f16, cpu_f32_to_f16)
CPU_STORE(store_bf16, v_store_bf16, cpu_f32_to_bf16)

/* Where there are none, there may be no memory either, and memcpy wants some. */
static void load_f32(void *to, const void *from, int64_t n)
{
    if (n) memcpy(to, from, (size_t)n * 4);
}

static void store_f32(void *to, const float *from, int64_t n)
{
    if (n && to != (const void *)from) memcpy(to, from, (size_t)n * 4);
}
