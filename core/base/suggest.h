/* "Did you mean ...?": of the names that there are, the one nearest to a word that is none of them. */
#ifndef PCO_BASE_SUGGEST_H
#define PCO_BASE_SUGGEST_H

#include <stdint.h>

enum {
    PCO_SUGGEST_NAME = 64,      /* bytes of a name or word, with its NUL; longer ones are not compared */
    PCO_SUGGEST_HINT = 96,      /* bytes of a hint */
    PCO_SUGGEST_MOST_WRONG = 2, /* slips, at most */
};

/* Zero-initialised: no name has been offered yet. */
typedef struct pco_suggestion {
    char name[PCO_SUGGEST_NAME]; /* the nearest so far, the first among equals; "": none is near */
    uint32_t distance;
} pco_suggestion;

/* The slips between two words: letters too many, missing or wrong, and neighbours that changed places (the distance of
 * Damerau and Levenshtein, as optimal string alignment). Case does not count. Words are shorter than PCO_SUGGEST_NAME.
 */
uint32_t pco_suggest_distance(const char *a, const char *b);

/* Offers a name for `word`. It is near when the slips are at most PCO_SUGGEST_MOST_WRONG, and fewer than half of its
 * letters; dashes in front ("--prompt") do not count. */
void pco_suggest(pco_suggestion *suggestion, const char *word, const char *name);

/* " (did you mean 'matmul'?)", or "" when no name is near, into hint[PCO_SUGGEST_HINT], which is returned. */
const char *pco_suggest_hint(const pco_suggestion *suggestion, char *hint);

#endif
