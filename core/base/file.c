#include "base/file.h"
#include "base/error.h"
#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
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
    pco_status status = pco_map_descriptor(fd, path, map, err);
    close(fd);
    return status;
}

pco_status pco_map_descriptor(int fd, const char *path, pco_map *map, pco_error *err)
{
    *map = (pco_map){0};
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
    return status;
}

void pco_map_close(pco_map *map)
{
    if (map->data) munmap((void *)map->data, map->size);
    *map = (pco_map){0};
}

/* ---- writing ---- */

pco_status pco_file_send(int fd, const void *data, size_t size, const char *label, pco_error *err)
{
    for (const unsigned char *at = data; size > 0;) {
        ssize_t done = write(fd, at, size);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0)
            return pco_fail(err, PCO_ERROR_IO, "%s: cannot write: %s", label,
                            done < 0 ? strerror(errno) : "nothing is taken");
        at += done;
        size -= (size_t)done;
    }
    return PCO_OK;
}

/* What a path to be written leads to. */
typedef struct file_target {
    char path[PATH_MAX]; /* behind all symbolic links; also where nothing is yet */
    int exists, number;  /* number: of a descriptor of this process (/dev/stdout), or -1 */
    struct stat st;      /* where it exists */
} file_target;

/* The folder of `path` into folder[PATH_MAX], and the name in it. */
static const char *file_folder(const char *path, char *folder)
{
    const char *slash = strrchr(path, '/');
    if (slash)
        snprintf(folder, PATH_MAX, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    else
        snprintf(folder, PATH_MAX, ".");
    return slash ? slash + 1 : path;
}

/* Links in /proc lead to what is open, not to the path that they show: to which of this process's descriptors
 * does folder/name lead? -1: to none. */
static int file_descriptor(const char *folder, const char *name)
{
    char real[PATH_MAX], own[64];
    snprintf(own, sizeof own, "/proc/%ld/fd", (long)getpid());
    if (!realpath(folder, real) || strcmp(real, own) != 0) return -1;
    return (int)strtol(name, NULL, 10);
}

static pco_status file_find(const char *path, file_target *target, pco_error *err)
{
    enum { LINKS = 40 }; /* as the system's own limit */
    char folder[PATH_MAX], link[PATH_MAX];
    struct statfs system;
    target->number = -1;
    if (!*path) return pco_fail(err, PCO_ERROR_IO, "the name of a file is empty");
    if (strlen(path) >= PATH_MAX - 64) return pco_fail(err, PCO_ERROR_IO, "%.80s...: the name is too long", path);
    snprintf(target->path, sizeof target->path, "%s", path);
    target->exists = stat(path, &target->st) == 0;
    for (int links = 0; links <= LINKS; links++) {
        const char *name = file_folder(target->path, folder);
        const ssize_t length = readlink(target->path, link, sizeof link - 1);
        if (length < 0) return PCO_OK; /* no link, or nothing at all */
        link[length] = 0;
        if (statfs(folder, &system) == 0 && system.f_type == PROC_SUPER_MAGIC) {
            target->number = file_descriptor(folder, name);
            return PCO_OK;
        }
        const int whole = link[0] == '/' ? snprintf(target->path, sizeof target->path, "%s", link)
                                         : snprintf(target->path, sizeof target->path, "%s/%s", folder, link);
        if (whole >= PATH_MAX - 64) break;
    }
    return pco_fail(err, PCO_ERROR_IO, "%s: its symbolic links have no end", path);
}

/* A file that can be replaced; all else is written to as it is. */
static int file_is_regular(const file_target *target)
{
    return target->number < 0 && (!target->exists || S_ISREG(target->st.st_mode));
}

/* Opens what is no regular file. -1 with errno. */
static int file_open_straight(const file_target *target)
{
    if (target->number < 0) return pco_fd_above(open(target->path, O_WRONLY | O_NOCTTY | O_CLOEXEC));
    if (target->number == STDOUT_FILENO) fflush(stdout); /* what was printed before comes before */
    return fcntl(target->number, F_DUPFD_CLOEXEC, 3);
}

pco_status pco_file_open_log(const char *path, int *fd, int *is_regular, pco_error *err)
{
    file_target target;
    *fd = -1;
    pco_status status = file_find(path, &target, err);
    if (status) return status;
    *is_regular = file_is_regular(&target);
    *fd = *is_regular ? pco_fd_above(open(target.path, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0644))
                      : file_open_straight(&target);
    return *fd < 0 ? pco_fail(err, PCO_ERROR_IO, "%s: cannot open: %s", path, strerror(errno)) : PCO_OK;
}

/* A temporary file is PATH.portico-XXXXXX. Who writes it holds a lock on it (flock, which ends with the
 * process), so that one without is left over from a process that was killed. */
static const char file_mark[] = ".portico-";
static const char file_letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
enum { FILE_RANDOM = 6 };

static int file_is_temporary(const char *found, const char *name)
{
    const size_t length = strlen(name), mark = sizeof file_mark - 1;
    return strlen(found) == length + mark + FILE_RANDOM && memcmp(found, name, length) == 0 &&
           memcmp(found + length, file_mark, mark) == 0 && strspn(found + length + mark, file_letters) == FILE_RANDOM;
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
    file_target target;
    char folder[PATH_MAX];
    pco_error ignored;
    if (file_find(path, &target, &ignored) || !file_is_regular(&target)) return;
    const char *name = file_folder(target.path, folder);
    const int directory = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) return;
    file_remove_left(directory, name);
    close(directory);
}

