/* Training byte-level BPE: words with their counts, and the most frequent pair merged again and again. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <inttypes.h>
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "text/tokenizer_kinds.h"
#include "text/vocabulary.h"

/* A distinct word of the text: its symbols lie in bpe_trainer.symbols. */
typedef struct bpe_word {
    const char *text; /* in the text, `bytes` long */
    uint32_t bytes, count, first, length;
} bpe_word;

typedef struct bpe_pair {
    uint64_t key; /* left << 32 | right; EMPTY where there is none */
    int64_t count;
} bpe_pair;

#define BPE_EMPTY UINT64_MAX

typedef struct bpe_trainer {
    bpe_word *words;
    uint32_t n_words, *table; /* by text: index + 1; a power of two entries */
    uint32_t table_size;
    uint32_t *symbols;
    bpe_pair *pairs;
    uint32_t pairs_size, n_pairs;
} bpe_trainer;

static void bpe_release(bpe_trainer *t)
{
    free(t->words);
    free(t->table);
    free(t->symbols);
    free(t->pairs);
}

static uint32_t *bpe_word_bucket(const bpe_trainer *t, const char *text, size_t size)
{
    uint64_t hash = pco_hash(PCO_HASH_START, text, size);
    uint32_t mask = t->table_size - 1, at = (uint32_t)(hash ^ hash >> 32) & mask;
    for (; t->table[at]; at = (at + 1) & mask) {
        const bpe_word *word = &t->words[t->table[at] - 1];
        if (word->bytes == size && memcmp(word->text, text, size) == 0) break;
    }
    return &t->table[at];
}

static pco_status bpe_grow_words(bpe_trainer *t, pco_error *err)
{
    uint32_t size = t->table_size ? 2 * t->table_size : 1024;
    bpe_word *words = realloc(t->words, size / 2 * sizeof *words);
    if (words) t->words = words;
    uint32_t *table = calloc(size, sizeof *table);
    if (!words || !table) {
        free(table);
        return text_no_memory(err);
    }
    free(t->table);
    t->table = table;
    t->table_size = size;
    for (uint32_t i = 0; i < t->n_words; i++) *bpe_word_bucket(t, words[i].text, words[i].bytes) = i + 1;
    return PCO_OK;
}

static pco_status bpe_count_word(bpe_trainer *t, const char *text, size_t size, pco_error *err)
{
    pco_status status = PCO_OK;
    if (2 * t->n_words >= t->table_size) status = bpe_grow_words(t, err);
    if (status) return status;
    uint32_t *bucket = bpe_word_bucket(t, text, size);
    if (!*bucket) {
        t->words[t->n_words] = (bpe_word){.text = text, .bytes = (uint32_t)size};
        *bucket = ++t->n_words;
    }
    t->words[*bucket - 1].count++;
    return PCO_OK;
}

static pco_status bpe_cut(bpe_trainer *t, const char *text, size_t size, pco_error *err)
{
    void *pattern = NULL;
    pco_status status = text_pattern_compile(TEXT_GPT2_WORDS, "GPT-2's words", &pattern, err);
    pcre2_match_data *match = status ? NULL : pcre2_match_data_create(1, NULL);
    if (!status && !match) status = text_no_memory(err);
    const size_t *bounds = match ? pcre2_get_ovector_pointer(match) : NULL;
    for (size_t at = 0; at < size && !status; at = bounds[1]) {
        int found = pcre2_match(pattern, (PCRE2_SPTR)text, size, at, PCRE2_NO_UTF_CHECK, match, NULL);
        if (found <= 0 || bounds[0] != at || bounds[1] <= at)
            status = pco_fail(err, PCO_ERROR_INTERNAL, "pcre2 answered %d at byte %zu of the text", found, at);
        else
            status = bpe_count_word(t, text + at, bounds[1] - at, err);
        if (status) break;
    }
    pcre2_match_data_free(match);
    pcre2_code_free(pattern);
    return status;
}

/* ---- pairs ---- */

static bpe_pair *bpe_bucket(const bpe_trainer *t, uint64_t key)
{
    uint64_t hash = key * UINT64_C(0x9E3779B97F4A7C15);
    uint32_t mask = t->pairs_size - 1, at = (uint32_t)(hash >> 32) & mask;
    while (t->pairs[at].key != BPE_EMPTY && t->pairs[at].key != key) at = (at + 1) & mask;
    return &t->pairs[at];
}

static pco_status bpe_grow_pairs(bpe_trainer *t, pco_error *err)
{
    bpe_pair *old = t->pairs;
    uint32_t old_size = t->pairs_size, size = old_size ? 2 * old_size : 4096;
    t->pairs = malloc(size * sizeof *t->pairs);
    if (!t->pairs) {
        t->pairs = old;
        return text_no_memory(err);
    }
    t->pairs_size = size;
    for (uint32_t i = 0; i < size; i++) t->pairs[i] = (bpe_pair){BPE_EMPTY, 0};
    for (uint32_t i = 0; i < old_size; i++)
        if (old[i].key != BPE_EMPTY) *bpe_bucket(t, old[i].key) = old[i];
    free(old);
    return PCO_OK;
}

