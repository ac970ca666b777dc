/* Preloaded: the file that PCO_CUT_SHORT names is cut to its first page right after it was mapped, as by somebody who
 * copies another one over it. With PCO_CUT_KEEP it is cut to that many bytes, and only when a thread is started. Who
 * then asks what is mapped gets an answer late, so that other threads come to the missing pages while the first one is
 * still busy with it. */
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))

PUBLIC void *mmap(void *address, size_t length, int prot, int flags, int fd, off_t offset)
{
    void *(*real)(void *, size_t, int, int, int, off_t);
    *(void **)&real = dlsym(RTLD_NEXT, "mmap");
    void *data = real(address, length, prot, flags, fd, offset);
    const char *wanted = getenv("PCO_CUT_SHORT");
    char link[64], path[PATH_MAX];
    if (data == MAP_FAILED || fd < 0 || !wanted || getenv("PCO_CUT_KEEP") || length <= 4096) return data;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t size = readlink(link, path, sizeof path - 1);
    if (size > 0 && (size_t)size == strlen(wanted) && memcmp(path, wanted, (size_t)size) == 0 &&
        truncate(wanted, 4096) != 0)
        perror(wanted);
    return data;
}

PUBLIC int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    const char *wanted = getenv("PCO_CUT_SHORT"), *keep = getenv("PCO_CUT_KEEP");
    if (wanted && keep && truncate(wanted, atol(keep)) != 0) perror(wanted);
    return real(thread, attributes, start, argument);
}

/* Its name is open64, as offsets are wide. */
PUBLIC int open(const char *path, int flags, ...)
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