/* A new temporary file with its lock; -1 with errno. One that another process takes for a left one before it is
 * locked is given up. What replaces nothing gets the mode that any new file gets, by the umask. */
static int file_create(char *temporary, size_t length, mode_t mode)
{
    char *random = temporary + length + sizeof file_mark - 1;
    memcpy(temporary + length, file_mark, sizeof file_mark);
    for (int tries = 0; tries < 100; tries++) {
        unsigned char drawn[FILE_RANDOM];
        struct stat st;
        if (getrandom(drawn, sizeof drawn, 0) != (ssize_t)sizeof drawn) return -1;
        for (int i = 0; i < FILE_RANDOM; i++) random[i] = file_letters[drawn[i] % (sizeof file_letters - 1)];
        random[FILE_RANDOM] = 0;
        const int fd = pco_fd_above(open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode));
        if (fd < 0 && errno == EEXIST) continue;
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

/* The new file gets the mode and, where that is allowed, the owner of the old one. */
static int file_keep_mode(int fd, const file_target *target)
{
    if (!target->exists) return 0;
    mode_t mode = target->st.st_mode & 07777;
    if (fchown(fd, target->st.st_uid, target->st.st_gid) != 0) mode &= 0777;
    return fchmod(fd, mode);
}

/* Is in the file what was written, and is it what was meant? It is read from the medium where the system does
 * that. */
static pco_status file_read_back(int fd, const char *path, const void *data, size_t size, pco_file_check_fn check,
                                 void *user, pco_error *err)
{
    struct stat st;
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    if (fstat(fd, &st) != 0 || (size_t)st.st_size != size)
        return pco_fail(err, PCO_ERROR_IO, "%s: not all that was written is there; nothing was replaced", path);
    void *back = size ? mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0) : NULL;
    if (back == MAP_FAILED) return pco_fail(err, PCO_ERROR_IO, "%s: cannot be read back: %s", path, strerror(errno));
    pco_status status = PCO_OK;
    if (size && memcmp(back, data, size) != 0)
        status = pco_fail(err, PCO_ERROR_IO, "%s: reads back other than it was written; nothing was replaced", path);
    if (!status) status = check(user, back, size, err);
    if (size) munmap(back, size);
    return status;
}

struct pco_file_stream {
    file_target target;
    const char *path; /* for messages */
    char
        temporary[PATH_MAX + sizeof file_mark + FILE_RANDOM]; /* what is written to, where a regular file is replaced */
    int fd, directory; /* of the target's folder; -1 where it cannot be listed, or nothing is replaced */
    uint64_t size;     /* sent so far */
};

/* From here on file_end is due, whatever comes back. */
static pco_status file_begin(pco_file_stream *stream, const char *path, pco_error *err)
{
    file_target *target = &stream->target;
    char folder[PATH_MAX];
    stream->path = path;
    stream->fd = stream->directory = -1;
    stream->temporary[0] = 0;
    stream->size = 0;
    pco_status status = file_find(path, target, err);
    if (status) return status;
    if (target->exists && S_ISDIR(target->st.st_mode))
        return pco_fail(err, PCO_ERROR_IO, "%s: cannot write: it is a folder", path);
    if (!file_is_regular(target)) {
        stream->fd = file_open_straight(target);
        return stream->fd < 0 ? pco_fail(err, PCO_ERROR_IO, "%s: cannot open: %s", path, strerror(errno)) : PCO_OK;
    }
    const size_t length = strlen(target->path);
    const char *name = file_folder(target->path, folder);
    stream->directory = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (stream->directory >= 0) file_remove_left(stream->directory, name);
    memcpy(stream->temporary, target->path, length);
    stream->fd = file_create(stream->temporary, length, target->exists ? 0600 : 0644);
    if (stream->fd >= 0) return PCO_OK;
    status = pco_fail(err, PCO_ERROR_IO, "%s: cannot create: %s", path, strerror(errno));
    stream->temporary[0] = 0;
    return status;
}

