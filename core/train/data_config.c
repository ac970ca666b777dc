#include "train/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static const char *const data_keys[] = {
    "kind",           "file",      "source_column",    "target_column",    "held_out",       "held_out_count",
    "context_length", "tokenizer", "source_tokenizer", "target_tokenizer", "source_buckets", "target_buckets",
};

/* `path` itself when it is absolute, else below `folder`. */
static char *data_path(const char *folder, const char *path)
{
    char *joined = NULL;
    if (path[0] == '/' || !*folder) return strdup(path);
    return asprintf(&joined, "%s/%s", folder, path) < 0 ? NULL : joined;
}

static pco_status data_tokenizer(const cJSON *item, const char *label, const char *key, const char *folder,
                                 pco_data_tokenizer *tokenizer, pco_error *err)
{
    static const char *const keys[] = {"kind", "size"}, *const kinds[] = {"char", "bpe"};
    uint32_t kind = 0;
    if (cJSON_IsString(item)) {
        tokenizer->file = data_path(folder, item->valuestring);
        return tokenizer->file ? PCO_OK : pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory");
    }
    if (!cJSON_IsObject(item))
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: '%s' must be a file name or an object with 'kind'", label, key);
    pco_status status = pco_json_known(item, label, keys, 2, err);
    if (!status) status = pco_json_enum(item, label, "kind", kinds, 2, &kind, err);
    tokenizer->bpe = kind == 1;
    if (!status && tokenizer->bpe) status = pco_json_int(item, label, "size", 259, 1 << 24, &tokenizer->size, err);
    return status ? pco_fail_prefix(err, status, "'%s'", key) : PCO_OK;
}

static pco_status data_tokenizers(const cJSON *object, const char *label, const char *folder, pco_data_config *config,
                                  pco_error *err)
{
    static const char *const keys[] = {"source_tokenizer", "target_tokenizer"};
    const cJSON *shared = cJSON_GetObjectItemCaseSensitive(object, "tokenizer");
    const cJSON *own[2] = {cJSON_GetObjectItemCaseSensitive(object, keys[0]),
                           cJSON_GetObjectItemCaseSensitive(object, keys[1])};
    config->share_vocabulary = !own[0] && !own[1];
    if (config->kind == PCO_DATA_DATES && (shared || own[0] || own[1]))
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: dates have a vocabulary of their own: leave 'tokenizer' out",
                        label);
    if (shared && !config->share_vocabulary)
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: 'tokenizer' excludes 'source_tokenizer' and 'target_tokenizer'",
                        label);
    if (shared) return data_tokenizer(shared, label, "tokenizer", folder, &config->tokenizer[1], err);
    if (config->share_vocabulary) return PCO_OK;
    if (config->kind != PCO_DATA_PAIRS || !own[0] || !own[1])
        return pco_fail(err, PCO_ERROR_FORMAT,
                        "%s: 'source_tokenizer' and 'target_tokenizer' are for pairs, and come together", label);
    pco_status status = PCO_OK;
    for (int side = 0; side < 2 && !status; side++)
        status = data_tokenizer(own[side], label, keys[side], folder, &config->tokenizer[side], err);
    return status;
}

/* The list of that key, or 8, 16, 24, 32, 48, 64, 96 ... up to the context. */
static pco_status data_buckets(const cJSON *object, const char *label, const char *key, int64_t context,
                               int64_t *buckets, uint32_t *count, pco_error *err)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(object, key), *item;
    *count = 0;
    if (!list) {
        for (int64_t size = 8; size < context && *count < PCO_DATA_BUCKETS - 1; (*count)++) {
            buckets[*count] = size;
            size += size < 32 ? 8 : (size & (size - 1)) == 0 ? size / 2 : size / 3;
        }
        buckets[(*count)++] = context;
        return PCO_OK;
    }
    cJSON_ArrayForEach(item, list)
    {
        int64_t size = 0;
        if (!pco_json_whole(item, &size) || size < 1 || size > context || *count == PCO_DATA_BUCKETS ||
            (*count && size <= buckets[*count - 1]))
            return pco_fail(err, PCO_ERROR_FORMAT,
                            "%s: '%s' must be a list of at most %d rising lengths up to context_length %lld", label,
                            key, PCO_DATA_BUCKETS, (long long)context);
        buckets[(*count)++] = size;
    }
    if (*count) return PCO_OK;
    return pco_fail(err, PCO_ERROR_FORMAT, "%s: '%s' must be a list of lengths", label, key);
}

pco_status pco_data_config_read(const cJSON *object, const char *label, const char *folder, pco_data_config *config,
                                pco_error *err)
{
    static const char *const kinds[] = {"text", "pairs", "dates", "chat"};
    const char *file = NULL;
    uint32_t kind = 0;
    *config = (pco_data_config){0};
    pco_status status = pco_json_known(object, label, data_keys, sizeof data_keys / sizeof *data_keys, err);
    if (!status) status = pco_json_enum(object, label, "kind", kinds, 4, &kind, err);
    config->kind = (pco_data_kind)kind;
    if (!status) status = pco_json_string_or(object, label, "file", NULL, &file, err);
    if (!status && !file != (config->kind == PCO_DATA_DATES))
        status = pco_fail(err, PCO_ERROR_FORMAT, file ? "%s: dates have no 'file'" : "%s: 'file' is missing", label);
    if (!status && file && !(config->file = data_path(folder, file)))
        status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory");
    if (!status) status = pco_json_int_or(object, label, "source_column", 1, 1 << 20, 1, &config->source_column, err);
    if (!status) status = pco_json_int_or(object, label, "target_column", 1, 1 << 20, 2, &config->target_column, err);
    if (!status) status = pco_json_number_or(object, label, "held_out", 0, 0.9, 0.1, &config->held_out, err);
    if (!status)
        status = pco_json_int_or(object, label, "held_out_count", 0, 1 << 20, 500, &config->held_out_count, err);
    if (!status) status = pco_json_int_or(object, label, "context_length", 1, 1 << 20, 64, &config->context, err);
    if (!status) status = data_tokenizers(object, label, folder, config, err);
    if (!status)
        status = data_buckets(object, label, "source_buckets", config->context, config->buckets[0],
                              &config->n_buckets[0], err);
    if (!status)
        status = data_buckets(object, label, "target_buckets", config->context, config->buckets[1],
                              &config->n_buckets[1], err);
    if (!status && config->kind == PCO_DATA_CHAT) { /* the one side that there is */
        config->n_buckets[0] = 1;
        config->buckets[0][0] = 1;
    }
    if (!status && config->kind == PCO_DATA_TEXT) {
        config->n_buckets[1] = 1;
        config->buckets[1][0] = config->context;
    }
    if (status) {
        pco_data_config_release(config);
        return pco_fail_prefix(err, status, "data");
    }
    return PCO_OK;
}

void pco_data_config_release(pco_data_config *config)
{
    free(config->file);
    for (int side = 0; side < 2; side++) free(config->tokenizer[side].file);
    *config = (pco_data_config){0};
}
