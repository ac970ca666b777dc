/* Q4_0: a scale in f16, 16 bytes of two numbers, less 8: those of the low nibbles come first. */
#ifndef CPU_VECTORS

static inline double cpu_q4_0_at(const unsigned char *block, int j)
{
    const int nibble = j < 16 ? block[2 + j] & 15 : block[2 + j - 16] >> 4;
    return (double)cpu_half_at(block) * (double)(nibble - 8);
}

#else

CPU_INLINE v_f32 block_q4_0(const unsigned char *block, int part, v_f32 *weight)
{
    (void)part;
    v_lines(block + 2, v_splat(1), v_splat(-8), weight);
    return v_half(block);
}

#endif
