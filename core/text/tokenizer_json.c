/* tokenizer.json of Hugging Face: the model, its vocabulary and added tokens. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "text/tokenizer_kinds.h"

#define JSON_SPACE "\xE2\x96\x81"

/* A token as the file has it, before the tokenizer is made. */
typedef struct json_token {
    const char *text;
    double score;
    uint32_t type;
} json_token;

typedef struct json_vocabulary {
    json_token *tokens;
    uint32_t count, capacity;
} json_vocabulary;

static pco_status json_put(json_vocabulary *vocabulary, int64_t id, const json_token *token, const char *label,
                           pco_error *err)
{
    if (id < 0 || id >= vocabulary->capacity)
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: token '%.80s' has an id far outside of 0 to the number of tokens",
                        label, token->text);
    const char *other = vocabulary->tokens[id].text;
    if (other && strcmp(other, token->text) != 0)
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: the tokens '%.80s' and '%.80s' have the same id %lld", label, other,
                        token->text, (long long)id);
    if (id >= vocabulary->count) vocabulary->count = (uint32_t)id + 1;
    vocabulary->tokens[id] = *token;
    return PCO_OK;
}

/* "vocab": {"text": id} or, of Unigram, [["text", score], ...] */
static pco_status json_vocab(const cJSON *model, const char *label, json_vocabulary *vocabulary, pco_error *err)
{
    const cJSON *vocab = cJSON_GetObjectItemCaseSensitive(model, "vocab"), *item;
    int64_t id = 0;
    pco_status status = PCO_OK;
    if (!cJSON_IsObject(vocab) && !cJSON_IsArray(vocab))
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: the model has no 'vocab'", label);
    cJSON_ArrayForEach(item, vocab)
    {
        json_token token = {.text = item->string, .type = TEXT_NORMAL};
        if (status) break;
        if (cJSON_IsArray(vocab)) {
            const cJSON *text = item->child, *score = text ? text->next : NULL;
            if (!cJSON_IsString(text) || !cJSON_IsNumber(score))
                return pco_fail(err, PCO_ERROR_FORMAT, "%s: element %lld of 'vocab' is not a text and its score", label,
                                (long long)id);
            token.text = text->valuestring;
            token.score = score->valuedouble;
            status = json_put(vocabulary, id++, &token, label, err);
        } else if (!pco_json_whole(item, &id)) {
            return pco_fail(err, PCO_ERROR_FORMAT, "%s: the id of token '%.80s' is not a whole number", label,
                            item->string);
        } else {
            status = json_put(vocabulary, id, &token, label, err);
        }
    }
    return status;
}

static int json_true(const cJSON *item, const char *key)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(item, key));
}

static pco_status json_added(const cJSON *root, const char *label, json_vocabulary *vocabulary, pco_error *err)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(root, "added_tokens"))
    {
        int64_t id;
        json_token token = {.type = TEXT_ADDED};
        pco_status status = pco_json_int(item, label, "id", 0, INT32_MAX, &id, err);
        if (!status) status = pco_json_string(item, label, "content", &token.text, err);
        if (!status && id < vocabulary->capacity && vocabulary->tokens[id].text) { /* the model has it, too */
            token.score = vocabulary->tokens[id].score;
            token.type = TEXT_NORMAL;
        }
        if (json_true(item, "special")) token.type = TEXT_CONTROL;
        if (!status) status = json_put(vocabulary, id, &token, label, err);
        if (status) return status;
    }
    return PCO_OK;
}

static pco_status json_read_vocabulary(const cJSON *root, const cJSON *model, const char *label,
                                       json_vocabulary *vocabulary, pco_error *err)
{
    const cJSON *vocab = cJSON_GetObjectItemCaseSensitive(model, "vocab");
    const cJSON *added = cJSON_GetObjectItemCaseSensitive(root, "added_tokens");
    uint64_t most = 1024 + 2 * ((uint64_t)cJSON_GetArraySize(vocab) + (uint64_t)cJSON_GetArraySize(added));
    if (most > 1 << 24) most = 1 << 24;
    vocabulary->tokens = calloc((size_t)most, sizeof *vocabulary->tokens);
    if (!vocabulary->tokens) return text_no_memory(err);
    vocabulary->capacity = (uint32_t)most;
    pco_status status = json_vocab(model, label, vocabulary, err);
    if (!status) status = json_added(root, label, vocabulary, err);
    if (!status && !vocabulary->count) status = pco_fail(err, PCO_ERROR_FORMAT, "%s: there are no tokens", label);
    return status;
}

