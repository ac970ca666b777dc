/* Q5_1: y = d q + m, q in 0..31, one rounding: d, m, then as Q5_0; quantised with m = min x, d = (max x - m) / 31 and q
 * = min(31, floor((x - m) / d + 1/2)). */
#include "base/quant.h"

#include <math.h>

enum { BLOCK = QUANT_Q5_1_BLOCK, HIGH = 4, LEVELS = 8, BYTES = QUANT_Q5_1_BYTES };

void dtype_widen_q5_1(const void *from, int64_t count, float *out)
{
    const unsigned char *block = from;
    for (int64_t i = 0; i < count; i += BLOCK, block += BYTES) {
        const float scale = quant_half(block), least = quant_half(block + 2);
        for (int j = 0; j < BLOCK; j++) {
            const int low = block[LEVELS + j % 16] >> (j / 16 * 4) & 15, high = block[HIGH + j / 8] >> (j % 8) & 1;
            out[i + j] = scale * (float)(low | high << 4) + least;
        }
    }
}

void dtype_narrow_q5_1(const float *in, int64_t count, void *out)
{
    unsigned char *block = out;
    for (int64_t i = 0; i < count; i += BLOCK, block += BYTES) {
        float least = in[i], most = in[i];
        for (int j = 1; j < BLOCK; j++) {
            least = fminf(least, in[i + j]);
            most = fmaxf(most, in[i + j]);
        }
        const float scale = (most - least) / 31.0f, inverse = quant_inverse(scale);
        unsigned char low[BLOCK];
        quant_put_half(block, scale);
        quant_put_half(block + 2, least);
        for (int j = 0; j < 4; j++) block[HIGH + j] = 0;
        for (int j = 0; j < BLOCK; j++) {
            const unsigned char q = quant_level((in[i + j] - least) * inverse, 31);
            low[j] = q & 15;
            block[HIGH + j / 8] |= (unsigned char)(q >> 4 << (j % 8));
        }
        quant_put_nibbles(block + LEVELS, low);
    }
}
