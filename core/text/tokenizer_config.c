/* What stands beside a tokenizer in a folder as Hugging Face's: tokenizer_config.json, special_tokens_map.json and
 * added_tokens.json. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "text/tokenizer_kinds.h"

static const char *const CONFIG_SPECIALS[] = {"bos_token", "eos_token", "unk_token",  "sep_token",
                                              "pad_token", "cls_token", "mask_token", NULL};

static pco_status config_load(const char *folder, const char *name, cJSON **root, pco_error *err)
{
    char *path;
    pco_status status = pco_json_load_if(folder, name, &path, root, err);
    if (!status && *root && !cJSON_IsObject(*root)) status = pco_fail(err, PCO_ERROR_FORMAT, "%s: not an object", path);
    free(path);
    return status;
}

pco_status text_config_open(const char *folder, text_config *config, pco_error *err)
{
    *config = (text_config){.folder = folder};
    pco_status status = config_load(folder, "tokenizer_config.json", &config->root, err);
    if (!status) status = config_load(folder, "special_tokens_map.json", &config->map, err);
    if (!status) status = config_load(folder, "added_tokens.json", &config->ids, err);
    if (!status && !(config->added = cJSON_CreateArray())) status = text_no_memory(err);
    const char *class = text_config_text(config, "tokenizer_class", "");
    size_t size = strlen(class);
    if (size > 4 && strcmp(class + size - 4, "Fast") == 0) size -= 4;
    if (size >= sizeof config->class) size = sizeof config->class - 1;
    memcpy(config->class, class, size);
    if (status) text_config_close(config);
    return status;
}

void text_config_close(text_config *config)
{
    cJSON_Delete(config->root);
    cJSON_Delete(config->map);
    cJSON_Delete(config->ids);
    cJSON_Delete(config->added);
    *config = (text_config){0};
}

static const cJSON *config_find(const text_config *config, const char *key)
{
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(config->root, key);
    return found && !cJSON_IsNull(found) ? found : cJSON_GetObjectItemCaseSensitive(config->map, key);
}

const char *text_config_text(const text_config *config, const char *key, const char *fallback)
{
    const cJSON *found = config_find(config, key);
    if (cJSON_IsObject(found)) found = cJSON_GetObjectItemCaseSensitive(found, "content");
    return cJSON_IsString(found) ? found->valuestring : fallback;
}

int text_config_flag(const text_config *config, const char *key, int fallback)
{
    const cJSON *found = config_find(config, key);
    return cJSON_IsBool(found) ? cJSON_IsTrue(found) : fallback;
}

/* ---- added tokens, as tokenizer.json lists them ---- */

static int config_flag_of(const cJSON *item, const char *key)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(item, key));
}

static int config_has(const text_config *config, const char *content)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, config->added)
    {
        if (strcmp(cJSON_GetObjectItemCaseSensitive(item, "content")->valuestring, content) == 0) return 1;
    }
    return 0;
}

/* `like` may say how blanks beside it are treated. */
static pco_status config_add(text_config *config, int64_t id, const char *content, const cJSON *like, int special,
                             pco_error *err)
{
    static const char *const flags[] = {"lstrip", "rstrip", "single_word", "normalized"};
    cJSON *item = cJSON_CreateObject();
    int good = item && pco_json_give(item, "id", cJSON_CreateNumber((double)id)) &&
               pco_json_give(item, "content", cJSON_CreateString(content)) &&
               pco_json_give(item, "special", cJSON_CreateBool(special));
    for (int i = 0; i < 4 && good; i++)
        good = pco_json_give(item, flags[i], cJSON_CreateBool(config_flag_of(like, flags[i])));
    if (!good) {
        cJSON_Delete(item);
        return text_no_memory(err);
    }
    return pco_json_give(config->added, NULL, item) ? PCO_OK : text_no_memory(err);
}

static int config_is_special(const text_config *config, const char *content)
{
    const cJSON *item;
    for (int i = 0; CONFIG_SPECIALS[i]; i++)
        if (strcmp(text_config_text(config, CONFIG_SPECIALS[i], ""), content) == 0) return 1;
    cJSON_ArrayForEach(item, config_find(config, "additional_special_tokens"))
    {
        const cJSON *text = cJSON_IsObject(item) ? cJSON_GetObjectItemCaseSensitive(item, "content") : item;
        if (cJSON_IsString(text) && strcmp(text->valuestring, content) == 0) return 1;
    }
    return 0;
}

