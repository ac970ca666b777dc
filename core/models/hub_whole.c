/* Models of several media whose text is read and written by a model of a family: of their folders that part is run. Its
 * config is an object in the file, which leaves out what is as usual, and its tensors' names have a name in front. */
#include "models/hub.h"

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const cJSON *pco_hub_text_part(const pco_hub *hub, const cJSON *root)
{
    const char *type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, "model_type"));
    const cJSON *part = cJSON_GetObjectItemCaseSensitive(root, "text_config");
    if (!hub || !hub->whole || !type || strcmp(type, hub->whole->model_type) != 0) return NULL;
    return cJSON_IsObject(part) ? part : NULL;
}

pco_status pco_hub_read_whole(const pco_hub *hub, const cJSON *root, const char *label, const char *model_type,
                              pco_model_spec *spec, pco_error *err)
{
    pco_hub_reader reader = {.root = root, .label = label, .err = err}, *r = &reader;
    pco_hub_reader part = {.root = cJSON_GetObjectItemCaseSensitive(root, "text_config"), .label = label, .err = err};
    reader.status = pco_hub_refuse_packed(root, label, err);
    pco_hub_ignore(r, "text_config");
    pco_hub_ignore(r, "quantization_config");
    for (const char *const *key = hub->whole->keys; *key; key++) pco_hub_ignore(r, *key);
    if (!reader.status) pco_hub_only_text(&part, "model_type", model_type);
    if (!reader.status) reader.status = part.status;
    spec->tie_word_embeddings = pco_hub_bool(r, "tie_word_embeddings", spec->tie_word_embeddings);
    pco_hub_check_keys(r);
    return reader.status;
}

static int whole_is_other(const pco_hub_whole *whole, const char *name)
{
    for (const char *const *other = whole->others; *other; other++)
        if (strncmp(name, *other, strlen(*other)) == 0) return 1;
    return 0;
}

/* *name as the part alone has it. */
static pco_status whole_rename(const pco_hub_whole *whole, const char *label, char **name, pco_error *err)
{
    for (const char *const(*text)[2] = whole->text; (*text)[0]; text++) {
        const size_t skip = strlen((*text)[0]);
        char *made = NULL;
        if (strncmp(*name, (*text)[0], skip) != 0) continue;
        if (asprintf(&made, "%s%s", (*text)[1], *name + skip) < 0)
            return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "%s: no memory for names of tensors", label);
        free(*name);
        *name = made;
        return PCO_OK;
    }
    return PCO_OK;
}

pco_status pco_hub_take_text_part(const pco_hub *hub, pco_weights *weights, pco_error *err)
{
    uint32_t kept = 0;
    pco_status status = PCO_OK;
    for (uint32_t i = 0; i < weights->count; i++) {
        if (!status && whole_is_other(hub->whole, weights->items[i].name)) {
            free(weights->items[i].name);
            continue;
        }
        weights->items[kept] = weights->items[i];
        if (!status) status = whole_rename(hub->whole, weights->label, &weights->items[kept].name, err);
        kept++;
    }
    weights->count = kept;
    return status ? status : pco_weights_index(weights, err);
}
