/* The words for what a device says of itself, the same in listings, JSON and reports. */
#ifndef PCO_RUNTIME_WORDS_H
#define PCO_RUNTIME_WORDS_H

#include "portico/plugin.h"

typedef struct pco_feature_word {
    uint32_t bit; /* PCO_FEATURE_* */
    const char *name;
} pco_feature_word;

enum { PCO_N_FEATURE_WORDS = 10 };
extern const pco_feature_word PCO_FEATURE_WORDS[PCO_N_FEATURE_WORDS];

/* "cpu", "discrete GPU" ..., "unknown" for a type that is none. Static. */
const char *pco_device_type_word(uint32_t type);

/* The type of a contract's sums: a dtype's name, or "f64". Static. */
const char *pco_accumulator_word(uint32_t type);

#endif