static pco_status json_create(const json_vocabulary *vocabulary, pco_tokenizer **tokenizer, pco_error *err)
{
    size_t bytes = 0;
    for (uint32_t id = 0; id < vocabulary->count; id++)
        if (vocabulary->tokens[id].text) bytes += strlen(vocabulary->tokens[id].text);
    *tokenizer = text_create(vocabulary->count, bytes);
    if (!*tokenizer) return text_no_memory(err);
    for (uint32_t id = 0; id < vocabulary->count; id++) {
        const json_token *token = &vocabulary->tokens[id];
        const char *text = token->text ? token->text : "";
        text_set_token(*tokenizer, id, text, strlen(text), token->text ? token->type : TEXT_UNUSED);
        (*tokenizer)->tokens[id].score = token->score;
    }
    return PCO_OK;
}

/* Added tokens as marks, in the text or in the normalised text. */
static pco_status json_marks(pco_tokenizer *tokenizer, const cJSON *root, const char *label, pco_error *err)
{
    const cJSON *item;
    pco_status status = PCO_OK;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(root, "added_tokens"))
    {
        const char *text;
        int64_t id;
        pco_writer normal = {0};
        const char *made;
        size_t size;
        status = pco_json_string(item, label, "content", &text, err);
        if (!status) status = pco_json_int(item, label, "id", 0, tokenizer->count - 1, &id, err);
        if (status) return status;
        const int normalized = json_true(item, "normalized");
        made = text;
        size = strlen(text);
        if (normalized) status = text_normalize(tokenizer, text, size, &normal, &made, &size, err);
        const text_mark mark = {(char *)made,
                                (uint32_t)size,
                                (int32_t)id,
                                json_true(item, "special") != 0,
                                json_true(item, "lstrip") != 0,
                                json_true(item, "rstrip") != 0,
                                json_true(item, "single_word") != 0};
        if (!status && size) status = text_marks_add(&tokenizer->marks[normalized], &mark, err);
        pco_writer_release(&normal);
        if (status) return status;
    }
    text_marks_sort(&tokenizer->marks[0]);
    text_marks_sort(&tokenizer->marks[1]);
    return PCO_OK;
}

/* ---- models ---- */

static pco_status json_merges(pco_tokenizer *tokenizer, const cJSON *model, const char *label, pco_error *err)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(model, "merges"), *item;
    const text_source source = {label, "merges"};
    size_t count = (size_t)cJSON_GetArraySize(list), used = 0;
    pco_writer joined = {0};
    pco_gguf_string *merges = calloc(count ? count : 1, sizeof *merges);
    if (!merges) return text_no_memory(err);
    pco_status status = PCO_OK;
    cJSON_ArrayForEach(item, list)
    {
        const cJSON *left = item->child, *right = left ? left->next : NULL;
        size_t before = joined.size;
        if (cJSON_IsString(item)) {
            pco_write_text(&joined, item->valuestring);
        } else if (cJSON_IsString(left) && cJSON_IsString(right) && !strchr(left->valuestring, ' ')) {
            pco_write_text(&joined, left->valuestring);
            pco_write_char(&joined, ' ');
            pco_write_text(&joined, right->valuestring);
        } else {
            status = pco_fail(err, PCO_ERROR_FORMAT, "%s: element %zu of 'merges' is not two tokens", label, used);
            break;
        }
        merges[used++].size = joined.size - before;
    }
    if (!status) status = pco_writer_check(&joined, "merges", err);
    const char *at = joined.data;
    for (size_t i = 0; i < used && !status; at += merges[i++].size) merges[i].data = at;
    if (!status) status = text_gpt2_merges(tokenizer, &source, merges, used, err);
    free(merges);
    pco_writer_release(&joined);
    return status;
}

