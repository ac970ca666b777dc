/* A grammar over tokens: which of a vocabulary may come next. */
#ifndef PCO_TEXT_CONSTRAINT_H
#define PCO_TEXT_CONSTRAINT_H

#include "text/grammar.h"
#include "text/tokenizer.h"

typedef struct pco_constraint pco_constraint;

/* Both are borrowed; `count` tokens of the vocabulary count. Errors: OUT_OF_HOST_MEMORY. */
pco_status pco_constraint_create(const pco_grammar *grammar, const pco_tokenizer *tokenizer, int64_t count,
                                 pco_constraint **constraint, pco_error *err) PCO_NODISCARD;
void pco_constraint_destroy(pco_constraint *constraint);

/* Makes logits[count] of the tokens that may not come next -infinity. `begun`: the text is not at its very beginning,
 * where some vocabularies drop a space (pco_decoder.begun). A token that prints nothing may come only where `ends` says
 * that it ends the text, and the text may end. *left: how many may come. */
pco_status pco_constraint_mask(pco_constraint *constraint, float *logits, int begun,
                               int (*ends)(const void *user, int32_t id), const void *user, int64_t *left,
                               pco_error *err) PCO_NODISCARD;

/* The text goes on with these bytes, which a token printed. Errors: INVALID where the grammar does not allow them. */
pco_status pco_constraint_accept(pco_constraint *constraint, const char *bytes, size_t size,
                                 pco_error *err) PCO_NODISCARD;

int pco_constraint_complete(const pco_constraint *constraint);

#endif
