/* BPE over characters (Sennrich et al. 2016): a word starts as characters, perhaps with a mark behind the last or in
 * front of all but the first, and pairs merge in the order of the merge list. What has no token is unknown, or its
 * bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer_kinds.h"

enum { BPE_AFFIX_MOST = 32 };

/* The token of a character, or -1. */
static int32_t bpe_character(const pco_tokenizer *tokenizer, const char *text, size_t size, int first, int last)
{
    char spelled[2 * BPE_AFFIX_MOST + 4];
    const char *prefix = first ? NULL : tokenizer->prefixes[1], *suffix = last ? tokenizer->suffix : NULL;
    if (!prefix && !suffix) return text_find_plain(tokenizer, text, size);
    size_t before = prefix ? strlen(prefix) : 0, after = suffix ? strlen(suffix) : 0;
    if (before) memcpy(spelled, prefix, before);
    memcpy(spelled + before, text, size);
    if (after) memcpy(spelled + before + size, suffix, after);
    return text_find_plain(tokenizer, spelled, before + size + after);
}

/* What becomes of a character without a token. */
static pco_status bpe_unknown(text_run *run, size_t at, const char *text, size_t size)
{
    const pco_tokenizer *tokenizer = run->tokenizer;
    text_merger *merger = &run->merger;
    size_t known = 0;
    pco_status status = PCO_OK;
    while (tokenizer->byte_fallback && known < size && tokenizer->byte_ids[(unsigned char)text[at + known]] >= 0)
        known++;
    if (known == size) {
        for (size_t i = 0; i < size && !status; i++)
            status = text_merger_add(merger, at + i, 1, tokenizer->byte_ids[(unsigned char)text[at + i]], run->err);
        return status;
    }
    if (tokenizer->special.unk < 0)
        return pco_fail(run->err, PCO_ERROR_INVALID,
                        "the vocabulary has no token for '%.*s', nor an unknown token; leave that character out",
                        (int)size, text + at);
    text_symbol *last = merger->symbol_count ? &merger->symbols[merger->symbol_count - 1] : NULL;
    if (tokenizer->fuse_unk && last && last->id == tokenizer->special.unk) {
        last->size += (uint32_t)size;
        return PCO_OK;
    }
    return text_merger_add(merger, at, size, tokenizer->special.unk, run->err);
}

pco_status text_bpe_word(text_run *run, const char *word, size_t size)
{
    const pco_tokenizer *tokenizer = run->tokenizer;
    text_merger *merger = &run->merger;
    pco_status status = PCO_OK;
    int32_t whole = tokenizer->ignore_merges ? text_find_plain(tokenizer, word, size) : -1;
    if (whole >= 0) return text_push(&run->ids, whole, run->err);
    merger->symbol_count = 0;
    for (size_t at = 0, length; at < size && !status; at += length) {
        length = pco_utf8_decode(word + at, size - at, NULL);
        if (!length) length = 1;
        int32_t id = bpe_character(tokenizer, word + at, length, at == 0, at + length == size);
        if (id >= 0)
            status = text_merger_add(merger, at, length, id, run->err);
        else
            status = bpe_unknown(run, at, word, length);
    }
    if (!status) status = text_merger_run(merger, tokenizer, word, text_pair_by_ids, run->err);
    for (int32_t i = 0; i >= 0 && !status; i = merger->symbols[i].next)
        status = text_push(&run->ids, merger->symbols[i].id, run->err);
    return status;
}
