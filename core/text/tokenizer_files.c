/* Vocabulary files of Hugging Face's older layouts: vocab.txt of BERT, vocab.json with merges.txt of GPT-2 and its kin,
 * tokenizer.model of SentencePiece. The first two become what a tokenizer.json would say of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "text/tokenizer_kinds.h"

/* Gives text[...] as JSON to `parent`. */
static int files_give(cJSON *parent, const char *key, const char *json)
{
    return pco_json_give(parent, key, cJSON_Parse(json));
}

int64_t text_files_find(const void *user, const char *text)
{
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(user, text);
    int64_t id;
    return found && pco_json_whole(found, &id) ? id : -1;
}

/* The lines of a file, each given to `line`; a line end is LF or CRLF. */
static pco_status files_lines(const char *path, int (*line)(cJSON *to, const char *text, int64_t number), cJSON *to,
                              pco_error *err)
{
    pco_map map;
    pco_status status = pco_map_open(path, &map, err);
    if (status) return status;
    char *text = calloc(1, map.size + 1);
    if (!text) status = text_no_memory(err);
    if (!status && map.size) memcpy(text, map.data, map.size);
    const size_t size = map.size;
    pco_map_close(&map);
    int64_t number = 0;
    for (char *at = text; !status && at < text + size;) {
        char *end = memchr(at, '\n', (size_t)(text + size - at));
        if (!end) end = text + size;
        if (strlen(at) < (size_t)(end - at))
            status = pco_fail(err, PCO_ERROR_FORMAT, "%s: line %lld has a NUL byte", path, (long long)number + 1);
        *end = 0;
        if (end > at && end[-1] == '\r') end[-1] = 0;
        if (!status && !line(to, at, number++)) status = text_no_memory(err);
        at = end + 1;
    }
    free(text);
    return status;
}

static int files_add_token(cJSON *vocab, const char *text, int64_t number)
{
    return pco_json_give(vocab, text, cJSON_CreateNumber((double)number));
}

static int files_add_merge(cJSON *merges, const char *text, int64_t number)
{
    if (!*text || (number == 0 && strncmp(text, "#version", 8) == 0)) return 1;
    return pco_json_give(merges, NULL, cJSON_CreateString(text));
}

/* The tokenizer from what was put together; `root` has a model with its vocabulary. */
static pco_status files_make(cJSON *root, const char *label, text_config *config, const char *front, const char *behind,
                             pco_tokenizer **tokenizer, pco_error *err)
{
    cJSON *vocab = cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(root, "model"), "vocab");
    pco_status status = text_config_add_all(config, text_files_find, vocab, cJSON_GetArraySize(vocab), err);
    if (status) return status;
    cJSON *added = cJSON_Duplicate(config->added, 1), *post = cJSON_CreateObject();
    if (!pco_json_give(root, "added_tokens", added) || !pco_json_give(root, "post_processor", post) ||
        !files_give(post, "type", "\"TemplateProcessing\"") || !files_give(post, "single", "[]"))
        return text_no_memory(err);
    cJSON *single = cJSON_GetObjectItemCaseSensitive(post, "single");
    const char *const around[3] = {front, NULL, behind};
    for (int i = 0; i < 3; i++) {
        cJSON *item = cJSON_CreateObject(), *token = cJSON_CreateObject();
        if (i != 1 && !around[i]) {
            cJSON_Delete(item);
            cJSON_Delete(token);
            continue;
        }
        int good = !around[i] || pco_json_give(token, "id", cJSON_CreateString(around[i]));
        good &= pco_json_give(item, around[i] ? "SpecialToken" : "Sequence", token);
        if (!pco_json_give(single, NULL, item) || !good) return text_no_memory(err);
    }
    return text_json_tokenizer(root, label, tokenizer, err);
}

/* {"model": {"type": ...}} with an empty vocabulary and what else `json` says, an object; NULL without memory. */
static cJSON *files_root(const char *json, const char *type, cJSON **model, cJSON **vocab)
{
    cJSON *root = cJSON_Parse(json);
    *model = cJSON_CreateObject();
    *vocab = cJSON_CreateObject();
    int good = pco_json_give(*model, "type", cJSON_CreateString(type));
    if (!good) cJSON_Delete(*vocab);
    good = good && pco_json_give(*model, "vocab", *vocab);
    if (!good || !root) cJSON_Delete(*model);
    if (good && root && pco_json_give(root, "model", *model)) return root;
    cJSON_Delete(root);
    return NULL;
}

