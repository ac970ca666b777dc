/* JSON in (cJSON, with the strictness that it lacks) and JSON out (a small streaming writer).
 *
 * Reading functions may be called from any thread on different documents. */
#ifndef PCO_FORMATS_JSON_H
#define PCO_FORMATS_JSON_H

#include <cjson/cJSON.h>

#include "base/writer.h"
#include "portico/plugin.h"

/* Parses text[size], which need not end with NUL. The caller gives *root to cJSON_Delete. `label` is the path
 * or another name for messages. Errors, FORMAT, with line and column (bytes, from 1): not JSON, text after
 * the value, text that is not UTF-8, control characters, "\u0000" in a string, a key twice in one object.
 * OUT_OF_HOST_MEMORY. */
pco_status pco_json_parse(const char *text, size_t size, const char *label, cJSON **root, pco_error *err) PCO_NODISCARD;

/* The same for a file. Errors also: IO. */
pco_status pco_json_load(const char *path, cJSON **root, pco_error *err) PCO_NODISCARD;

/* FOLDER/NAME, where it may be missing: *root is NULL then, as *path is, which else is its path (free, also after an
 * error). Errors: as above. */
pco_status pco_json_load_if(const char *folder, const char *name, char **path, cJSON **root,
                            pco_error *err) PCO_NODISCARD;

/* Getters read key `key` of `object`. All errors are FORMAT and name the label, the key, what is there and
 * what should be. Keys are compared exactly. The plain forms require the key; the _or forms take `fallback`
 * when it is absent (null is not absent). Integers must be whole, and within +-2^53. */
pco_status pco_json_int(const cJSON *object, const char *label, const char *key, int64_t least, int64_t most,
                        int64_t *out, pco_error *err) PCO_NODISCARD;
pco_status pco_json_int_or(const cJSON *object, const char *label, const char *key, int64_t least, int64_t most,
                           int64_t fallback, int64_t *out, pco_error *err) PCO_NODISCARD;
pco_status pco_json_number(const cJSON *object, const char *label, const char *key, double least, double most,
                           double *out, pco_error *err) PCO_NODISCARD;
pco_status pco_json_number_or(const cJSON *object, const char *label, const char *key, double least, double most,
                              double fallback, double *out, pco_error *err) PCO_NODISCARD;
pco_status pco_json_bool_or(const cJSON *object, const char *label, const char *key, int fallback, int *out,
                            pco_error *err) PCO_NODISCARD;
/* The string belongs to the document. `fallback` may be NULL. */
pco_status pco_json_string(const cJSON *object, const char *label, const char *key, const char **out,
                           pco_error *err) PCO_NODISCARD;
pco_status pco_json_string_or(const cJSON *object, const char *label, const char *key, const char *fallback,
                              const char **out, pco_error *err) PCO_NODISCARD;
/* One of names[count]: its index in *out. The _or form takes the index `fallback`. */
pco_status pco_json_enum(const cJSON *object, const char *label, const char *key, const char *const *names,
                         uint32_t count, uint32_t *out, pco_error *err) PCO_NODISCARD;
pco_status pco_json_enum_or(const cJSON *object, const char *label, const char *key, const char *const *names,
                            uint32_t count, uint32_t fallback, uint32_t *out, pco_error *err) PCO_NODISCARD;

/* Refuses keys of `object` that are not in known[count], all of them in one message (FORMAT); also refuses
 * something that is not an object. */
pco_status pco_json_known(const cJSON *object, const char *label, const char *const *known, uint32_t count,
                          pco_error *err) PCO_NODISCARD;

/* The value as an integer in *out, when it is a number, whole and within +-2^53; returns 0 otherwise. */
int pco_json_whole(const cJSON *value, int64_t *out);

/* Gives `item` to an object, or (key NULL) to a list. 0 without memory, also when `item` is NULL for want of
 * it; it is then deleted. */
int pco_json_give(cJSON *parent, const char *key, cJSON *item);

/* ---- reading many keys of an object ------------------------------------------------------------------- */

/* Start from {object, label, .err = err}. The first error is kept, and reading after it gives the fallback; the caller
 * looks at `status` in the end. null is as good as absent. Errors as above. */
typedef struct pco_json_reader {
    const cJSON *root;
    const char *label;
    pco_status status;
    pco_error *err;
} pco_json_reader;

int64_t pco_json_read_int(pco_json_reader *reader, const char *key, int64_t least, int64_t most, int64_t fallback);
double pco_json_read_number(pco_json_reader *reader, const char *key, double least, double most, double fallback);
int pco_json_read_bool(pco_json_reader *reader, const char *key, int fallback);
uint32_t pco_json_read_enum(pco_json_reader *reader, const char *key, const char *const *names, uint32_t count,
                            uint32_t fallback);

/* ---- writing ------------------------------------------------------------------------------------------- */

/* A streaming writer. Start from {.out = w}, or {.out = w, .indent = 2} for lines. Commas and colons come
 * by themselves; at most 64 levels. The caller closes what it opens; `out` keeps the first error. One thread.
 */
typedef struct pco_json_writer {
    pco_writer *out; /* borrowed */
    int indent;      /* spaces per level; 0: everything on one line */
    uint32_t depth;
    uint64_t filled; /* bit d: level d has a member already */
    int after_key;
} pco_json_writer;

void pco_json_begin_object(pco_json_writer *writer);
void pco_json_end_object(pco_json_writer *writer);
void pco_json_begin_array(pco_json_writer *writer);
void pco_json_end_array(pco_json_writer *writer);
void pco_json_key(pco_json_writer *writer, const char *key);
/* Escapes what JSON requires; bytes that are not UTF-8 become U+FFFD. */
void pco_json_write_string(pco_json_writer *writer, const char *text);
void pco_json_write_bytes(pco_json_writer *writer, const char *text, size_t size);
void pco_json_write_int(pco_json_writer *writer, int64_t value);
void pco_json_write_uint(pco_json_writer *writer, uint64_t value);
/* The shortest of 6, 9, 15, 16 and 17 digits that reads back equal; NaN and infinity become null. */
void pco_json_write_number(pco_json_writer *writer, double value);
void pco_json_write_bool(pco_json_writer *writer, int value);
void pco_json_write_null(pco_json_writer *writer);

#endif
