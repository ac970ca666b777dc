/* Q2_K: 256 weights in halves of 128, those in parts of 32: a byte for each 16 weights, whose nibbles are scale and
 * minimum, 64 bytes of four numbers, one of each part of a half, and two f16. */
#ifndef CPU_VECTORS

static inline double cpu_q2_k_at(const unsigned char *block, int j)
{
    const int q = block[16 + j / 128 * 32 + j % 32] >> (j % 128 / 32 * 2) & 3, both = block[j / 16];
    return (double)cpu_half_at(block + 80) * (double)(both & 15) * (double)q -
           (double)cpu_half_at(block + 82) * (double)(both >> 4);
}

#else

CPU_INLINE v_f32 block_q2_k(const unsigned char *block, int part, v_f32 *weight)
{
    const float d = block_half(block + 80), e = block_half(block + 82);
    const unsigned char *at = block + 16 + part / 4 * 32;
    _Pragma("GCC unroll 8") for (int j = 0; j < BLOCK_VECTORS; j++)
    {
        const int both = block[part * 2 + j * LANES / 16];
        const v_i32 q = v_widen_u8(at + j * LANES) >> (part % 4 * 2) & 3;
        weight[j] =
            v_fma(v_splat(d * (float)(both & 15)), __builtin_convertvector(q, v_f32), v_splat(-e * (float)(both >> 4)));
    }
    return v_splat(1);
}

#endif
