/* Q5_0: a scale in f16, a word with the fifth bits, 16 bytes of two numbers, less 16: those of the low nibbles come
 * first. */
#ifndef CPU_VECTORS

static inline double cpu_q5_0_at(const unsigned char *block, int j)
{
    const int q = (block[6 + j % 16] >> (j / 16 * 4) & 15) | (block[2 + j / 8] >> (j % 8) & 1) << 4;
    return (double)cpu_half_at(block) * (double)(q - 16);
}

#else

CPU_INLINE v_f32 block_q5_0(const unsigned char *block, int part, v_f32 *weight)
{
    (void)part;
    const uint32_t high = (uint32_t)cpu_u16_at(block + 2) | (uint32_t)cpu_u16_at(block + 4) << 16;
    _Pragma("GCC unroll 4") for (int j = 0; j < BLOCK_VECTORS / 2; j++)
    {
        const v_i32 w = v_widen_u8(block + 6 + j * LANES);
        weight[j] = __builtin_convertvector(((w & 15) | v_fifth(high >> (j * LANES))) - 16, v_f32);
        weight[j + BLOCK_VECTORS / 2] =
            __builtin_convertvector(((w >> 4) | v_fifth(high >> (16 + j * LANES))) - 16, v_f32);
    }
    return v_half(block);
}

#endif
