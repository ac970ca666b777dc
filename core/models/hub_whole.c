/* Models of several media whose text is read and written by a model of a family: of their folders that part is run. Its
 * config is an object in the file, which leaves out what is as usual, and its tensors' names have a name in front. */
#include "models/hub.h"

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The model_type of the whole, and of the part. */
static const char *const whole_types[][2] = {{"gemma3", "gemma3_text"}};

/* What names of the part's tensors begin with, and what stands there in files of the part alone. */
static const char *const whole_text[][2] = {
    {"language_model.model.", "model."}, {"language_model.lm_head.", "lm_head."}, {"model.language_model.", "model."}};

/* How those of the other parts begin. */
static const char *const whole_others[] = {"vision_tower.", "multi_modal_projector.", "model.vision_tower.",
                                           "model.multi_modal_projector."};

#define COUNT(list) (sizeof(list) / sizeof *(list))

const cJSON *pco_hub_text_part(const cJSON *root, const char **model_type)
{
    const char *type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, "model_type"));
    const cJSON *part = cJSON_GetObjectItemCaseSensitive(root, "text_config");
    for (size_t i = 0; type && i < COUNT(whole_types); i++) {
        if (strcmp(type, whole_types[i][0]) != 0 || !cJSON_IsObject(part)) continue;
        *model_type = whole_types[i][1];
        return part;
    }
    return NULL;
}

/* Of the other parts, and of how the text has their results in it. */
static const char *const whole_keys[] = {
    "text_config",  "vision_config", "mm_tokens_per_image", "boi_token_index", "eoi_token_index",
    "boi_token_id", "eoi_token_id",  "image_token_index",   "image_token_id",  "quantization_config"};

pco_status pco_hub_read_whole(const cJSON *root, const char *label, const char *model_type, pco_model_spec *spec,
                              pco_error *err)
{
    pco_hub_reader reader = {.root = root, .label = label, .err = err}, *r = &reader;
    pco_hub_reader part = {.root = cJSON_GetObjectItemCaseSensitive(root, "text_config"), .label = label, .err = err};
    reader.status = pco_hub_refuse_packed(root, label, err);
    for (size_t i = 0; i < COUNT(whole_keys); i++) pco_hub_ignore(r, whole_keys[i]);
    if (!reader.status) pco_hub_only_text(&part, "model_type", model_type);
    if (!reader.status) reader.status = part.status;
    spec->tie_word_embeddings = pco_hub_bool(r, "tie_word_embeddings", spec->tie_word_embeddings);
    pco_hub_check_keys(r);
    return reader.status;
}

static int whole_is_other(const char *name)
{
    for (size_t i = 0; i < COUNT(whole_others); i++)
        if (strncmp(name, whole_others[i], strlen(whole_others[i])) == 0) return 1;
    return 0;
}

/* *name as the part alone has it. */
static pco_status whole_rename(const char *label, char **name, pco_error *err)
{
    for (size_t i = 0; i < COUNT(whole_text); i++) {
        const size_t skip = strlen(whole_text[i][0]);
        char *made = NULL;
        if (strncmp(*name, whole_text[i][0], skip) != 0) continue;
        if (asprintf(&made, "%s%s", whole_text[i][1], *name + skip) < 0)
            return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "%s: no memory for names of tensors", label);
        free(*name);
        *name = made;
        return PCO_OK;
    }
    return PCO_OK;
}

pco_status pco_hub_take_text_part(pco_weights *weights, pco_error *err)
{
    uint32_t kept = 0;
    pco_status status = PCO_OK;
    for (uint32_t i = 0; i < weights->count; i++) {
        if (!status && whole_is_other(weights->items[i].name)) {
            free(weights->items[i].name);
            continue;
        }
        weights->items[kept] = weights->items[i];
        if (!status) status = whole_rename(weights->label, &weights->items[kept].name, err);
        kept++;
    }
    weights->count = kept;
    return status ? status : pco_weights_index(weights, err);
}
