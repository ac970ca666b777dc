/* Named tensors of a model file, whatever its format: what the safetensors and GGUF readers produce.
 *
 * A pco_weights is built by one thread; afterwards it is read-only and may be shared by threads. */
#ifndef PCO_FORMATS_WEIGHTS_H
#define PCO_FORMATS_WEIGHTS_H

#include "base/file.h"
#include "portico/nn.h" /* opening and closing: every pointer into the weights ends then */

/* One tensor. `type_name` is the format's own name for its type, a static string. `dtype` is a pco_dtype, or
 * -1 for a type that Portico lists and cannot run ("Q5_0", "F64"). */
typedef struct pco_weight {
    char *name;
    const char *type_name;
    int32_t dtype;
    uint32_t rank;
    int64_t shape[PCO_MAX_RANK]; /* outermost first, as NumPy prints it: GGUF's dimensions reversed */
    uint64_t bytes;
    const void *data; /* `bytes` bytes inside the map, perhaps unaligned; NULL when only metadata was read */
} pco_weight;

/* A string of the file about itself ("__metadata__" of safetensors). */
typedef struct pco_weights_note {
    char *key, *value;
} pco_weights_note;

struct pco_weights {
    pco_weight *items; /* in the order of the file's header */
    uint32_t count, capacity;
    uint32_t *order; /* indices of items, sorted by name */
    pco_weights_note *notes;
    uint32_t note_count;
    char *label;   /* the path, for messages */
    pco_map *maps; /* owned: the files, and memory of weights that were made when they were read; none when a file was
                      parsed from the caller's memory */
    uint32_t map_count;
    pco_map copies; /* owned: of tensors that do not lie in the file as they are here */
};

/* The tensor with that name, or NULL. Binary search. */
const pco_weight *pco_weights_find(const pco_weights *weights, const char *name);

/* The same, as an error when there is none (NOT_FOUND) or its type cannot run (UNSUPPORTED), by name. */
pco_status pco_weights_require(const pco_weights *weights, const char *name, const pco_weight **weight,
                               pco_error *err) PCO_NODISCARD;

/* The value of a note, or NULL. */
const char *pco_weights_note_value(const pco_weights *weights, const char *key);

/* ---- for readers: create, add all, index --------------------------------------------------------------- */

/* An empty collection. `label` is copied. NULL without memory. */
pco_weights *pco_weights_create(const char *label);

/* Appends a copy of `weight` with a copy of name[name_size]. Errors: OUT_OF_HOST_MEMORY. */
pco_status pco_weights_add(pco_weights *weights, const pco_weight *weight, const char *name, size_t name_size,
                           pco_error *err) PCO_NODISCARD;

/* Appends a note; both strings are copied. Errors: OUT_OF_HOST_MEMORY. */
pco_status pco_weights_add_note(pco_weights *weights, const char *key, const char *value, pco_error *err) PCO_NODISCARD;

/* Takes a map, which is closed with the weights. Errors: OUT_OF_HOST_MEMORY; the map is then still the caller's. */
pco_status pco_weights_keep_map(pco_weights *weights, const pco_map *map, pco_error *err) PCO_NODISCARD;

/* Maps a file, has `parse` read it with its path as label, and gives the weights the map. Errors: those of mapping and
 * of parsing; then *weights is NULL. */
typedef pco_status (*pco_weights_parse_fn)(const void *data, size_t size, const char *label, pco_weights **weights,
                                           pco_error *err);
pco_status pco_weights_open_mapped(const char *path, pco_weights_parse_fn parse, pco_weights **weights,
                                   pco_error *err) PCO_NODISCARD;

/* Memory for the elements of weights, page-aligned, which lives as long as they do. NULL without memory. */
void *pco_weights_allocate(pco_weights *weights, uint64_t bytes);

/* Moves all tensors, notes and maps of `from` behind those of `to`, and closes `from`. Index afterwards. Errors:
 * OUT_OF_HOST_MEMORY; both are then as before, but for the room that they have. */
pco_status pco_weights_join(pco_weights *to, pco_weights *from, pco_error *err) PCO_NODISCARD;

/* Makes find work. Errors: FORMAT when a name occurs twice; OUT_OF_HOST_MEMORY. */
pco_status pco_weights_index(pco_weights *weights, pco_error *err) PCO_NODISCARD;

#endif
