/* Shared by the files that read and write adapters. */
#ifndef PCO_MODELS_ADAPTER_INTERNAL_H
#define PCO_MODELS_ADAPTER_INTERNAL_H

#include "models/adapter.h"

/* A projection of a layer; `part` counts the names in pco_layer_names. */
typedef struct adapter_place {
    pco_model_side side;
    int64_t layer;
    int part;
} adapter_place;

/* The projection of that name, as transformers calls it (without what all names of some families begin with) or as the
 * graph does; 0: there is none. */
int adapter_find(const pco_model_file *file, const char *name, int of_hub, adapter_place *place);
/* Where the graph has row `row` of a projection, transformers has this one. */
int64_t adapter_hub_row(const pco_model_file *file, const adapter_place *place, int64_t row);
/* How many rows a projection has of which some change places; 0: none does. */
int64_t adapter_moved_rows(const pco_model_file *file, const adapter_place *place);
/* What transformers calls it behind the number of the layer: "self_attn.q_proj". */
const char *adapter_hub_part(const pco_model_file *file, const adapter_place *place);
/* Does transformers keep its matrix as [in,out]? */
int adapter_transposed(const pco_model_file *file, const adapter_place *place);

#endif
