/* Q4_1: a scale and a least value in f16, 16 bytes of two numbers: those of the low nibbles come first. */
#ifndef CPU_VECTORS

static inline double cpu_q4_1_at(const unsigned char *block, int j)
{
    const int nibble = j < 16 ? block[4 + j] & 15 : block[4 + j - 16] >> 4;
    return (double)cpu_half_at(block) * (double)nibble + (double)cpu_half_at(block + 2);
}

#else

/* The product is exact, so that a weight is rounded once, whatever v_fma is. */
CPU_INLINE float block_q4_1(const unsigned char *block, int part, v_f32 *weight)
{
    (void)part;
    const v_f32 scale = v_splat(block_half(block)), least = v_splat(block_half(block + 2));
    _Pragma("GCC unroll 4") for (int j = 0; j < BLOCK_VECTORS / 2; j++)
    {
        const v_i32 w = v_widen_u8(block + 4 + j * LANES);
        weight[j] = v_fma(scale, __builtin_convertvector(w & 15, v_f32), least);
        weight[j + BLOCK_VECTORS / 2] = v_fma(scale, __builtin_convertvector(w >> 4, v_f32), least);
    }
    return 1;
}

#endif
