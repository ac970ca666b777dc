// The dialect's part for rows that need MIXED_FLOAT_DOT: sum + the products of the halves of two words. With DOT2_AMD,
// which comes from the plugin, the GPU is one of AMD's that have an instruction for it. Processors multiply without.
#ifdef DOT2_AMD
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define DOT2(a, b, sum) __builtin_amdgcn_fdot2(as_half2(a), as_half2(b), sum, false)
#else
FUNCTION float pco_dot_halves(uint a, uint b, float sum)
{
    return HALF_HI(a) * HALF_HI(b) + (HALF_LO(a) * HALF_LO(b) + sum);
}
#define DOT2(a, b, sum) pco_dot_halves(a, b, sum)
#endif
