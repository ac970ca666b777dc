/* Kinds of tokenizers in GGUF whose parts are those of other files. */
#include <string.h>

#include "base/error.h"
#include "text/tokenizer_kinds.h"

/* Gemma 4: blanks are spelled U+2581, characters merge by the list within lines, and what has no token is its bytes. */
pco_status text_gemma4_prepare(pco_tokenizer *tokenizer, const pco_gguf *gguf, pco_error *err)
{
    const text_source source = {pco_gguf_label(gguf), "tokenizer.ggml.merges"};
    const pco_gguf_string *merges;
    uint64_t count;
    text_norm norm = {.apply = text_norm_replace, .content = strdup("\xE2\x96\x81"), .content_size = 3};
    pco_status status =
        norm.content ? text_pattern_compile(" ", source.label, &norm.pattern, err) : text_no_memory(err);
    if (status) {
        text_release_norm(&norm);
        return status;
    }
    status = text_add_norm(tokenizer, &norm, source.label, err);
    if (!status) status = text_add_split(tokenizer, "\\n+", source.label, TEXT_ISOLATED, 0, err);
    if (!status) status = pco_gguf_string_array(gguf, source.key, &merges, &count, err);
    if (!status) status = text_gpt2_merges(tokenizer, &source, merges, count, err);
    tokenizer->byte_fallback = tokenizer->fuse_unk = 1;
    tokenizer->encode = text_steps_encode;
    tokenizer->word = text_bpe_word;
    if (!status) text_cut_at_blanks(tokenizer);
    return status;
}

/* T5's, and whatever else is a Unigram of SentencePiece. */
pco_status text_t5_prepare(pco_tokenizer *tokenizer, const pco_gguf *gguf, pco_error *err)
{
    static const char key[] = "tokenizer.ggml.precompiled_charsmap";
    text_sentence *sentence = &tokenizer->sentence;
    const pco_gguf_entry *table = pco_gguf_find(gguf, key);
    pco_status status = text_read_scores(tokenizer, gguf, err);
    sentence->model = TEXT_SENTENCE_UNIGRAM;
    sentence->escape = 1;
    tokenizer->byte_fallback = 1; /* models with a token for each byte were made for that */
    for (int byte = 0; byte < 256; byte++) tokenizer->byte_fallback &= tokenizer->byte_ids[byte] >= 0;
    text_marks_release(&tokenizer->marks[0]); /* user-defined ones are symbols here */
    tokenizer->marks[0] = (text_marks){0};
    if (!status && table && (!table->is_array || (table->type != PCO_GGUF_U8 && table->type != PCO_GGUF_I8)))
        status = pco_fail(err, PCO_ERROR_FORMAT, "%s: key '%s' is not an array of bytes", pco_gguf_label(gguf), key);
    if (!status && table && table->count)
        status = text_charsmap_make(table->data, (size_t)table->count, pco_gguf_label(gguf), &sentence->charsmap, err);
    if (!status) status = pco_gguf_bool_or(gguf, "tokenizer.ggml.add_space_prefix", 1, &tokenizer->space_prefix, err);
    if (!status) status = pco_gguf_bool_or(gguf, "tokenizer.ggml.remove_extra_whitespaces", 0, &sentence->squeeze, err);
    return status ? status : text_sentence_ready(tokenizer, pco_gguf_label(gguf), err);
}

/* BERT's WordPiece. Here the first part of a word has a mark in front, U+2581, and the others have none. */
pco_status text_bert_prepare(pco_tokenizer *tokenizer, const pco_gguf *gguf, pco_error *err)
{
    const char *label = pco_gguf_label(gguf);
    int lower;
    pco_status status = pco_gguf_bool_or(gguf, "tokenizer.ggml.normalizer.lowercase", 1, &lower, err);
    const text_norm norm = {.apply = text_norm_bert,
                            .flags = TEXT_CLEAN | TEXT_CHINESE | (lower ? TEXT_ACCENTS | TEXT_LOWER : 0u)};
    if (!status) status = text_add_norm(tokenizer, &norm, label, err);
    if (!status) status = text_add_cut(tokenizer, text_is_blank, label, TEXT_REMOVED, err);
    if (!status) status = text_add_cut(tokenizer, text_is_punctuation, label, TEXT_ISOLATED, err);
    tokenizer->prefixes[0] = strdup("\xE2\x96\x81");
    tokenizer->strip = TEXT_STRIP_ONE;
    if (!status && !tokenizer->prefixes[0]) status = text_no_memory(err);
    return status ? status : text_wordpiece_ready(tokenizer, label, err);
}
