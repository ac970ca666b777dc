/* Changing the rate of a sound (Smith and Gossett 1984, "A flexible sampling-rate conversion method"). */
#ifndef PCO_FORMATS_RESAMPLE_H
#define PCO_FORMATS_RESAMPLE_H

#include "portico/plugin.h"

/* Samples first ... first + count - 1 of the sound, in `samples`; none of them is outside. Non-zero ends the call. */
typedef int (*pco_resample_fn)(void *user, int64_t first, int64_t count, float *samples);

/* How many samples at rate `to` a sound of `count` samples at rate `from` has. */
int64_t pco_resample_count(int64_t count, uint32_t from, uint32_t to);

/* Writes so many samples at rate `to`. Each is the sum of what lies around it, weighted by a sinc that ends at the
 * lower of both rates' Nyquist frequency, under Kaiser's window: what is below 0.9 of that frequency passes (within
 * 1e-4 of full scale), what is above 1.1 of it is gone (90 dB). Returns what `read` returned; -1 without memory. */
int pco_resample(pco_resample_fn read, void *user, int64_t count, uint32_t from, uint32_t to, float *samples);

#endif
