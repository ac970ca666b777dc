/* MXFP4: y = 2^(e - 128) v[q], e in 0..255, q in 0..15 in nibbles as Q4_0 has them: twice the numbers of E2M1, of half
 * the scale that the format's specification gives them (OCP Microscaling Formats 1.0, section 5), so that v is whole.
 * Exact in f32, up to overflow. Quantised with the best of the three e around that of the largest element. */
#include "base/quant.h"

#include <float.h>
#include <math.h>

enum { BLOCK = QUANT_MXFP4_BLOCK, HALF = BLOCK / 2, BYTES = QUANT_MXFP4_BYTES };

static const signed char LEVELS[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

void dtype_widen_mxfp4(const void *from, int64_t count, float *out)
{
    const unsigned char *block = from;
    for (int64_t i = 0; i < count; i += BLOCK, block += BYTES) {
        const float scale = ldexpf(1, block[0] - 128);
        for (int j = 0; j < HALF; j++) {
            out[i + j] = scale * (float)LEVELS[block[1 + j] & 15];
            out[i + j + HALF] = scale * (float)LEVELS[block[1 + j] >> 4];
        }
    }
}

/* The nearest; of two equally near, the smaller. */
static unsigned char quant_mxfp4(double x)
{
    const double size = fabs(x);
    int q = 0;
    while (q < 7 && size - LEVELS[q] > LEVELS[q + 1] - size) q++;
    return (unsigned char)(q && x < 0 ? q + 8 : q);
}

static double quant_mxfp4_error(const float *x, int e)
{
    double sum = 0;
    for (int j = 0; j < BLOCK; j++) {
        const double scaled = ldexp((double)x[j], 128 - e), off = LEVELS[quant_mxfp4(scaled)] - scaled;
        sum += off * off;
    }
    return ldexp(sum, 2 * (e - 128));
}

void dtype_narrow_mxfp4(const float *in, int64_t count, void *out)
{
    unsigned char *block = out;
    for (int64_t i = 0; i < count; i += BLOCK, block += BYTES) {
        const float largest = fabsf(quant_largest(in + i, BLOCK));
        const int about = largest > 0 ? ilogbf(largest) + 125 : 0; /* 12 is the level of 1.5 2^3 */
        double best = DBL_MAX;
        int e = 0;
        for (int one = about - 1; one <= about + 1; one++) {
            const double error = one < 0 || one > 254 ? DBL_MAX : quant_mxfp4_error(in + i, one);
            if (error < best) best = error, e = one;
        }
        unsigned char q[BLOCK];
        for (int j = 0; j < BLOCK; j++) q[j] = quant_mxfp4(ldexp((double)in[i + j], 128 - e));
        block[0] = (unsigned char)e;
        quant_put_nibbles(block + 1, q);
    }
}
