/* Q4_K: 256 weights in groups of 32: two f16, a scale and a minimum of 6 bits for each group, 128 bytes of two numbers:
 * an even group's in low nibbles, the next one's in high ones. */
#ifndef CPU_VECTORS

static inline double cpu_q4_k_at(const unsigned char *block, int j)
{
    const cpu_six_bits six = cpu_six_bits_at(block + 4, j / 32);
    const int q = block[16 + j / 64 * 32 + j % 32] >> (j / 32 % 2 * 4) & 15;
    return (double)cpu_half_at(block) * (double)six.scale * (double)q -
           (double)cpu_half_at(block + 2) * (double)six.minimum;
}

#else

/* All products are exact, so that a weight is rounded once, whatever v_fma is. */
CPU_INLINE v_f32 block_q4_k(const unsigned char *block, int part, v_f32 *weight)
{
    const cpu_six_bits six = cpu_six_bits_at(block + 4, part);
    const v_f32 scale = v_splat(block_half(block) * (float)six.scale),
                least = v_splat(-block_half(block + 2) * (float)six.minimum);
    const unsigned char *at = block + 16 + part / 2 * 32;
    _Pragma("GCC unroll 8") for (int j = 0; j < BLOCK_VECTORS; j++)
    {
        weight[j] = v_line(v_nibble(v_widen_u8(at + j * LANES) >> (part % 2 * 4)), scale, least);
    }
    return v_splat(1);
}

#endif
