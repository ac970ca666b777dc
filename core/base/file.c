#include "base/file.h"
#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

pco_status pco_map_open(const char *path, pco_map *map, pco_error *err)
{
    *map = (pco_map){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return pco_fail(err, PCO_ERROR_IO, "%s: cannot open: %s", path, strerror(errno));
    struct stat st;
    pco_status status = PCO_OK;
    if (fstat(fd, &st) != 0) {
        status = pco_fail(err, PCO_ERROR_IO, "%s: cannot stat: %s", path, strerror(errno));
    } else if (!S_ISREG(st.st_mode)) {
        status = pco_fail(err, PCO_ERROR_IO, "%s: not a regular file", path);
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

pco_status pco_file_write(const char *path, const void *data, size_t size, pco_error *err)
{
    size_t length = strlen(path);
    char *temporary = malloc(length + 8);
    if (!temporary) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "%s: out of host memory", path);
    memcpy(temporary, path, length);
    memcpy(temporary + length, ".XXXXXX", 8);
    int fd = mkstemp(temporary);
    pco_status status = PCO_OK;
    if (fd < 0) {
        status = pco_fail(err, PCO_ERROR_IO, "%s: cannot create: %s", path, strerror(errno));
        goto done;
    }
    int bad = fchmod(fd, 0644) != 0 || file_write_all(fd, data, size) != 0;
    if (close(fd) != 0) bad = 1;
    if (bad || rename(temporary, path) != 0) {
        status = pco_fail(err, PCO_ERROR_IO, "%s: cannot write: %s", path, strerror(errno));
        unlink(temporary);
    }
done:
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
