/* What the reading of one input may cost, for all fuzz targets: with libFuzzer, an allocation of more than ten times
 * the input and FUZZ_FIXED bytes (tables that do not depend on it) ends the run as a crash does. A target defines
 * fuzz_input, and FUZZ_FIXED where the one below is not enough. */
#ifndef FUZZ_LIMITS_H
#define FUZZ_LIMITS_H

#include <stddef.h>
#include <stdint.h>

static int fuzz_input(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#ifdef PCO_LIBFUZZER

/* For a target that calls `begin` once, before its first input. */
#define FUZZ_INITIALIZE(begin) \
    int LLVMFuzzerInitialize(int *argc, char ***argv); \
    int LLVMFuzzerInitialize(int *argc, char ***argv) \
    { \
        (void)argc, (void)argv; \
        begin(); \
        return 0; \
    }

#ifndef FUZZ_FIXED
#define FUZZ_FIXED 65536
#endif

#include <sanitizer/allocator_interface.h>
#include <stdio.h>
#include <stdlib.h>

static size_t fuzz_most; /* bytes of an allocation; 0: the fuzzer's own */

static void fuzz_allocated(const volatile void *memory, size_t size)
{
    const size_t most = fuzz_most;
    (void)memory;
    if (!most || size <= most) return;
    fuzz_most = 0;
    fprintf(stderr, "an allocation of %zu bytes, and at most %zu are allowed\n", size, most);
    abort();
}

static void fuzz_freed(const volatile void *memory) { (void)memory; }

/* From here on, as much for this input: what follows is no reading of a file. */
static inline void fuzz_allow(size_t bytes) { fuzz_most = bytes; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int installed;
    if (!installed && !__sanitizer_install_malloc_and_free_hooks(fuzz_allocated, fuzz_freed)) abort();
    installed = 1;
    fuzz_most = 10 * size + FUZZ_FIXED;
    const int result = fuzz_input(data, size);
    fuzz_most = 0;
    return result;
}

#else

static inline void fuzz_allow(size_t bytes) { (void)bytes; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return fuzz_input(data, size); }

#endif
#endif
