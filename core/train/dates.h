/* The task of the dates model: written dates and their ISO 8601 form, made from a seed. The forms, the years
 * (1970 to 2069) and the split of the days are those of models/dates/generate.py. */
#ifndef PCO_TRAIN_DATES_H
#define PCO_TRAIN_DATES_H

#include "text/vocabulary.h"

typedef enum pco_dates_split { PCO_DATES_TRAIN = 0, PCO_DATES_VALID = 1, PCO_DATES_TEST = 2 } pco_dates_split;

enum { PCO_DATES_WRITTEN = 64, PCO_DATES_ISO = 11 }; /* room for the texts, with the NUL */
enum { PCO_DATES_LONGEST = 36 };                     /* characters: "Wednesday the 22nd of September 2021" */

/* The days of each split; read-only once made. */
typedef struct pco_dates pco_dates;
pco_dates *pco_dates_create(void); /* NULL without memory */
void pco_dates_destroy(pco_dates *dates);

/* Days of a split. A day belongs to one split only, by a hash of its ISO form: one in ten to TEST, one in
 * fifty to VALID. */
uint32_t pco_dates_days(const pco_dates *dates, pco_dates_split split);

/* Pair number `index` of a seed: a day of the split, in a random form, lower or upper case now and then.
 * Pure. */
void pco_dates_pair(const pco_dates *dates, pco_dates_split split, uint64_t seed, uint64_t index,
                    char written[PCO_DATES_WRITTEN], char iso[PCO_DATES_ISO]);

/* Every character that can occur, sorted, behind "<pad>", "<s>" and "</s>": the shipped model's vocabulary.
 */
pco_status pco_dates_vocabulary(pco_vocabulary *vocabulary, pco_error *err) PCO_NODISCARD;

#endif
