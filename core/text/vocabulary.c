#include "text/vocabulary.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "formats/json.h"

static pco_status vocabulary_no_memory(pco_error *err)
{
    return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a vocabulary");
}

void pco_vocabulary_release(pco_vocabulary *vocabulary)
{
    for (uint32_t i = 0; i < vocabulary->count; i++) free(vocabulary->tokens[i]);
    for (uint32_t i = 0; i < vocabulary->merge_count; i++) free(vocabulary->merges[i]);
    free(vocabulary->tokens);
    free(vocabulary->merges);
    *vocabulary = (pco_vocabulary){.special = {-1, -1, -1, -1}};
}

/* Appends `text`, which becomes the list's own, to a list that grows by doubling at powers of two. */
static pco_status vocabulary_append(char ***list, uint32_t *count, char *text, pco_error *err)
{
    if (text && (*count & (*count - 1)) == 0) {
        char **grown = realloc(*list, 2 * ((size_t)*count + 1) * sizeof *grown);
        if (!grown) {
            free(text);
            text = NULL;
        } else {
            *list = grown;
        }
    }
    if (!text) return vocabulary_no_memory(err);
    (*list)[(*count)++] = text;
    return PCO_OK;
}

pco_status pco_vocabulary_add(pco_vocabulary *vocabulary, const char *token, pco_error *err)
{
    return vocabulary_append(&vocabulary->tokens, &vocabulary->count, strdup(token), err);
}

pco_status pco_vocabulary_add_merge(pco_vocabulary *vocabulary, const char *left, const char *right, pco_error *err)
{
    char *merge = NULL;
    if (asprintf(&merge, "%s %s", left, right) < 0) merge = NULL;
    return vocabulary_append(&vocabulary->merges, &vocabulary->merge_count, merge, err);
}

pco_status pco_vocabulary_start(const char *text, size_t size, int special, pco_vocabulary *vocabulary, pco_error *err)
{
    static const char *const names[] = {"<pad>", "<s>", "</s>"};
    *vocabulary = (pco_vocabulary){.special = {-1, -1, -1, -1}};
    if (size == 0) return pco_fail(err, PCO_ERROR_INVALID, "the text is empty");
    size_t good = pco_utf8_check(text, size);
    if (good < size) return pco_fail(err, PCO_ERROR_INVALID, "the text is not UTF-8 at byte %zu", good);
    if (memchr(text, 0, size)) return pco_fail(err, PCO_ERROR_INVALID, "the text contains a NUL byte");
    if (!special) return PCO_OK;
    vocabulary->special = (pco_tokenizer_special){.pad = 0, .bos = 1, .eos = 2, .unk = -1};
    pco_status status = PCO_OK;
    for (int i = 0; i < 3 && !status; i++) status = pco_vocabulary_add(vocabulary, names[i], err);
    return status;
}

pco_status pco_vocabulary_train_characters(const char *text, size_t size, int special, pco_vocabulary *vocabulary,
                                           pco_error *err)
{
    enum { CODEPOINTS = 0x110000 };
    pco_status status = pco_vocabulary_start(text, size, special, vocabulary, err);
    unsigned char *seen = status ? NULL : calloc(CODEPOINTS, 1);
    if (!status && !seen) status = vocabulary_no_memory(err);
    for (size_t at = 0; !status && at < size;) {
        uint32_t codepoint;
        at += pco_utf8_decode(text + at, size - at, &codepoint);
        seen[codepoint] = 1;
    }
    for (uint32_t c = 0; c < CODEPOINTS && !status; c++) {
        char spelled[5];
        if (!seen[c]) continue;
        spelled[pco_utf8_encode(c, spelled)] = 0;
        status = pco_vocabulary_add(vocabulary, spelled, err);
    }
    free(seen);
    if (status) pco_vocabulary_release(vocabulary);
    return status;
}

