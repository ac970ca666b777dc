/* Q3_K: 256 weights in parts of 32: 32 bytes of third bits, one of each part, 64 of two more as in Q2_K, a scale of 6
 * bits, less 32, for each 16 weights, and an f16 for all. Numbers are less 4. */
#ifndef CPU_VECTORS

static inline int cpu_q3_k_scale(const unsigned char *block, int group)
{
    const unsigned char *scales = block + 96;
    return ((scales[group % 8] >> (group / 8 * 4) & 15) | (scales[8 + group % 4] >> (group / 4 * 2) & 3) << 4) - 32;
}

static inline double cpu_q3_k_at(const unsigned char *block, int j)
{
    const int low = block[32 + j / 128 * 32 + j % 32] >> (j % 128 / 32 * 2) & 3, high = block[j % 32] >> (j / 32) & 1;
    return (double)cpu_half_at(block + 108) * (double)cpu_q3_k_scale(block, j / 16) * (double)((low | high << 2) - 4);
}

#else

/* Exact: 11 bits of the f16, 5 of the scale, 2 of the number. */
CPU_INLINE v_f32 block_q3_k(const unsigned char *block, int part, v_f32 *weight)
{
    const float d = block_half(block + 108);
    const unsigned char *low = block + 32 + part / 4 * 32;
    _Pragma("GCC unroll 8") for (int j = 0; j < BLOCK_VECTORS; j++)
    {
        const v_i32 l = v_widen_u8(low + j * LANES) >> (part % 4 * 2) & 3,
                    h = v_widen_u8(block + j * LANES) >> part & 1;
        const float scale = d * (float)cpu_q3_k_scale(block, part * 2 + j * LANES / 16);
        weight[j] = v_splat(scale) * __builtin_convertvector((l | h << 2) - 4, v_f32);
    }
    return v_splat(1);
}

#endif
