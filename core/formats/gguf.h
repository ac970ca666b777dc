/* GGUF files, versions 2 and 3, little endian. The format:
 * https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
 *
 * A pco_gguf is read-only once opened and may be shared by threads. Everything that the getters return
 * belongs to it, unless said otherwise. */
#ifndef PCO_FORMATS_GGUF_H
#define PCO_FORMATS_GGUF_H

#include "formats/weights.h"

/* Value types, by the numbers of the format. */
typedef enum pco_gguf_type {
    PCO_GGUF_U8 = 0,
    PCO_GGUF_I8 = 1,
    PCO_GGUF_U16 = 2,
    PCO_GGUF_I16 = 3,
    PCO_GGUF_U32 = 4,
    PCO_GGUF_I32 = 5,
    PCO_GGUF_F32 = 6,
    PCO_GGUF_BOOL = 7,
    PCO_GGUF_STRING = 8,
    PCO_GGUF_ARRAY = 9,
    PCO_GGUF_U64 = 10,
    PCO_GGUF_I64 = 11,
    PCO_GGUF_F64 = 12,
} pco_gguf_type;

/* Bytes of a string. Not followed by NUL when it is an element of an array. */
typedef struct pco_gguf_string {
    const char *data;
    size_t size;
} pco_gguf_string;

/* One key and its value. */
typedef struct pco_gguf_entry {
    char *key;
    uint32_t type; /* pco_gguf_type of the value, or of the elements of an array; never ARRAY */
    uint32_t is_array;
    uint64_t count;            /* elements; 1 for a single value */
    const unsigned char *data; /* little endian, perhaps unaligned; for strings, see `strings` */
    pco_gguf_string *strings;  /* `count` of them for type STRING, else NULL */
    char *text;                /* a single string with a NUL behind it, else NULL */
} pco_gguf_entry;

typedef struct pco_gguf pco_gguf;

enum {
    PCO_GGUF_METADATA_ONLY = 1u << 0, /* the tensors' data may be missing; their `data` is then NULL */
};

/* Maps and checks `path`, and the parts beside it where it is the first of several; the caller closes *gguf. Errors:
 * IO; FORMAT, with the file, the key or tensor, the offset; INVALID for a part that is not the first;
 * OUT_OF_HOST_MEMORY. Refused as FORMAT: other versions and big-endian files, a key or tensor name
 * twice, nested arrays, tensors that are not packed in order at general.alignment, more than 4 dimensions. */
pco_status pco_gguf_open(const char *path, uint32_t flags, pco_gguf **gguf, pco_error *err) PCO_NODISCARD;

/* The same for bytes that the caller keeps alive and unchanged until the close. */
pco_status pco_gguf_parse(const void *data, size_t size, const char *label, uint32_t flags, pco_gguf **gguf,
                          pco_error *err) PCO_NODISCARD;

/* Frees everything, the weights included. NULL is allowed. */
void pco_gguf_close(pco_gguf *gguf);

/* The tensors; closed with the file. */
const pco_weights *pco_gguf_weights(const pco_gguf *gguf);

/* The same, for whoever owns the file and adds tensors of his own. */
pco_weights *pco_gguf_own_weights(pco_gguf *gguf);

uint32_t pco_gguf_version(const pco_gguf *gguf);
const char *pco_gguf_label(const pco_gguf *gguf);

/* All keys, in the order of the file; index below the count. */
uint64_t pco_gguf_entry_count(const pco_gguf *gguf);
const pco_gguf_entry *pco_gguf_entry_at(const pco_gguf *gguf, uint64_t index);

/* The entry of a key, or NULL. Binary search. */
const pco_gguf_entry *pco_gguf_find(const pco_gguf *gguf, const char *key);

/* "u8" ... "string"; "unknown" for other numbers. Static. */
const char *pco_gguf_type_name(uint32_t type);

/* Typed getters. Without the key: NOT_FOUND. With a value of another type or out of range: FORMAT. Both name
 * the file, the key, what is there and what is expected. The integer getters take any integer type whose
 * value fits; f32 takes f64 as well, rounded. */
pco_status pco_gguf_u32(const pco_gguf *gguf, const char *key, uint32_t *out, pco_error *err) PCO_NODISCARD;
pco_status pco_gguf_i32(const pco_gguf *gguf, const char *key, int32_t *out, pco_error *err) PCO_NODISCARD;
pco_status pco_gguf_f32(const pco_gguf *gguf, const char *key, float *out, pco_error *err) PCO_NODISCARD;
pco_status pco_gguf_bool(const pco_gguf *gguf, const char *key, int *out, pco_error *err) PCO_NODISCARD;
/* Ends with NUL; a string that contains NUL is FORMAT. */
pco_status pco_gguf_text(const pco_gguf *gguf, const char *key, const char **out, pco_error *err) PCO_NODISCARD;

/* The same with a value for an absent key. A value of a wrong type is still an error. */
pco_status pco_gguf_u32_or(const pco_gguf *gguf, const char *key, uint32_t fallback, uint32_t *out,
                           pco_error *err) PCO_NODISCARD;
pco_status pco_gguf_f32_or(const pco_gguf *gguf, const char *key, float fallback, float *out,
                           pco_error *err) PCO_NODISCARD;
pco_status pco_gguf_bool_or(const pco_gguf *gguf, const char *key, int fallback, int *out,
                            pco_error *err) PCO_NODISCARD;
pco_status pco_gguf_text_or(const pco_gguf *gguf, const char *key, const char *fallback, const char **out,
                            pco_error *err) PCO_NODISCARD;

/* Arrays. Errors as above. The string array belongs to the file; the numeric ones are copies that the caller
 * frees (never NULL on success). i32 takes integer elements that fit, f32 takes f32 and f64; bool takes bools and
 * integers, of which 0 becomes 0 and all others 1. */
pco_status pco_gguf_string_array(const pco_gguf *gguf, const char *key, const pco_gguf_string **out, uint64_t *count,
                                 pco_error *err) PCO_NODISCARD;
pco_status pco_gguf_i32_array(const pco_gguf *gguf, const char *key, int32_t **out, uint64_t *count,
                              pco_error *err) PCO_NODISCARD;
pco_status pco_gguf_bool_array(const pco_gguf *gguf, const char *key, unsigned char **out, uint64_t *count,
                               pco_error *err) PCO_NODISCARD;
pco_status pco_gguf_f32_array(const pco_gguf *gguf, const char *key, float **out, uint64_t *count,
                              pco_error *err) PCO_NODISCARD;

/* A tensor type of ggml: its number in files, name, elements in a block, bytes of a block, the pco_dtype or -1, and of
 * a pco_dtype "general.file_type" of files that are mostly of it or -1. The table has every type that current files may
 * contain; NULL for a number that it does not have. */
typedef struct pco_ggml_type {
    uint32_t id;
    const char *name;
    uint32_t block, block_bytes;
    int32_t dtype, file_type;
} pco_ggml_type;
const pco_ggml_type *pco_ggml_type_find(uint32_t id);
/* That of a pco_dtype; NULL for one that GGUF does not have. */
const pco_ggml_type *pco_ggml_type_of(uint32_t dtype);

#endif
