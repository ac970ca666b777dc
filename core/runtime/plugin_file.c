#include "runtime/plugin_file.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_LANES = 4, FILE_CHUNK = 1 << 18 };

/* Four lanes of words, because a byte at a time would show in every start with a plugin of some 100 MB. The shift takes
 * differences in high bits down, which multiplying does not. */
static void file_hash(uint64_t *lanes, const unsigned char *data, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += 8 * FILE_LANES) {
        uint64_t words[FILE_LANES] = {0};
        memcpy(words, data + at, bytes - at < sizeof words ? bytes - at : sizeof words);
        for (int i = 0; i < FILE_LANES; i++) {
            lanes[i] = (lanes[i] ^ words[i]) * UINT64_C(0x9E3779B97F4A7C15);
            lanes[i] ^= lanes[i] >> 32;
        }
    }
}

/* Read and not mapped: a file that is written anew meanwhile is no signal then. */
static pco_status file_read(int fd, const char *path, uint64_t *identity, pco_error *err)
{
    uint64_t lanes[FILE_LANES] = {1, 2, 3, 4}, size = 0;
    struct stat st;
    ssize_t got = 1;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) return pco_fail(err, PCO_ERROR_IO, "%s: not a regular file", path);
    unsigned char *chunk = malloc(FILE_CHUNK);
    if (!chunk) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "%s: out of host memory", path);
    while (got > 0) {
        size_t used = 0; /* full but for the last, so that the lanes do not depend on how it was read */
        while (used < FILE_CHUNK && (got = read(fd, chunk + used, FILE_CHUNK - used)) != 0) {
            if (got < 0 && errno == EINTR) continue;
            if (got < 0) break;
            used += (size_t)got;
        }
        file_hash(lanes, chunk, used);
        size += used;
    }
    const int reason = errno;
    free(chunk);
    if (got < 0) return pco_fail(err, PCO_ERROR_IO, "%s: cannot be read: %s", path, strerror(reason));
    *identity = pco_hash(PCO_HASH_START, path, strlen(path));
    *identity = pco_hash(*identity, &size, sizeof size);
    *identity = pco_hash(*identity, lanes, sizeof lanes);
    return PCO_OK;
}

pco_status pco_plugin_file_identity(const char *path, uint64_t *identity, pco_error *err)
{
    const int fd = pco_fd_above(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (fd < 0) return pco_fail(err, PCO_ERROR_IO, "%s: cannot open: %s", path, strerror(errno));
    const pco_status status = file_read(fd, path, identity, err);
    close(fd);
    return status;
}
