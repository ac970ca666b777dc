/* What `portico tokenizer` does with a tokenizer that exists. */
#ifndef PCO_CLI_TOKENIZE_H
#define PCO_CLI_TOKENIZE_H

#include "base/writer.h"
#include "text/tokenizer.h"

typedef struct tokenize_options {
    int lines;   /* each line is a text of its own */
    int json;    /* each line is a JSON string; a list of ids for each */
    int special; /* control tokens in the text are found */
    int ends;    /* BOS and EOS, where the model wants them */
    double seconds;
} tokenize_options;

/* Appends a line of ids for each text of text[size]. */
pco_status tokenize_encode(const pco_tokenizer *tokenizer, const char *text, size_t size,
                           const tokenize_options *options, pco_writer *out, pco_error *err) PCO_NODISCARD;
/* Each line has the ids of a text, which is appended with a line end behind it (without --lines and --json only the
 * text). Cuts text[size] up. */
pco_status tokenize_decode(const pco_tokenizer *tokenizer, char *text, size_t size, const tokenize_options *options,
                           pco_writer *out, pco_error *err) PCO_NODISCARD;
/* Encodes the whole text again and again, and appends how fast that is. */
pco_status tokenize_bench(const pco_tokenizer *tokenizer, const char *text, size_t size,
                          const tokenize_options *options, pco_writer *out, pco_error *err) PCO_NODISCARD;

#endif
