/* Q5_K: as Q4_K, with q in 0..31: d, e, 12 bytes with the s and m, 32 with the fifth bits (bit g of byte l: weight l of
 * group g), 128 with the other four. Quantised by quant_fit_affine. */
#include "base/quant.h"

#include <string.h>

enum {
    BLOCK = QUANT_Q5_K_BLOCK,
    GROUP = 32,
    GROUPS = BLOCK / GROUP,
    SCALES = 4,
    HIGH = 16,
    LEVELS = 48,
    BYTES = QUANT_Q5_K_BYTES
};

void dtype_widen_q5_k(const void *from, int64_t count, float *out)
{
    const unsigned char *block = from;
    for (int64_t i = 0; i < count; i += BLOCK, block += BYTES) {
        const float d = quant_half(block), e = quant_half(block + 2);
        for (int g = 0; g < GROUPS; g++) {
            int s, m;
            quant_six_bits(block + SCALES, g, &s, &m);
            const float scale = d * (float)s, least = e * (float)m;
            const unsigned char *levels = block + LEVELS + g / 2 * GROUP;
            for (int l = 0; l < GROUP; l++) {
                const int q = (levels[l] >> (g % 2 * 4) & 15) | (block[HIGH + l] >> g & 1) << 4;
                out[i + g * GROUP + l] = scale * (float)q - least;
            }
        }
    }
}

void dtype_narrow_q5_k(const float *in, int64_t count, void *out)
{
    static const quant_affine form = {.size = GROUP, .levels = 31, .scale_levels = 63};
    unsigned char *block = out;
    for (int64_t i = 0; i < count; i += BLOCK, block += BYTES) {
        quant_affine_block found;
        quant_fit_affine(&form, in + i, &found);
        memset(block, 0, BYTES);
        quant_put_half(block, found.d);
        quant_put_half(block + 2, found.e);
        for (int g = 0; g < GROUPS; g++) {
            quant_put_six_bits(block + SCALES, g, found.s[g], found.m[g]);
            for (int l = 0; l < GROUP; l++) {
                const int q = found.q[g * GROUP + l];
                block[LEVELS + g / 2 * GROUP + l] |= (unsigned char)((q & 15) << (g % 2 * 4));
                block[HIGH + l] |= (unsigned char)(q >> 4 << g);
            }
        }
    }
}