/* A copy of a string that may be missing, null or empty: *copy is then NULL. */
static pco_status json_copy(const cJSON *object, const char *label, const char *key, size_t most, char **copy,
                            pco_error *err)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    *copy = NULL;
    if (!item || cJSON_IsNull(item) || (cJSON_IsString(item) && !*item->valuestring)) return PCO_OK;
    if (!cJSON_IsString(item) || strlen(item->valuestring) > most)
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: '%s' is not a text of at most %zu bytes", label, key, most);
    *copy = strdup(item->valuestring);
    return *copy ? PCO_OK : text_no_memory(err);
}

static pco_status json_unknown(pco_tokenizer *tokenizer, const cJSON *model, const char *label, pco_error *err)
{
    char *unk;
    pco_status status = json_copy(model, label, "unk_token", 4096, &unk, err);
    if (unk) tokenizer->special.unk = text_find(tokenizer, unk, strlen(unk));
    if (unk && tokenizer->special.unk < 0)
        status = pco_fail(err, PCO_ERROR_FORMAT, "%s: 'unk_token' '%.80s' is not in the vocabulary", label, unk);
    free(unk);
    return status;
}

static pco_status json_bpe(pco_tokenizer *tokenizer, const cJSON *model, const char *label, int spelled, pco_error *err)
{
    const cJSON *dropout = cJSON_GetObjectItemCaseSensitive(model, "dropout");
    if (cJSON_IsNumber(dropout) && dropout->valuedouble != 0)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: a BPE with dropout is not supported", label);
    tokenizer->fuse_unk = json_true(model, "fuse_unk");
    tokenizer->byte_fallback = json_true(model, "byte_fallback");
    tokenizer->ignore_merges = json_true(model, "ignore_merges");
    pco_status status = json_copy(model, label, "continuing_subword_prefix", 32, &tokenizer->prefixes[1], err);
    if (!status) status = json_copy(model, label, "end_of_word_suffix", 32, &tokenizer->suffix, err);
    if (!status) status = json_unknown(tokenizer, model, label, err);
    if (!status) status = json_merges(tokenizer, model, label, err);
    tokenizer->word = text_bpe_word;
    if (!status && !spelled) text_cut_at_blanks(tokenizer);
    if (status || !spelled) return status;
    if (!tokenizer->suffix && !tokenizer->prefixes[1]) {
        text_gpt2_ready(tokenizer);
        return PCO_OK;
    }
    const text_step step = {.apply = text_step_spell}; /* bytes and an end of word: CLIP */
    return text_add_step(tokenizer, &step, label, err);
}

static pco_status json_wordpiece(pco_tokenizer *tokenizer, const cJSON *model, const char *label, pco_error *err)
{
    int64_t most;
    pco_status status = json_copy(model, label, "continuing_subword_prefix", 32, &tokenizer->prefixes[1], err);
    if (!status) status = pco_json_int_or(model, label, "max_input_chars_per_word", 0, 1 << 24, 100, &most, err);
    if (!status) status = json_unknown(tokenizer, model, label, err);
    if (!status) status = text_wordpiece_ready(tokenizer, label, err);
    if (!status) tokenizer->longest_word = (uint32_t)most;
    return status;
}

static pco_status json_unigram(pco_tokenizer *tokenizer, const cJSON *model, const char *label, pco_error *err)
{
    int64_t unk = -1;
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(model, "unk_id");
    pco_status status = PCO_OK;
    if (item && !cJSON_IsNull(item)) status = pco_json_int(model, label, "unk_id", 0, tokenizer->count - 1, &unk, err);
    tokenizer->special.unk = (int32_t)unk;
    tokenizer->byte_fallback = json_true(model, "byte_fallback");
    return status ? status : text_unigram_ready(tokenizer, label, err);
}

static void json_word_level(pco_tokenizer *tokenizer, const cJSON *model)
{
    const cJSON *unk = cJSON_GetObjectItemCaseSensitive(model, "unk_token");
    tokenizer->word = text_whole_word;
    /* it need not be a token: texts with other words fail, then */
    if (cJSON_IsString(unk)) tokenizer->special.unk = text_find(tokenizer, unk->valuestring, strlen(unk->valuestring));
}

