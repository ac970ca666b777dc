/* Shared by the files that write GGUF from models. */
#ifndef PCO_MODELS_CONVERT_INTERNAL_H
#define PCO_MODELS_CONVERT_INTERNAL_H

#include "formats/gguf_write.h"
#include "models/convert.h"

/* Room in a list of items for tensors that are made: factors of rotations. */
enum { CONVERT_MADE = 4 };

/* A tensor on its way. */
typedef struct convert_item {
    const pco_weight *weight;
    char name[PCO_GGUF_NAME];      /* in the file that is made */
    uint32_t dtype;                /* that it gets */
    int64_t pair_heads, pair_rows; /* rows of each head of which the first pair_rows, halves apart, become neighbours;
                                      0: none */
} convert_item;

typedef struct convert_items {
    convert_item *items;
    uint32_t count;
} convert_items;

/* The family whose GGUF files the model's are; NULL: there are none. */
const pco_family *convert_family(const pco_model_file *file);
/* What GGUF calls the tensors of a folder, and which of their rows change places (convert_hub.c). Errors: UNSUPPORTED,
 * by name. */
pco_status convert_rename(const pco_model_file *file, convert_items *all, pco_error *err) PCO_NODISCARD;
/* Tensors that GGUF has and a folder has not, behind the others: factors of rotations, which live in the spec. */
void convert_add_factors(const pco_model_spec *spec, convert_items *all, pco_weight made[CONVERT_MADE]);
/* The keys of the model itself. */
void convert_put_spec(pco_gguf_writer *out, const pco_model_file *file);
/* Is it what was read back? Errors: UNSUPPORTED, with what GGUF cannot say. */
pco_status convert_compare_specs(const pco_model_file *file, const pco_model_spec *read, pco_error *err) PCO_NODISCARD;

#endif
