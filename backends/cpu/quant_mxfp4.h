/* MXFP4: an exponent, 16 bytes of two numbers of four bits, sign first: those of the low nibbles come first. */
#ifndef CPU_VECTORS

#define CPU_E2M1 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 /* twice the numbers of that format */

/* 2^(exponent - 128), of which the two least are subnormal. */
static inline float cpu_mxfp4_scale(int exponent)
{
    return cpu_f32_bits(exponent < 2 ? UINT32_C(0x200000) << exponent : (uint32_t)(exponent - 1) << 23);
}

static inline double cpu_mxfp4_at(const unsigned char *block, int j)
{
    static const int8_t levels[16] = {CPU_E2M1};
    return (double)cpu_mxfp4_scale(block[0]) * (double)levels[block[1 + j % 16] >> (j / 16 * 4) & 15];
}

#else

CPU_INLINE v_f32 block_mxfp4(const unsigned char *block, int part, v_f32 *weight)
{
    static const float levels[16] = {CPU_E2M1};
    (void)part;
    v_nibbles(block + 1, levels, weight);
    return v_splat(cpu_mxfp4_scale(block[0]));
}

#endif
