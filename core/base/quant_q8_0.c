/* Q8_0: y = d q with d in f16 and q in -127..127; quantised with d = max|x| / 127 and q = round(x / d), halves away
 * from zero. */
#include "base/quant.h"

#include <math.h>

enum { BLOCK = QUANT_Q8_0_BLOCK, BYTES = QUANT_Q8_0_BYTES };

void dtype_widen_q8_0(const void *from, int64_t count, float *out)
{
    const unsigned char *block = from;
    for (int64_t i = 0; i < count; i += BLOCK, block += BYTES) {
        const float scale = quant_half(block);
        for (int j = 0; j < BLOCK; j++) out[i + j] = scale * (float)(int8_t)block[2 + j];
    }
}

void dtype_narrow_q8_0(const float *in, int64_t count, void *out)
{
    unsigned char *block = out;
    for (int64_t i = 0; i < count; i += BLOCK, block += BYTES) {
        float largest = 0;
        for (int j = 0; j < BLOCK; j++) largest = fmaxf(largest, fabsf(in[i + j]));
        const float scale = largest / 127.0f, inverse = quant_inverse(scale);
        quant_put_half(block, scale);
        for (int j = 0; j < BLOCK; j++) block[2 + j] = (unsigned char)(int8_t)roundf(in[i + j] * inverse);
    }
}
