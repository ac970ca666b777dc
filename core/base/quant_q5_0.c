/* Q5_0: y = d (q - 16), q in 0..31: d, a word whose bit i is the fifth bit of element i, and the other four bits as
 * Q4_0 has them; quantised with d = x* / -16, x* the element of largest magnitude (the first of equals), and q =
 * min(31, floor(x / d + 16.5)). */
#include "base/quant.h"

#include <math.h>

enum { BLOCK = QUANT_Q5_0_BLOCK, HIGH = 2, LEVELS = 6, BYTES = QUANT_Q5_0_BYTES };

void dtype_widen_q5_0(const void *from, int64_t count, float *out)
{
    const unsigned char *block = from;
    for (int64_t i = 0; i < count; i += BLOCK, block += BYTES) {
        const float scale = quant_half(block);
        for (int j = 0; j < BLOCK; j++) {
            const int low = block[LEVELS + j % 16] >> (j / 16 * 4) & 15, high = block[HIGH + j / 8] >> (j % 8) & 1;
            out[i + j] = scale * (float)((low | high << 4) - 16);
        }
    }
}

static unsigned char quant_q5_0(float scaled)
{
    const float q = floorf(scaled + 16.5f);
    return (unsigned char)(q < 0 ? 0 : q > 31 ? 31 : q);
}

void dtype_narrow_q5_0(const float *in, int64_t count, void *out)
{
    unsigned char *block = out;
    for (int64_t i = 0; i < count; i += BLOCK, block += BYTES) {
        const float scale = quant_largest(in + i, BLOCK) / -16.0f, inverse = quant_inverse(scale);
        unsigned char low[BLOCK];
        quant_put_half(block, scale);
        for (int j = 0; j < 4; j++) block[HIGH + j] = 0;
        for (int j = 0; j < BLOCK; j++) {
            const unsigned char q = quant_q5_0(in[i + j] * inverse);
            low[j] = q & 15;
            block[HIGH + j / 8] |= (unsigned char)(q >> 4 << (j % 8));
        }
        quant_put_nibbles(block + LEVELS, low);
    }
}
