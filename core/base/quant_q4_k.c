/* Q4_K: super-blocks of 256 weights in 8 groups of 32: y = d s q - e m, with d and e in f16, s and m in 0..63 for each
 * group and q in 0..15; one rounding. The bytes: d, e, 12 with the s and m (quant_six_bits), 128 with the q: byte
 * 32 (g / 2) + l has weight l of group g in nibble g mod 2. Quantised by quant_fit_affine. */
#include "base/quant.h"

#include <string.h>

enum {
    BLOCK = QUANT_Q4_K_BLOCK,
    GROUP = 32,
    GROUPS = BLOCK / GROUP,
    SCALES = 4,
    LEVELS = 16,
    BYTES = QUANT_Q4_K_BYTES
};

void dtype_widen_q4_k(const void *from, int64_t count, float *out)
{
    const unsigned char *block = from;
    for (int64_t i = 0; i < count; i += BLOCK, block += BYTES) {
        const float d = quant_half(block), e = quant_half(block + 2);
        for (int g = 0; g < GROUPS; g++) {
            int s, m;
            quant_six_bits(block + SCALES, g, &s, &m);
            const float scale = d * (float)s, least = e * (float)m;
            const unsigned char *levels = block + LEVELS + g / 2 * GROUP;
            for (int l = 0; l < GROUP; l++)
                out[i + g * GROUP + l] = scale * (float)(levels[l] >> (g % 2 * 4) & 15) - least;
        }
    }
}

void dtype_narrow_q4_k(const float *in, int64_t count, void *out)
{
    static const quant_affine form = {.size = GROUP, .levels = 15, .scale_levels = 63};
    unsigned char *block = out;
    for (int64_t i = 0; i < count; i += BLOCK, block += BYTES) {
        quant_affine_block found;
        quant_fit_affine(&form, in + i, &found);
        memset(block, 0, BYTES);
        quant_put_half(block, found.d);
        quant_put_half(block + 2, found.e);
        for (int g = 0; g < GROUPS; g++) {
            quant_put_six_bits(block + SCALES, g, found.s[g], found.m[g]);
            for (int l = 0; l < GROUP; l++)
                block[LEVELS + g / 2 * GROUP + l] |= (unsigned char)(found.q[g * GROUP + l] << (g % 2 * 4));
        }
    }
}
