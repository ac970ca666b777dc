/* The tokenizer of a folder as Hugging Face's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "formats/json.h"
#include "text/tokenizer_kinds.h"

/* A list of texts that belong to something else. */
typedef struct folder_list {
    const char **items;
    uint32_t count;
} folder_list;

/* The texts of {"text": id}, by id. */
static pco_status folder_vocabulary(const cJSON *root, const char *path, folder_list *tokens, pco_error *err)
{
    const cJSON *item;
    if (!cJSON_IsObject(root)) return pco_fail(err, PCO_ERROR_FORMAT, "%s: not an object of tokens and ids", path);
    uint32_t count = (uint32_t)cJSON_GetArraySize(root);
    tokens->items = calloc(count ? count : 1, sizeof *tokens->items);
    if (!tokens->items) return text_no_memory(err);
    tokens->count = count;
    cJSON_ArrayForEach(item, root)
    {
        int64_t id;
        if (!pco_json_whole(item, &id) || id < 0 || id >= count || tokens->items[id])
            return pco_fail(err, PCO_ERROR_FORMAT, "%s: the id of '%.80s' is not one of 0 to %u, once each", path,
                            item->string, count - 1);
        tokens->items[id] = item->string;
    }
    return PCO_OK;
}

/* Lines "LEFT RIGHT" behind a line "#version: ...". Cuts `text` up. */
static pco_status folder_merges(char *text, folder_list *merges, pco_error *err)
{
    uint32_t most = 1;
    for (const char *at = text; *at; at++) most += *at == '\n';
    merges->items = calloc(most, sizeof *merges->items);
    if (!merges->items) return text_no_memory(err);
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        line[strcspn(line, "\r")] = 0;
        if (*line && (merges->count || strncmp(line, "#version", 8) != 0)) merges->items[merges->count++] = line;
    }
    return PCO_OK;
}

static pco_status folder_bpe(const char *vocabulary, const char *merges_path, pco_tokenizer **tokenizer, pco_error *err)
{
    folder_list tokens = {0}, merges = {0};
    cJSON *root = NULL;
    pco_map map = {0};
    char *text = NULL;
    pco_status status = pco_json_load(vocabulary, &root, err);
    if (!status) status = folder_vocabulary(root, vocabulary, &tokens, err);
    if (!status) status = pco_map_open(merges_path, &map, err);
    if (!status && !(text = calloc(1, map.size + 1))) status = text_no_memory(err);
    if (!status && map.size) memcpy(text, map.data, map.size);
    if (!status) status = folder_merges(text, &merges, err);
    pco_tokenizer_special special = {-1, -1, -1, -1};
    for (uint32_t id = 0; id < tokens.count && !status; id++)
        if (strcmp(tokens.items[id], "<|endoftext|>") == 0) special.eos = (int32_t)id;
    if (!status)
        status = pco_tokenizer_from_bpe(merges_path, tokens.items, tokens.count, merges.items, merges.count, &special,
                                        tokenizer, err);
    free(tokens.items);
    free(merges.items);
    free(text);
    pco_map_close(&map);
    cJSON_Delete(root);
    return status;
}

static pco_status folder_json(const char *path, pco_tokenizer **tokenizer, pco_error *err)
{
    cJSON *root;
    pco_status status = pco_json_load(path, &root, err);
    if (status) return status;
    status = text_json_tokenizer(root, path, tokenizer, err);
    cJSON_Delete(root);
    return status;
}

pco_status pco_tokenizer_open_folder(const char *folder, pco_tokenizer **tokenizer, pco_error *err)
{
    char vocabulary[4096], merges[4096], whole[4096];
    *tokenizer = NULL;
    if (snprintf(whole, sizeof whole, "%s/tokenizer.json", folder) >= (int)sizeof whole ||
        snprintf(vocabulary, sizeof vocabulary, "%s/vocab.json", folder) >= (int)sizeof vocabulary ||
        snprintf(merges, sizeof merges, "%s/merges.txt", folder) >= (int)sizeof merges)
        return pco_fail(err, PCO_ERROR_INVALID, "the path of the folder is too long");
    if (access(whole, F_OK) == 0) return folder_json(whole, tokenizer, err);
    if (access(vocabulary, F_OK) == 0 && access(merges, F_OK) == 0)
        return folder_bpe(vocabulary, merges, tokenizer, err);
    return pco_fail(err, PCO_ERROR_NOT_FOUND,
                    "%s: there is no tokenizer (tokenizer.json, or vocab.json with merges.txt)", folder);
}

static pco_status folder_gguf(const char *path, pco_tokenizer **tokenizer, pco_error *err)
{
    pco_gguf *gguf;
    pco_status status = pco_gguf_open(path, PCO_GGUF_METADATA_ONLY, &gguf, err);
    if (status) return status;
    status = pco_tokenizer_from_gguf(gguf, tokenizer, err);
    pco_gguf_close(gguf);
    return status;
}

pco_status pco_tokenizer_open(const char *path, pco_tokenizer **tokenizer, pco_error *err)
{
    pco_map map;
    *tokenizer = NULL;
    if (pco_is_directory(path)) return pco_tokenizer_open_folder(path, tokenizer, err);
    pco_status status = pco_map_open(path, &map, err);
    if (status) return status;
    const int is_gguf = map.size >= 4 && memcmp(map.data, "GGUF", 4) == 0;
    size_t blanks = 0;
    while (blanks < map.size && strchr(" \t\r\n", map.data[blanks]) && map.data[blanks]) blanks++;
    const int is_json = blanks < map.size && map.data[blanks] == '{';
    const int is_pieces = map.size && map.data[0] == '\n'; /* field 1, a message */
    if (!is_gguf && !is_json && is_pieces) status = text_sentence_model(map.data, map.size, path, tokenizer, err);
    pco_map_close(&map);
    if (!is_gguf && !is_json && is_pieces) return status;
    if (is_gguf) return folder_gguf(path, tokenizer, err);
    if (is_json) return folder_json(path, tokenizer, err);
    return pco_fail(err, PCO_ERROR_FORMAT,
                    "%s: neither a GGUF file, nor a tokenizer.json, nor a model of SentencePiece", path);
}
