#include "text/tokenizer_write.h"

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer_kinds.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Strings that lie behind each other in `text`. */
typedef struct write_list {
    pco_writer text;
    pco_gguf_string *items;
    uint64_t count;
} write_list;

static void write_add(write_list *list, const char *text, size_t size)
{
    pco_write(&list->text, text, size);
    list->items[list->count++].size = size;
}

/* Puts the list under the key, once its memory no longer moves. */
static pco_status write_end(write_list *list, const char *key, pco_gguf_writer *out, pco_error *err)
{
    const char *at = list->text.data;
    pco_status status = pco_writer_check(&list->text, key, err);
    for (uint64_t i = 0; i < list->count && !status; at += list->items[i++].size) list->items[i].data = at ? at : "";
    if (!status) pco_gguf_put_texts(out, key, list->items, list->count);
    free(list->items);
    pco_writer_release(&list->text);
    return status;
}

int text_is_word_of_characters(const pco_tokenizer *tokenizer, uint32_t id)
{
    const text_token *token = &tokenizer->tokens[id];
    return !tokenizer->word && token->type == TEXT_NORMAL &&
           pco_utf8_decode(token->text, token->size, NULL) != token->size;
}

/* How a token is called in a file. */
typedef void (*write_name_fn)(write_list *list, const pco_tokenizer *tokenizer, uint32_t id);

static void write_as_it_is(write_list *list, const pco_tokenizer *tokenizer, uint32_t id)
{
    write_add(list, tokenizer->tokens[id].text, tokenizer->tokens[id].size);
}

/* Characters of one byte, as byte-level vocabularies spell bytes. */
static void write_spelled(write_list *list, const pco_tokenizer *tokenizer, uint32_t id)
{
    char spelled[4];
    if (tokenizer->tokens[id].type != TEXT_NORMAL || text_is_word_of_characters(tokenizer, id))
        return write_as_it_is(list, tokenizer, id);
    text_gpt2_spell((unsigned char)tokenizer->tokens[id].text[0], spelled);
    write_add(list, spelled, strlen(spelled));
}

/* WordPiece: U+2581 in front of what begins a word, and nothing in front of other parts. */
static void write_phantom(write_list *list, const pco_tokenizer *tokenizer, uint32_t id)
{
    const text_token *token = &tokenizer->tokens[id];
    const int part = token->size > 2 && memcmp(token->text, "##", 2) == 0;
    if (token->type != TEXT_NORMAL || (int32_t)id == tokenizer->special.unk) return write_as_it_is(list, tokenizer, id);
    if (!part) pco_write_text(&list->text, TEXT_BLANK);
    write_add(list, token->text + 2 * part, token->size - 2 * (uint32_t)part);
    list->items[list->count - 1].size += part ? 0 : strlen(TEXT_BLANK);
}

/* By the numbers of GGUF. A tokenizer.json does not say which tokens are bytes, or unknown. */
static text_type write_type(const pco_tokenizer *tokenizer, uint32_t id)
{
    const text_token *token = &tokenizer->tokens[id];
    const int byte = tokenizer->byte_fallback ? text_byte_value(token->text, token->size) : -1;
    if (token->type == TEXT_ADDED || text_is_word_of_characters(tokenizer, id)) return TEXT_USER;
    if ((int32_t)id == tokenizer->special.unk && !tokenizer->spelling[0][0]) return TEXT_UNKNOWN;
    return byte >= 0 && tokenizer->byte_ids[byte] == (int32_t)id ? TEXT_BYTE : (text_type)token->type;
}

/* Ids beyond the vocabulary, and those that it leaves out, get names that no text has. */
static pco_status write_tokens(const pco_tokenizer *tokenizer, uint32_t rows, write_name_fn name, pco_gguf_writer *out,
                               pco_error *err)
{
    write_list list = {.items = calloc((size_t)rows + 1, sizeof *list.items)};
    int32_t *types = calloc((size_t)rows + 1, sizeof *types);
    pco_status status = list.items && types ? PCO_OK : text_no_memory(err);
    for (uint32_t id = 0; id < rows && !status; id++) {
        const text_token *token = id < tokenizer->count ? &tokenizer->tokens[id] : NULL;
        char unused[32];
        const int named = token && token->size > 0;
        snprintf(unused, sizeof unused, "[PAD%" PRIu32 "]", id);
        if (named)
            name(&list, tokenizer, id);
        else
            write_add(&list, unused, strlen(unused));
        types[id] = (int32_t)(named ? write_type(tokenizer, id) : TEXT_UNUSED);
    }
    if (status)
        free(list.items);
    else
        status = write_end(&list, "tokenizer.ggml.tokens", out, err);
    if (!status) pco_gguf_put_i32s(out, "tokenizer.ggml.token_type", types, rows);
    free(types);
    return status;
}

