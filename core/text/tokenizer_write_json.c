/* A tokenizer as Hugging Face's tokenizer.json: the opposite of tokenizer_json.c, for the kinds that GGUF files and
 * what Portico trains have. */
#include "text/tokenizer_write.h"

#include "base/error.h"
#include "base/grow.h"
#include "base/utf8.h"
#include "text/tokenizer_kinds.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Parts are given to their parent; what has no memory leaves `failed`. */
typedef struct json_maker {
    const pco_tokenizer *tokenizer;
    cJSON *root;
    uint32_t listed; /* tokens from here on are added ones alone */
    int failed;
} json_maker;

static void make_give(json_maker *m, cJSON *to, const char *key, cJSON *item)
{
    if (!pco_json_give(to, key, item)) m->failed = 1;
}

/* {"type": type}, given to `to`. */
static cJSON *make_part(json_maker *m, cJSON *to, const char *key, const char *type)
{
    cJSON *part = cJSON_CreateObject();
    make_give(m, part, "type", cJSON_CreateString(type));
    make_give(m, to, key, part);
    return m->failed ? NULL : part;
}

static cJSON *make_list(json_maker *m, cJSON *to, const char *key)
{
    cJSON *list = cJSON_CreateArray();
    make_give(m, to, key, list);
    return m->failed ? NULL : list;
}

/* {"type": "Sequence", key: []}: the list. */
static cJSON *make_sequence(json_maker *m, const char *part, const char *key)
{
    return make_list(m, make_part(m, m->root, part, "Sequence"), key);
}

static void make_replace(json_maker *m, cJSON *list, const char *kind, const char *from, const char *to)
{
    cJSON *part = make_part(m, list, NULL, "Replace"), *pattern = cJSON_CreateObject();
    make_give(m, pattern, kind, cJSON_CreateString(from));
    make_give(m, part, "pattern", pattern);
    make_give(m, part, "content", cJSON_CreateString(to));
}

/* ---- tokens --------------------------------------------------------------------------------------------- */

static int make_is_added(const pco_tokenizer *tokenizer, uint32_t id)
{
    const text_token *token = &tokenizer->tokens[id];
    return text_is_word_of_characters(tokenizer, id) || token->type == TEXT_CONTROL || token->type == TEXT_USER ||
           token->type == TEXT_ADDED;
}

/* Tokens that are found in text before anything else. `tokenizers` gives them the ids behind the model's, one after the
 * other, and so the model lists all tokens in front of the last that is none of them; names of unused ones behind those
 * are left out. */
static pco_status make_tokens(json_maker *m, pco_error *err)
{
    const pco_tokenizer *tokenizer = m->tokenizer;
    uint32_t used = tokenizer->count;
    while (used && tokenizer->tokens[used - 1].type == TEXT_UNUSED) used--;
    m->listed = used;
    while (m->listed && make_is_added(tokenizer, m->listed - 1)) m->listed--;
    cJSON *list = make_list(m, m->root, "added_tokens");
    for (uint32_t id = 0; id < used; id++) {
        static const char *const flags[] = {"single_word", "lstrip", "rstrip", "normalized"};
        const text_token *token = &tokenizer->tokens[id];
        if (pco_utf8_check(token->text, token->size) != token->size || strlen(token->text) != token->size ||
            text_find(tokenizer, token->text, token->size) != (int32_t)id)
            return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                            "its token %" PRIu32 ", '%.40s', is there twice or is no text, which tokenizer.json "
                            "cannot say",
                            id, token->text);
        if (!make_is_added(tokenizer, id)) continue;
        cJSON *item = cJSON_CreateObject();
        make_give(m, item, "id", cJSON_CreateNumber(id));
        make_give(m, item, "content", cJSON_CreateString(token->piece));
        for (int i = 0; i < 4; i++) make_give(m, item, flags[i], cJSON_CreateFalse());
        make_give(m, item, "special", cJSON_CreateBool(token->type == TEXT_CONTROL));
        make_give(m, list, NULL, item);
    }
    return PCO_OK;
}

/* {"text": id} */
static void make_vocab(json_maker *m, cJSON *model)
{
    cJSON *vocab = cJSON_CreateObject();
    make_give(m, model, "vocab", vocab);
    for (uint32_t id = 0; id < m->listed && !m->failed; id++)
        make_give(m, vocab, m->tokenizer->tokens[id].text, cJSON_CreateNumber(id));
}

static void make_unknown(json_maker *m, cJSON *model)
{
    const int32_t unk = m->tokenizer->special.unk;
    make_give(m, model, "unk_token",
              unk >= 0 ? cJSON_CreateString(m->tokenizer->tokens[unk].text) : cJSON_CreateNull());
}

