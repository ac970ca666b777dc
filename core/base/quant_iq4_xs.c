/* IQ4_XS: super-blocks of 256 weights in 8 groups: y = d (s - 32) v[q], v = QUANT_CURVE, with d in f16, s in 0..63 for
 * each group and q in 0..15; exact in f32. The bytes: d, two with the high two bits of the s, four with their low four
 * bits, then 16 for each group, nibbles as Q4_0 has them. Quantised as Q3_K, with quant_fit_curve. */
#include "base/quant.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
    BLOCK = QUANT_IQ4_XS_BLOCK,
    GROUP = 32,
    GROUPS = BLOCK / GROUP,
    HIGH = 2,
    LOW = 4,
    LEVELS = 8,
    BYTES = QUANT_IQ4_XS_BYTES
};

void dtype_widen_iq4_xs(const void *from, int64_t count, float *out)
{
    const unsigned char *block = from;
    for (int64_t i = 0; i < count; i += BLOCK, block += BYTES) {
        const float d = quant_half(block);
        for (int g = 0; g < GROUPS; g++) {
            const int s = (block[LOW + g / 2] >> (g % 2 * 4) & 15) | (block[HIGH + g / 4] >> (g % 4 * 2) & 3) << 4;
            const float scale = d * (float)(s - 32);
            const unsigned char *levels = block + LEVELS + g * GROUP / 2;
            for (int l = 0; l < GROUP; l++)
                out[i + g * GROUP + l] = scale * (float)QUANT_CURVE[levels[l % 16] >> (l / 16 * 4) & 15];
        }
    }
}

void dtype_narrow_iq4_xs(const float *in, int64_t count, void *out)
{
    unsigned char *block = out;
    for (int64_t i = 0; i < count; i += BLOCK, block += BYTES) {
        float scales[GROUPS];
        for (int g = 0; g < GROUPS; g++) scales[g] = quant_fit_curve(in + i + g * GROUP, GROUP);
        memset(block, 0, BYTES);
        quant_put_half(block, quant_largest(scales, GROUPS) / -32);
        const float d = quant_half(block), inverse = quant_inverse(d);
        for (int g = 0; g < GROUPS; g++) {
            const float *x = in + i + g * GROUP;
            const int nearest = (int)fminf(31, fmaxf(-32, rintf(scales[g] * inverse)));
            int chosen = nearest;
            double best = DBL_MAX;
            for (int s = nearest - 1; s <= nearest + 1; s++) {
                const double error = s < -32 || s > 31 ? DBL_MAX : quant_curve_error(x, GROUP, d * (float)s);
                if (error < best) best = error, chosen = s;
            }
            block[HIGH + g / 4] |= (unsigned char)((chosen + 32) >> 4 << (g % 4 * 2));
            block[LOW + g / 2] |= (unsigned char)(((chosen + 32) & 15) << (g % 2 * 4));
            const float step = quant_inverse(d * (float)chosen);
            unsigned char q[GROUP];
            for (int l = 0; l < GROUP; l++) q[l] = quant_on_curve(x[l] * step);
            quant_put_nibbles(block + LEVELS + g * GROUP / 2, q);
        }
    }
}
