/* Grammars in GBNF, the notation of llama.cpp (grammars/README.md there), and which texts they allow: rules
 * `name ::= alternatives`, of "literals", [classes], ., names, (groups), and *, +, ?, {m}, {m,}, {m,n} behind them. A
 * text follows from `root`.
 *
 * Texts are followed by Earley's algorithm (CACM 13 (2), 1970): any grammar, also one that is ambiguous or recurs on
 * the left, takes polynomial time, and no recursion of ours. A text comes as bytes of UTF-8, a character in as many
 * pieces as tokens make of it. */
#ifndef PCO_TEXT_GRAMMAR_H
#define PCO_TEXT_GRAMMAR_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

typedef struct pco_grammar pco_grammar;

/* `name` is for messages. Errors: FORMAT: the line, and what is wrong there, for a rule that is missing, and for what
 * is nested or repeated too much; OUT_OF_HOST_MEMORY. */
pco_status pco_grammar_parse(const char *text, size_t size, const char *name, pco_grammar **grammar,
                             pco_error *err) PCO_NODISCARD;
/* The grammar of the JSON texts that a schema allows: type, properties (in their order; those that are not required may
 * be missing, and there are no others), items, minItems, maxItems, minLength, maxLength, enum, const, anyOf, oneOf, and
 * $ref within it. Errors: UNSUPPORTED for other keywords, by name; FORMAT for what is no JSON. */
pco_status pco_grammar_of_schema(const char *text, size_t size, const char *name, pco_grammar **grammar,
                                 pco_error *err) PCO_NODISCARD;
void pco_grammar_destroy(pco_grammar *grammar);

/* A text under way. */
typedef struct pco_grammar_text pco_grammar_text;

/* An empty one. The grammar is borrowed. */
pco_status pco_grammar_begin(const pco_grammar *grammar, pco_grammar_text **text, pco_error *err) PCO_NODISCARD;
void pco_grammar_end(pco_grammar_text *text);

/* One more byte: *allowed is 0 where no text of the grammar goes on so, and then nothing is added. Errors:
 * OUT_OF_HOST_MEMORY, and INVALID where the grammar leaves so much open that it cannot be kept. */
pco_status pco_grammar_push(pco_grammar_text *text, unsigned char byte, int *allowed, pco_error *err) PCO_NODISCARD;

/* How many bytes it has, and it with the first `size` of them only. */
size_t pco_grammar_size(const pco_grammar_text *text);
void pco_grammar_cut(pco_grammar_text *text, size_t size);

/* May it end here? */
int pco_grammar_complete(const pco_grammar_text *text);

#endif
