/* Q4_1: a scale and a least value in f16, 16 bytes of two numbers: those of the low nibbles come first. */
#ifndef CPU_VECTORS

static inline double cpu_q4_1_at(const unsigned char *block, int j)
{
    const int nibble = j < 16 ? block[4 + j] & 15 : block[4 + j - 16] >> 4;
    return (double)cpu_half_at(block) * (double)nibble + (double)cpu_half_at(block + 2);
}

#else

/* The product is exact, so that a weight is rounded once, whatever v_fma is. */
CPU_INLINE v_f32 block_q4_1(const unsigned char *block, int part, v_f32 *weight)
{
    (void)part;
    v_lines(block + 4, v_half(block), v_half(block + 2), weight);
    return v_splat(1);
}

#endif
