/* Preloaded, it lets one allocation of a process fail. tests/cli/test_allocation.py says which, and what may
 * come of it.
 *
 *   PORTICO_TEST_FAIL=N       the Nth allocation of each process fails, once
 *   PORTICO_TEST_SITES=FILE   nothing fails; for each place in Portico that allocates (a stack of return
 * addresses) the number of the first and of the last allocation there is appended to FILE */
#include "interpose.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define VISIBLE __attribute__((visibility("default")))

/* glibc's own names for what this file replaces. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

/* SKIP: frames of this file. CALLERS tell one place from another; further up, DEPTH frames in all, the cause
 * may be. */
enum { SKIP = 3, CALLERS = 7, DEPTH = 24, SITES = 1 << 16 };

typedef struct allocation_site {
    uint64_t hash; /* 0: free */
    uint64_t first, last;
    int ours;
} allocation_site;

static struct {
    atomic_ullong count;
    uint64_t fail; /* 0: none */
    const char *record;
    atomic_flag busy;
    allocation_site sites[SITES];
} allocation = {.busy = ATOMIC_FLAG_INIT};

static __thread int inside;

static int allocation_is_ours(void *const *frames, int count)
{
    for (int i = SKIP; i < count; i++) {
        Dl_info info;
        if (!dladdr(frames[i], &info) || !info.dli_fname) continue;
        const char *slash = strrchr(info.dli_fname, '/');
        if (strcmp(slash ? slash + 1 : info.dli_fname, "portico") == 0 || interpose_is_ours(info.dli_fname)) return 1;
    }
    return 0;
}

static void allocation_note(uint64_t number)
{
    void *frames[DEPTH];
    const int count = backtrace(frames, DEPTH);
    uint64_t hash = UINT64_C(14695981039346656037);
    for (int i = SKIP; i < count && i < SKIP + CALLERS; i++)
        hash = (hash ^ (uint64_t)(uintptr_t)frames[i]) * UINT64_C(1099511628211);
    hash |= 1;
    while (atomic_flag_test_and_set(&allocation.busy)) {
    }
    for (uint32_t at = (uint32_t)(hash >> 20) % SITES, tries = 0; tries < SITES; at = (at + 1) % SITES, tries++) {
        allocation_site *site = &allocation.sites[at];
        if (!site->hash) *site = (allocation_site){hash, number, number, allocation_is_ours(frames, count)};
        if (site->hash != hash) continue;
        site->last = number;
        break;
    }
    atomic_flag_clear(&allocation.busy);
}

__attribute__((constructor)) static void allocation_begin(void)
{
    void *frames[2];
    const char *fail = getenv("PORTICO_TEST_FAIL");
    inside = 1;
    backtrace(frames, 2); /* loads what it needs now */
    allocation.record = getenv("PORTICO_TEST_SITES");
    allocation.fail = fail ? strtoull(fail, NULL, 10) : 0;
    allocation.count = 0;
    inside = 0;
}

__attribute__((destructor)) static void allocation_end(void)
{
    if (!allocation.record) return;
    inside = 1;
    const int fd = open(allocation.record, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    for (int i = 0; i < SITES && fd >= 0; i++)
        if (allocation.sites[i].ours)
            dprintf(fd, "%llu %llu\n", (unsigned long long)allocation.sites[i].first,
                    (unsigned long long)allocation.sites[i].last);
    if (fd >= 0) close(fd);
}

/* 1: this one fails. */
static __attribute__((noinline)) int allocation_fails(void)
{
    if (inside) return 0;
    const uint64_t number = ++allocation.count;
    if (allocation.record) {
        inside = 1;
        allocation_note(number);
        inside = 0;
    }
    if (number != allocation.fail) return 0;
    errno = ENOMEM;
    return 1;
}

VISIBLE void *malloc(size_t bytes) { return allocation_fails() ? NULL : __libc_malloc(bytes); }

VISIBLE void *calloc(size_t count, size_t bytes) { return allocation_fails() ? NULL : __libc_calloc(count, bytes); }

VISIBLE void *realloc(void *old, size_t bytes) { return allocation_fails() ? NULL : __libc_realloc(old, bytes); }

VISIBLE void *memalign(size_t alignment, size_t bytes)
{
    return allocation_fails() ? NULL : __libc_memalign(alignment, bytes);
}

VISIBLE void *aligned_alloc(size_t alignment, size_t bytes)
{
    return allocation_fails() ? NULL : __libc_memalign(alignment, bytes);
}

VISIBLE int posix_memalign(void **result, size_t alignment, size_t bytes)
{
    if (alignment < sizeof(void *) || (alignment & (alignment - 1))) return EINVAL;
    void *block = allocation_fails() ? NULL : __libc_memalign(alignment, bytes);
    if (!block) return ENOMEM;
    *result = block;
    return 0;
}