static pco_status bpe_add(bpe_trainer *t, uint32_t left, uint32_t right, int64_t count, pco_error *err)
{
    pco_status status = PCO_OK;
    if (2 * t->n_pairs >= t->pairs_size) status = bpe_grow_pairs(t, err);
    if (status) return status;
    bpe_pair *pair = bpe_bucket(t, (uint64_t)left << 32 | right);
    if (pair->key == BPE_EMPTY) {
        pair->key = (uint64_t)left << 32 | right;
        t->n_pairs++;
    }
    pair->count += count;
    return PCO_OK;
}

/* Adds the pairs of a word `times` times its count (1 or -1). */
static pco_status bpe_add_word(bpe_trainer *t, const bpe_word *word, int times, pco_error *err)
{
    const uint32_t *symbols = t->symbols + word->first;
    pco_status status = PCO_OK;
    for (uint32_t i = 0; i + 1 < word->length && !status; i++)
        status = bpe_add(t, symbols[i], symbols[i + 1], (int64_t)times * word->count, err);
    return status;
}

static pco_status bpe_start(bpe_trainer *t, uint32_t first_byte, pco_error *err)
{
    size_t total = 0;
    pco_status status = PCO_OK;
    for (uint32_t i = 0; i < t->n_words; i++) total += t->words[i].bytes;
    if (total > UINT32_MAX) return pco_fail(err, PCO_ERROR_INVALID, "the text has too many different words");
    t->symbols = malloc((total ? total : 1) * sizeof *t->symbols);
    if (!t->symbols) return text_no_memory(err);
    total = 0;
    for (uint32_t i = 0; i < t->n_words && !status; i++) {
        bpe_word *word = &t->words[i];
        word->first = (uint32_t)total;
        word->length = word->bytes;
        for (uint32_t k = 0; k < word->bytes; k++) t->symbols[total++] = first_byte + (unsigned char)word->text[k];
        status = bpe_add_word(t, word, 1, err);
    }
    return status;
}

/* The most frequent pair that occurs at least twice; of equals the lowest key. BPE_EMPTY: none. */
static uint64_t bpe_best(const bpe_trainer *t)
{
    uint64_t best = BPE_EMPTY;
    int64_t count = 1;
    for (uint32_t i = 0; i < t->pairs_size; i++) {
        const bpe_pair *pair = &t->pairs[i];
        if (pair->count < count || pair->count < 2 || pair->key == BPE_EMPTY) continue;
        if (pair->count > count || pair->key < best) best = pair->key;
        count = pair->count;
    }
    return best;
}

/* Replaces the pair by `id` in every word. */
static pco_status bpe_merge(bpe_trainer *t, uint64_t key, uint32_t id, pco_error *err)
{
    const uint32_t left = (uint32_t)(key >> 32), right = (uint32_t)key;
    pco_status status = PCO_OK;
    for (uint32_t i = 0; i < t->n_words && !status; i++) {
        bpe_word *word = &t->words[i];
        uint32_t *symbols = t->symbols + word->first, at = 0, kept = 0;
        while (at + 1 < word->length && (symbols[at] != left || symbols[at + 1] != right)) at++;
        if (at + 1 >= word->length) continue;
        status = bpe_add_word(t, word, -1, err);
        for (at = 0; at < word->length; kept++) {
            int both = at + 1 < word->length && symbols[at] == left && symbols[at + 1] == right;
            symbols[kept] = both ? id : symbols[at];
            at += both ? 2 : 1;
        }
        word->length = kept;
        if (!status) status = bpe_add_word(t, word, 1, err);
    }
    return status;
}

static pco_status bpe_add_merge(pco_vocabulary *vocabulary, uint64_t key, pco_error *err)
{
    char *joined = NULL;
    const char *left = vocabulary->tokens[key >> 32], *right = vocabulary->tokens[(uint32_t)key];
    if (asprintf(&joined, "%s%s", left, right) < 0) return text_no_memory(err);
    pco_status status = pco_vocabulary_add_merge(vocabulary, left, right, err);
    if (!status) status = pco_vocabulary_add(vocabulary, joined, err);
    free(joined);
    return status;
}

pco_status pco_vocabulary_train_bpe(const char *text, size_t size, int64_t count, int special,
                                    pco_vocabulary *vocabulary, pco_error *err)
{
    bpe_trainer t = {0};
    pco_status status = pco_vocabulary_start(text, size, special, vocabulary, err);
    const uint32_t first_byte = vocabulary->count;
    vocabulary->bpe = 1;
    if (!status && (count < first_byte + 256 || count > 1 << 24))
        status =
            pco_fail(err, PCO_ERROR_INVALID, "a byte-level BPE of %" PRId64 " tokens is not possible; it has %u to %d",
                     count, first_byte + 256, 1 << 24);
    for (int byte = 0; byte < 256 && !status; byte++) {
        char spelled[4];
        text_gpt2_spell((unsigned char)byte, spelled);
        status = pco_vocabulary_add(vocabulary, spelled, err);
    }
    if (!status) status = bpe_cut(&t, text, size, err);
    if (!status) status = bpe_start(&t, first_byte, err);
    while (!status && vocabulary->count < count) {
        uint64_t key = bpe_best(&t);
        if (key == BPE_EMPTY) break;
        uint32_t id = vocabulary->count;
        status = bpe_add_merge(vocabulary, key, err);
        if (!status) status = bpe_merge(&t, key, id, err);
    }
    bpe_release(&t);
    if (status) pco_vocabulary_release(vocabulary);
    return status;
}
