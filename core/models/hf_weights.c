#include "models/hf_weights.h"

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The name behind the prefix, with another end; NULL without memory. */
static char *hf_name(const char *name, const char *prefix)
{
    static const char *const ends[][2] = {{".LayerNorm.gamma", "weight"}, {".LayerNorm.beta", "bias"}};
    const size_t skip = strncmp(name, prefix, strlen(prefix)) == 0 ? strlen(prefix) : 0;
    char *made = strdup(name + skip);
    const size_t size = made ? strlen(made) : 0;
    for (int i = 0; made && i < 2; i++) {
        const size_t end = strlen(ends[i][0]);
        char *longer = NULL;
        if (size < end || strcmp(made + size - end, ends[i][0]) != 0) continue;
        if (asprintf(&longer, "%.*s.LayerNorm.%s", (int)(size - end), made, ends[i][1]) < 0) longer = NULL;
        free(made);
        return longer;
    }
    return made;
}

pco_status pco_hf_rename(const pco_family *family, pco_weights *weights, pco_error *err)
{
    if (!family->prefix) return PCO_OK;
    for (uint32_t i = 0; i < weights->count; i++) {
        char *name = hf_name(weights->items[i].name, family->prefix);
        if (!name) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "%s: no memory for names", weights->label);
        free(weights->items[i].name);
        weights->items[i].name = name;
        pco_weight *weight = &weights->items[i];
        if (weight->rank == 2 && weight->shape[0] == 1 && strcmp(name, "final_logits_bias") == 0) {
            weight->rank = 1; /* a vector that is kept as a row */
            weight->shape[0] = weight->shape[1];
        }
    }
    return pco_weights_index(weights, err);
}

int pco_hf_ignores(const pco_family *family, const char *name)
{
    for (const char *const *begin = family->ignored; begin && *begin; begin++)
        if (strncmp(name, *begin, strlen(*begin)) == 0) return 1;
    return 0;
}
