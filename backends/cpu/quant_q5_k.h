/* Q5_K: as Q4_K, with 32 bytes of fifth bits before the others, bit g of each for group g. */
#ifndef CPU_VECTORS

static inline double cpu_q5_k_at(const unsigned char *block, int j)
{
    const cpu_six_bits six = cpu_six_bits_at(block + 4, j / 32);
    const int q = (block[48 + j / 64 * 32 + j % 32] >> (j / 32 % 2 * 4) & 15) | (block[16 + j % 32] >> (j / 32) & 1)
                                                                                    << 4;
    return (double)cpu_half_at(block) * (double)six.scale * (double)q -
           (double)cpu_half_at(block + 2) * (double)six.minimum;
}

#else

CPU_INLINE v_f32 block_q5_k(const unsigned char *block, int part, v_f32 *weight)
{
    const cpu_six_bits six = cpu_six_bits_at(block + 4, part);
    const v_f32 scale = v_splat(block_half(block) * (float)six.scale),
                least = v_splat(-block_half(block + 2) * (float)six.minimum);
    const unsigned char *low = block + 48 + part / 2 * 32, *high = block + 16;
    _Pragma("GCC unroll 8") for (int j = 0; j < BLOCK_VECTORS; j++)
    {
        const v_i32 l = v_widen_u8(low + j * LANES) >> (part % 2 * 4) & 15,
                    h = v_widen_u8(high + j * LANES) >> part & 1;
        weight[j] = v_fma(scale, __builtin_convertvector(l | h << 4, v_f32), least);
    }
    return v_splat(1);
}

#endif
