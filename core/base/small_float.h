/* Floats of 8 and 4 bits, one number at a time. Pure; any thread. */
#ifndef PCO_BASE_SMALL_FLOAT_H
#define PCO_BASE_SMALL_FLOAT_H

#include <stdint.h>

typedef struct pco_small_float {
    int bits, mantissa, bias;
    int unsigned_zero; /* 1: there is no -0, and its code is NaN; no infinity */
    int largest;       /* code of the largest finite number */
} pco_small_float;

/* E4M3FN has no infinity and one NaN, E5M2 is the upper half of an F16 (OCP 8-bit Floating Point Specification;
 * Micikevicius et al. 2022, arXiv 2209.05433); FNUZ: Noune et al. 2022, arXiv 2206.02915; E2M1: OCP Microscaling
 * Formats. All values are exact in f32, and those of E4M3FN and E5M2 in F16. */
extern const pco_small_float PCO_E4M3FN, PCO_E4M3FNUZ, PCO_E5M2, PCO_E5M2FNUZ, PCO_E2M1;

/* The number that a code of `bits` bits stands for. */
double pco_small_float_value(const pco_small_float *type, unsigned code);
/* To nearest, ties to even; what is beyond the largest number becomes that. */
uint8_t pco_small_float_code(const pco_small_float *type, double value);

#endif