static int write_by_rank(const void *a, const void *b)
{
    const uint32_t x = ((const text_pair *)a)->rank, y = ((const text_pair *)b)->rank;
    return (x > y) - (x < y);
}

static pco_status write_merges(const pco_tokenizer *tokenizer, pco_gguf_writer *out, pco_error *err)
{
    uint32_t count = 0;
    text_pair *pairs = malloc(((size_t)tokenizer->pairs_size + 1) * sizeof *pairs);
    write_list list = {.items = calloc((size_t)tokenizer->pairs_size + 1, sizeof *list.items)};
    if (!pairs || !list.items) {
        free(pairs);
        free(list.items);
        return text_no_memory(err);
    }
    for (uint32_t i = 0; i < tokenizer->pairs_size; i++)
        if (tokenizer->pairs[i].id >= 0) pairs[count++] = tokenizer->pairs[i];
    qsort(pairs, count, sizeof *pairs, write_by_rank);
    for (uint32_t i = 0; i < count; i++) {
        const text_token *left = &tokenizer->tokens[pairs[i].key >> 32],
                         *right = &tokenizer->tokens[pairs[i].key & UINT32_MAX];
        pco_write(&list.text, left->text, left->size);
        pco_write_char(&list.text, ' ');
        pco_write(&list.text, right->text, right->size);
        list.items[list.count++].size = (size_t)left->size + 1 + right->size;
    }
    free(pairs);
    return write_end(&list, "tokenizer.ggml.merges", out, err);
}

/* 2^32 - 1 says that there is none, where readers would take a usual one. */
static void write_id(pco_gguf_writer *out, const char *key, int32_t id, int always)
{
    if (id >= 0 || always) pco_gguf_put_u32(out, key, id >= 0 ? (uint32_t)id : UINT32_MAX);
}

/* GGUF has one token in front of a text and one behind it, which are BOS and EOS. */
static pco_status write_check_around(const pco_tokenizer *tokenizer, pco_error *err)
{
    const int32_t special[] = {tokenizer->special.bos, tokenizer->special.eos};
    for (int behind = 0; behind < 2; behind++) {
        const int32_t id = tokenizer->around[behind][0];
        const uint32_t count = tokenizer->around_count[behind];
        const char *side = behind ? "behind" : "in front of", *name = behind ? "EOS" : "BOS";
        if (count > 1)
            return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                            "its tokenizer puts %" PRIu32 " tokens %s a text, and GGUF has one", count, side);
        if (count && special[behind] >= 0 && special[behind] != id)
            return pco_fail(
                err, PCO_ERROR_UNSUPPORTED,
                "its tokenizer puts '%.40s' %s a text and has '%.40s' as %s, and GGUF has one token for both",
                tokenizer->tokens[id].text, side, tokenizer->tokens[special[behind]].text, name);
    }
    return PCO_OK;
}

static pco_status write_specials(const pco_tokenizer *tokenizer, int bert, const int32_t *ends, uint32_t ends_count,
                                 pco_gguf_writer *out, pco_error *err)
{
    const int in_front = tokenizer->around_count[0] > 0, behind = tokenizer->around_count[1] > 0;
    const int32_t bos = tokenizer->special.bos >= 0 ? tokenizer->special.bos : in_front ? tokenizer->around[0][0] : -1;
    const int32_t eos = tokenizer->special.eos >= 0 ? tokenizer->special.eos : ends_count ? ends[0] : -1;
    static const char *const more[] = {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};
    uint32_t used = 0;
    const int always = tokenizer->word && !tokenizer->spelling[0][0];
    write_id(out, bert ? "tokenizer.ggml.cls_token_id" : "tokenizer.ggml.bos_token_id", bos, always);
    write_id(out, bert ? "tokenizer.ggml.seperator_token_id" : "tokenizer.ggml.eos_token_id", eos, always);
    write_id(out, "tokenizer.ggml.padding_token_id", tokenizer->special.pad, 0);
    write_id(out, "tokenizer.ggml.unknown_token_id", tokenizer->special.unk, always);
    for (uint32_t i = 0; i < ends_count; i++) {
        if (ends[i] == eos) continue;
        if (used == 2)
            return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                            "'eos_token_id' has more tokens than the three ends of a text that GGUF has");
        write_id(out, more[used++], ends[i], 0);
    }
    pco_gguf_put_bool(out, "tokenizer.ggml.add_bos_token", tokenizer->add_bos || in_front);
    pco_gguf_put_bool(out, "tokenizer.ggml.add_eos_token", tokenizer->add_eos || behind);
    return PCO_OK;
}

