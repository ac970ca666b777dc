/* The quantised types, each in a file of its own. types.h takes single weights of it, and simd_quants.h, which defines
 * CPU_VECTORS, vectors. For a type NAME it defines
 *   double cpu_NAME_at(block, j)                weight j of a block; exact
 *   float block_NAME(block, part, weight)       (CPU_VECTORS) the BLOCK_VECTORS vectors of part `part` of a block, of
 *                                               CPU_PART weights; returns the factor that they still need, or 1 */
#include "quant_q4_0.h"
#include "quant_q4_1.h"
#include "quant_q6_k.h"
#include "quant_q8_0.h"
