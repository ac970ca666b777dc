/* Q6_K: super-blocks of 256 weights in 16 groups: y = d s (q - 32), with d in f16, s in -128..127 for each group and q
 * in 0..63; exact in f32. The bytes: 128 with the low four bits of two q, 64 with the high two bits of four, 16 with
 * the s, then d. Of the 128 weights of half h, weight 32 g + l has its low bits in byte 64 h + 32 (g mod 2) + l (nibble
 * g / 2) and its high ones in byte 32 h + l, from bit 2 g on.
 *
 * Quantised group by group (quant_fit_signed); d makes the largest scale -128. */
#include "base/quant.h"

#include <math.h>
#include <string.h>

enum {
    BLOCK = QUANT_Q6_K_BLOCK,
    GROUP = 16,
    GROUPS = BLOCK / GROUP,
    HIGH = 128,
    SCALES = 192,
    SCALE = 208,
    BYTES = QUANT_Q6_K_BYTES
};

/* Where the bits of weight i are. */
typedef struct quant_position {
    int low, low_shift, high, high_shift;
} quant_position;

static quant_position quant_position_of(int i)
{
    const int half = i / 128, g = i % 128 / 32, l = i % 32;
    return (quant_position){64 * half + 32 * (g % 2) + l, g / 2 * 4, HIGH + 32 * half + l, 2 * g};
}

void dtype_widen_q6_k(const void *from, int64_t count, float *out)
{
    const unsigned char *block = from;
    for (int64_t i = 0; i < count; i += BLOCK, block += BYTES) {
        const float scale = quant_half(block + SCALE);
        for (int j = 0; j < BLOCK; j++) {
            const quant_position at = quant_position_of(j);
            const int q = (block[at.low] >> at.low_shift & 15) | (block[at.high] >> at.high_shift & 3) << 4;
            out[i + j] = scale * (float)(int8_t)block[SCALES + j / GROUP] * (float)(q - 32);
        }
    }
}

static float quant_signed(float x) { return fminf(31, fmaxf(-32, rintf(x))); }

void dtype_narrow_q6_k(const float *in, int64_t count, void *out)
{
    unsigned char *block = out;
    for (int64_t i = 0; i < count; i += BLOCK, block += BYTES) {
        float scales[GROUPS], largest = 0;
        for (int g = 0; g < GROUPS; g++) {
            scales[g] = quant_fit_signed(in + i + g * GROUP, GROUP, -32);
            if (fabsf(scales[g]) > fabsf(largest)) largest = scales[g];
        }
        memset(block, 0, BYTES);
        quant_put_half(block + SCALE, largest / -128);
        const float scale = quant_half(block + SCALE), inverse = quant_inverse(scale);
        for (int g = 0; g < GROUPS; g++)
            block[SCALES + g] = (unsigned char)(int8_t)fminf(127, fmaxf(-128, rintf(scales[g] * inverse)));
        for (int j = 0; j < BLOCK; j++) {
            const float step = scale * (float)(int8_t)block[SCALES + j / GROUP];
            const int q = (int)quant_signed(in[i + j] * quant_inverse(step)) + 32;
            const quant_position at = quant_position_of(j);
            block[at.low] |= (unsigned char)((q & 15) << at.low_shift);
            block[at.high] |= (unsigned char)(q >> 4 << at.high_shift);
        }
    }
}
