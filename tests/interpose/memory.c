/* Counts the allocations that Portico makes, whatever the drivers do beside it. The caller is who the return address
 * says; where that is the C library (strdup, asprintf), it is the first one further up that is not. */
#include "interpose.h"

#include <errno.h>
#include <execinfo.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VISIBLE __attribute__((visibility("default")))

/* glibc's own names for what this file replaces. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

enum { MEMORY_RANGES = 32, MEMORY_DEPTH = 12 };

typedef struct memory_range {
    uintptr_t first, end;
} memory_range;

static struct {
    interpose_counts counts;
    atomic_int on;
    atomic_ullong amount[INTERPOSE_KINDS];
    _Atomic(const char *) first_call;
    _Atomic(void *) first_allocation;
    memory_range ours[MEMORY_RANGES], passed[MEMORY_RANGES]; /* Portico's code; the C library's and this file's */
    unsigned n_ours, n_passed;
    char program[4096];
} memory;

interpose_counts *interpose_state(void) { return &memory.counts; }

void interpose_add(int kind, uint64_t amount, const char *call)
{
    if (!memory.on) return;
    memory.amount[kind] += amount;
    const char *none = NULL;
    if (call) atomic_compare_exchange_strong(&memory.first_call, &none, call);
}

static int memory_in(const memory_range *ranges, unsigned count, uintptr_t address)
{
    for (unsigned i = 0; i < count; i++)
        if (address >= ranges[i].first && address < ranges[i].end) return 1;
    return 0;
}

static int memory_visit(struct dl_phdr_info *info, size_t size, void *user)
{
    (void)size;
    (void)user;
    const char *path = info->dlpi_name && *info->dlpi_name ? info->dlpi_name : memory.program;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    int ours = path == memory.program || interpose_is_ours(path);
    int passed = strncmp(name, "libc.so", 7) == 0 || strstr(name, "interpose") != NULL;
    if (!ours && !(passed && path != memory.program)) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type != PT_LOAD || !(header->p_flags & PF_X)) continue;
        uintptr_t first = info->dlpi_addr + header->p_vaddr;
        memory_range range = {first, first + header->p_memsz};
        if (ours && memory.n_ours < MEMORY_RANGES) memory.ours[memory.n_ours++] = range;
        if (!ours && memory.n_passed < MEMORY_RANGES) memory.passed[memory.n_passed++] = range;
    }
    return 0;
}

static void memory_count(void *caller)
{
    static __thread int inside;
    if (!memory.on || inside) return;
    uintptr_t address = (uintptr_t)caller;
    inside = 1;
    if (memory_in(memory.passed, memory.n_passed, address)) {
        void *frames[MEMORY_DEPTH];
        int depth = backtrace(frames, MEMORY_DEPTH);
        for (int i = 0; i < depth; i++) {
            address = (uintptr_t)frames[i];
            if (!memory_in(memory.passed, memory.n_passed, address)) break;
        }
    }
    if (memory_in(memory.ours, memory.n_ours, address)) {
        void *none = NULL;
        memory.amount[INTERPOSE_ALLOCATIONS]++;
        atomic_compare_exchange_strong(&memory.first_allocation, &none, (void *)address);
    }
    inside = 0;
}

VISIBLE void pco_interpose_mark(int on)
{
    if (!on) {
        memory.on = 0;
        return;
    }
    void *frames[2];
    ssize_t length = readlink("/proc/self/exe", memory.program, sizeof memory.program - 1);
    memory.program[length > 0 ? length : 0] = 0;
    backtrace(frames, 2); /* loads what it needs now */
    memory.n_ours = memory.n_passed = 0;
    dl_iterate_phdr(memory_visit, NULL);
    for (int i = 0; i < INTERPOSE_KINDS; i++) memory.amount[i] = 0;
    memory.first_call = NULL;
    memory.first_allocation = NULL;
    memory.on = 1;
}

VISIBLE const interpose_counts *pco_interpose_counts(void)
{
    for (int i = 0; i < INTERPOSE_KINDS; i++) memory.counts.count[i] = memory.amount[i];
    memory.counts.first_call = memory.first_call;
    memory.counts.first_allocation = memory.first_allocation;
    return &memory.counts;
}

#define CALLER __builtin_extract_return_addr(__builtin_return_address(0))

VISIBLE void *malloc(size_t bytes)
{
    memory_count(CALLER);
    return __libc_malloc(bytes);
}

VISIBLE void *calloc(size_t count, size_t bytes)
{
    memory_count(CALLER);
    return __libc_calloc(count, bytes);
}

VISIBLE void *realloc(void *old, size_t bytes)
{
    memory_count(CALLER);
    return __libc_realloc(old, bytes);
}

VISIBLE void *memalign(size_t alignment, size_t bytes)
{
    memory_count(CALLER);
    return __libc_memalign(alignment, bytes);
}

VISIBLE void *aligned_alloc(size_t alignment, size_t bytes)
{
    memory_count(CALLER);
    return __libc_memalign(alignment, bytes);
}

VISIBLE int posix_memalign(void **result, size_t alignment, size_t bytes)
{
    memory_count(CALLER);
    if (alignment < sizeof(void *) || (alignment & (alignment - 1))) return EINVAL;
    void *block = __libc_memalign(alignment, bytes);
    if (!block) return ENOMEM;
    *result = block;
    return 0;
}
