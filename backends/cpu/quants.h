/* The quantised types, each in a file of its own. types.h takes single weights of it, and simd_quants.h, which defines
 * CPU_VECTORS, vectors. For a type NAME it defines
 *   double cpu_NAME_at(block, j)                weight j of a block; exact
 *   v_f32 block_NAME(block, part, weight)       (CPU_VECTORS) the BLOCK_VECTORS vectors of part `part` of a block, of
 *                                               CPU_PART weights; returns the factor that they still need, or 1,
 *                                               in all lanes */
#ifndef CPU_VECTORS

/* Scale and minimum of a group in the 12 bytes of Q4_K and Q5_K. */
typedef struct cpu_six_bits {
    int scale, minimum;
} cpu_six_bits;

static inline cpu_six_bits cpu_six_bits_at(const unsigned char *at, int group)
{
    if (group < 4) return (cpu_six_bits){at[group] & 63, at[group + 4] & 63};
    return (cpu_six_bits){(at[group + 4] & 15) | at[group - 4] >> 6 << 4, at[group + 4] >> 4 | at[group] >> 6 << 4};
}

#endif
#include "quant_iq4_nl.h"
#include "quant_iq4_xs.h"
#include "quant_mxfp4.h"
#include "quant_q2_k.h"
#include "quant_q3_k.h"
#include "quant_q4_0.h"
#include "quant_q4_1.h"
#include "quant_q4_k.h"
#include "quant_q5_0.h"
#include "quant_q5_1.h"
#include "quant_q5_k.h"
#include "quant_q6_k.h"
#include "quant_q8_0.h"