/* ---- kinds ---------------------------------------------------------------------------------------------- */

/* What of a tokenizer goes into a file. */
typedef struct write_job {
    const pco_tokenizer *tokenizer;
    pco_gguf_writer *out;
    uint32_t rows;
    int *exact;
    pco_error *err;
} write_job;

static pco_status write_unsupported(const write_job *job, const char *what)
{
    return pco_fail(job->err, PCO_ERROR_UNSUPPORTED, "its tokenizer %s, which GGUF files cannot say", what);
}

static pco_status write_byte_level(const write_job *job)
{
    char pre[64];
    if (!text_words_name(job->tokenizer, pre))
        return pco_fail(job->err, PCO_ERROR_UNSUPPORTED,
                        "its tokenizer cuts texts into words in a way that has no name in GGUF files");
    *job->exact = job->tokenizer->norm_count == 0;
    pco_gguf_put_text(job->out, "tokenizer.ggml.model", "gpt2");
    pco_gguf_put_text(job->out, "tokenizer.ggml.pre", pre);
    pco_status status = write_tokens(job->tokenizer, job->rows, write_as_it_is, job->out, job->err);
    return status ? status : write_merges(job->tokenizer, job->out, job->err);
}

/* Characters, where each is one byte: a byte-level BPE without merges. */
static pco_status write_characters(const write_job *job)
{
    for (uint32_t id = 0; id < job->tokenizer->count; id++) {
        const text_token *token = &job->tokenizer->tokens[id];
        if (token->type == TEXT_NORMAL && (unsigned char)token->text[0] >= 0x80)
            return write_unsupported(job, "has characters beyond ASCII as tokens");
    }
    pco_gguf_put_text(job->out, "tokenizer.ggml.model", "gpt2");
    pco_gguf_put_text(job->out, "tokenizer.ggml.pre", "gpt-2");
    pco_gguf_put_texts(job->out, "tokenizer.ggml.merges", NULL, 0);
    return write_tokens(job->tokenizer, job->rows, write_spelled, job->out, job->err);
}

/* Normalisation that spells blanks as U+2581, and what kinds have besides; any other makes other ids of some texts. */
static void write_norms(const write_job *job, const text_norm **charsmap, int *prefix, int *squeeze)
{
    *charsmap = NULL;
    *prefix = *squeeze = 0;
    for (uint32_t i = 0; i < job->tokenizer->norm_count; i++) {
        const text_norm *norm = &job->tokenizer->norms[i];
        const int blank = norm->content && strcmp(norm->content, TEXT_BLANK) == 0,
                  space = norm->content && strcmp(norm->content, " ") == 0;
        if (norm->apply == text_norm_prepend && blank)
            *prefix = 1;
        else if (norm->apply == text_norm_charsmap_hf && !*charsmap)
            *charsmap = norm;
        else if (norm->apply == text_norm_strip || (norm->apply == text_norm_replace && space))
            *squeeze = 1;
        else if (norm->apply != text_norm_replace || !blank)
            *job->exact = 0;
    }
}

/* The one step of pre-tokenisation that such tokenizers may have; *prefix: it sets a blank in front. */
static pco_status write_blank_step(const write_job *job, int *prefix)
{
    const text_step *step = job->tokenizer->steps;
    if (!job->tokenizer->step_count) return PCO_OK;
    if (job->tokenizer->step_count > 1 || step->apply != text_step_metaspace || strcmp(step->content, TEXT_BLANK) != 0)
        return write_unsupported(job, "cuts texts into words");
    if (step->prepend && step->at_starts)
        return write_unsupported(job, "sets a blank in front of the first piece of a text only");
    *prefix |= step->prepend;
    return PCO_OK;
}

