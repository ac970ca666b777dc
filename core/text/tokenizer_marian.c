/* Marian's tokenizer in folders of Hugging Face (MarianTokenizer): a model of SentencePiece for each side, source.spm
 * and target.spm, cuts the text, and vocab.json, which both sides share unless the target has target_vocab.json, has
 * the ids of the pieces. What a piece is called decides, whatever number the model of SentencePiece gave it. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "text/tokenizer_kinds.h"

/* ---- encoding ---- */

/* The language that text[size] names where it begins, ">>fra<<", as the package transformers (5) finds it. 0: none. */
static size_t marian_language(const char *text, size_t size)
{
    if (size < 4 || memcmp(text, ">>", 2) != 0) return 0;
    const char *end = memmem(text, size, "<<", 2);
    return end ? (size_t)(end - text) + 2 : 0;
}

/* The ids that `pieces` gave, from the first on, become those of their texts. */
static void marian_rename(text_run *run, const pco_tokenizer *tokenizer, size_t first)
{
    const uint32_t own = tokenizer->pieces->count;
    for (size_t i = first; i < run->ids.count; i++) {
        int32_t *id = &run->ids.data[i];
        *id = (uint32_t)*id < own ? tokenizer->renamed[*id] : *id - (int32_t)own;
    }
}

static pco_status marian_encode(text_run *run, const char *text, size_t size, text_position position)
{
    const pco_tokenizer *tokenizer = run->tokenizer;
    const size_t named = marian_language(text, size);
    pco_status status = PCO_OK;
    (void)position; /* each part is a text of its own to SentencePiece */
    if (named) {
        const int32_t id = text_find(tokenizer, text, named);
        status = text_push(&run->ids, id >= 0 ? id : tokenizer->special.unk, run->err);
    }
    const size_t first = run->ids.count;
    if (!status) {
        run->tokenizer = tokenizer->pieces;
        run->names = tokenizer;
        status = tokenizer->pieces->encode(run, text + named, size - named, TEXT_AT_START);
        run->tokenizer = tokenizer;
        run->names = NULL;
    }
    if (!status) marian_rename(run, tokenizer, first);
    return status;
}

/* ---- making ---- */

/* Tokens by their ids, which were checked: those of the vocabulary, and those that are added. */
static pco_status marian_put(const cJSON *vocab, const cJSON *added, const char **texts, const char *label,
                             pco_error *err)
{
    const cJSON *item;
    int64_t id = -1;
    cJSON_ArrayForEach(item, vocab)
    {
        (void)pco_json_whole(item, &id);
        if (strlen(item->string) > UINT16_MAX)
            return pco_fail(err, PCO_ERROR_FORMAT, "%s: token %lld is too long", label, (long long)id);
        texts[id] = item->string;
    }
    cJSON_ArrayForEach(item, added)
    {
        id = (int64_t)cJSON_GetObjectItemCaseSensitive(item, "id")->valuedouble;
        texts[id] = cJSON_GetObjectItemCaseSensitive(item, "content")->valuestring;
    }
    return PCO_OK;
}

