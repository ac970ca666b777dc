/* Q3_K: super-blocks of 256 weights in 16 groups: y = d (s - 32) (q - 4), with d in f16, s in 0..63 for each group and
 * q in 0..7; exact in f32. The bytes: 32 with the third bits, 64 with the low two, 12 with the s, then d. Weight 128 h
 * + 32 g + l has its third bit in bit 4 h + g of byte l and the low ones where Q2_K has them.
 *
 * Quantised group by group (quant_fit_signed); d makes the largest scale -32, and each s is the best beside what its
 * scale rounds to. */
#include "base/quant.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
    BLOCK = QUANT_Q3_K_BLOCK,
    GROUP = 16,
    GROUPS = BLOCK / GROUP,
    LEVELS = 32,
    SCALES = 96,
    SCALE = 108,
    BYTES = QUANT_Q3_K_BYTES
};

static int quant_q3_k_scale(const unsigned char *block, int g)
{
    const unsigned char *scales = block + SCALES;
    return ((scales[g % 8] >> (g / 8 * 4) & 15) | (scales[8 + g % 4] >> (g / 4 * 2) & 3) << 4) - 32;
}

void dtype_widen_q3_k(const void *from, int64_t count, float *out)
{
    const unsigned char *block = from;
    for (int64_t i = 0; i < count; i += BLOCK, block += BYTES) {
        const float d = quant_half(block + SCALE);
        for (int j = 0; j < BLOCK; j++) {
            const int low = block[LEVELS + j / 128 * 32 + j % 32] >> (j % 128 / 32 * 2) & 3;
            const int high = block[j % 32] >> (j / 32) & 1;
            out[i + j] = d * (float)quant_q3_k_scale(block, j / GROUP) * (float)((low | high << 2) - 4);
        }
    }
}

/* The numbers of a group with that scale; returns their squared error. */
static double quant_q3_k_group(const float *x, float scale, unsigned char *q)
{
    const float inverse = quant_inverse(scale);
    double sum = 0;
    for (int j = 0; j < GROUP; j++) {
        q[j] = quant_level(x[j] * inverse + 4, 7);
        const double off = (double)scale * (q[j] - 4) - (double)x[j];
        sum += off * off;
    }
    return sum;
}

static void quant_q3_k_put(unsigned char *block, int g, int scale, const unsigned char *q)
{
    const int s = scale + 32;
    block[SCALES + g % 8] |= (unsigned char)((s & 15) << (g / 8 * 4));
    block[SCALES + 8 + g % 4] |= (unsigned char)(s >> 4 << (g / 4 * 2));
    for (int l = 0; l < GROUP; l++) {
        const int j = g * GROUP + l;
        block[LEVELS + j / 128 * 32 + j % 32] |= (unsigned char)((q[l] & 3) << (j % 128 / 32 * 2));
        block[j % 32] |= (unsigned char)(q[l] >> 2 << (j / 32));
    }
}

void dtype_narrow_q3_k(const float *in, int64_t count, void *out)
{
    unsigned char *block = out;
    for (int64_t i = 0; i < count; i += BLOCK, block += BYTES) {
        float scales[GROUPS];
        for (int g = 0; g < GROUPS; g++) scales[g] = quant_fit_signed(in + i + g * GROUP, GROUP, -4);
        memset(block, 0, BYTES);
        quant_put_half(block + SCALE, quant_largest(scales, GROUPS) / -32);
        const float d = quant_half(block + SCALE), inverse = quant_inverse(d);
        for (int g = 0; g < GROUPS; g++) {
            const int nearest = (int)fminf(31, fmaxf(-32, rintf(scales[g] * inverse)));
            unsigned char q[GROUP];
            double best = DBL_MAX;
            int chosen = nearest;
            for (int s = nearest - 1; s <= nearest + 1; s++) {
                if (s < -32 || s > 31) continue;
                const double error = quant_q3_k_group(in + i + g * GROUP, d * (float)s, q);
                if (error < best) best = error, chosen = s;
            }
            (void)quant_q3_k_group(in + i + g * GROUP, d * (float)chosen, q);
            quant_q3_k_put(block, g, chosen, q);
        }
    }
}
