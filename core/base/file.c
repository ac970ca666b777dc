#include "base/file.h"
#include "base/error.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* What is there instead of a file. */
static const char *file_kind(mode_t mode)
{
    if (S_ISDIR(mode)) return "a folder";
    if (S_ISFIFO(mode)) return "a pipe";
    if (S_ISSOCK(mode)) return "a socket";
    return "a device";
}

pco_status pco_map_open(const char *path, pco_map *map, pco_error *err)
{
    *map = (pco_map){0};
    if (!*path) return pco_fail(err, PCO_ERROR_IO, "the name of a file is empty");
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* a pipe is refused, not waited for */
    if (fd < 0) return pco_fail(err, PCO_ERROR_IO, "%s: cannot open: %s", path, strerror(errno));
    struct stat st;
    pco_status status = PCO_OK;
    if (fstat(fd, &st) != 0) {
        status = pco_fail(err, PCO_ERROR_IO, "%s: cannot stat: %s", path, strerror(errno));
    } else if (!S_ISREG(st.st_mode)) {
        status = pco_fail(err, PCO_ERROR_IO, "%s: not a regular file but %s", path, file_kind(st.st_mode));
    } else if (st.st_size > 0) {
        void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED)
            status = pco_fail(err, PCO_ERROR_IO, "%s: cannot map: %s", path, strerror(errno));
        else
            *map = (pco_map){.data = data, .size = (size_t)st.st_size};
    }
    close(fd);
    return status;
}

void pco_map_close(pco_map *map)
{
    if (map->data) munmap((void *)map->data, map->size);
    *map = (pco_map){0};
}

static int file_write_all(int fd, const unsigned char *data, size_t size)
{
    while (size > 0) {
        ssize_t done = write(fd, data, size);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return -1;
        data += done;
        size -= (size_t)done;
    }
    return fsync(fd);
}

/* A temporary file is PATH.portico-XXXXXX. Who writes it holds a lock on it (flock, which ends with the process), so
 * that one without is left over from a process that was killed. */
static const char file_mark[] = ".portico-";
enum { FILE_RANDOM = 6 };

/* The folder of `path`, malloc'ed, and the name in it. */
static char *file_folder(const char *path, const char **name)
{
    const char *slash = strrchr(path, '/');
    *name = slash ? slash + 1 : path;
    if (!slash) return strdup(".");
    return strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

static int file_is_temporary(const char *found, const char *name)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    const size_t length = strlen(name), mark = sizeof file_mark - 1;
    return strlen(found) == length + mark + FILE_RANDOM && memcmp(found, name, length) == 0 &&
           memcmp(found + length, file_mark, mark) == 0 &&
           strspn(found + length + mark, letters) == FILE_RANDOM;
}

/* Removes what writes of `name` left behind that were killed. Not being able to is nobody's problem. */
static void file_remove_left(int folder, const char *name)
{
    const int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = copy < 0 ? NULL : fdopendir(copy);
    if (!list) {
        if (copy >= 0) close(copy);
        return;
    }
    for (const struct dirent *entry; (entry = readdir(list));) {
        struct stat st;
        if (!file_is_temporary(entry->d_name, name)) continue;
        const int fd = openat(folder, entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0) continue;
        if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && flock(fd, LOCK_EX | LOCK_NB) == 0)
            unlinkat(folder, entry->d_name, 0);
        close(fd);
    }
    closedir(list);
}

void pco_file_clear(const char *path)
{
    const char *name;
    char *folder = file_folder(path, &name);
    const int directory = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (directory >= 0) {
        file_remove_left(directory, name);
        close(directory);
    }
    free(folder);
}

/* A new temporary file with its lock; -1 with errno. One that another process takes for a left one before it is
 * locked is given up. */
static int file_create(char *temporary, size_t length)
{
    for (int tries = 0; tries < 100; tries++) {
        struct stat st;
        memcpy(temporary + length, file_mark, sizeof file_mark - 1);
        memcpy(temporary + length + sizeof file_mark - 1, "XXXXXX", FILE_RANDOM + 1);
        const int fd = mkostemp(temporary, O_CLOEXEC);
        if (fd < 0) return -1;
        const int locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
        /* a file system without locks has no cleaning either: its files count as in use */
        if ((locked || errno != EWOULDBLOCK) && fstat(fd, &st) == 0 && st.st_nlink > 0) return fd;
        unlink(temporary);
        close(fd);
    }
    errno = EBUSY;
    return -1;
}

pco_status pco_file_write(const char *path, const void *data, size_t size, pco_error *err)
{
    const size_t length = strlen(path);
    const char *name;
    char *temporary = malloc(length + sizeof file_mark + FILE_RANDOM), *folder = file_folder(path, &name);
    int directory = -1, fd = -1, bad;
    pco_status status = PCO_OK;
    if (!temporary || !folder) {
        status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "%s: out of host memory", path);
        goto done;
    }
    memcpy(temporary, path, length);
    directory = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* may be one that cannot be listed */
    if (directory >= 0) file_remove_left(directory, name);
    fd = file_create(temporary, length);
    if (fd < 0) {
        status = pco_fail(err, PCO_ERROR_IO, "%s: cannot create: %s", path, strerror(errno));
        goto done;
    }
    bad = fchmod(fd, 0644) != 0 || file_write_all(fd, data, size) != 0;
    if (bad || rename(temporary, path) != 0) {
        status = pco_fail(err, PCO_ERROR_IO, "%s: cannot write: %s", path, strerror(errno));
        unlink(temporary);
    } else if (directory >= 0 && fsync(directory) != 0 && errno != EINVAL && errno != EROFS) {
        /* the name is durable with the folder; some file systems cannot sync one (EINVAL) */
        status = pco_fail(err, PCO_ERROR_IO, "%s: cannot sync its folder: %s", path, strerror(errno));
    }
done:
    if (fd >= 0) close(fd);
    if (directory >= 0) close(directory);
    free(folder);
    free(temporary);
    return status;
}

pco_status pco_folder_make(const char *folder, pco_error *err)
{
    char *path = strdup(folder);
    if (!path) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "%s: out of host memory", folder);
    pco_status status = PCO_OK;
    for (char *at = path; *at && !status;) {
        at += strspn(at, "/");
        at += strcspn(at, "/");
        char kept = *at;
        *at = 0;
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            status = pco_fail(err, PCO_ERROR_IO, "%s: the folder cannot be made: %s", path, strerror(errno));
        *at = kept;
    }
    if (!status && !pco_is_directory(folder)) status = pco_fail(err, PCO_ERROR_IO, "%s: not a folder", folder);
    free(path);
    return status;
}

int pco_is_directory(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}