static pco_status write_scores(const write_job *job, const double *scores)
{
    float *values = calloc((size_t)job->rows + 1, sizeof *values);
    if (!values) return text_no_memory(job->err);
    for (uint32_t id = 0; id < job->rows && id < job->tokenizer->count; id++) values[id] = (float)scores[id];
    pco_gguf_put_f32s(job->out, "tokenizer.ggml.scores", values, job->rows);
    free(values);
    return PCO_OK;
}

/* Scores that have tokens made in the order of merges: of the token that a merge makes, less than all before. What no
 * merge makes is worth least. */
static void write_scores_of_merges(const pco_tokenizer *tokenizer, double *scores)
{
    uint32_t last = 0;
    for (uint32_t i = 0; i < tokenizer->pairs_size; i++)
        if (tokenizer->pairs[i].id >= 0 && tokenizer->pairs[i].rank > last) last = tokenizer->pairs[i].rank;
    for (uint32_t id = 0; id < tokenizer->count; id++) scores[id] = -(double)last - 2;
    for (uint32_t i = 0; i < tokenizer->pairs_size; i++) {
        const text_pair *pair = &tokenizer->pairs[i];
        if (pair->id >= 0 && -(double)pair->rank - 1 > scores[pair->id]) scores[pair->id] = -(double)pair->rank - 1;
    }
}

/* SentencePiece's BPE: with its own scores, or as tokenizer.json says it, with merges. */
static pco_status write_llama(const write_job *job)
{
    const pco_tokenizer *tokenizer = job->tokenizer;
    const text_sentence *sentence = &tokenizer->sentence;
    const text_norm *charsmap;
    int prefix, squeeze;
    write_norms(job, &charsmap, &prefix, &squeeze);
    pco_status status = write_blank_step(job, &prefix);
    if (status) return status;
    if (tokenizer->prefixes[1] || tokenizer->suffix || tokenizer->ignore_merges)
        return write_unsupported(job, "marks the ends of words");
    if (charsmap || squeeze || sentence->charsmap || sentence->squeeze) *job->exact = 0;
    if (sentence->suffix || sentence->first || sentence->model == TEXT_SENTENCE_CHAR)
        return write_unsupported(job, "treats blanks or characters in a way of its own");
    double *scores = calloc((size_t)tokenizer->count + 1, sizeof *scores);
    if (!scores) return text_no_memory(job->err);
    for (uint32_t id = 0; id < tokenizer->count; id++) scores[id] = tokenizer->tokens[id].score;
    if (tokenizer->pairs) write_scores_of_merges(tokenizer, scores);
    pco_gguf_put_text(job->out, "tokenizer.ggml.model", "llama");
    pco_gguf_put_text(job->out, "tokenizer.ggml.pre", "default");
    pco_gguf_put_bool(job->out, "tokenizer.ggml.add_space_prefix", prefix || tokenizer->space_prefix);
    status = write_tokens(tokenizer, job->rows, write_as_it_is, job->out, job->err);
    if (!status) status = write_scores(job, scores);
    free(scores);
    return status;
}

static pco_status write_t5(const write_job *job)
{
    const pco_tokenizer *tokenizer = job->tokenizer;
    const text_norm *norm;
    int prefix, squeeze;
    write_norms(job, &norm, &prefix, &squeeze);
    pco_status status = write_blank_step(job, &prefix);
    const void *charsmap = norm ? norm->charsmap : tokenizer->sentence.charsmap;
    double *scores = calloc((size_t)tokenizer->count + 1, sizeof *scores);
    if (!scores) return text_no_memory(job->err);
    for (uint32_t id = 0; id < tokenizer->count; id++) scores[id] = tokenizer->tokens[id].score;
    pco_gguf_put_text(job->out, "tokenizer.ggml.model", "t5");
    pco_gguf_put_text(job->out, "tokenizer.ggml.pre", "default");
    pco_gguf_put_bool(job->out, "tokenizer.ggml.add_space_prefix", prefix || tokenizer->space_prefix);
    pco_gguf_put_bool(job->out, "tokenizer.ggml.remove_extra_whitespaces", squeeze || tokenizer->sentence.squeeze);
    if (!status && charsmap) {
        pco_writer bytes = {0};
        text_charsmap_bytes(charsmap, &bytes);
        status = pco_writer_check(&bytes, "a table of normalisation", job->err);
        if (!status) pco_gguf_put_bytes(job->out, "tokenizer.ggml.precompiled_charsmap", bytes.data, bytes.size);
        pco_writer_release(&bytes);
    }
    if (!status && (tokenizer->sentence.suffix || tokenizer->sentence.first))
        status = write_unsupported(job, "sets blanks in a way of its own");
    if (!status) status = write_tokens(tokenizer, job->rows, write_as_it_is, job->out, job->err);
    if (!status) status = write_scores(job, scores);
    free(scores);
    return status;
}