pco_status text_files_bert(const char *path, text_config *config, pco_tokenizer **tokenizer, pco_error *err)
{
    static const char *const words[] = {"false", "true"};
    char text[400];
    cJSON *model, *vocab;
    const int lower = text_config_flag(config, "do_lower_case", 1);
    snprintf(text, sizeof text,
             "{\"normalizer\": {\"type\": \"BertNormalizer\", \"lowercase\": %s, \"handle_chinese_chars\": %s, "
             "\"strip_accents\": %s}, \"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"}, \"decoder\": {\"type\": "
             "\"WordPiece\"}}",
             words[lower], words[text_config_flag(config, "tokenize_chinese_chars", 1)],
             words[text_config_flag(config, "strip_accents", lower)]);
    cJSON *root = files_root(text, "WordPiece", &model, &vocab);
    if (!root) return text_no_memory(err);
    const char *unk = text_config_text(config, "unk_token", "[UNK]");
    const char *cls = text_config_text(config, "cls_token", "[CLS]");
    const char *sep = text_config_text(config, "sep_token", "[SEP]");
    pco_status status = pco_json_give(model, "unk_token", cJSON_CreateString(unk)) &&
                                files_give(model, "continuing_subword_prefix", "\"##\"")
                            ? files_lines(path, files_add_token, vocab, err)
                            : text_no_memory(err);
    if (!status) status = files_make(root, path, config, cls, sep, tokenizer, err);
    cJSON_Delete(root);
    return status;
}

/* ---- byte-level BPE ---- */

#define QWEN2_WORDS \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{N}]+" \
    "[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"

#define CLIP_WORDS \
    "<\\\\|startoftext\\\\|>|<\\\\|endoftext\\\\|>|'s|'t|'re|'ve|'m|'ll|'d|[\\\\p{L}]+|[\\\\p{N}]|" \
    "[^\\\\s\\\\p{L}\\\\p{N}]+"

/* What the classes do with a text, and the special tokens that they put around it: their keys, and what they are where
 * nothing says so. Words may end with a suffix. */
static const struct {
    const char *names; /* between blanks */
    const char *parts;
    const char *front[2], *behind[2];
    const char *suffix;
} FILES_CLASSES[] = {
    {" GPT2Tokenizer CodeGenTokenizer WhisperTokenizer ", "\"normalizer\": null"},
    {" RobertaTokenizer BartTokenizer LongformerTokenizer LEDTokenizer BlenderbotTokenizer ",
     "\"normalizer\": null",
     {"cls_token", "<s>"},
     {"sep_token", "</s>"}},
    {" CLIPTokenizer ",
     "\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFC\"}, {\"type\": \"Replace\", "
     "\"pattern\": {\"Regex\": \"\\\\s+\"}, \"content\": \" \"}, {\"type\": \"Lowercase\"}]}, \"pre_tokenizer\": "
     "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"Regex\": \"" CLIP_WORDS
     "\"}, \"behavior\": \"Removed\", \"invert\": true}, {\"type\": \"ByteLevel\", \"add_prefix_space\": false}]}",
     {"bos_token", "<|startoftext|>"},
     {"eos_token", "<|endoftext|>"},
     "</w>"},
    {" Qwen2Tokenizer ",
     "\"normalizer\": {\"type\": \"NFC\"}, \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": "
     "\"Split\", \"pattern\": {\"Regex\": \"" QWEN2_WORDS "\"}, \"behavior\": \"Isolated\"}, {\"type\": \"ByteLevel\", "
     "\"add_prefix_space\": false, \"use_regex\": false}]}"},
};

static pco_status files_class(const text_config *config, const char *path, size_t *row, pco_error *err)
{
    *row = 0;
    if (!*config->class) return PCO_OK;
    for (; *row < sizeof FILES_CLASSES / sizeof *FILES_CLASSES; ++*row) {
        const char *at = strstr(FILES_CLASSES[*row].names, config->class);
        if (at && at[-1] == ' ' && at[strlen(config->class)] == ' ') return PCO_OK;
    }
    return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                    "%s: the tokenizer class '%.60s' is not supported from vocab.json and merges.txt; save the "
                    "tokenizer as tokenizer.json",
                    path, config->class);
}

pco_status text_files_check_ids(const cJSON *vocab, int64_t count, const char *path, pco_error *err)
{
    const cJSON *item;
    if (!cJSON_IsObject(vocab)) return pco_fail(err, PCO_ERROR_FORMAT, "%s: not an object of tokens and ids", path);
    unsigned char *seen = calloc(1, (size_t)count + 1);
    pco_status status = seen ? PCO_OK : text_no_memory(err);
    cJSON_ArrayForEach(item, vocab)
    {
        int64_t id;
        if (status) break;
        if (!pco_json_whole(item, &id) || id < 0 || id >= count || seen[id]++)
            status = pco_fail(err, PCO_ERROR_FORMAT, "%s: the id of '%.80s' is not one of 0 to %lld, once each", path,
                              item->string, (long long)count - 1);
    }
    free(seen);
    return status;
}