/* [["text", score], ...] */
static void make_scores(json_maker *m, cJSON *model)
{
    cJSON *vocab = make_list(m, model, "vocab");
    for (uint32_t id = 0; id < m->listed && !m->failed; id++) {
        const text_token *token = &m->tokenizer->tokens[id];
        cJSON *item = cJSON_CreateArray();
        make_give(m, item, NULL, cJSON_CreateString(token->text));
        make_give(m, item, NULL, cJSON_CreateNumber(token->score));
        make_give(m, vocab, NULL, item);
    }
}

/* ---- merges --------------------------------------------------------------------------------------------- */

/* Two tokens that become a third, the one with the lowest rank first. */
typedef struct make_merge {
    double rank;
    uint32_t left, right, order;
} make_merge;

typedef struct make_merges {
    make_merge *items;
    size_t count, capacity;
} make_merges;

static int make_by_rank(const void *a, const void *b)
{
    const make_merge *x = a, *y = b;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static void make_add_merge(json_maker *m, make_merges *all, double rank, int32_t left, int32_t right)
{
    make_merge *items = pco_grow(all->items, all->count, &all->capacity, sizeof *items);
    if (!items) m->failed = 1;
    if (!items) return;
    all->items = items;
    all->items[all->count] = (make_merge){rank, (uint32_t)left, (uint32_t)right, (uint32_t)all->count};
    all->count++;
}

/* Of scores (tokenizer_llama.c): whatever two tokens a token can be cut into merge, by its score. */
static void make_merges_of_scores(json_maker *m, make_merges *all)
{
    enum { LONGEST = 1024 }; /* bytes; each place to cut looks at all of them, and longer ones are no real tokens */
    const pco_tokenizer *tokenizer = m->tokenizer;
    for (uint32_t id = 0; id < m->listed && !m->failed; id++) {
        const text_token *token = &tokenizer->tokens[id];
        if (token->size > LONGEST) continue;
        for (size_t at = 0, length; text_is_plain(token) && at < token->size; at += length) {
            length = pco_utf8_decode(token->text + at, token->size - at, NULL);
            if (!length) break;
            const int32_t left = at ? text_find_plain(tokenizer, token->text, at) : -1,
                          right = at ? text_find_plain(tokenizer, token->text + at, token->size - at) : -1;
            if (left >= 0 && right >= 0) make_add_merge(m, all, -token->score, left, right);
        }
    }
}

static void make_put_merges(json_maker *m, cJSON *model)
{
    const pco_tokenizer *tokenizer = m->tokenizer;
    make_merges all = {0};
    cJSON *list = make_list(m, model, "merges");
    for (uint32_t i = 0; i < tokenizer->pairs_size; i++) {
        const text_pair *pair = &tokenizer->pairs[i];
        if (pair->id >= 0)
            make_add_merge(m, &all, pair->rank, (int32_t)(pair->key >> 32), (int32_t)(pair->key & UINT32_MAX));
    }
    if (!tokenizer->pairs && tokenizer->word == text_llama_word) make_merges_of_scores(m, &all);
    if (all.count) qsort(all.items, all.count, sizeof *all.items, make_by_rank);
    for (size_t i = 0; i < all.count && !m->failed; i++) {
        const char *pair[] = {tokenizer->tokens[all.items[i].left].text, tokenizer->tokens[all.items[i].right].text};
        make_give(m, list, NULL, cJSON_CreateStringArray(pair, 2));
    }
    free(all.items);
}

static void make_bpe(json_maker *m, int byte_fallback)
{
    cJSON *model = make_part(m, m->root, "model", "BPE");
    make_give(m, model, "byte_fallback", cJSON_CreateBool(byte_fallback));
    make_give(m, model, "fuse_unk", cJSON_CreateBool(m->tokenizer->fuse_unk));
    make_give(m, model, "ignore_merges", cJSON_CreateBool(m->tokenizer->ignore_merges));
    make_unknown(m, model);
    make_vocab(m, model);
    make_put_merges(m, model);
}

/* ---- kinds ---------------------------------------------------------------------------------------------- */

static void make_byte_level(json_maker *m)
{
    const pco_tokenizer *tokenizer = m->tokenizer;
    const int usual = tokenizer->step_count == 1 && strcmp(tokenizer->steps[0].expression, TEXT_GPT2_WORDS) == 0;
    cJSON *list = usual ? NULL : make_sequence(m, "pre_tokenizer", "pretokenizers"), *part;
    for (uint32_t i = 0; i < tokenizer->step_count && !usual; i++) {
        part = make_part(m, list, NULL, "Split");
        cJSON *pattern = cJSON_CreateObject();
        make_give(m, pattern, "Regex", cJSON_CreateString(tokenizer->steps[i].expression));
        make_give(m, part, "pattern", pattern);
        make_give(m, part, "behavior", cJSON_CreateString("Isolated"));
        make_give(m, part, "invert", cJSON_CreateFalse());
    }
    part = usual ? make_part(m, m->root, "pre_tokenizer", "ByteLevel") : make_part(m, list, NULL, "ByteLevel");
    make_give(m, part, "add_prefix_space", cJSON_CreateFalse());
    make_give(m, part, "trim_offsets", cJSON_CreateTrue());
    make_give(m, part, "use_regex", cJSON_CreateBool(usual));
    part = make_part(m, m->root, "decoder", "ByteLevel");
    make_give(m, part, "add_prefix_space", cJSON_CreateTrue());
    make_give(m, part, "trim_offsets", cJSON_CreateTrue());
    make_give(m, part, "use_regex", cJSON_CreateTrue());
    make_bpe(m, 0);
}

/* Blanks as U+2581, one more in front of each piece of text; and back. */
static void make_blanks(json_maker *m, cJSON *normalizers, int prefix, int fallback)
{
    if (prefix) make_give(m, make_part(m, normalizers, NULL, "Prepend"), "prepend", cJSON_CreateString(TEXT_BLANK));
    make_replace(m, normalizers, "String", " ", TEXT_BLANK);
    cJSON *list = make_sequence(m, "decoder", "decoders");
    make_replace(m, list, "String", TEXT_BLANK, " ");
    if (fallback) make_part(m, list, NULL, "ByteFallback");
    make_part(m, list, NULL, "Fuse");
    if (!prefix) return;
    cJSON *strip = make_part(m, list, NULL, "Strip");
    make_give(m, strip, "content", cJSON_CreateString(" "));
    make_give(m, strip, "start", cJSON_CreateNumber(1));
    make_give(m, strip, "stop", cJSON_CreateNumber(0));
}

static int make_falls_back(const pco_tokenizer *tokenizer)
{
    for (int byte = 0; byte < 256; byte++)
        if (tokenizer->byte_ids[byte] < 0) return 0;
    return 1;
}

static void make_llama(json_maker *m)
{
    const int fallback = make_falls_back(m->tokenizer);
    make_blanks(m, make_sequence(m, "normalizer", "normalizers"), m->tokenizer->space_prefix, fallback);
    make_give(m, m->root, "pre_tokenizer", cJSON_CreateNull());
    make_bpe(m, fallback);
}

static void make_base64(const pco_writer *bytes, pco_writer *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t at = 0; at < bytes->size; at += 3) {
        uint32_t bits = 0;
        for (size_t i = at; i < at + 3; i++) bits = bits << 8 | (i < bytes->size ? (unsigned char)bytes->data[i] : 0u);
        for (size_t i = 0; i < 4; i++)
            pco_write_char(out, at + i > bytes->size ? '=' : digits[bits >> (18 - 6 * i) & 63]);
    }
}

