/* Q4_0: a scale in f16, 16 bytes of two numbers, less 8: those of the low nibbles come first. */
#ifndef CPU_VECTORS

static inline double cpu_q4_0_at(const unsigned char *block, int j)
{
    const int nibble = j < 16 ? block[2 + j] & 15 : block[2 + j - 16] >> 4;
    return (double)cpu_half_at(block) * (double)(nibble - 8);
}

#else

CPU_INLINE float block_q4_0(const unsigned char *block, int part, v_f32 *weight)
{
    (void)part;
    _Pragma("GCC unroll 4") for (int j = 0; j < BLOCK_VECTORS / 2; j++)
    {
        const v_i32 w = v_widen_u8(block + 2 + j * LANES);
        weight[j] = __builtin_convertvector((w & 15) - 8, v_f32);
        weight[j + BLOCK_VECTORS / 2] = __builtin_convertvector((w >> 4) - 8, v_f32);
    }
    return block_half(block);
}

#endif
