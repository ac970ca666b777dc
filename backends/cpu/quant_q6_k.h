/* Q6_K: 256 weights in halves of 128, those in parts of 32: 128 bytes with the low four bits of two weights, 64 with
 * the high two of four, a signed scale for each 16 weights, and an f16 for all. */
#ifndef CPU_VECTORS

static inline double cpu_q6_k_at(const unsigned char *block, int j)
{
    const int half = j / 128, part = j % 128 / 32, l = j % 32;
    const int low = block[64 * half + 32 * (part & 1) + l] >> (part / 2 * 4) & 15;
    const int high = block[128 + 32 * half + l] >> (2 * part) & 3;
    return (double)cpu_half_at(block + 208) * (double)(int8_t)block[192 + j / 16] * (double)((low | high << 4) - 32);
}

#else

/* Exact: 11 bits of the f16, 7 of the scale, 5 of the number. */
CPU_INLINE v_f32 block_q6_k(const unsigned char *block, int part, v_f32 *weight)
{
    const int half = part / 4, g = part % 4;
    const unsigned char *low = block + 64 * half + 32 * (g & 1), *high = block + 128 + 32 * half;
    const float d = block_half(block + 208);
    _Pragma("GCC unroll 8") for (int j = 0; j < BLOCK_VECTORS; j++)
    {
        const v_i32 l = v_widen_u8(low + j * LANES) >> (g / 2 * 4) & 15,
                    h = v_widen_u8(high + j * LANES) >> (2 * g) & 3;
        const float scale = d * (float)(int8_t)block[192 + part * 2 + j * LANES / 16];
        weight[j] = v_splat(scale) * __builtin_convertvector((l | h << 4) - 32, v_f32);
    }
    return v_splat(1);
}

#endif
