#include "models/chat.h"

#include "base/error.h"
#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* PATH/name, if the model is a folder that has such a file; *path NULL otherwise. The caller frees it. */
static pco_status chat_find(const pco_model_file *file, const char *name, char **path, pco_error *err)
{
    *path = NULL;
    return file->gguf ? PCO_OK : pco_file_find(file->path, name, path, err);
}

/* The JSON of such a file, in *root; NULL where there is none. */
static pco_status chat_load(const pco_model_file *file, const char *name, cJSON **root, pco_error *err)
{
    char *path;
    pco_status status = chat_find(file, name, &path, err);
    *root = NULL;
    if (!status && path) status = pco_json_load(path, root, err);
    free(path);
    return status;
}

static pco_status chat_copy(const char *text, size_t size, char **source, pco_error *err)
{
    *source = malloc(size + 1);
    if (!*source) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a chat template");
    if (size) memcpy(*source, text, size);
    (*source)[size] = 0;
    return PCO_OK;
}

/* "chat_template" of a JSON file: a string, or a list of {"name", "template"}. */
static pco_status chat_of_json(const pco_model_file *file, const char *name, char **source, pco_error *err)
{
    cJSON *root;
    pco_status status = chat_load(file, name, &root, err);
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(root, "chat_template"), *item;
    const char *text = cJSON_GetStringValue(found);
    if (cJSON_IsArray(found)) cJSON_ArrayForEach(item, found)
        {
            const char *which = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "name"));
            if (which && strcmp(which, "default") == 0)
                text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "template"));
        }
    if (!status && found && !cJSON_IsNull(found) && !text)
        status =
            pco_fail(err, PCO_ERROR_FORMAT,
                     "%s/%s: 'chat_template' must be a text, or a list of names and templates with one that is called "
                     "'default'",
                     file->path, name);
    if (!status && text) status = chat_copy(text, strlen(text), source, err);
    cJSON_Delete(root);
    return status;
}

pco_status pco_model_chat_source(const pco_model_file *file, char **source, pco_error *err)
{
    const char *text = file->target ? pco_tokenizer_chat_template(file->target) : NULL;
    char *path;
    *source = NULL;
    if (text) return chat_copy(text, strlen(text), source, err);
    pco_status status = chat_find(file, "chat_template.jinja", &path, err);
    if (!status && path) {
        pco_map map;
        status = pco_map_open(path, &map, err);
        if (!status) status = chat_copy((const char *)map.data, map.size, source, err);
        if (!status && memchr(*source, 0, map.size))
            status = pco_fail(err, PCO_ERROR_FORMAT, "%s contains a NUL byte and is no text", path);
        pco_map_close(&map);
    }
    free(path);
    if (!status && !*source) status = chat_of_json(file, "chat_template.json", source, err);
    if (!status && !*source) status = chat_of_json(file, "tokenizer_config.json", source, err);
    if (!status && !*source)
        status =
            pco_fail(err, PCO_ERROR_NOT_FOUND,
                     "%s has no chat template; it may be no model for chats (portico run continues texts)", file->path);
    if (status) {
        free(*source);
        *source = NULL;
    }
    return status;
}

pco_status pco_model_chat_tokens(const pco_model_file *file, cJSON *variables, pco_error *err)
{
    cJSON *root;
    pco_status status = chat_load(file, "tokenizer_config.json", &root, err);
    if (status) return status;
    const pco_tokenizer_special special =
        file->target ? pco_tokenizer_specials(file->target) : (pco_tokenizer_special){-1, -1, -1, -1};
    const struct {
        const char *name;
        int32_t id;
    } tokens[] = {
        {"bos_token", special.bos}, {"eos_token", special.eos}, {"unk_token", special.unk}, {"pad_token", special.pad}};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens && !status; i++) {
        const cJSON *said = cJSON_GetObjectItemCaseSensitive(root, tokens[i].name);
        const char *text =
            cJSON_GetStringValue(cJSON_IsObject(said) ? cJSON_GetObjectItemCaseSensitive(said, "content") : said);
        if (!text && !root && file->target && tokens[i].id >= 0)
            text = pco_tokenizer_token(file->target, tokens[i].id, NULL);
        if (text && !pco_json_give(variables, tokens[i].name, cJSON_CreateString(text)))
            status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a chat");
    }
    cJSON_Delete(root);
    return status;
}
