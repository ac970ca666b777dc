/* The tokenizer of a folder as Hugging Face's. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "formats/json.h"
#include "formats/llama2c.h"
#include "text/tokenizer_kinds.h"

static pco_status folder_json(const char *path, pco_tokenizer **tokenizer, pco_error *err)
{
    cJSON *root;
    pco_status status = pco_json_load(path, &root, err);
    if (status) return status;
    status = text_json_tokenizer(root, path, tokenizer, err);
    cJSON_Delete(root);
    return status;
}

/* The first of the names that the folder has, as a path; or none. */
static const char *folder_find(const char *folder, const char *const *names, char path[4096])
{
    for (; *names; names++)
        if (snprintf(path, 4096, "%s/%s", folder, *names) < 4096 && access(path, F_OK) == 0) return path;
    return NULL;
}
#define FOLDER_NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

static pco_status folder_open(const char *folder, text_config *config, pco_tokenizer **tokenizer, pco_error *err)
{
    char path[4096], merges[4096];
    if (folder_find(folder, FOLDER_NAMES("tokenizer.json"), path)) return folder_json(path, tokenizer, err);
    if (folder_find(folder, FOLDER_NAMES("merges.txt"), merges) &&
        folder_find(folder, FOLDER_NAMES("vocab.json"), path))
        return text_files_bpe(path, merges, config, tokenizer, err);
    if (folder_find(folder, FOLDER_NAMES("source.spm"), merges) &&
        folder_find(folder, FOLDER_NAMES("vocab.json"), path))
        return text_files_marian(path, merges, config, tokenizer, err);
    if (folder_find(folder, FOLDER_NAMES("tokenizer.model", "spiece.model", "sentencepiece.bpe.model"), path))
        return text_files_pieces(path, config, tokenizer, err);
    if (folder_find(folder, FOLDER_NAMES("vocab.txt"), path)) return text_files_bert(path, config, tokenizer, err);
    return pco_fail(err, PCO_ERROR_NOT_FOUND,
                    "%s: there is no tokenizer (tokenizer.json; vocab.json with merges.txt or source.spm; "
                    "tokenizer.model or spiece.model; vocab.txt)",
                    folder);
}

/* The opposite side of source.spm. */
static pco_status folder_open_target(const char *folder, text_config *config, pco_tokenizer **tokenizer, pco_error *err)
{
    char path[4096], pieces[4096];
    const char *vocab = text_config_flag(config, "separate_vocabs", 0) ? "target_vocab.json" : "vocab.json";
    if (!folder_find(folder, FOLDER_NAMES("tokenizer.json"), path) &&
        folder_find(folder, FOLDER_NAMES("source.spm"), path) &&
        folder_find(folder, FOLDER_NAMES("target.spm"), pieces) && folder_find(folder, FOLDER_NAMES(vocab), path))
        return text_files_marian(path, pieces, config, tokenizer, err);
    return pco_fail(err, PCO_ERROR_NOT_FOUND, "%s: there is no tokenizer of a target alone (%s with target.spm)",
                    folder, vocab);
}

static pco_status folder_open_side(const char *folder,
                                   pco_status (*open)(const char *, text_config *, pco_tokenizer **, pco_error *),
                                   pco_tokenizer **tokenizer, pco_error *err)
{
    text_config config;
    *tokenizer = NULL;
    if (strlen(folder) > 4000) return pco_fail(err, PCO_ERROR_INVALID, "the path of the folder is too long");
    pco_status status = text_config_open(folder, &config, err);
    if (status) return status;
    status = open(folder, &config, tokenizer, err);
    if (!status) text_config_apply(&config, *tokenizer);
    text_config_close(&config);
    return status;
}

pco_status pco_tokenizer_open_folder(const char *folder, pco_tokenizer **tokenizer, pco_error *err)
{
    return folder_open_side(folder, folder_open, tokenizer, err);
}

pco_status pco_tokenizer_open_target(const char *folder, pco_tokenizer **tokenizer, pco_error *err)
{
    return folder_open_side(folder, folder_open_target, tokenizer, err);
}

static pco_status folder_gguf(const char *path, int is_llama2c, pco_tokenizer **tokenizer, pco_error *err)
{
    pco_gguf *gguf;
    pco_status status =
        is_llama2c ? pco_llama2c_open(path, &gguf, err) : pco_gguf_open(path, PCO_GGUF_METADATA_ONLY, &gguf, err);
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
    if (!is_gguf && !is_json && is_pieces) status = text_sentence_model(map.data, map.size, NULL, path, tokenizer, err);
    pco_map_close(&map);
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (!is_gguf && !is_json && strcmp(name, "vocab.txt") == 0) {
        text_config config = {.folder = ""};
        status =
            (config.added = cJSON_CreateArray()) ? text_files_bert(path, &config, tokenizer, err) : text_no_memory(err);
        text_config_close(&config);
        return status;
    }
    if (!is_gguf && !is_json && is_pieces) return status;
    if (is_gguf) return folder_gguf(path, 0, tokenizer, err);
    if (is_json) return folder_json(path, tokenizer, err);
    int is_llama2c;
    status = pco_llama2c_is(path, &is_llama2c, err);
    if (status || is_llama2c) return status ? status : folder_gguf(path, 1, tokenizer, err);
    return pco_fail(err, PCO_ERROR_FORMAT,
                    "%s: neither a GGUF file, nor a tokenizer.json, nor a model of SentencePiece", path);
}
