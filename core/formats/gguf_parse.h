/* Shared by the files of the GGUF reader only. */
#ifndef PCO_FORMATS_GGUF_PARSE_H
#define PCO_FORMATS_GGUF_PARSE_H

#include "formats/gguf.h"

#define GGUF_RANK_MOST 4u
#define GGUF_NAME_MOST 64u /* with a NUL behind */

struct pco_gguf {
    pco_weights *weights; /* also owns the map and the label */
    pco_gguf_entry *entries;
    uint64_t entry_count;
    uint64_t *order; /* indices of entries, sorted by key */
    uint32_t version;
};

/* A place in the file. */
typedef struct gguf_reader {
    const unsigned char *data;
    size_t size, at;
    const char *label;
} gguf_reader;

/* Copies the next `bytes` bytes and steps over them; 0 when there are not that many. */
int gguf_take(gguf_reader *reader, void *out, size_t bytes);

/* The next string, in place: u64 length, then bytes. 0 when it does not fit. */
int gguf_take_string(gguf_reader *reader, pco_gguf_string *string);

/* Bytes of a value of a fixed-size type; 0 for strings, arrays and unknown numbers. */
size_t gguf_type_bytes(uint32_t type);

/* Reads `count` tensor descriptions at reader->at, and finds their data. */
pco_status gguf_read_tensors(pco_gguf *gguf, gguf_reader *reader, uint64_t count, uint32_t flags, pco_error *err);

/* The file alone, whether or not it is one part of several. */
pco_status gguf_open_one(const char *path, uint32_t flags, pco_gguf **gguf, pco_error *err);

#endif