/* Takes `pieces`, also where it fails. */
static pco_status marian_build(const char **texts, uint32_t count, const text_config *config, pco_tokenizer *pieces,
                               const char *label, pco_tokenizer **out, pco_error *err)
{
    size_t bytes = 0;
    int32_t twice;
    for (uint32_t id = 0; id < count; id++) bytes += texts[id] ? strlen(texts[id]) : 0;
    pco_tokenizer *tokenizer = text_create(count, bytes);
    if (!tokenizer) {
        pco_tokenizer_destroy(pieces);
        return text_no_memory(err);
    }
    tokenizer->pieces = pieces;
    for (uint32_t id = 0; id < count; id++) {
        const char *text = texts[id] ? texts[id] : "";
        text_set_token(tokenizer, id, text, strlen(text), *text ? TEXT_NORMAL : TEXT_ADDED);
        text_set_piece_replaced(tokenizer, id, TEXT_BLANK, " ");
    }
    const cJSON *item;
    cJSON_ArrayForEach(item, config->added)
    {
        const uint32_t id = (uint32_t)cJSON_GetObjectItemCaseSensitive(item, "id")->valuedouble;
        const int special = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(item, "special"));
        tokenizer->tokens[id].type = special ? TEXT_CONTROL : TEXT_USER;
    }
    const struct {
        const char *text;
        int32_t *id;
    } specials[] = {{text_config_text(config, "unk_token", "<unk>"), &tokenizer->special.unk},
                    {text_config_text(config, "eos_token", "</s>"), &tokenizer->special.eos},
                    {text_config_text(config, "pad_token", "<pad>"), &tokenizer->special.pad}};
    for (uint32_t id = 0; id < count; id++)
        for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
            if (!*specials[i].text || strcmp(tokenizer->tokens[id].text, specials[i].text) != 0) continue;
            tokenizer->tokens[id].type = TEXT_CONTROL;
            *specials[i].id = (int32_t)id;
        }
    pco_status status = text_index(tokenizer, &twice, err);
    for (size_t i = 0; i < 2 && !status; i++) /* padding may be missing */
        if (*specials[i].id < 0)
            status = pco_fail(err, PCO_ERROR_FORMAT, "%s: the vocabulary lacks '%.40s'", label, specials[i].text);
    tokenizer->renamed = status ? NULL : malloc((size_t)pieces->count * sizeof *tokenizer->renamed);
    if (!status && !tokenizer->renamed) status = text_no_memory(err);
    for (uint32_t i = 0; i < pieces->count && !status; i++) {
        const int32_t id = text_find(tokenizer, pieces->tokens[i].text, pieces->tokens[i].size);
        tokenizer->renamed[i] = id >= 0 && (int32_t)i != pieces->special.unk ? id : tokenizer->special.unk;
    }
    tokenizer->encode = marian_encode;
    tokenizer->word = text_whole_word; /* no other form of file has such a tokenizer */
    tokenizer->strip = TEXT_STRIP_ALL;
    tokenizer->add_eos = 1;
    if (status)
        pco_tokenizer_destroy(tokenizer);
    else
        *out = tokenizer;
    return status;
}

static pco_status marian_pieces(const char *path, pco_tokenizer **pieces, pco_error *err)
{
    pco_map map;
    pco_status status = pco_map_open(path, &map, err);
    if (status) return status;
    status = text_sentence_model(map.data, map.size, NULL, path, pieces, err);
    pco_map_close(&map);
    if (!status && (*pieces)->special.unk < 0) {
        pco_tokenizer_destroy(*pieces);
        *pieces = NULL;
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: there is no piece for what is unknown", path);
    }
    return status;
}

pco_status text_files_marian(const char *vocab_path, const char *pieces_path, text_config *config,
                             pco_tokenizer **tokenizer, pco_error *err)
{
    cJSON *vocab = NULL;
    const cJSON *item;
    pco_tokenizer *pieces = NULL;
    *tokenizer = NULL;
    pco_status status = pco_json_load(vocab_path, &vocab, err);
    const int64_t own = status ? 0 : cJSON_GetArraySize(vocab);
    if (!status) status = text_config_add_all(config, text_files_find, vocab, own, err);
    int64_t count = own;
    cJSON_ArrayForEach(item, config->added)
    {
        const int64_t id = (int64_t)cJSON_GetObjectItemCaseSensitive(item, "id")->valuedouble;
        if (id >= count) count = id + 1;
    }
    if (!status) status = text_files_check_ids(vocab, count, vocab_path, err);
    const char **texts = status ? NULL : calloc((size_t)count + 1, sizeof *texts);
    if (!status && !texts) status = text_no_memory(err);
    if (!status) status = marian_put(vocab, config->added, texts, vocab_path, err);
    if (!status) status = marian_pieces(pieces_path, &pieces, err);
    if (!status) status = marian_build(texts, (uint32_t)count, config, pieces, vocab_path, tokenizer, err);
    free(texts);
    cJSON_Delete(vocab);
    return status;
}