static pco_status file_put(pco_file_stream *stream, const void *data, size_t size, pco_error *err)
{
    stream->size += size;
    return pco_file_send(stream->fd, data, size, stream->path, err);
}

/* Makes durable what was written, before it takes its place. */
static pco_status file_settle(pco_file_stream *stream, pco_error *err)
{
    if (!stream->temporary[0]) return PCO_OK;
    if (file_keep_mode(stream->fd, &stream->target) != 0 || fsync(stream->fd) != 0)
        return pco_fail(err, PCO_ERROR_IO, "%s: cannot write: %s", stream->path, strerror(errno));
    return PCO_OK;
}

/* Puts it in its place, or (after an error, which it returns) takes it away. */
static pco_status file_end(pco_file_stream *stream, pco_status status, pco_error *err)
{
    if (stream->temporary[0]) {
        if (!status && rename(stream->temporary, stream->target.path) != 0)
            status = pco_fail(err, PCO_ERROR_IO, "%s: cannot write: %s", stream->path, strerror(errno));
        if (status)
            unlink(stream->temporary);
        else if (stream->directory >= 0 && fsync(stream->directory) != 0 && errno != EINVAL && errno != EROFS)
            /* the name is durable with the folder; some file systems cannot sync one (EINVAL) */
            status = pco_fail(err, PCO_ERROR_IO, "%s: cannot sync its folder: %s", stream->path, strerror(errno));
    }
    if (stream->fd >= 0 && close(stream->fd) != 0 && !status && !stream->temporary[0])
        status = pco_fail(err, PCO_ERROR_IO, "%s: cannot write: %s", stream->path, strerror(errno));
    if (stream->directory >= 0) close(stream->directory);
    return status;
}

pco_status pco_file_write_checked(const char *path, const void *data, size_t size, pco_file_check_fn check, void *user,
                                  pco_error *err)
{
    pco_file_stream stream;
    pco_status status = file_begin(&stream, path, err);
    if (!status) status = file_put(&stream, data, size, err);
    if (!status) status = file_settle(&stream, err);
    if (!status && check && stream.temporary[0]) status = file_read_back(stream.fd, path, data, size, check, user, err);
    return file_end(&stream, status, err);
}

pco_status pco_file_stream_open(const char *path, pco_file_stream **stream, pco_error *err)
{
    *stream = NULL;
    pco_file_stream *made = malloc(sizeof *made);
    if (!made) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "%s: out of host memory", path);
    pco_status status = file_begin(made, path, err);
    if (status) {
        status = file_end(made, status, err);
        free(made);
        return status;
    }
    *stream = made;
    return PCO_OK;
}

pco_status pco_file_stream_send(pco_file_stream *stream, const void *data, size_t size, pco_error *err)
{
    return file_put(stream, data, size, err);
}

uint64_t pco_file_stream_size(const pco_file_stream *stream) { return stream->size; }

pco_status pco_file_stream_map(const pco_file_stream *stream, pco_map *map, pco_error *err)
{
    return pco_map_descriptor(stream->fd, stream->path, map, err);
}

pco_status pco_file_stream_close(pco_file_stream *stream, pco_status status, pco_error *err)
{
    if (!stream) return status;
    if (!status) status = file_settle(stream, err);
    status = file_end(stream, status, err);
    free(stream);
    return status;
}

pco_status pco_file_write(const char *path, const void *data, size_t size, pco_error *err)
{
    return pco_file_write_checked(path, data, size, NULL, NULL, err);
}

/* ---- folders ---- */

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

pco_status pco_file_find(const char *folder, const char *name, char **path, pco_error *err)
{
    if (asprintf(path, "%s/%s", folder, name) < 0) {
        *path = NULL;
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the path of %s", name);
    }
    if (access(*path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR)) return PCO_OK;
    free(*path);
    *path = NULL;
    return PCO_OK;
}
