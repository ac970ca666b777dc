/* Preloaded: the file that PCO_CUT_SHORT names is cut to its first page right after it was mapped, as by somebody who
 * copies another one over it. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

__attribute__((visibility("default"))) void *mmap(void *address, size_t length, int prot, int flags, int fd,
                                                  off_t offset)
{
    void *(*real)(void *, size_t, int, int, int, off_t);
    *(void **)&real = dlsym(RTLD_NEXT, "mmap");
    void *data = real(address, length, prot, flags, fd, offset);
    const char *wanted = getenv("PCO_CUT_SHORT");
    char link[64], path[PATH_MAX];
    if (data == MAP_FAILED || fd < 0 || !wanted || length <= 4096) return data;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t size = readlink(link, path, sizeof path - 1);
    if (size > 0 && (size_t)size == strlen(wanted) && memcmp(path, wanted, (size_t)size) == 0 &&
        truncate(wanted, 4096) != 0)
        perror(wanted);
    return data;
}
