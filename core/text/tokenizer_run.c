#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "text/tokenizer_kinds.h"

#define TEXT_CACHE_FROM 4096 /* bytes of text: below, clearing the cache costs more than it saves */

pco_status text_run_begin(text_run *run, const pco_tokenizer *tokenizer, size_t size, pco_error *err)
{
    *run = (text_run){.tokenizer = tokenizer, .err = err};
    run->ids.data = malloc(64 * sizeof *run->ids.data);
    if (!run->ids.data) return text_no_memory(err);
    run->ids.capacity = 64;
    if (size >= TEXT_CACHE_FROM) run->cache = calloc(TEXT_CACHE_SIZE, sizeof *run->cache); /* or none */
    return PCO_OK;
}

void text_run_end(text_run *run)
{
    text_merger_release(&run->merger);
    pco_writer_release(&run->normal);
    free(run->paths);
    free(run->cache);
    pcre2_match_data_free(run->match);
    pcre2_match_context_free(run->context);
    pcre2_jit_stack_free(run->stack);
}

/* Where the word that text[size] begins with ends: in front of a blank behind another character. */
static size_t run_word_end(const char *text, size_t size)
{
    size_t at = 0;
    while (size - at >= 3 && memcmp(text + at, TEXT_BLANK, 3) == 0) at += 3;
    for (const char *found; size - at > 3; at++) {
        found = memchr(text + at, TEXT_BLANK[0], size - at - 2);
        if (!found) break;
        at = (size_t)(found - text);
        if (memcmp(found, TEXT_BLANK, 3) == 0) return at;
    }
    return size;
}

static pco_status run_word(text_run *run, const char *word, size_t size);

pco_status text_run_word(text_run *run, const char *word, size_t size)
{
    pco_status status = PCO_OK;
    if (!run->tokenizer->blank_starts) return run_word(run, word, size);
    for (size_t at = 0, length; at < size && !status; at += length) {
        length = run_word_end(word + at, size - at);
        status = run_word(run, word + at, length);
    }
    return status;
}

static pco_status run_word(text_run *run, const char *word, size_t size)
{
    if (!run->cache || size > TEXT_CACHED_BYTES) return run->tokenizer->word(run, word, size);
    uint64_t hash = pco_hash(PCO_HASH_START, word, size);
    text_cached *cached = &run->cache[(hash ^ hash >> 32) % TEXT_CACHE_SIZE];
    pco_status status = PCO_OK;
    if (cached->size == size && memcmp(cached->word, word, size) == 0) {
        for (int i = 0; i < cached->count && !status; i++) status = text_push(&run->ids, cached->ids[i], run->err);
        return status;
    }
    size_t before = run->ids.count;
    status = run->tokenizer->word(run, word, size);
    size_t count = run->ids.count - before;
    if (status || count > TEXT_CACHED_IDS) return status;
    cached->size = (unsigned char)size;
    cached->count = (unsigned char)count;
    memcpy(cached->word, word, size);
    memcpy(cached->ids, run->ids.data + before, count * sizeof *cached->ids);
    return PCO_OK;
}
