/* Unigram (Kudo 2018): of all ways to write a text as tokens the one whose scores, logarithms of probabilities, have
 * the largest sum. A character without a token costs more than any token. */
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer_kinds.h"

/* The best way to the end of a prefix of the text: its last token begins at `begin`. */
typedef struct text_path {
    double score;
    int32_t id; /* -1: unknown; -2: there is no way yet */
    uint32_t begin;
} text_path;

static void unigram_offer(text_path *path, double score, int32_t id, size_t begin)
{
    if (path->id == -2 || score > path->score) *path = (text_path){score, id, (uint32_t)begin};
}

static void unigram_search(const pco_tokenizer *tokenizer, const char *text, size_t size, text_path *paths)
{
    for (size_t i = 0; i <= size; i++) paths[i].id = -2;
    paths[0] = (text_path){0, -1, 0};
    for (size_t at = 0, character; at < size; at += character) {
        const double here = paths[at].score;
        uint32_t node = 0;
        int alone = 0; /* the character is a token */
        character = pco_utf8_decode(text + at, size - at, NULL);
        if (!character) character = 1;
        for (size_t end = at; end < size;) {
            node = text_trie_step(&tokenizer->trie, node, (unsigned char)text[end++]);
            if (!node) break;
            int32_t id = tokenizer->trie.ids[node];
            if (id < 0) continue;
            unigram_offer(&paths[end], tokenizer->tokens[id].score + here, id, at);
            alone |= end - at == character;
        }
        if (!alone) unigram_offer(&paths[at + character], tokenizer->unk_score + here, -1, at);
    }
}

/* Neighbours that are unknown are one: its bytes, if it has tokens for them all, or the unknown token. */
static pco_status unigram_unknown(text_run *run, const char *text, size_t size)
{
    const pco_tokenizer *tokenizer = run->tokenizer;
    size_t known = 0;
    while (tokenizer->byte_fallback && known < size && tokenizer->byte_ids[(unsigned char)text[known]] >= 0) known++;
    if (known == size || tokenizer->special.unk < 0) return text_push_bytes(run, text, size);
    return text_push(&run->ids, tokenizer->special.unk, run->err);
}

pco_status text_unigram_word(text_run *run, const char *word, size_t size)
{
    if (run->path_capacity <= size) {
        text_path *paths = realloc(run->paths, (size + 1) * sizeof *paths);
        if (!paths) return text_no_memory(run->err);
        run->paths = paths;
        run->path_capacity = size + 1;
    }
    text_path *paths = run->paths;
    pco_status status = PCO_OK;
    unigram_search(run->tokenizer, word, size, paths);
    size_t end = size, count = 0; /* turn the way round: `count` paths behind the last one, in order */
    while (end > 0) {
        const uint32_t begin = paths[end].begin;
        paths[end].begin = (uint32_t)end;
        const text_path last = paths[end];
        end = begin;
        paths[size - count++] = (text_path){last.score, last.id, last.begin};
    }
    for (size_t i = size + 1 - count, at = 0; i <= size && !status; i++) {
        size_t next = paths[i].begin;
        if (paths[i].id >= 0) {
            status = text_push(&run->ids, paths[i].id, run->err);
        } else {
            while (i < size && paths[i + 1].id < 0) next = paths[++i].begin;
            status = unigram_unknown(run, word + at, next - at);
        }
        at = next;
    }
    return status;
}

pco_status text_unigram_ready(pco_tokenizer *tokenizer, const char *label, pco_error *err)
{
    double least = 0;
    int any = 0;
    for (uint32_t id = 0; id < tokenizer->count; id++) {
        const text_token *token = &tokenizer->tokens[id];
        if (isnan(token->score))
            return pco_fail(err, PCO_ERROR_FORMAT, "%s: the score of token %u is not a number", label, id);
        if (token->size && (!any || token->score < least)) least = token->score, any = 1;
    }
    tokenizer->unk_score = least - 10; /* as SentencePiece and Hugging Face have it */
    tokenizer->encode = text_steps_encode;
    tokenizer->word = text_unigram_word;
    return text_trie_make(tokenizer, label, err);
}