/* A special token by its name: in the vocabulary, or behind it. */
static pco_status config_add_special(text_config *config, const cJSON *item, text_config_find_fn find, const void *user,
                                     int64_t *next, pco_error *err)
{
    const cJSON *text = cJSON_IsObject(item) ? cJSON_GetObjectItemCaseSensitive(item, "content") : item;
    if (!cJSON_IsString(text) || !*text->valuestring || config_has(config, text->valuestring)) return PCO_OK;
    int64_t id = find(user, text->valuestring);
    if (id < 0) id = (*next)++;
    return config_add(config, id, text->valuestring, cJSON_IsObject(item) ? item : NULL, 1, err);
}

static pco_status config_id(int64_t id, int64_t count, const char *what, pco_error *err)
{
    if (id >= 0 && id < 2 * count + 1024) return PCO_OK;
    return pco_fail(err, PCO_ERROR_FORMAT, "%s: an id is far outside of 0 to the number of tokens", what);
}

pco_status text_config_add_all(text_config *config, text_config_find_fn find, const void *user, int64_t count,
                               pco_error *err)
{
    const cJSON *decoder = cJSON_GetObjectItemCaseSensitive(config->root, "added_tokens_decoder"), *item;
    int64_t next = count, id;
    pco_status status = PCO_OK;
    cJSON_ArrayForEach(item, decoder)
    {
        char *end;
        const cJSON *text = cJSON_GetObjectItemCaseSensitive(item, "content");
        id = strtoll(item->string ? item->string : "", &end, 10);
        if (*end || !item->string || !*item->string || !cJSON_IsString(text))
            return pco_fail(err, PCO_ERROR_FORMAT,
                            "%s/tokenizer_config.json: 'added_tokens_decoder' is not a list of tokens by their ids",
                            config->folder);
        status = config_id(id, count, "tokenizer_config.json", err);
        if (!status && *text->valuestring)
            status = config_add(config, id, text->valuestring, item, config_flag_of(item, "special"), err);
        if (status) return status;
        if (id >= next) next = id + 1;
    }
    cJSON_ArrayForEach(item, config->ids)
    {
        if (!pco_json_whole(item, &id))
            return pco_fail(err, PCO_ERROR_FORMAT, "%s/added_tokens.json: the id of '%.80s' is not a whole number",
                            config->folder, item->string);
        if (config_has(config, item->string)) continue;
        status = config_id(id, count, "added_tokens.json", err);
        if (!status && *item->string)
            status = config_add(config, id, item->string, NULL, config_is_special(config, item->string), err);
        if (status) return status;
        if (id >= next) next = id + 1;
    }
    for (int i = 0; CONFIG_SPECIALS[i] && !status; i++)
        status = config_add_special(config, config_find(config, CONFIG_SPECIALS[i]), find, user, &next, err);
    cJSON_ArrayForEach(item, config_find(config, "additional_special_tokens"))
    {
        if (!status) status = config_add_special(config, item, find, user, &next, err);
    }
    return status;
}

/* ---- what it changes in a tokenizer ---- */

static void config_special(const text_config *config, const pco_tokenizer *tokenizer, const char *key, int32_t *id)
{
    const char *text = text_config_text(config, key, NULL);
    const int32_t found = text ? text_find(tokenizer, text, strlen(text)) : -1;
    if (found >= 0) *id = found;
}

void text_config_apply(const text_config *config, pco_tokenizer *tokenizer)
{
    const cJSON *longest = cJSON_GetObjectItemCaseSensitive(config->root, "model_max_length");
    config_special(config, tokenizer, "bos_token", &tokenizer->special.bos);
    config_special(config, tokenizer, "eos_token", &tokenizer->special.eos);
    config_special(config, tokenizer, "pad_token", &tokenizer->special.pad);
    /* Hugging Face writes 10^30 where there is no limit. */
    if (cJSON_IsNumber(longest) && longest->valuedouble >= 1 && longest->valuedouble < 1e9)
        tokenizer->max_length = (uint32_t)longest->valuedouble;
    if (!tokenizer->around_count[0] && tokenizer->special.bos >= 0)
        tokenizer->add_bos = text_config_flag(config, "add_bos_token", tokenizer->add_bos);
    if (!tokenizer->around_count[1] && tokenizer->special.eos >= 0)
        tokenizer->add_eos = text_config_flag(config, "add_eos_token", tokenizer->add_eos);
}
