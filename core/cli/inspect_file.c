/* Finding out what a file or folder holds. */
#include "cli/inspect.h"

#include "base/utf8.h"
#include "base/error.h"
#include "formats/ct2.h"
#include "formats/llama2c.h"
#include "formats/shards.h"
#include "formats/torch_file.h"
#include "models/refuse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes that one value takes in a GGUF file, without its type. */
static uint64_t inspect_value_bytes(const pco_gguf_entry *entry)
{
    static const unsigned char sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    uint64_t bytes = entry->is_array ? 12 : 0;
    if (entry->type != PCO_GGUF_STRING) return bytes + entry->count * sizes[entry->type];
    for (uint64_t i = 0; i < entry->count; i++) bytes += 8 + entry->strings[i].size;
    return bytes;
}

/* Where the header of a GGUF file ends. */
static uint64_t inspect_header_bytes(const pco_gguf *gguf)
{
    const pco_weights *weights = pco_gguf_weights(gguf);
    uint64_t bytes = 24;
    for (uint64_t i = 0; i < pco_gguf_entry_count(gguf); i++) {
        const pco_gguf_entry *entry = pco_gguf_entry_at(gguf, i);
        bytes += 8 + strlen(entry->key) + 4 + inspect_value_bytes(entry);
    }
    for (uint32_t i = 0; i < weights->count; i++)
        bytes += 8 + strlen(weights->items[i].name) + 4 + 8 * (uint64_t)weights->items[i].rank + 4 + 8;
    return bytes;
}

/* A GGUF file that holds a whole header and nothing behind it is a valid description of a model; one whose
 * data end too early is damaged. */
static pco_status inspect_open_gguf(inspect_file *file, pco_error *err)
{
    file->format = "GGUF";
    pco_status status = pco_gguf_open(file->path, 0, &file->gguf, err);
    if (status == PCO_ERROR_FORMAT) {
        pco_error ignored;
        if (pco_gguf_open(file->path, PCO_GGUF_METADATA_ONLY, &file->gguf, &ignored)) return status;
        uint32_t alignment = 32;
        (void)!pco_gguf_u32_or(file->gguf, "general.alignment", 32, &alignment, &ignored);
        if (alignment == 0) alignment = 1;
        uint64_t end = inspect_header_bytes(file->gguf), padded = (end + alignment - 1) / alignment * alignment;
        if (pco_gguf_weights(file->gguf)->maps[0].size > padded) return status;
        file->header_only = 1;
        status = PCO_OK;
    }
    if (!status) file->weights = pco_gguf_weights(file->gguf);
    return status;
}

static pco_status inspect_open_llama2c(inspect_file *file, pco_error *err)
{
    file->format = "llama2.c";
    pco_status status = pco_llama2c_open(file->path, &file->gguf, err);
    if (!status) file->weights = pco_gguf_weights(file->gguf);
    return status;
}

static pco_status inspect_open_safetensors(inspect_file *file, pco_error *err)
{
    file->format = "safetensors";
    pco_status status = pco_shards_open(file->path, &file->owned, err);
    file->weights = file->owned;
    return status;
}

static pco_status inspect_open_torch(inspect_file *file, pco_error *err)
{
    file->format = "PyTorch";
    pco_status status = pco_torch_open(file->path, &file->owned, err);
    file->weights = file->owned;
    return status;
}

static pco_status inspect_open_ct2(inspect_file *file, pco_error *err)
{
    file->format = "CTranslate2";
    pco_status status = pco_ct2_open(file->path, &file->owned, err);
    file->weights = file->owned;
    return status;
}

