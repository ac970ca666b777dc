/* OpenBLAS, found at run time, with the kernels that suit the processor.
 *
 * A version that is older than the processor does not know it, and may take kernels of twenty years ago. Which it takes
 * is decided when it is opened, by the variable OPENBLAS_CORETYPE if there is one. */
#include "cli/bench.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Widths of vectors, in generations. */
enum { BLAS_UNKNOWN, BLAS_SSE, BLAS_AVX, BLAS_AVX2, BLAS_AVX512 };

/* Of OpenBLAS's names (driver/others/dynamic.c). */
static int blas_generation(const char *core)
{
    static const struct {
        const char *name;
        int generation;
    } CORES[] = {{"Katmai", BLAS_SSE},        {"Coppermine", BLAS_SSE},
                 {"Northwood", BLAS_SSE},     {"Prescott", BLAS_SSE},
                 {"Banias", BLAS_SSE},        {"Atom", BLAS_SSE},
                 {"Core2", BLAS_SSE},         {"Penryn", BLAS_SSE},
                 {"Dunnington", BLAS_SSE},    {"Nehalem", BLAS_SSE},
                 {"Athlon", BLAS_SSE},        {"Opteron", BLAS_SSE},
                 {"Opteron_SSE3", BLAS_SSE},  {"Barcelona", BLAS_SSE},
                 {"Nano", BLAS_SSE},          {"Bobcat", BLAS_SSE},
                 {"Sandybridge", BLAS_AVX},   {"Bulldozer", BLAS_AVX},
                 {"Piledriver", BLAS_AVX},    {"Steamroller", BLAS_AVX},
                 {"Excavator", BLAS_AVX2},    {"Haswell", BLAS_AVX2},
                 {"Zen", BLAS_AVX2},          {"SkylakeX", BLAS_AVX512},
                 {"Cooperlake", BLAS_AVX512}, {"SapphireRapids", BLAS_AVX512}};
    for (size_t i = 0; i < sizeof CORES / sizeof *CORES; i++)
        if (strcmp(core, CORES[i].name) == 0) return CORES[i].generation;
    return BLAS_UNKNOWN;
}

static int blas_generation_here(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return BLAS_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return BLAS_AVX2;
    if (__builtin_cpu_supports("avx")) return BLAS_AVX;
#endif
    return BLAS_UNKNOWN;
}

static int blas_load(bench_blas *blas)
{
    *blas = (bench_blas){.library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL)};
    if (!blas->library) return 0;
    void *sgemm = dlsym(blas->library, "cblas_sgemm"), *set = dlsym(blas->library, "openblas_set_num_threads"),
         *core = dlsym(blas->library, "openblas_get_corename"), *config = dlsym(blas->library, "openblas_get_config");
    if (!sgemm || !set) {
        bench_blas_close(blas);
        return 0;
    }
    /* ISO C has no conversion from an object pointer to a function pointer; POSIX has. */
    *(void **)&blas->sgemm = sgemm;
    *(void **)&blas->set_threads = set;
    char *(*text)(void);
    snprintf(blas->core, sizeof blas->core, "unknown core");
    *(void **)&text = core;
    if (core && text()) snprintf(blas->core, sizeof blas->core, "%s", text());
    *(void **)&text = config;
    if (config && text()) sscanf(text(), "OpenBLAS %15s", blas->version);
    return 1;
}

int bench_blas_open(bench_blas *blas, uint32_t threads)
{
    static const char *const BEST[] = {[BLAS_AVX] = "Sandybridge", [BLAS_AVX2] = "Haswell", [BLAS_AVX512] = "SkylakeX"};
    if (!blas_load(blas)) return 0;
    const int chosen = blas_generation(blas->core), here = blas_generation_here();
    if (chosen != BLAS_UNKNOWN && chosen < here) {
        char first[sizeof blas->core];
        memcpy(first, blas->core, sizeof first);
        bench_blas_close(blas);
        setenv("OPENBLAS_CORETYPE", BEST[here], 0); /* the pool's threads are idle; the user's own choice stays */
        if (!blas_load(blas)) return 0;
        if (strcmp(first, blas->core) == 0)
            cli_note("OpenBLAS runs the kernels of %s, and this processor could run those of %s: "
                     "OPENBLAS_CORETYPE=%s\n",
                     first, BEST[here], BEST[here]);
        else
            cli_note("OpenBLAS does not know this processor and chose the kernels of %s: those of %s are used\n", first,
                     blas->core);
    }
    blas->set_threads((int)threads);
    return 1;
}

void bench_blas_close(bench_blas *blas)
{
    if (blas->library) dlclose(blas->library);
    *blas = (bench_blas){0};
}