pco_status pco_vocabulary_tokenizer(const pco_vocabulary *vocabulary, const char *label, pco_tokenizer **tokenizer,
                                    pco_error *err)
{
    const char *const *tokens = (const char *const *)vocabulary->tokens;
    const char *const *merges = (const char *const *)vocabulary->merges;
    if (vocabulary->bpe)
        return pco_tokenizer_from_bpe(label, tokens, vocabulary->count, merges, vocabulary->merge_count,
                                      &vocabulary->special, tokenizer, err);
    return pco_tokenizer_from_vocab(tokens, vocabulary->count, &vocabulary->special, tokenizer, err);
}

/* ---- the file ---- */

static void vocabulary_write_list(pco_json_writer *writer, const char *key, char *const *list, uint32_t count)
{
    pco_json_key(writer, key);
    pco_json_begin_array(writer);
    for (uint32_t i = 0; i < count; i++) pco_json_write_string(writer, list[i]);
    pco_json_end_array(writer);
}

pco_status pco_vocabulary_write(const char *path, const pco_vocabulary *vocabulary, pco_error *err)
{
    pco_writer text = {0};
    pco_json_writer writer = {.out = &text, .indent = 1};
    pco_json_begin_object(&writer);
    pco_json_key(&writer, "pad_token_id");
    pco_json_write_int(&writer, vocabulary->special.pad);
    pco_json_key(&writer, "bos_token_id");
    pco_json_write_int(&writer, vocabulary->special.bos);
    pco_json_key(&writer, "eos_token_id");
    pco_json_write_int(&writer, vocabulary->special.eos);
    vocabulary_write_list(&writer, "vocab", vocabulary->tokens, vocabulary->count);
    if (vocabulary->bpe) vocabulary_write_list(&writer, "merges", vocabulary->merges, vocabulary->merge_count);
    pco_json_end_object(&writer);
    pco_write_char(&text, '\n');
    pco_status status = pco_writer_save(&text, path, err);
    pco_writer_release(&text);
    return status;
}

static pco_status vocabulary_read_list(const cJSON *root, const char *path, const char *key, char ***list,
                                       uint32_t *count, pco_error *err)
{
    const cJSON *array = cJSON_GetObjectItemCaseSensitive(root, key), *item;
    pco_status status = PCO_OK;
    if (!cJSON_IsArray(array)) return pco_fail(err, PCO_ERROR_FORMAT, "%s: '%s' must be a list of strings", path, key);
    cJSON_ArrayForEach(item, array)
    {
        if (status) break;
        if (!cJSON_IsString(item))
            status = pco_fail(err, PCO_ERROR_FORMAT, "%s: '%s' must be a list of strings", path, key);
        else
            status = vocabulary_append(list, count, strdup(item->valuestring), err);
    }
    return status;
}

pco_status pco_vocabulary_read(const char *path, pco_vocabulary *vocabulary, pco_error *err)
{
    static const char *const keys[] = {"vocab", "merges", "pad_token_id", "bos_token_id", "eos_token_id"};
    int64_t pad = -1, bos = -1, eos = -1;
    cJSON *root;
    *vocabulary = (pco_vocabulary){.special = {-1, -1, -1, -1}};
    pco_status status = pco_json_load(path, &root, err);
    if (status) return status;
    status = pco_json_known(root, path, keys, 5, err);
    if (!status) status = pco_json_int_or(root, path, "pad_token_id", -1, INT32_MAX, -1, &pad, err);
    if (!status) status = pco_json_int_or(root, path, "bos_token_id", -1, INT32_MAX, -1, &bos, err);
    if (!status) status = pco_json_int_or(root, path, "eos_token_id", -1, INT32_MAX, -1, &eos, err);
    if (!status) status = vocabulary_read_list(root, path, "vocab", &vocabulary->tokens, &vocabulary->count, err);
    vocabulary->bpe = cJSON_HasObjectItem(root, "merges");
    if (!status && vocabulary->bpe)
        status = vocabulary_read_list(root, path, "merges", &vocabulary->merges, &vocabulary->merge_count, err);
    cJSON_Delete(root);
    vocabulary->special = (pco_tokenizer_special){(int32_t)bos, (int32_t)eos, (int32_t)pad, -1};
    if (status) pco_vocabulary_release(vocabulary);
    return status;
}
