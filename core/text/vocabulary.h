/* Vocabularies: what a tokenizer is made from, as lists; trained on a text here, and kept in a JSON file.
 *
 * The file is an object with "vocab" (a list of strings), "merges" (of a byte-level BPE only; strings "LEFT
 * RIGHT") and "pad_token_id", "bos_token_id", "eos_token_id" (-1: none). config.json of a model has the same
 * keys. */
#ifndef PCO_TEXT_VOCABULARY_H
#define PCO_TEXT_VOCABULARY_H

#include "text/tokenizer.h"

typedef struct pco_vocabulary {
    char **tokens, **merges; /* owned, as are the strings */
    uint32_t count, merge_count;
    int bpe; /* 1: byte-level BPE; 0: characters */
    pco_tokenizer_special special;
} pco_vocabulary;

/* Frees what it holds, and zeroes it. */
void pco_vocabulary_release(pco_vocabulary *vocabulary);

/* Every character of text[size] (UTF-8), by code point, line ends included; with `special`, "<pad>", "<s>"
 * and
 * "</s>" are tokens 0, 1 and 2. Errors: INVALID for an empty text, or one that is not UTF-8, with the byte.
 */
pco_status pco_vocabulary_train_characters(const char *text, size_t size, int special, pco_vocabulary *vocabulary,
                                           pco_error *err) PCO_NODISCARD;

/* Byte-level BPE (Sennrich et al. 2016; Radford et al. 2019) of `count` tokens: the special ones (as above),
 * the 256 bytes, and the most frequent pairs inside words, one merge after the other; of equally frequent
 * pairs the one with the lower ids. The vocabulary is smaller when no pair occurs twice any more. The same
 * text gives the same vocabulary. Errors: INVALID for a `count` below the bytes and special tokens, and as
 * above. */
pco_status pco_vocabulary_train_bpe(const char *text, size_t size, int64_t count, int special,
                                    pco_vocabulary *vocabulary, pco_error *err) PCO_NODISCARD;

/* Reads and writes the file. Errors: IO; FORMAT with the file and the key. */
pco_status pco_vocabulary_read(const char *path, pco_vocabulary *vocabulary, pco_error *err) PCO_NODISCARD;
pco_status pco_vocabulary_write(const char *path, const pco_vocabulary *vocabulary, pco_error *err) PCO_NODISCARD;

/* The tokenizer; the caller destroys it. Errors: as pco_tokenizer_from_vocab and pco_tokenizer_from_bpe. */
pco_status pco_vocabulary_tokenizer(const pco_vocabulary *vocabulary, const char *label, pco_tokenizer **tokenizer,
                                    pco_error *err) PCO_NODISCARD;

/* For the two trainers: appends a copy of a token, or of a merge. */
pco_status pco_vocabulary_add(pco_vocabulary *vocabulary, const char *token, pco_error *err) PCO_NODISCARD;
pco_status pco_vocabulary_add_merge(pco_vocabulary *vocabulary, const char *left, const char *right,
                                    pco_error *err) PCO_NODISCARD;
/* An empty vocabulary, or one with the special tokens; checks the text. */
pco_status pco_vocabulary_start(const char *text, size_t size, int special, pco_vocabulary *vocabulary,
                                pco_error *err) PCO_NODISCARD;

#endif
