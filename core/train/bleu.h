/* BLEU (Papineni et al. 2002) as sacreBLEU defines it (Post 2018): whole corpus, 1- to 4-grams, tokens as
 * mteval-v13a makes them, case kept, exponential smoothing of precisions without a match, references' closest
 * lengths. */
#ifndef PCO_TRAIN_BLEU_H
#define PCO_TRAIN_BLEU_H

#include "portico/plugin.h"

enum { PCO_BLEU_ORDER = 4 };

/* Sums over all segments; zero it first. */
typedef struct pco_bleu {
    int64_t matches[PCO_BLEU_ORDER], totals[PCO_BLEU_ORDER]; /* of 1-, 2-, 3- and 4-grams */
    int64_t length, reference_length;                        /* tokens */
} pco_bleu;

/* Splits a line as "13a" does: *tokens (free) holds the tokens with single spaces between them. Errors:
 * OUT_OF_HOST_MEMORY. */
pco_status pco_bleu_tokenize(const char *line, char **tokens, pco_error *err) PCO_NODISCARD;

/* Adds a segment with its references[count], count at least 1. Errors: OUT_OF_HOST_MEMORY. */
pco_status pco_bleu_add(pco_bleu *bleu, const char *hypothesis, const char *const *references, uint32_t count,
                        pco_error *err) PCO_NODISCARD;

/* The score, 0 to 100; *brevity receives the penalty and precisions[] the percentages (either may be NULL).
 */
double pco_bleu_score(const pco_bleu *bleu, double *brevity, double precisions[PCO_BLEU_ORDER]);

#endif
