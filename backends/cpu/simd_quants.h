/* Rows of quantised weights: their values, and products with few rows. A block is taken in parts of CPU_PART weights.
 */

/* An f16, for what is multiplied once more. */
CPU_INLINE float block_half(const unsigned char *at)
{
#if defined(CPU_AVX512) || defined(CPU_AVX2)
    return _cvtsh_ss(cpu_u16_at(at));
#else
    return cpu_half_at(at);
#endif
}

/* The same in all lanes, as it is. */
CPU_INLINE v_f32 v_half(const unsigned char *at)
{
#if defined(CPU_AVX512)
    return (v_f32)_mm512_cvtph_ps(_mm256_set1_epi16((short)cpu_u16_at(at)));
#elif defined(CPU_AVX2)
    return (v_f32)_mm256_cvtph_ps(_mm_set1_epi16((short)cpu_u16_at(at)));
#else
    return v_splat(cpu_half_at(at));
#endif
}

enum { CPU_PART = 32, BLOCK_VECTORS = CPU_PART / CPU_LANES };

/* Entry index of a table of 16, in each lane. */
CPU_INLINE v_f32 v_entries(const float *table, v_i32 index)
{
#if defined(CPU_AVX512)
    return (v_f32)_mm512_permutexvar_ps((__m512i)index, _mm512_loadu_ps(table));
#elif defined(CPU_AVX2)
    const __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), (__m256i)index);
    const __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + 8), (__m256i)index);
    return (v_f32)_mm256_blendv_ps(low, high, (__m256)(index << 28)); /* bit 3 is the sign now */
#else
    v_f32 v;
    for (int i = 0; i < LANES; i++) v[i] = table[index[i]];
    return v;
#endif
}

/* What v_entries and v_line look at of a number. AVX-512's look-ups themselves leave out what lies above. */
CPU_INLINE v_i32 v_nibble(v_i32 q)
{
#if defined(CPU_AVX512)
    return q;
#else
    return q & 15;
#endif
}

/* scale * i + least for i = v_nibble(q), rounded as v_fma rounds. In AVX-512 all 16 are made at once and looked up: a
 * compiler makes them once for the vectors of a block. */
CPU_INLINE v_f32 v_line(v_i32 q, v_f32 scale, v_f32 least)
{
#if defined(CPU_AVX512)
    const v_f32 numbers = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return (v_f32)_mm512_permutexvar_ps((__m512i)q, (__m512)v_fma(scale, numbers, least));
#else
    return v_fma(scale, __builtin_convertvector(q, v_f32), least);
#endif
}

/* The same of the numbers in 16 bytes of two nibbles, those of the low ones first. */
CPU_INLINE void v_lines(const unsigned char *at, v_f32 scale, v_f32 least, v_f32 *weight)
{
    _Pragma("GCC unroll 4") for (int j = 0; j < BLOCK_VECTORS / 2; j++)
    {
        const v_i32 w = v_widen_u8(at + j * LANES);
        weight[j] = v_line(v_nibble(w), scale, least);
        weight[j + BLOCK_VECTORS / 2] = v_line(w >> 4, scale, least);
    }
}

/* The entries that 16 bytes of two nibbles name, those of the low ones first. */
CPU_INLINE void v_nibbles(const unsigned char *at, const float *table, v_f32 *weight)
{
    _Pragma("GCC unroll 4") for (int j = 0; j < BLOCK_VECTORS / 2; j++)
    {
        const v_i32 w = v_widen_u8(at + j * LANES);
        weight[j] = v_entries(table, v_nibble(w));
        weight[j + BLOCK_VECTORS / 2] = v_entries(table, w >> 4);
    }
}

/* 16 in each lane whose bit is set, lane i's being bit i. */
CPU_INLINE v_i32 v_fifth(uint32_t bits)
{
    static const v_i32 lanes =
#if CPU_LANES == 16
        {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
#elif CPU_LANES == 8
        {1, 2, 4, 8, 16, 32, 64, 128};
#else
        {1, 2, 4, 8};
#endif
    return ((lanes & (int32_t)bits) != 0) & 16;
}

#define CPU_VECTORS
#include "quants.h"
#undef CPU_VECTORS

#define CPU_LOAD_QUANTISED(NAME, name, weights, bytes) \
    static void load_##name(void *to, const void *from, int64_t n) \
    { \
        float *y = to; \
        const unsigned char *block = from; \
        for (int64_t i = 0; i < n / CPU_PART; i++, y += CPU_PART) { \
            v_f32 weight[BLOCK_VECTORS]; \
            const int part = (int)(i % ((weights) / CPU_PART)); \
            const v_f32 d = block_##name(block, part, weight); \
            for (int j = 0; j < BLOCK_VECTORS; j++) v_store(y + j * LANES, d * weight[j]); \
            if (part == (weights) / CPU_PART - 1) block += bytes; \
        } \
    }
PCO_QUANTISED_DTYPES(CPU_LOAD_QUANTISED)

/* Parts with even and odd number have accumulators of their own. */
#define CPU_DOT_QUANTISED(NAME, name, weights, bytes) \
    CPU_INLINE void dot_##name##_rows(float *y, const float *x, int64_t x_row, const int rows, \
                                      const unsigned char *block, int64_t parts) \
    { \
        v_f32 sum[CPU_DOT_ROWS][2], weight[BLOCK_VECTORS]; \
        _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++) sum[r][0] = sum[r][1] = v_splat(0); \
        for (int64_t i = 0; i < parts; i += 2) _Pragma("GCC unroll 2") for (int odd = 0; odd < 2; odd++) \
            { \
                if (odd && i + 1 >= parts) break; \
                const int part = (int)((i + odd) % ((weights) / CPU_PART)); \
                v_f32 d = block_##name(block, part, weight); \
                _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++) \
                { \
                    const float *at = x + r * x_row + (i + odd) * CPU_PART; \
                    v_f32 products = weight[0] * v_load(at); \
                    _Pragma("GCC unroll 8") for (int j = 1; j < BLOCK_VECTORS; j++) products = \
                        v_fma(weight[j], v_load(at + j * LANES), products); \
                    sum[r][odd] = v_fma(d, products, sum[r][odd]); \
                } \
                if (part == (weights) / CPU_PART - 1) block += bytes; \
            } \
        _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++) y[r] = v_sum(sum[r][0] + sum[r][1]); \
    } \
    static void dot_##name(float *y, const float *x, int64_t x_row, int rows, const void *w, int64_t k) \
    { \
        if (rows == 4) { \
            dot_##name##_rows(y, x, x_row, 4, w, k / CPU_PART); \
            return; \
        } \
        for (int r = 0; r < rows; r++) dot_##name##_rows(y + r, x + r * x_row, 0, 1, w, k / CPU_PART); \
    }
PCO_QUANTISED_DTYPES(CPU_DOT_QUANTISED)
