/* IQ4_NL: a scale in f16, 16 bytes of two places in a table: those of the low nibbles come first. */
#ifndef CPU_VECTORS

#define CPU_CURVE -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113

static inline double cpu_iq4_nl_at(const unsigned char *block, int j)
{
    static const int8_t curve[16] = {CPU_CURVE};
    return (double)cpu_half_at(block) * (double)curve[block[2 + j % 16] >> (j / 16 * 4) & 15];
}

#else

static const float block_curve[16] = {CPU_CURVE};

CPU_INLINE v_f32 block_iq4_nl(const unsigned char *block, int part, v_f32 *weight)
{
    (void)part;
    v_nibbles(block + 2, block_curve, weight);
    return v_half(block);
}

#endif
