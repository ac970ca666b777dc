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

/* QUANT_Q8_0_BLOCK, QUANT_Q8_0_BYTES ...: weights of a block and its bytes, as the type's row in dtypes.def has them.
 */
#define DTYPE_SIZES(NAME, name, block, bytes) QUANT_##NAME##_BLOCK = block, QUANT_##NAME##_BYTES = bytes,
enum { PCO_QUANTISED_DTYPES(DTYPE_SIZES) };
#undef DTYPE_SIZES

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

/* Element x* of x[n] of largest magnitude, the first of equals. */
float quant_largest(const float *x, int n);

/* ---- the super-blocks of 256 weights, whose groups have a scale of a few bits each ---- */

enum { QUANT_SUPER = 256, QUANT_GROUPS_MOST = 16 };

/* q in least .. most, with least = -most - 1: the scale with which the squared error of y = scale q is least, once it
 * is fitted to the q that it gives; of scales around x* / least. */
float quant_fit_signed(const float *x, int n, int least);

/* What a super-block is made of: groups of `size` weights, q in 0 .. levels, scales and minima in 0 .. scale_levels. */
typedef struct quant_affine {
    int size, levels, scale_levels;
} quant_affine;

/* y = d s q - e m. */
typedef struct quant_affine_block {
    float d, e; /* as f16 has them */
    unsigned char s[QUANT_GROUPS_MOST], m[QUANT_GROUPS_MOST], q[QUANT_SUPER];
} quant_affine_block;

/* Each group gets the line of least squared error, of several first guesses; d and e make the largest scale and minimum
 * scale_levels; then each s and m the best beside what they round to. */
void quant_fit_affine(const quant_affine *form, const float *x, quant_affine_block *block);

/* s and m, of 6 bits, of group g of Q4_K and Q5_K in their 12 bytes. */
void quant_six_bits(const unsigned char *from, int g, int *s, int *m);
void quant_put_six_bits(unsigned char *to, int g, int s, int m);

/* ---- q that stand for the values of a table: IQ4_NL and IQ4_XS ---- */

extern const signed char QUANT_CURVE[16];

/* The entry nearest to x. */
unsigned char quant_on_curve(float x);

/* As quant_fit_signed, for y = scale QUANT_CURVE[q]. */
float quant_fit_curve(const float *x, int n);

/* Sum over x[n] of (x - scale QUANT_CURVE[q])^2, q the best. */
double quant_curve_error(const float *x, int n, float scale);

/* Nibbles of 32 weights as Q4_0 has them. */
void quant_put_nibbles(unsigned char *to, const unsigned char *q);

#endif