static void make_unigram(json_maker *m)
{
    const pco_tokenizer *tokenizer = m->tokenizer;
    const text_sentence *sentence = &tokenizer->sentence;
    cJSON *list = make_sequence(m, "normalizer", "normalizers");
    if (sentence->charsmap) {
        pco_writer bytes = {0}, text = {0};
        text_charsmap_bytes(sentence->charsmap, &bytes);
        make_base64(&bytes, &text);
        m->failed |= bytes.status || text.status;
        make_give(m, make_part(m, list, NULL, "Precompiled"), "precompiled_charsmap",
                  cJSON_CreateString(text.data ? text.data : ""));
        pco_writer_release(&bytes);
        pco_writer_release(&text);
    }
    if (sentence->squeeze) {
        make_replace(m, list, "Regex", "\\A +| +\\z", ""); /* a Strip takes other blanks, too */
        make_replace(m, list, "Regex", " {2,}", " ");
    }
    make_blanks(m, list, tokenizer->space_prefix, tokenizer->byte_fallback);
    make_give(m, m->root, "pre_tokenizer", cJSON_CreateNull());
    cJSON *model = make_part(m, m->root, "model", "Unigram");
    const int32_t unk = tokenizer->special.unk;
    make_give(m, model, "unk_id", unk >= 0 ? cJSON_CreateNumber(unk) : cJSON_CreateNull());
    make_give(m, model, "byte_fallback", cJSON_CreateBool(tokenizer->byte_fallback));
    make_scores(m, model);
}

