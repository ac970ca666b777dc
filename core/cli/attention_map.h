/* `portico run --attention`: the attention weights of a text as a picture (SVG) or as numbers (JSON). */
#ifndef PCO_CLI_ATTENTION_MAP_H
#define PCO_CLI_ATTENTION_MAP_H

#include "api/api.h"

typedef struct attention_picture {
    const char *path; /* ends in .json: numbers; anything else: SVG 1.1, in one file */
    int64_t layer;    /* only that layer; below 0: all */
} attention_picture;

/* Draws the attentions of the model's last generation, whose source was source[source_count] (none:
 * decoder-only). One panel per layer and head: a row per token that looks, a column per token that is looked
 * at, darker for a larger weight. The file is written under a name of its own and then renamed. Errors: as
 * pco_model_attention; INVALID for a layer that is not there, or more cells than a picture holds; IO. */
pco_status attention_draw(pco_model *model, const int32_t *source, size_t source_count,
                          const attention_picture *picture, pco_error *err) PCO_NODISCARD;

#endif
