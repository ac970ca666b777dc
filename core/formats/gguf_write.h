/* Writes GGUF files, version 3: keys and descriptions of tensors are gathered in memory, then their data are sent one
 * tensor after the other. The first error is kept and what comes after it is dropped; the close returns it. */
#ifndef PCO_FORMATS_GGUF_WRITE_H
#define PCO_FORMATS_GGUF_WRITE_H

#include "base/writer.h"
#include "formats/gguf.h"

/* Bytes of a tensor's name, with a NUL behind. */
enum { PCO_GGUF_NAME = 64 };

typedef struct pco_gguf_writer { /* zero-initialised: empty */
    pco_writer keys, tensors;
    uint64_t key_count, tensor_count;
    uint64_t data_size; /* of the data of the tensors described so far, with padding */
    pco_file_stream *file;
} pco_gguf_writer;

/* ---- keys: before the tensors' data; none twice ---- */

void pco_gguf_put_u32(pco_gguf_writer *out, const char *key, uint32_t value);
void pco_gguf_put_f32(pco_gguf_writer *out, const char *key, float value);
void pco_gguf_put_bool(pco_gguf_writer *out, const char *key, int value);
void pco_gguf_put_text(pco_gguf_writer *out, const char *key, const char *value);
void pco_gguf_put_i32s(pco_gguf_writer *out, const char *key, const int32_t *values, uint64_t count);
void pco_gguf_put_bytes(pco_gguf_writer *out, const char *key, const void *values, uint64_t count);
void pco_gguf_put_f32s(pco_gguf_writer *out, const char *key, const float *values, uint64_t count);
void pco_gguf_put_texts(pco_gguf_writer *out, const char *key, const pco_gguf_string *values, uint64_t count);
/* A key of another file, as it is there. */
void pco_gguf_put_entry(pco_gguf_writer *out, const pco_gguf_entry *entry);

/* ---- tensors ---- */

/* Describes the next tensor: outermost dimension first. `type` is a row of pco_ggml_type_find. Errors, INVALID: a name
 * of 64 bytes or more, more than 4 dimensions, rows that are not whole blocks. */
pco_status pco_gguf_put_tensor(pco_gguf_writer *out, const char *name, uint32_t rank, const int64_t *shape,
                               const pco_ggml_type *type, pco_error *err) PCO_NODISCARD;

/* Opens the file (as pco_file_stream_open, whose rules hold for `path`) and sends what was gathered. */
pco_status pco_gguf_write_open(pco_gguf_writer *out, const char *path, pco_error *err) PCO_NODISCARD;
/* Instead of a file: the keys as of one that was opened, whose tensors its owner adds; closing it ends all. */
pco_status pco_gguf_write_opened(pco_gguf_writer *out, const char *label, pco_gguf **gguf,
                                 pco_error *err) PCO_NODISCARD;
/* The next bytes of data: each tensor's in the order of their descriptions, in as many calls as one likes. */
pco_status pco_gguf_write_data(pco_gguf_writer *out, const void *data, size_t size, pco_error *err) PCO_NODISCARD;
/* Behind the last byte of each tensor. */
pco_status pco_gguf_write_padding(pco_gguf_writer *out, pco_error *err) PCO_NODISCARD;
/* The whole file as it is read back, before the close; IO where it goes to what is no regular file. */
pco_status pco_gguf_write_map(const pco_gguf_writer *out, pco_map *map, pco_error *err) PCO_NODISCARD;
/* Puts the file in its place, or, with the status of what failed, leaves no trace of it; releases all. */
pco_status pco_gguf_write_close(pco_gguf_writer *out, pco_status status, pco_error *err) PCO_NODISCARD;

#endif
