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
/* The same for a file that is open, and stays open; `path` is for messages. */
pco_status pco_map_descriptor(int fd, const char *path, pco_map *map, pco_error *err) PCO_NODISCARD;
void pco_map_close(pco_map *map);

/* Writes `size` bytes to `path`. A regular file is replaced, whole or not at all, through a temporary file
 * beside it, PATH.portico-XXXXXX: write, fsync, rename, fsync of the folder; mode and owner stay. Temporary
 * files of `path` that killed processes left are removed before; those being written are locked, and stay.
 * Symbolic links stay, and what they lead to is replaced. What is no regular file (a device, a pipe,
 * /dev/stdout) is written to as it is. Errors: IO, with the path and the system's reason; a regular file is
 * then as before, or (when the folder cannot be synced) new. */
pco_status pco_file_write(const char *path, const void *data, size_t size, pco_error *err) PCO_NODISCARD;

/* The same, but a regular file is read back before it takes the old one's place: it must have the bytes that
 * were written, and `check` may look whether they are what was meant. */
typedef pco_status (*pco_file_check_fn)(void *user, const void *data, size_t size, pco_error *err);
pco_status pco_file_write_checked(const char *path, const void *data, size_t size, pco_file_check_fn check, void *user,
                                  pco_error *err) PCO_NODISCARD;

/* The same for a file that is made piece by piece and never lies in memory whole. What is sent goes to the temporary
 * file; the close puts it in its place, or, with the status of something that failed, takes it away and returns that
 * status. Every stream that was opened is closed. `path` lives until then. Errors: IO, OUT_OF_HOST_MEMORY. */
typedef struct pco_file_stream pco_file_stream;
pco_status pco_file_stream_open(const char *path, pco_file_stream **stream, pco_error *err) PCO_NODISCARD;
pco_status pco_file_stream_send(pco_file_stream *stream, const void *data, size_t size, pco_error *err) PCO_NODISCARD;
uint64_t pco_file_stream_size(const pco_file_stream *stream);
/* What was sent so far, as a map; IO where it goes to what is no regular file. */
pco_status pco_file_stream_map(const pco_file_stream *stream, pco_map *map, pco_error *err) PCO_NODISCARD;
pco_status pco_file_stream_close(pco_file_stream *stream, pco_status status, pco_error *err) PCO_NODISCARD;

/* Opens a file that grows, at its end; it is made where it is not there yet. *is_regular: it can be read, cut
 * and gone on with; else it is a device, a pipe or the like. The caller closes *fd. Errors: IO. */
pco_status pco_file_open_log(const char *path, int *fd, int *is_regular, pco_error *err) PCO_NODISCARD;

/* Writes all bytes to a file that is open, called `label` in messages. Errors: IO. */
pco_status pco_file_send(int fd, const void *data, size_t size, const char *label, pco_error *err) PCO_NODISCARD;

/* Removes the same temporary files now, without a write. */
void pco_file_clear(const char *path);

/* Makes a folder and those above it, where they are not there yet. Errors: IO. */
pco_status pco_folder_make(const char *path, pco_error *err) PCO_NODISCARD;

/* True when `path` names a directory. */
int pco_is_directory(const char *path);

/* FOLDER/NAME in *path (free), if there is such a file, or if only opening it can say why it cannot be told; NULL where
 * there is none. Errors: OUT_OF_HOST_MEMORY. */
pco_status pco_file_find(const char *folder, const char *name, char **path, pco_error *err) PCO_NODISCARD;

#endif