/* WordPiece behind BERT's normaliser, which is all that GGUF knows of it. */
static pco_status write_bert(const write_job *job)
{
    const pco_tokenizer *tokenizer = job->tokenizer;
    const text_norm *norm = tokenizer->norms;
    const text_step *steps = tokenizer->steps;
    const unsigned lower = TEXT_LOWER | TEXT_ACCENTS, cased = TEXT_CLEAN | TEXT_CHINESE;
    if (tokenizer->norm_count != 1 || norm->apply != text_norm_bert ||
        (norm->flags != cased && norm->flags != (cased | lower)) || tokenizer->step_count != 2 ||
        steps[0].is_match != text_is_blank || steps[0].behaviour != TEXT_REMOVED ||
        steps[1].is_match != text_is_punctuation || steps[1].behaviour != TEXT_ISOLATED)
        return write_unsupported(job, "prepares texts in another way than BERT's");
    if (strcmp(tokenizer->prefixes[1], "##") != 0)
        return write_unsupported(job, "marks parts of words otherwise than ##");
    pco_gguf_put_text(job->out, "tokenizer.ggml.model", "bert");
    pco_gguf_put_text(job->out, "tokenizer.ggml.pre", "default");
    pco_gguf_put_bool(job->out, "tokenizer.ggml.normalizer.lowercase", norm->flags != cased);
    return write_tokens(tokenizer, job->rows, write_phantom, job->out, job->err);
}

/* The writer of a kind; NULL: GGUF has none. */
static pco_status (*write_kind(const pco_tokenizer *tokenizer))(const write_job *job)
{
    if (tokenizer->pairs && tokenizer->spelling[0][0]) return write_byte_level;
    if (!tokenizer->word) return write_characters;
    if (tokenizer->word == text_llama_word || tokenizer->word == text_bpe_word) return write_llama;
    if (tokenizer->word == text_unigram_word) return write_t5;
    return tokenizer->word == text_wordpiece_word ? write_bert : NULL;
}

pco_status pco_tokenizer_put_gguf(const pco_tokenizer *tokenizer, uint32_t rows, const int32_t *ends,
                                  uint32_t ends_count, pco_gguf_writer *out, int *exact, pco_error *err)
{
    const write_job job = {tokenizer, out, rows, exact, err};
    pco_status (*kind)(const write_job *job) = write_kind(tokenizer);
    pco_status status = write_check_around(tokenizer, err);
    *exact = 1;
    if (!status && !kind)
        status = write_unsupported(&job, tokenizer->pieces ? "has its pieces and their ids in two files"
                                                           : "takes whole words as tokens");
    if (!status) status = kind(&job);
    return status ? status : write_specials(tokenizer, kind == write_bert, ends, ends_count, out, err);
}

pco_status pco_tokenizer_sample(const pco_tokenizer *tokenizer, pco_writer *out, pco_error *err)
{
    static const char *const between[] = {"", " "};
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t id = 0; id < tokenizer->count; id++) {
            const text_token *token = &tokenizer->tokens[id];
            if (token->type != TEXT_NORMAL || (int32_t)id == tokenizer->special.unk ||
                pco_utf8_check(token->piece, token->piece_size) != token->piece_size)
                continue; /* parts of characters make no text */
            pco_write_text(out, between[pass]);
            pco_write(out, token->piece, token->piece_size);
        }
    return pco_writer_check(out, "a text of all tokens", err);
}
