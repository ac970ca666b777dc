/* Q4_0: y = d (q - 8), q in 0..15, element i of a block in the low nibble of byte i, i + 16 in the high one; quantised
 * with d = x* / -8, x* the element of largest magnitude (the first of equals), and q = min(15, floor(x / d + 8.5)). */
#include "base/quant.h"

#include <math.h>

enum { BLOCK = QUANT_Q4_0_BLOCK, HALF = BLOCK / 2, BYTES = QUANT_Q4_0_BYTES };

void dtype_widen_q4_0(const void *from, int64_t count, float *out)
{
    const unsigned char *block = from;
    for (int64_t i = 0; i < count; i += BLOCK, block += BYTES) {
        const float scale = quant_half(block);
        for (int j = 0; j < HALF; j++) {
            out[i + j] = scale * (float)((block[2 + j] & 15) - 8);
            out[i + j + HALF] = scale * (float)((block[2 + j] >> 4) - 8);
        }
    }
}

static unsigned char quant_q4_0(float scaled)
{
    const float q = floorf(scaled + 8.5f);
    return (unsigned char)(q < 0 ? 0 : q > 15 ? 15 : q);
}

void dtype_narrow_q4_0(const float *in, int64_t count, void *out)
{
    unsigned char *block = out;
    for (int64_t i = 0; i < count; i += BLOCK, block += BYTES) {
        float largest = 0;
        for (int j = 0; j < BLOCK; j++)
            if (fabsf(in[i + j]) > fabsf(largest)) largest = in[i + j];
        const float scale = largest / -8.0f, inverse = quant_inverse(scale);
        quant_put_half(block, scale);
        for (int j = 0; j < HALF; j++)
            block[2 + j] =
                (unsigned char)(quant_q4_0(in[i + j] * inverse) | quant_q4_0(in[i + j + HALF] * inverse) << 4);
    }
}
