/* Picks the kernels of the best instruction set that this processor has. */
#include "kernels.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

/* __builtin_cpu_supports knows f16c in few compilers. */
static int cpu_has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
}
#endif

const cpu_kernels *cpu_kernels_choose(const char *wanted)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    int generic = wanted && strcmp(wanted, "generic") == 0;
    int no_avx512 = wanted && strcmp(wanted, "avx512") != 0;
    int avx2 = !generic && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && cpu_has_f16c();
    if (avx2 && !no_avx512 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
        return &cpu_kernels_avx512;
    if (avx2) return &cpu_kernels_avx2;
#else
    (void)wanted;
#endif
    return &cpu_kernels_generic;
}
