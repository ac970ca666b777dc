/* IQ4_XS: 256 weights in groups of 32: an f16, a scale of 6 bits, less 32, for each group, and for each 16 bytes as in
 * IQ4_NL. */
#ifndef CPU_VECTORS

static inline int cpu_iq4_xs_scale(const unsigned char *block, int group)
{
    return ((block[4 + group / 2] >> (group % 2 * 4) & 15) | (cpu_u16_at(block + 2) >> (group * 2) & 3) << 4) - 32;
}

static inline double cpu_iq4_xs_at(const unsigned char *block, int j)
{
    static const int8_t curve[16] = {CPU_CURVE};
    const int q = block[8 + j / 32 * 16 + j % 16] >> (j % 32 / 16 * 4) & 15;
    return (double)cpu_half_at(block) * (double)cpu_iq4_xs_scale(block, j / 32) * (double)curve[q];
}

#else

/* The factor is exact, and so are the weights: 11 bits of the f16, 5 of the scale, 7 of the table. */
CPU_INLINE v_f32 block_iq4_xs(const unsigned char *block, int part, v_f32 *weight)
{
    v_nibbles(block + 8 + part * 16, block_curve, weight);
    return v_splat(block_half(block) * (float)cpu_iq4_xs_scale(block, part));
}

#endif
