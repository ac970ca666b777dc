/* Files: read-only maps, and writes that are whole or not at all. */
#ifndef PCO_BASE_FILE_H
#define PCO_BASE_FILE_H

#include "portico/plugin.h"

/* A file mapped read-only. `data` is NULL for an empty file. Page-aligned. */
typedef struct pco_map {
    const unsigned char *data;
    size_t size;
} pco_map;

/* Maps `path`. Errors: IO (missing, a directory, unreadable), with the path and the system's reason. */
pco_status pco_map_open(const char *path, pco_map *map, pco_error *err) PCO_NODISCARD;
void pco_map_close(pco_map *map);

/* Writes `size` bytes to `path` through a temporary file beside it, PATH.portico-XXXXXX: write, fsync, rename, fsync of
 * the folder. Temporary files of `path` that killed processes left are removed before; those being written are locked,
 * and stay. Errors: IO, with the path and the system's reason; the file is then as before, or (when the folder cannot
 * be synced) new. */
pco_status pco_file_write(const char *path, const void *data, size_t size, pco_error *err) PCO_NODISCARD;

/* Removes the same temporary files now, without a write. */
void pco_file_clear(const char *path);

/* Makes a folder and those above it, where they are not there yet. Errors: IO. */
pco_status pco_folder_make(const char *path, pco_error *err) PCO_NODISCARD;

/* True when `path` names a directory. */
int pco_is_directory(const char *path);

#endif
