/* Preloaded: the file that PCO_CUT_SHORT names is cut to its first PCO_CUT_KEEP bytes (a page) right after it was
 * mapped, as by somebody who copies another one over it. Who then asks what is mapped gets an answer late, so that
 * other threads come to the missing pages while the first one is still busy with it. */
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
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
    const char *wanted = getenv("PCO_CUT_SHORT"), *bytes = getenv("PCO_CUT_KEEP");
    const long keep = bytes ? atol(bytes) : 4096;
    char link[64], path[PATH_MAX];
    if (data == MAP_FAILED || fd < 0 || !wanted || length <= (size_t)keep) return data;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t size = readlink(link, path, sizeof path - 1);
    if (size > 0 && (size_t)size == strlen(wanted) && memcmp(path, wanted, (size_t)size) == 0 &&
        truncate(wanted, keep) != 0)
        perror(wanted);
    return data;
}

__attribute__((visibility("default"))) int open(const char *path, int flags, ...)
{
    int (*real)(const char *, int, ...);
    *(void **)&real = dlsym(RTLD_NEXT, "open64");
    va_list rest;
    va_start(rest, flags);
    const unsigned mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, unsigned) : 0;
    va_end(rest);
    if (getenv("PCO_CUT_SHORT") && strcmp(path, "/proc/self/maps") == 0) usleep(300000);
    return real(path, flags, mode);
}
