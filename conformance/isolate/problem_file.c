/* A node with its operands as a file in memory: the case as it is, then the operands in multiples of 8 bytes. */
#include "isolate/problem_file.h"

#include "base/error.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static bool problem_put(int fd, const void *data, size_t bytes)
{
    for (const char *at = data; bytes > 0;) {
        ssize_t put = write(fd, at, bytes);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return false;
        at += put, bytes -= (size_t)put;
    }
    return true;
}

pco_status conf_problem_store(const conf_case *one, void *const *data, int *file, pco_error *err)
{
    static const char ZEROS[8];
    if (*file >= 0) close(*file);
    *file = memfd_create("portico-problem", MFD_CLOEXEC);
    bool good = *file >= 0 && problem_put(*file, one, sizeof *one);
    for (uint32_t i = 0; i < one->n_inputs && good; i++) {
        if (!one->in[i].present) continue;
        uint64_t bytes = conf_operand_tensor(one, i).bytes;
        good = problem_put(*file, data[i], bytes) && problem_put(*file, ZEROS, (size_t)(-bytes & 7));
    }
    if (good) return PCO_OK;
    return pco_fail(err, PCO_ERROR_IO, "a node's operands could not be handed to a worker process: %s",
                    strerror(errno));
}

pco_status conf_problem_load(const char *path, pco_map *map, conf_case *one, const void **data, pco_error *err)
{
    pco_status status = pco_map_open(path, map, err);
    if (status) return status;
    const uint8_t *at = map->data;
    uint64_t left = map->size;
    bool good = left >= sizeof *one;
    if (good) memcpy(one, at, sizeof *one), at += sizeof *one, left -= sizeof *one;
    for (uint32_t i = 0; good && i < one->n_inputs; i++) {
        data[i] = NULL;
        if (!one->in[i].present) continue;
        uint64_t bytes = (conf_operand_tensor(one, i).bytes + 7) / 8 * 8;
        good = bytes <= left;
        data[i] = at, at += bytes, left -= bytes;
    }
    return good ? PCO_OK : pco_fail(err, PCO_ERROR_FORMAT, "%s: this is no problem of a bisection", path);
}
