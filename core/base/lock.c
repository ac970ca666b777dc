#include "base/lock.h"

#include "base/error.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOCK_TRIES = 100, LOCK_HOLDER = 160 };

/* "process 123 on host" as the holder wrote it, of printable characters: the file may be anybody's. */
static void lock_holder(int fd, char *holder)
{
    ssize_t got = pread(fd, holder, LOCK_HOLDER - 1, 0);
    holder[got > 0 ? got : 0] = 0;
    holder[strcspn(holder, "\n")] = 0;
    for (char *at = holder; *at; at++)
        if (*at < ' ' || *at > '~') *at = '?';
    if (!*holder) snprintf(holder, LOCK_HOLDER, "another process");
}

/* Not being able to say who holds it is no reason not to. */
static void lock_sign(int fd)
{
    char host[65] = "", text[LOCK_HOLDER];
    if (gethostname(host, sizeof host - 1) != 0) host[0] = 0;
    const int length = snprintf(text, sizeof text, "process %ld on %s\n", (long)getpid(), *host ? host : "this host");
    if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)length, 0) != length) return;
}

/* 1: locked, and still the file of that name; 0: its holder has just removed it; -1 after an error. */
static int lock_try(pco_lock *lock, pco_error *err, pco_status *status)
{
    char holder[LOCK_HOLDER];
    struct stat mine, there;
    lock->fd = pco_fd_above(open(lock->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (lock->fd < 0) {
        *status = pco_fail(err, PCO_ERROR_IO, "%s: cannot be made: %s", lock->path, strerror(errno));
        return -1;
    }
    if (flock(lock->fd, LOCK_EX | LOCK_NB) == 0) {
        if (fstat(lock->fd, &mine) == 0 && stat(lock->path, &there) == 0 && mine.st_ino == there.st_ino &&
            mine.st_dev == there.st_dev)
            return 1;
        close(lock->fd);
        return 0;
    }
    const int why = errno;
    lock_holder(lock->fd, holder);
    close(lock->fd);
    *status = why == EWOULDBLOCK
                  ? pco_fail(err, PCO_ERROR_INVALID, "%s", holder)
                  : pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: cannot be locked: %s", lock->path, strerror(why));
    return -1;
}

pco_status pco_lock_take(pco_lock *lock, const char *path, pco_error *err)
{
    pco_status status = PCO_OK;
    *lock = (pco_lock){.path = strdup(path)};
    if (!lock->path) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "%s: out of host memory", path);
    int done = 0;
    for (int tries = 0; tries < LOCK_TRIES && !done; tries++) done = lock_try(lock, err, &status);
    if (done == 0) status = pco_fail(err, PCO_ERROR_IO, "%s: cannot be locked: it is always removed again", path);
    if (done == 1) {
        lock->held = 1;
        lock_sign(lock->fd);
        return PCO_OK;
    }
    free(lock->path);
    *lock = (pco_lock){0};
    return status;
}

void pco_lock_release(pco_lock *lock)
{
    if (!lock->held) return;
    unlink(lock->path); /* while it is held: whoever has opened it meanwhile sees that it is no longer the file */
    close(lock->fd);
    free(lock->path);
    *lock = (pco_lock){0};
}