/* By name first, so that a damaged file is told what is wrong with it; by content otherwise. */
static pco_status inspect_open_any(inspect_file *file, pco_error *err)
{
    if (pco_text_ends_like(file->path, ".gguf")) return inspect_open_gguf(file, err);
    if (pco_text_ends_like(file->path, ".safetensors") || pco_text_ends_like(file->path, ".safetensors.index.json"))
        return inspect_open_safetensors(file, err);
    pco_map map;
    pco_status status = pco_map_open(file->path, &map, err);
    if (status) return status;
    int is_gguf = map.size >= 4 && memcmp(map.data, "GGUF", 4) == 0;
    int is_safetensors = map.size >= 9 && map.data[8] == '{';
    int is_torch = map.size >= 9 && pco_torch_is(map.data, map.size);
    pco_map_close(&map);
    if (is_gguf) return inspect_open_gguf(file, err);
    if (is_safetensors) return inspect_open_safetensors(file, err);
    if (is_torch) return inspect_open_torch(file, err);
    int is_llama2c;
    status = pco_llama2c_is(file->path, &is_llama2c, err);
    if (status || is_llama2c) return status ? status : inspect_open_llama2c(file, err);
    return pco_model_refuse(file->path, err);
}

/* What a model's folder has; file->path becomes that of its weights. */
static pco_status inspect_open_folder(inspect_file *file, const char *folder, pco_error *err)
{
    char *weights, *config = NULL;
    pco_status status = pco_model_find_other(folder, &weights, err);
    const int is_ct2 = weights && pco_text_ends(weights, ".bin"), is_gguf = weights && pco_text_ends(weights, ".gguf");
    if (!status && !is_ct2 && !is_gguf) {
        free(weights);
        weights = NULL;
        status = pco_model_check_folder(folder, err);
        if (!status) weights = pco_model_find_weights(folder);
    }
    if (weights) snprintf(file->path, sizeof file->path, "%s", weights);
    free(weights);
    if (!status && !is_gguf) status = pco_json_load_if(folder, "config.json", &config, &file->config, err);
    if (config) snprintf(file->config_path, sizeof file->config_path, "%s", config);
    free(config);
    if (status) return status;
    return is_ct2 ? inspect_open_ct2(file, err) : inspect_open_any(file, err);
}

/* Does it hold a model that can run? A folder that was meant to be one and is not is an error. */
static pco_status inspect_recognise(inspect_file *file, const char *path, int64_t context, pco_error *err)
{
    if (file->header_only) {
        pco_fail(&file->reason, PCO_ERROR_UNSUPPORTED, "the file has a header and no data");
        return PCO_OK;
    }
    if (!file->gguf && !file->is_folder) {
        pco_model_refuse(file->path, &file->reason);
        return PCO_OK;
    }
    pco_status status = pco_model_file_open(path, &file->model, &file->reason);
    if (!status) status = pco_model_context(file->model, context, &file->context, &file->reason);
    if (!status) status = pco_model_estimate(file->model, file->context, 1, PCO_F32, &file->estimate, &file->reason);
    if (!status) {
        file->reason.message[0] = 0;
        return PCO_OK;
    }
    pco_model_file_close(file->model);
    file->model = NULL;
    if (!file->is_folder || status == PCO_ERROR_UNSUPPORTED) return PCO_OK;
    *err = file->reason;
    return status;
}

pco_status inspect_open(const char *path, int64_t context, inspect_file *file, pco_error *err)
{
    char folder[PATH_MAX];
    pco_status status;
    memset(file, 0, sizeof *file);
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    if (length > sizeof folder - 32)
        return pco_fail(err, PCO_ERROR_INVALID, "%.60s...: the path is longer than %zu bytes", path,
                        sizeof folder - 32);
    snprintf(folder, sizeof folder, "%.*s", (int)length, path);
    snprintf(file->path, sizeof file->path, "%s", folder);
    if (pco_is_directory(folder)) {
        file->is_folder = 1;
        status = inspect_open_folder(file, folder, err);
    } else {
        status = inspect_open_any(file, err);
    }
    if (!status) status = inspect_recognise(file, folder, context, err);
    if (status) inspect_close(file);
    return status;
}

void inspect_close(inspect_file *file)
{
    pco_model_file_close(file->model);
    pco_gguf_close(file->gguf);
    pco_weights_close(file->owned);
    cJSON_Delete(file->config);
    memset(file, 0, sizeof *file);
}
