/* Q2_K: super-blocks of 256 weights in 16 groups: y = d s q - e m, with d and e in f16, s and m in 0..15 for each group
 * and q in 0..3; one rounding. The bytes: 16 with s in the low nibble and m in the high one, 64 with the q (weight 128
 * h
 * + 32 g + l from bit 2 g of byte 32 h + l on), d, e. Quantised by quant_fit_affine. */
#include "base/quant.h"

#include <string.h>

enum {
    BLOCK = QUANT_Q2_K_BLOCK,
    GROUP = 16,
    GROUPS = BLOCK / GROUP,
    LEVELS = 16,
    SCALE = 80,
    BYTES = QUANT_Q2_K_BYTES
};

void dtype_widen_q2_k(const void *from, int64_t count, float *out)
{
    const unsigned char *block = from;
    for (int64_t i = 0; i < count; i += BLOCK, block += BYTES) {
        const float d = quant_half(block + SCALE), e = quant_half(block + SCALE + 2);
        for (int j = 0; j < BLOCK; j++) {
            const int both = block[j / GROUP], q = block[LEVELS + j / 128 * 32 + j % 32] >> (j % 128 / 32 * 2) & 3;
            const float scale = d * (float)(both & 15), least = e * (float)(both >> 4);
            out[i + j] = scale * (float)q - least;
        }
    }
}

void dtype_narrow_q2_k(const float *in, int64_t count, void *out)
{
    static const quant_affine form = {.size = GROUP, .levels = 3, .scale_levels = 15};
    unsigned char *block = out;
    for (int64_t i = 0; i < count; i += BLOCK, block += BYTES) {
        quant_affine_block found;
        quant_fit_affine(&form, in + i, &found);
        memset(block, 0, BYTES);
        quant_put_half(block + SCALE, found.d);
        quant_put_half(block + SCALE + 2, found.e);
        for (int g = 0; g < GROUPS; g++) block[g] = (unsigned char)(found.s[g] | found.m[g] << 4);
        for (int j = 0; j < BLOCK; j++)
            block[LEVELS + j / 128 * 32 + j % 32] |= (unsigned char)(found.q[j] << (j % 128 / 32 * 2));
    }
}