static pco_status json_model(pco_tokenizer *tokenizer, const cJSON *model, const char *label, int spelled,
                             pco_error *err)
{
    const char *type;
    pco_status status = pco_json_string_or(model, label, "type", NULL, &type, err);
    if (status) return status;
    if (!type) /* older files do not say */
        type = cJSON_HasObjectItem(model, "merges")                              ? "BPE"
               : cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(model, "vocab")) ? "Unigram"
                                                                                 : "WordPiece";
    if (strcmp(type, "BPE") == 0) return json_bpe(tokenizer, model, label, spelled, err);
    if (spelled) {
        const text_step step = {.apply = text_step_spell};
        status = text_add_step(tokenizer, &step, label, err);
    }
    if (status) return status;
    if (strcmp(type, "WordPiece") == 0) return json_wordpiece(tokenizer, model, label, err);
    if (strcmp(type, "Unigram") == 0) return json_unigram(tokenizer, model, label, err);
    if (strcmp(type, "WordLevel") == 0) return json_word_level(tokenizer, model), PCO_OK;
    return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: the model '%.60s' is not supported", label, type);
}

/* Bytes of tokens, once pieces are set. */
static void json_bytes(pco_tokenizer *tokenizer, int spelled)
{
    for (uint32_t id = 0; id < tokenizer->count; id++) {
        const text_token *token = &tokenizer->tokens[id];
        int byte = spelled
                       ? (token->type == TEXT_NORMAL && token->piece_size == 1 ? (unsigned char)token->piece[0] : -1)
                       : text_byte_value(token->text, token->size);
        if (byte >= 0 && tokenizer->byte_ids[byte] < 0) tokenizer->byte_ids[byte] = (int32_t)id;
    }
}

static pco_status json_build(pco_tokenizer *tokenizer, const cJSON *root, const cJSON *model, const char *label,
                             pco_error *err)
{
    text_decoding decoding = {0};
    int spelled = 0;
    int32_t twice;
    tokenizer->encode = text_steps_encode;
    pco_status status =
        text_json_normalizer(tokenizer, cJSON_GetObjectItemCaseSensitive(root, "normalizer"), label, 0, err);
    if (!status)
        status = text_json_pre_tokenizer(tokenizer, cJSON_GetObjectItemCaseSensitive(root, "pre_tokenizer"), label, 0,
                                         &spelled, err);
    if (!status)
        status =
            text_json_decoder(tokenizer, cJSON_GetObjectItemCaseSensitive(root, "decoder"), label, 0, &decoding, err);
    if (status) return status;
    decoding.bytes |= spelled;
    text_decoding_pieces(tokenizer, &decoding);
    json_bytes(tokenizer, decoding.bytes);
    status = text_index_table(tokenizer, &twice, err);
    if (!status) status = json_model(tokenizer, model, label, spelled, err);
    if (!status) status = json_marks(tokenizer, root, label, err);
    if (!status)
        status = text_json_post_processor(tokenizer, cJSON_GetObjectItemCaseSensitive(root, "post_processor"), label, 0,
                                          err);
    if (tokenizer->around_count[0]) tokenizer->special.bos = tokenizer->around[0][0];
    if (tokenizer->around_count[1]) tokenizer->special.eos = tokenizer->around[1][0];
    return status;
}

pco_status text_json_tokenizer(const cJSON *root, const char *label, pco_tokenizer **tokenizer, pco_error *err)
{
    const cJSON *model = cJSON_GetObjectItemCaseSensitive(root, "model");
    json_vocabulary vocabulary = {0};
    pco_tokenizer *made = NULL;
    *tokenizer = NULL;
    if (!cJSON_IsObject(model))
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: there is no 'model'; this is no tokenizer.json", label);
    pco_status status = json_read_vocabulary(root, model, label, &vocabulary, err);
    if (!status) status = json_create(&vocabulary, &made, err);
    free(vocabulary.tokens);
    if (!status) status = json_build(made, root, model, label, err);
    if (status)
        pco_tokenizer_destroy(made);
    else
        *tokenizer = made;
    return status;
}
