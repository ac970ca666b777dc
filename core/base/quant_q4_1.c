/* Q4_1: y = d q + m, q in 0..15 in nibbles as Q4_0 has them, one rounding; quantised with m = min x, d = (max x - m) /
 * 15 and q = min(15, floor((x - m) / d + 1/2)). */
#include "base/quant.h"

#include <math.h>

enum { BLOCK = QUANT_Q4_1_BLOCK, HALF = BLOCK / 2, BYTES = QUANT_Q4_1_BYTES };

void dtype_widen_q4_1(const void *from, int64_t count, float *out)
{
    const unsigned char *block = from;
    for (int64_t i = 0; i < count; i += BLOCK, block += BYTES) {
        const float scale = quant_half(block), least = quant_half(block + 2);
        for (int j = 0; j < HALF; j++) {
            out[i + j] = scale * (float)(block[4 + j] & 15) + least;
            out[i + j + HALF] = scale * (float)(block[4 + j] >> 4) + least;
        }
    }
}

void dtype_narrow_q4_1(const float *in, int64_t count, void *out)
{
    unsigned char *block = out;
    for (int64_t i = 0; i < count; i += BLOCK, block += BYTES) {
        float least = in[i], most = in[i];
        for (int j = 1; j < BLOCK; j++) {
            least = fminf(least, in[i + j]);
            most = fmaxf(most, in[i + j]);
        }
        const float scale = (most - least) / 15.0f, inverse = quant_inverse(scale);
        quant_put_half(block, scale);
        quant_put_half(block + 2, least);
        for (int j = 0; j < HALF; j++)
            block[4 + j] = (unsigned char)(quant_level((in[i + j] - least) * inverse, 15) |
                                           quant_level((in[i + j + HALF] - least) * inverse, 15) << 4);
    }
}
