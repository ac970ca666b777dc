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

#endif
