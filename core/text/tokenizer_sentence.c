/* Tokenizers of SentencePiece (Kudo and Richardson 2018): how they normalise a text, which is one sentence to them,
 * and what their models, Unigram and BPE, make of it. Symbols that users defined stay as they are throughout. */
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer_kinds.h"

/* A text as it is read: what stands for the next part of it. */
typedef struct sentence_reader {
    const pco_tokenizer *tokenizer;
    const char *text;
    size_t size;
    const char *made; /* of the part */
    size_t made_size;
    int wrong; /* an entry of the table is not UTF-8 */
} sentence_reader;

/* Moves on by a symbol, an entry of the table or a character. */
static void sentence_next(sentence_reader *reader)
{
    const text_sentence *sentence = &reader->tokenizer->sentence;
    const text_mark *symbol = text_marks_at(&sentence->symbols, reader->text, reader->size);
    size_t length = 0;
    const char *found = NULL;
    if (symbol) {
        reader->made = reader->text;
        reader->made_size = length = symbol->size;
    } else if (sentence->charsmap &&
               (found = text_charsmap_longest(sentence->charsmap, reader->text, reader->size, &length))) {
        reader->made = found;
        reader->made_size = strlen(found);
        reader->wrong |= pco_utf8_check(found, reader->made_size) != reader->made_size;
    } else if ((length = pco_utf8_decode(reader->text, reader->size, NULL))) {
        reader->made = reader->text;
        reader->made_size = length;
    } else {
        reader->made = "\xEF\xBF\xBD"; /* a byte that is not UTF-8 */
        reader->made_size = 3;
        length = 1;
    }
    reader->text += length;
    reader->size -= length;
}

static void sentence_blank(const text_sentence *sentence, pco_writer *out)
{
    pco_write_text(out, sentence->escape ? TEXT_BLANK : " ");
}

/* Takes blanks away from the end. */
static void sentence_trim(const text_sentence *sentence, pco_writer *out)
{
    const char *blank = sentence->escape ? TEXT_BLANK : " ";
    const size_t length = strlen(blank);
    while (out->size >= length && memcmp(out->data + out->size - length, blank, length) == 0) out->size -= length;
}

static pco_status sentence_normalize(const pco_tokenizer *tokenizer, const char *text, size_t size,
                                     text_position position, pco_writer *out, pco_error *err)
{
    const text_sentence *sentence = &tokenizer->sentence;
    sentence_reader reader = {.tokenizer = tokenizer, .text = text, .size = size};
    const int adds = tokenizer->space_prefix && (sentence->first ? position == TEXT_AT_START : position != TEXT_INSIDE);
    int after_blank = sentence->squeeze;
    out->size = 0;
    if (sentence->squeeze) { /* blanks in front go */
        sentence_reader ahead = reader;
        for (; ahead.size; reader = ahead) {
            sentence_next(&ahead);
            if (ahead.made_size != 1 || *ahead.made != ' ') break;
        }
        if (!reader.size) return PCO_OK;
    }
    if (adds && !sentence->suffix) sentence_blank(sentence, out);
    while (reader.size) {
        sentence_next(&reader);
        while (after_blank && reader.made_size && *reader.made == ' ') reader.made++, reader.made_size--;
        if (!reader.made_size) continue;
        for (size_t i = 0; i < reader.made_size; i++) {
            if (reader.made[i] == ' ')
                sentence_blank(sentence, out);
            else
                pco_write_char(out, reader.made[i]);
        }
        after_blank = sentence->squeeze && reader.made[reader.made_size - 1] == ' ';
    }
    if (sentence->squeeze) sentence_trim(sentence, out);
    if (adds && sentence->suffix) sentence_blank(sentence, out);
    if (reader.wrong)
        return pco_fail(err, PCO_ERROR_FORMAT,
                        "the tokenizer's table of normalisation makes bytes that are not UTF-8 of the text");
    return pco_writer_check(out, "normalised text", err);
}

/* A text_encode_fn. */
pco_status text_sentence_encode(text_run *run, const char *text, size_t size, text_position position)
{
    if (!size) return PCO_OK;
    pco_status status = sentence_normalize(run->tokenizer, text, size, position, &run->normal, run->err);
    if (status || !run->normal.size) return status;
    if (run->normal.size > TEXT_SIZE_MOST)
        return pco_fail(run->err, PCO_ERROR_INVALID, "normalised, the text is too long to encode at once; cut it");
    return text_run_word(run, run->normal.data, run->normal.size);
}

pco_status text_sentence_ready(pco_tokenizer *tokenizer, const char *label, pco_error *err)
{
    pco_status status = PCO_OK;
    for (uint32_t id = 0; id < tokenizer->count && !status; id++) {
        const text_token *token = &tokenizer->tokens[id];
        const text_mark mark = {(char *)token->text, token->size, (int32_t)id, token->type == TEXT_CONTROL, 0, 0, 0};
        if (!token->size) continue;
        if (token->type == TEXT_USER) status = text_marks_add(&tokenizer->sentence.symbols, &mark, err);
        if (token->type == TEXT_CONTROL) status = text_marks_add(&tokenizer->marks[0], &mark, err);
    }
    text_marks_sort(&tokenizer->sentence.symbols);
    text_marks_sort(&tokenizer->marks[0]);
    const int unigram = tokenizer->sentence.model == TEXT_SENTENCE_UNIGRAM;
    if (!status && unigram) status = text_unigram_ready(tokenizer, label, err);
    if (!unigram) {
        tokenizer->word = text_llama_word;
        text_cut_at_blanks(tokenizer);
    }
    tokenizer->encode = text_sentence_encode;
    tokenizer->strip = !tokenizer->space_prefix || tokenizer->sentence.suffix ? TEXT_STRIP_NONE
                       : tokenizer->sentence.squeeze                          ? TEXT_STRIP_ALL
                                                                              : TEXT_STRIP_ONE;
    return status;
}
