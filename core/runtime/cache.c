#include "runtime/cache.h"

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "runtime/trust.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What stands in front of each blob. */
typedef struct cache_header {
    char magic[8];
    uint64_t bytes, checksum;
} cache_header;

static const char CACHE_MAGIC[8] = {'P', 'C', 'O', 'C', 'A', 'C', 'H', '1'};

static int cache_path(const char *dir, const char *name, char *path, size_t size)
{
    if (!*dir || !*name || strlen(name) > 100) return 0;
    if (strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._-") != strlen(name) || name[0] == '.') return 0;
    int length = snprintf(path, size, "%s/%s", dir, name);
    return length > 0 && (size_t)length < size;
}

pco_status pco_cache_load(const char *dir, const char *name, void **data, size_t *bytes)
{
    char path[700];
    pco_map map;
    *data = NULL;
    *bytes = 0;
    if (!cache_path(dir, name, path, sizeof path)) return PCO_ERROR_NOT_FOUND;
    if (pco_map_open(path, &map, NULL)) return PCO_ERROR_NOT_FOUND;
    pco_status status = PCO_ERROR_NOT_FOUND;
    cache_header header;
    if (map.size >= sizeof header) {
        memcpy(&header, map.data, sizeof header);
        const unsigned char *blob = map.data + sizeof header;
        size_t size = map.size - sizeof header;
        if (memcmp(header.magic, CACHE_MAGIC, sizeof header.magic) == 0 && header.bytes == size &&
            header.checksum == pco_hash(PCO_HASH_START, blob, size)) {
            *data = malloc(size ? size : 1);
            status = *data ? PCO_OK : PCO_ERROR_OUT_OF_HOST_MEMORY;
            if (*data) {
                memcpy(*data, blob, size);
                *bytes = size;
            }
        }
    }
    pco_map_close(&map);
    if (status == PCO_ERROR_NOT_FOUND) unlink(path);
    return status;
}

pco_status pco_cache_make(const char *dir, pco_error *err)
{
    char path[700];
    snprintf(path, sizeof path, "%s", dir);
    for (char *at = path + 1; *at; at++) {
        if (*at != '/') continue;
        *at = 0;
        mkdir(path, 0700);
        *at = '/';
    }
    if (mkdir(path, 0700) == 0 || pco_is_directory(path)) return PCO_OK;
    return pco_fail(err, PCO_ERROR_IO, "it cannot be made: %s", strerror(errno));
}

pco_status pco_cache_store(const char *dir, const char *name, const void *data, size_t bytes, pco_error *err)
{
    char path[700];
    if (!cache_path(dir, name, path, sizeof path))
        return pco_fail(err, PCO_ERROR_NOT_FOUND, "no cache, or '%s' cannot be a name in it", name);
    pco_status status = pco_cache_make(dir, err);
    if (status) return status;
    cache_header header = {.bytes = bytes, .checksum = pco_hash(PCO_HASH_START, data, bytes)};
    memcpy(header.magic, CACHE_MAGIC, sizeof header.magic);
    unsigned char *blob = malloc(sizeof header + bytes);
    if (!blob) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for '%s'", name);
    memcpy(blob, &header, sizeof header);
    if (bytes) memcpy(blob + sizeof header, data, bytes);
    struct stat st; /* a link would lead elsewhere, and a pipe be waited for */
    if (lstat(path, &st) == 0 && !S_ISREG(st.st_mode)) unlink(path);
    status = pco_file_write(path, blob, sizeof header + bytes, err);
    free(blob);
    return status;
}

/* One warning for each registry. */
static int cache_tells(const pco_config *config)
{
    return !(config->cache_told && atomic_flag_test_and_set(config->cache_told));
}

static const char cache_price[] = "Plugins are probed, kernels compiled and devices tested anew in every process; "
                                  "PORTICO_CACHE_DIR names another folder, or, empty, none";

void pco_cache_distrust(pco_config *config)
{
    pco_error why = {""};
    if (!pco_is_directory(config->cache_dir) ||
        pco_trust(config->cache_dir, "what lies there is run", &why) != PCO_ERROR_UNSUPPORTED)
        return;
    if (cache_tells(config))
        pco_log_line(config, PCO_LOG_WARNING, "the cache folder is not used: %s. %s", why.message, cache_price);
    config->cache_dir[0] = 0;
}

pco_status pco_cache_keep(const pco_config *config, const char *name, const void *data, size_t bytes)
{
    pco_error err = {""};
    pco_status status = pco_cache_store(config->cache_dir, name, data, bytes, &err);
    if (status && status != PCO_ERROR_NOT_FOUND && cache_tells(config))
        pco_log_line(config, PCO_LOG_WARNING, "the cache folder '%s' cannot be used: %s. %s", config->cache_dir,
                     err.message, cache_price);
    return status;
}
