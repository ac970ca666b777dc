#include "runtime/marker.h"

#include "base/fd.h"
#include "runtime/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* The lock is taken before anything is written: a file that is empty was never a marker. */
void pco_marker_set(pco_marker *marker, const char *dir, const char *name, const char *text)
{
    const size_t size = strlen(text);
    struct stat st;
    *marker = (pco_marker){.fd = -1};
    if (!*dir) return;
    if (pco_cache_make(dir, NULL)) return;
    const int length = snprintf(marker->path, sizeof marker->path, "%s/%s-XXXXXX", dir, name);
    if (length < 0 || (size_t)length >= sizeof marker->path) return;
    marker->fd = pco_fd_above(mkostemp(marker->path, O_CLOEXEC));
    if (marker->fd < 0) return;
    marker->set = flock(marker->fd, LOCK_EX | LOCK_NB) == 0 && fstat(marker->fd, &st) == 0 && st.st_nlink > 0 &&
                  write(marker->fd, text, size) == (ssize_t)size;
    if (marker->set) return;
    unlink(marker->path);
    close(marker->fd);
}

void pco_marker_clear(pco_marker *marker)
{
    if (!marker->set) return;
    unlink(marker->path);
    close(marker->fd);
    marker->set = 0;
}

/* One file: 1 if it was the marker of a process that is gone. */
static int marker_take(int folder, const char *file, char *text, size_t size)
{
    struct stat st;
    const int fd = openat(folder, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t got = 0;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && flock(fd, LOCK_EX | LOCK_NB) == 0) {
        got = st.st_nlink > 0 ? read(fd, text, size - 1) : 0; /* another process may have taken it */
        unlinkat(folder, file, 0);
    }
    close(fd);
    if (got <= 0) return 0;
    text[got] = 0;
    return 1;
}

void pco_marker_collect(const char *dir, const char *name, pco_marker_fn found, void *user)
{
    const size_t length = strlen(name);
    char text[PCO_MARKER_TEXT];
    DIR *list = *dir ? opendir(dir) : NULL;
    if (!list) return;
    for (const struct dirent *entry; (entry = readdir(list));)
        if (strncmp(entry->d_name, name, length) == 0 && entry->d_name[length] == '-' &&
            strlen(entry->d_name) == length + 7 && marker_take(dirfd(list), entry->d_name, text, sizeof text))
            found(user, text);
    closedir(list);
}
