/* Tokenizers as keys of a GGUF file. */
#ifndef PCO_TEXT_TOKENIZER_WRITE_H
#define PCO_TEXT_TOKENIZER_WRITE_H

#include "formats/gguf_write.h"
#include "text/tokenizer.h"

/* Writes the tokenizer.ggml.* keys of a byte-level BPE, with `rows` tokens: those that it does not have are unused.
 * `ends` (ends_count of them) are tokens that end a text, beside those that it knows of. *exact: 0 where GGUF cannot
 * say how it normalises texts, so that some get other ids. Errors: UNSUPPORTED for other kinds, and for a pre-tokenizer
 * that has no name there; OUT_OF_HOST_MEMORY. */
pco_status pco_tokenizer_put_gguf(const pco_tokenizer *tokenizer, uint32_t rows, const int32_t *ends,
                                  uint32_t ends_count, pco_gguf_writer *out, int *exact, pco_error *err) PCO_NODISCARD;

#endif
