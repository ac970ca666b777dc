/* Q5_1: a scale and a least value in f16, then as Q5_0. */
#ifndef CPU_VECTORS

static inline double cpu_q5_1_at(const unsigned char *block, int j)
{
    const int q = (block[8 + j % 16] >> (j / 16 * 4) & 15) | (block[4 + j / 8] >> (j % 8) & 1) << 4;
    return (double)cpu_half_at(block) * (double)q + (double)cpu_half_at(block + 2);
}

#else

CPU_INLINE v_f32 block_q5_1(const unsigned char *block, int part, v_f32 *weight)
{
    (void)part;
    const uint32_t high = (uint32_t)cpu_u16_at(block + 4) | (uint32_t)cpu_u16_at(block + 6) << 16;
    const v_f32 scale = v_half(block), least = v_half(block + 2);
    _Pragma("GCC unroll 4") for (int j = 0; j < BLOCK_VECTORS / 2; j++)
    {
        const v_i32 w = v_widen_u8(block + 8 + j * LANES);
        const v_i32 l = (w & 15) | v_fifth(high >> (j * LANES)), h = (w >> 4) | v_fifth(high >> (16 + j * LANES));
        weight[j] = v_fma(scale, __builtin_convertvector(l, v_f32), least);
        weight[j + BLOCK_VECTORS / 2] = v_fma(scale, __builtin_convertvector(h, v_f32), least);
    }
    return v_splat(1);
}

#endif
