/* IQ4_NL: y = d v[q], v = QUANT_CURVE, q in 0..15 in nibbles as Q4_0 has them; exact in f32. Quantised with the scale
 * of least squared error, of several first guesses (quant_fit_curve). */
#include "base/quant.h"

enum { BLOCK = QUANT_IQ4_NL_BLOCK, HALF = BLOCK / 2, BYTES = QUANT_IQ4_NL_BYTES };

void dtype_widen_iq4_nl(const void *from, int64_t count, float *out)
{
    const unsigned char *block = from;
    for (int64_t i = 0; i < count; i += BLOCK, block += BYTES) {
        const float scale = quant_half(block);
        for (int j = 0; j < HALF; j++) {
            out[i + j] = scale * (float)QUANT_CURVE[block[2 + j] & 15];
            out[i + j + HALF] = scale * (float)QUANT_CURVE[block[2 + j] >> 4];
        }
    }
}

void dtype_narrow_iq4_nl(const float *in, int64_t count, void *out)
{
    unsigned char *block = out;
    for (int64_t i = 0; i < count; i += BLOCK, block += BYTES) {
        quant_put_half(block, quant_fit_curve(in + i, BLOCK));
        const float inverse = quant_inverse(quant_half(block));
        unsigned char q[BLOCK];
        for (int j = 0; j < BLOCK; j++) q[j] = quant_on_curve(in[i + j] * inverse);
        quant_put_nibbles(block + 2, q);
    }
}