/* Each character by itself. */
static void make_characters(json_maker *m)
{
    cJSON *part = make_part(m, m->root, "pre_tokenizer", "Split"), *pattern = cJSON_CreateObject();
    make_give(m, pattern, "Regex", cJSON_CreateString("[\\s\\S]"));
    make_give(m, part, "pattern", pattern);
    make_give(m, part, "behavior", cJSON_CreateString("Isolated"));
    make_give(m, part, "invert", cJSON_CreateFalse());
    make_part(m, m->root, "decoder", "Fuse");
    cJSON *model = make_part(m, m->root, "model", "WordLevel");
    const int32_t unk = m->tokenizer->special.unk; /* a name that no token has: texts with other characters fail */
    make_give(m, model, "unk_token", cJSON_CreateString(unk >= 0 ? m->tokenizer->tokens[unk].text : "[UNK]"));
    make_vocab(m, model);
}

/* ---- what goes around a text ---- */

static void make_special(json_maker *m, cJSON *list, cJSON *specials, const char *side, int32_t id)
{
    cJSON *item = cJSON_CreateObject(), *inner = cJSON_CreateObject();
    const char *text = id >= 0 ? m->tokenizer->tokens[id].piece : side;
    make_give(m, inner, "id", cJSON_CreateString(text));
    make_give(m, inner, "type_id", cJSON_CreateNumber(id < 0 && *side == 'B'));
    make_give(m, item, id >= 0 ? "SpecialToken" : "Sequence", inner);
    make_give(m, list, NULL, item);
    if (id < 0 || cJSON_HasObjectItem(specials, text)) return;
    cJSON *special = cJSON_CreateObject();
    make_give(m, special, "id", cJSON_CreateString(text));
    make_give(m, special, "ids", cJSON_CreateIntArray(&id, 1));
    make_give(m, special, "tokens", cJSON_CreateStringArray(&text, 1));
    make_give(m, specials, text, special);
}

static void make_around(json_maker *m, uint32_t around)
{
    const pco_tokenizer *tokenizer = m->tokenizer;
    const int32_t bos = around & PCO_ENCODE_BOS ? tokenizer->special.bos : -1,
                  eos = around & PCO_ENCODE_EOS ? tokenizer->special.eos : -1;
    static const char *const sides[] = {"A", "B"};
    if (bos < 0 && eos < 0) {
        make_give(m, m->root, "post_processor", cJSON_CreateNull());
        return;
    }
    cJSON *part = make_part(m, m->root, "post_processor", "TemplateProcessing"), *specials = cJSON_CreateObject();
    cJSON *lists[] = {make_list(m, part, "single"), make_list(m, part, "pair")};
    make_give(m, part, "special_tokens", specials);
    for (int i = 0; i < 2 && !m->failed; i++)
        for (int side = 0; side <= i; side++) {
            if (bos >= 0) make_special(m, lists[i], specials, sides[side], bos);
            make_special(m, lists[i], specials, sides[side], -1);
            if (eos >= 0) make_special(m, lists[i], specials, sides[side], eos);
        }
}

pco_status pco_tokenizer_make_json(const pco_tokenizer *tokenizer, uint32_t around, cJSON **root, pco_error *err)
{
    json_maker m = {.tokenizer = tokenizer, .root = cJSON_CreateObject()};
    const int byte_level = tokenizer->pairs && tokenizer->spelling[0][0],
              unigram = tokenizer->sentence.model == TEXT_SENTENCE_UNIGRAM, characters = !tokenizer->word;
    *root = NULL;
    if (!byte_level && !unigram && !characters && tokenizer->word != text_llama_word)
        return cJSON_Delete(m.root),
               pco_fail(err, PCO_ERROR_UNSUPPORTED,
                        "its tokenizer is of a kind that Portico does not write as tokenizer.json");
    if (tokenizer->sentence.symbols.count)
        return cJSON_Delete(m.root), pco_fail(err, PCO_ERROR_UNSUPPORTED,
                                              "its tokenizer finds symbols of its user where texts are normalised, "
                                              "which tokenizer.json cannot say");
    if (!m.root) return text_no_memory(err);
    make_give(&m, m.root, "version", cJSON_CreateString("1.0"));
    pco_status status = make_tokens(&m, err);
    if (!status && byte_level) make_byte_level(&m);
    if (!status && !byte_level && unigram) make_unigram(&m);
    if (!status && characters) make_characters(&m);
    if (!status && !byte_level && !unigram && !characters) make_llama(&m);
    make_around(&m, around);
    if (!status && m.failed) status = text_no_memory(err);
    if (status)
        cJSON_Delete(m.root);
    else
        *root = m.root;
    return status;
}
