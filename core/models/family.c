#include "models/family.h"

#include "base/error.h"
#include "models/gguf_spec.h"

#include <stdio.h>
#include <string.h>

static const pco_family *const families[] = {
    &pco_family_llama,      &pco_family_mistral,    &pco_family_mixtral,     &pco_family_qwen2,
    &pco_family_qwen3,      &pco_family_qwen3moe,   &pco_family_gemma2,      &pco_family_gemma3,
    &pco_family_gpt2,       &pco_family_gptneox,    &pco_family_phi3,        &pco_family_olmo2,
    &pco_family_smollm3,    &pco_family_starcoder2, &pco_family_falcon,      &pco_family_transformer,
    &pco_family_bert,       &pco_family_roberta,    &pco_family_xlm_roberta, &pco_family_camembert,
    &pco_family_distilbert, &pco_family_albert,     &pco_family_mpnet,       &pco_family_bart,
    &pco_family_marian,     &pco_family_t5,         &pco_family_vit,         &pco_family_clip,
    &pco_family_whisper,    &pco_family_clip_text,  &pco_family_clip_vision, &pco_family_encoder_decoder,
};
enum { FAMILIES = sizeof families / sizeof *families };

/* Those from folders, or those from GGUF; returns how many. */
static uint32_t family_choose(int folder, const pco_family **chosen, const char **names)
{
    uint32_t count = 0;
    for (int i = 0; i < FAMILIES; i++) {
        const char *name = folder ? families[i]->model_type : families[i]->architecture;
        if (!name) continue;
        names[count] = name;
        chosen[count++] = families[i];
    }
    return count;
}

static const pco_family *family_find(const char *name, int folder)
{
    const pco_family *chosen[FAMILIES];
    const char *names[FAMILIES];
    const uint32_t count = family_choose(folder, chosen, names);
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0) return chosen[i];
    return NULL;
}

/* "'a', 'b' and 'c'", for messages. */
static const char *family_list(int folder, char *text, size_t size)
{
    const pco_family *chosen[FAMILIES];
    const char *names[FAMILIES];
    const uint32_t count = family_choose(folder, chosen, names);
    size_t used = 0;
    *text = 0;
    for (uint32_t i = 0; i < count && used < size; i++) {
        const char *between = i == 0 ? "" : i + 1 == count ? " and " : ", ";
        used += (size_t)snprintf(text + used, size - used, "%s'%s'", between, names[i]);
    }
    return text;
}

pco_status pco_family_of_gguf(const pco_gguf *gguf, const pco_family **family, pco_model_spec *spec, pco_error *err)
{
    const char *name = NULL;
    char list[1024];
    pco_status status = pco_gguf_text(gguf, "general.architecture", &name, err);
    if (status) return status;
    *family = family_find(name, 0);
    if (!*family)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                        "%s is a model of architecture '%s', which Portico cannot run; it runs %s",
                        pco_gguf_label(gguf), name, family_list(0, list, sizeof list));
    *spec = *(*family)->spec;
    status = pco_gguf_read_spec(gguf, spec, err);
    return status || !(*family)->read_gguf ? status : (*family)->read_gguf(gguf, spec, err);
}

/* The row that a config.json without model_type is of, by the key that only its files have; NULL for none. */
static const pco_family *family_guess(const cJSON *root)
{
    for (int i = 0; i < FAMILIES; i++) {
        const char *telltale = families[i]->hub ? families[i]->hub->telltale : NULL;
        if (telltale && cJSON_HasObjectItem(root, telltale)) return families[i];
    }
    return NULL;
}

/* The row that the part for text is of in a model of several media, of which that part is run; NULL for none. */
static const pco_family *family_of_part(const cJSON *root)
{
    for (int i = 0; i < FAMILIES; i++)
        if (pco_hub_text_part(families[i]->hub, root)) return families[i];
    return NULL;
}

static pco_status family_read_part(const cJSON *root, const char *label, const pco_family *family, pco_model_spec *spec,
                                   pco_error *err)
{
    char within[1024];
    snprintf(within, sizeof within, "%.900s, 'text_config'", label);
    *spec = *family->spec;
    pco_status status = pco_hub_read(family->hub, pco_hub_text_part(family->hub, root), within, spec, err);
    return status ? status : pco_hub_read_whole(family->hub, root, label, family->model_type, spec, err);
}

pco_status pco_family_of_config(const cJSON *root, const char *label, const pco_family **family, pco_model_spec *spec,
                                pco_error *err)
{
    const pco_family *chosen[FAMILIES];
    const char *names[FAMILIES];
    char list[1024];
    uint32_t index;
    const uint32_t count = family_choose(1, chosen, names);
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, "model_type"));
    *family = family_of_part(root);
    if (*family) return family_read_part(root, label, *family, spec, err);
    if (name && !family_find(name, 1))
        return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                        "%s is of a model of type '%s', which Portico cannot run; it runs %s", label, name,
                        family_list(1, list, sizeof list));
    *family = cJSON_HasObjectItem(root, "model_type") ? NULL : family_guess(root);
    if (!*family) {
        pco_status status = pco_json_enum(root, label, "model_type", names, count, &index, err);
        if (status) return status;
        *family = chosen[index];
    }
    *spec = *(*family)->spec;
    if ((*family)->hub) return pco_hub_read((*family)->hub, root, label, spec, err);
    return (*family)->read_config(root, label, spec, err);
}

const struct pco_image_processor_class *pco_family_image_processor(uint32_t index)
{
    for (int i = 0; i < FAMILIES; i++) {
        const struct pco_image_processor_class *class = families[i]->image_processor;
        int before = 0;
        for (int j = 0; j < i && !before; j++) before = families[j]->image_processor == class;
        if (class && !before && index-- == 0) return class;
    }
    return NULL;
}

const pco_family *pco_family_anew(void) { return &pco_family_transformer; }

const pco_family *pco_family_of_folder(const pco_family *family, const pco_model_spec *spec)
{
    for (int i = 0; i < FAMILIES; i++)
        if (families[i]->in_gguf == family && families[i]->is && families[i]->is(spec)) return families[i];
    return family;
}
