/* Tokenizers as keys of a GGUF file, and as tokenizer.json. */
#ifndef PCO_TEXT_TOKENIZER_WRITE_H
#define PCO_TEXT_TOKENIZER_WRITE_H

#include "formats/gguf_write.h"
#include "formats/json.h"
#include "text/tokenizer.h"

/* Writes the tokenizer.ggml.* keys of a BPE (byte-level, or SentencePiece's), a Unigram, a WordPiece or characters of
 * ASCII, with `rows` tokens: those that it does not have are unused.
 * `ends` (ends_count of them) are tokens that end a text, beside those that it knows of. *exact: 0 where GGUF cannot
 * say how it normalises texts, so that some get other ids. Errors: UNSUPPORTED for other kinds, and for a pre-tokenizer
 * that has no name there; OUT_OF_HOST_MEMORY. */
pco_status pco_tokenizer_put_gguf(const pco_tokenizer *tokenizer, uint32_t rows, const int32_t *ends,
                                  uint32_t ends_count, pco_gguf_writer *out, int *exact, pco_error *err) PCO_NODISCARD;

/* Appends a text to try tokenizers on: every token of the model's own as it is decoded, behind each other and, once
 * more, behind blanks. Errors: OUT_OF_HOST_MEMORY. */
pco_status pco_tokenizer_sample(const pco_tokenizer *tokenizer, pco_writer *out, pco_error *err) PCO_NODISCARD;

/* tokenizer.json of Hugging Face, which the caller deletes, of a tokenizer of a GGUF file (byte-level BPE,
 * SentencePiece's BPE and Unigram) or from a list (byte-level BPE, characters). `tokenizers` makes the same ids of it,
 * but where two tokens of a BPE of SentencePiece have the same score. `around`: which of
 * PCO_ENCODE_BOS and PCO_ENCODE_EOS it is to put around texts. Errors: UNSUPPORTED for other kinds, and for
 * tokens that are there twice or no text; OUT_OF_HOST_MEMORY. */
pco_status pco_tokenizer_make_json(const pco_tokenizer *tokenizer, uint32_t around, cJSON **root,
                                   pco_error *err) PCO_NODISCARD;

#endif
