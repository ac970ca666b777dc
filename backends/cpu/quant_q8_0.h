/* Q8_0: a scale in f16, 32 signed bytes. */
#ifndef CPU_VECTORS

static inline double cpu_q8_0_at(const unsigned char *block, int j)
{
    return (double)cpu_half_at(block) * (double)(int8_t)block[2 + j];
}

#else

CPU_INLINE v_f32 block_q8_0(const unsigned char *block, int part, v_f32 *weight)
{
    (void)part;
    _Pragma("GCC unroll 8") for (int j = 0; j < BLOCK_VECTORS; j++) weight[j] = v_load_i8(block + 2 + j * LANES);
    return v_half(block);
}

#endif