pco_status text_files_bpe(const char *path, const char *merges_path, text_config *config, pco_tokenizer **tokenizer,
                          pco_error *err)
{
    pco_writer text = {0};
    cJSON *model = NULL, *empty, *vocab = NULL, *root = NULL;
    size_t row;
    pco_status status = files_class(config, path, &row, err);
    if (!status) status = pco_json_load(path, &vocab, err);
    if (!status) status = text_files_check_ids(vocab, cJSON_GetArraySize(vocab), path, err);
    if (!status) {
        pco_print(&text, "{%s, \"decoder\": {\"type\": \"ByteLevel\"}", FILES_CLASSES[row].parts);
        if (!strstr(FILES_CLASSES[row].parts, "pre_tokenizer"))
            pco_print(&text, ", \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": %s}",
                      text_config_flag(config, "add_prefix_space", 0) ? "true" : "false");
        pco_write_char(&text, '}');
        status = pco_writer_check(&text, path, err);
    }
    if (!status && !(root = files_root(text.data, "BPE", &model, &empty))) status = text_no_memory(err);
    pco_writer_release(&text);
    if (status) {
        cJSON_Delete(vocab);
        cJSON_Delete(root);
        return status;
    }
    cJSON_DeleteItemFromObjectCaseSensitive(model, "vocab");
    cJSON *merges = cJSON_CreateArray();
    const char *suffix = FILES_CLASSES[row].suffix;
    int good = pco_json_give(model, "vocab", vocab);
    good = pco_json_give(model, "merges", merges) && good;
    if (suffix)
        good = good && pco_json_give(model, "end_of_word_suffix", cJSON_CreateString(suffix)) &&
               pco_json_give(model, "unk_token",
                             cJSON_CreateString(text_config_text(config, "unk_token", "<|endoftext|>")));
    status = good ? files_lines(merges_path, files_add_merge, merges, err) : text_no_memory(err);
    const char *const *front = FILES_CLASSES[row].front, *const *behind = FILES_CLASSES[row].behind;
    if (!status)
        status = files_make(root, path, config, front[0] ? text_config_text(config, front[0], front[1]) : NULL,
                            behind[0] ? text_config_text(config, behind[0], behind[1]) : NULL, tokenizer, err);
    if (!status && !front[0]) { /* what GPT-2 ends with */
        const int32_t end = text_find(*tokenizer, "<|endoftext|>", 13);
        if ((*tokenizer)->special.eos < 0) (*tokenizer)->special.eos = end;
    }
    cJSON_Delete(root);
    return status;
}

/* ---- SentencePiece ---- */

static int64_t files_find_piece(const void *user, const char *text) { return text_find(user, text, strlen(text)); }

pco_status text_files_pieces(const char *path, text_config *config, pco_tokenizer **tokenizer, pco_error *err)
{
    static const char plain[] = " LlamaTokenizer GemmaTokenizer T5Tokenizer CodeLlamaTokenizer ";
    const char *at = *config->class ? strstr(plain, config->class) : plain + 1;
    pco_map map;
    pco_tokenizer *first = NULL;
    *tokenizer = NULL;
    if (!at || at[-1] != ' ' || (*config->class && at[strlen(config->class)] != ' '))
        return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                        "%s: the tokenizer class '%.60s' does more than its model of SentencePiece says; save the "
                        "tokenizer as tokenizer.json",
                        path, config->class);
    pco_status status = pco_map_open(path, &map, err);
    if (status) return status;
    status = text_sentence_model(map.data, map.size, NULL, path, &first, err); /* to find special tokens in */
    if (!status) status = text_config_add_all(config, files_find_piece, first, first->count, err);
    if (!status) status = text_sentence_model(map.data, map.size, config->added, path, tokenizer, err);
    pco_map_close(&map);
    pco_tokenizer_destroy(first);
    if (!status) (*tokenizer)->sentence.first = !text_config_flag(config, "legacy", 1);
    if (!status && strcmp(config->class, "T5Tokenizer") == 0) (*tokenizer)->add_eos = 1;
    if (!status && (strcmp(config->class, "LlamaTokenizer") == 0 || strcmp(config->class, "GemmaTokenizer") == 0))
        (*tokenizer)->add_bos = (*tokenizer)->special.bos >= 0;
    return status;
}
