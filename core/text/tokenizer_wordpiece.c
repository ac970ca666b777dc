/* WordPiece (Schuster and Nakajima 2012, as BERT has it): the longest token that a word begins with, then the longest
 * that the rest begins with. A word with a part that is no token is unknown as a whole. */
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer_kinds.h"

/* The longest token that prefix and text[size] begin with, and how much of text it is; -1 where there is none. */
static int32_t wordpiece_longest(const pco_tokenizer *tokenizer, const char *prefix, const char *text, size_t size,
                                 size_t *length)
{
    uint32_t node = 0;
    int32_t found = -1;
    for (; *prefix; prefix++)
        if (!(node = text_trie_step(&tokenizer->trie, node, (unsigned char)*prefix))) return -1;
    for (size_t i = 0; i < size && (node = text_trie_step(&tokenizer->trie, node, (unsigned char)text[i])); i++) {
        if (tokenizer->trie.ids[node] < 0) continue;
        if (i + 1 < size && ((unsigned char)text[i + 1] & 0xC0) == 0x80) continue; /* inside a character */
        found = tokenizer->trie.ids[node];
        *length = i + 1;
    }
    return found;
}

static pco_status wordpiece_unknown(text_run *run, const char *word, size_t size)
{
    if (run->tokenizer->special.unk >= 0) return text_push(&run->ids, run->tokenizer->special.unk, run->err);
    return pco_fail(run->err, PCO_ERROR_INVALID,
                    "the vocabulary has no tokens for the word '%.*s', nor an unknown token; leave it out",
                    (int)(size < 60 ? size : 60), word);
}

pco_status text_wordpiece_word(text_run *run, const char *word, size_t size)
{
    const pco_tokenizer *tokenizer = run->tokenizer;
    size_t before = run->ids.count, characters = 0, length;
    pco_status status = PCO_OK;
    for (size_t i = 0; i < size; i++) characters += ((unsigned char)word[i] & 0xC0) != 0x80;
    int unknown = tokenizer->longest_word && characters > tokenizer->longest_word;
    for (size_t at = 0; at < size && !status && !unknown; at += length) {
        int32_t id = wordpiece_longest(tokenizer, tokenizer->prefixes[at > 0], word + at, size - at, &length);
        unknown = id < 0;
        if (unknown) break;
        status = text_push(&run->ids, id, run->err);
    }
    if (!unknown) return status;
    run->ids.count = before;
    return wordpiece_unknown(run, word, size);
}

pco_status text_wordpiece_ready(pco_tokenizer *tokenizer, const char *label, pco_error *err)
{
    for (int i = 0; i < 2; i++)
        if (!tokenizer->prefixes[i] && !(tokenizer->prefixes[i] = strdup(""))) return text_no_memory(err);
    tokenizer->longest_word = 100;
    tokenizer->encode = text_steps_encode;
    tokenizer->word = text_wordpiece_word;
    return text_trie_make(tokenizer, label, err);
}

pco_status text_whole_word(text_run *run, const char *word, size_t size)
{
    int32_t id = text_find_plain(run->tokenizer, word, size);
    return id >= 0 ? text_push(&run->ids, id, run->err) : wordpiece_unknown(run, word, size);
}
