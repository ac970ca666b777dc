/* Unigram (Kudo 2018): of all ways to write a text as tokens the one whose scores, logarithms of probabilities, have
 * the largest sum. A character without a token costs more than any token. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer_kinds.h"

/* The best way to the end of a prefix of the text: its last token begins at `begin`. */
typedef struct text_path {
    double score;
    int32_t id; /* -1: unknown; -2: there is no way yet */
    uint32_t begin;
} text_path;

/* The search: paths[i] leads to text[base + i]. What lies before `base` is settled, as no token reaches across it. */
typedef struct unigram_search {
    text_run *run;
    const char *text;
    text_path *paths;
    size_t base, known; /* paths[0 ... known] are set */
} unigram_search;

static pco_status unigram_room(unigram_search *search, size_t known)
{
    text_run *run = search->run;
    if (known >= run->path_capacity) {
        size_t capacity = known + known / 2 + 64;
        text_path *paths = realloc(run->paths, capacity * sizeof *paths);
        if (!paths) return text_no_memory(run->err);
        run->paths = paths;
        run->path_capacity = capacity;
    }
    search->paths = run->paths;
    while (search->known < known) search->paths[++search->known].id = -2;
    return PCO_OK;
}

static void unigram_offer(text_path *path, double score, int32_t id, size_t begin)
{
    if (path->id == -2 || score > path->score) *path = (text_path){score, id, (uint32_t)begin};
}

/* Neighbours that are unknown are one: its bytes, if it has tokens for them all, or the unknown token. */
static pco_status unigram_unknown(text_run *run, const char *text, size_t size)
{
    const pco_tokenizer *tokenizer = run->tokenizer;
    size_t known = 0;
    while (tokenizer->byte_fallback && known < size && tokenizer->byte_ids[(unsigned char)text[known]] >= 0) known++;
    if (known == size || tokenizer->special.unk < 0 || run->names) return text_push_bytes(run, text, size);
    return text_push(&run->ids, tokenizer->special.unk, run->err);
}

static void unigram_reverse(text_ids *ids, size_t from)
{
    for (size_t i = from, k = ids->count; i + 1 < k; i++) {
        const int32_t swap = ids->data[i];
        ids->data[i] = ids->data[--k];
        ids->data[k] = swap;
    }
}

/* Pushes the tokens on the way to text[end], and begins anew there. */
static pco_status unigram_settle(unigram_search *search, size_t end)
{
    text_run *run = search->run;
    const text_path *paths = search->paths;
    const size_t first = run->ids.count;
    pco_status status = PCO_OK;
    for (size_t at = end - search->base; at > 0 && !status;) { /* from its end, and then turned round */
        size_t begin = paths[at].begin;
        if (paths[at].id >= 0) {
            status = text_push(&run->ids, paths[at].id, run->err);
        } else {
            const size_t before = run->ids.count;
            while (begin > 0 && paths[begin].id < 0) begin = paths[begin].begin;
            status = unigram_unknown(run, search->text + search->base + begin, at - begin);
            unigram_reverse(&run->ids, before);
        }
        at = begin;
    }
    unigram_reverse(&run->ids, first);
    search->paths[0] = (text_path){paths[end - search->base].score, -1, 0};
    search->base = end;
    search->known = 0;
    return status;
}

/* A sum as the reference has it: SentencePiece adds floats. */
static double unigram_sum(const pco_tokenizer *tokenizer, double a, double b)
{
    return tokenizer->sentence.single ? (double)((float)a + (float)b) : a + b;
}

static double unigram_score(const pco_tokenizer *tokenizer, int32_t id, size_t size)
{
    const text_token *token = &tokenizer->tokens[id];
    if (token->type != TEXT_USER) return token->score;
    return tokenizer->sentence.single ? (double)(float)((double)((float)size * (float)tokenizer->sentence.best) - 0.1)
                                      : 0; /* always taken, if a way leads there */
}

pco_status text_unigram_word(text_run *run, const char *word, size_t size)
{
    const pco_tokenizer *tokenizer = run->tokenizer;
    unigram_search search = {.run = run, .text = word};
    size_t furthest = 0; /* where a token ends that is looked at already */
    pco_status status = unigram_room(&search, 1);
    if (status) return status;
    search.paths[0] = (text_path){0, -1, 0};
    for (size_t at = 0, character; at < size; at += character) {
        if (at > search.base && furthest == at && search.paths[at - search.base].id >= 0)
            status = unigram_settle(&search, at);
        if (!status) status = unigram_room(&search, at - search.base + tokenizer->longest + 4);
        if (status) return status;
        const size_t from = at - search.base;
        const double here = search.paths[from].score;
        uint32_t node = 0;
        int alone = 0; /* the character is a token */
        character = pco_utf8_decode(word + at, size - at, NULL);
        if (!character) character = 1;
        for (size_t end = at; end < size;) {
            node = text_trie_step(&tokenizer->trie, node, (unsigned char)word[end++]);
            if (!node) break;
            const int32_t id = tokenizer->trie.ids[node];
            if (id < 0) continue;
            const double score = unigram_score(tokenizer, id, end - at);
            unigram_offer(&search.paths[end - search.base], unigram_sum(tokenizer, score, here), id, from);
            if (end > furthest) furthest = end;
            alone |= end - at == character;
        }
        if (alone) continue;
        unigram_offer(&search.paths[from + character], unigram_sum(tokenizer, tokenizer->unk_score, here), -1, from);
        if (at + character > furthest) furthest = at + character;
    }
    return unigram_settle(&search, size);
}

pco_status text_unigram_ready(pco_tokenizer *tokenizer, const char *label, pco_error *err)
{
    double least = 0, best = 0;
    int any = 0, normal = 0;
    for (uint32_t id = 0; id < tokenizer->count; id++) {
        const text_token *token = &tokenizer->tokens[id];
        if (isnan(token->score))
            return pco_fail(err, PCO_ERROR_FORMAT, "%s: the score of token %u is not a number", label, id);
        if (!token->size) continue;
        if (!any || token->score < least) least = token->score;
        if (token->type == TEXT_NORMAL && (!normal || token->score > best)) best = token->score, normal = 1;
        any = 1;
    }
    tokenizer->unk_score = least - 10; /* as SentencePiece and Hugging Face have it */
    tokenizer->sentence.best = best;
    tokenizer->encode = text_steps_encode;
    tokenizer->word = text_unigram_word;
    return text_trie_make(tokenizer, label, err);
}
