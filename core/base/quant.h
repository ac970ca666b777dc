/* Inside base/: the quantised types, each in a file of its own. Rows of whole blocks as GGUF defines them, which need
 * not be aligned; dtype.c checks counts, and that what is quantised is finite. */
#ifndef PCO_BASE_QUANT_H
#define PCO_BASE_QUANT_H

#include "base/dtype.h"

#define DTYPE_QUANTISED(NAME, name, block, bytes) \
    void dtype_widen_##name(const void *from, int64_t count, float *out); \
    void dtype_narrow_##name(const float *in, int64_t count, void *out);
PCO_QUANTISED_DTYPES(DTYPE_QUANTISED)
#undef DTYPE_QUANTISED

/* An f16 in a block. */
static inline float quant_half(const unsigned char *at) { return pco_f16_to_f32((uint16_t)(at[0] | at[1] << 8)); }

static inline void quant_put_half(unsigned char *at, float value)
{
    const uint16_t bits = pco_f16_from_f32(value);
    at[0] = (unsigned char)bits;
    at[1] = (unsigned char)(bits >> 8);
}

/* 1 / scale, or 0 for a scale so small that its f16 is zero anyway. */
float quant_inverse(float scale);

/* The number with fraction 1/2 above a whole one belongs to the next: floor(x + 1/2), within 0 .. most. */
unsigned char quant_level(float x, int most);

#endif
