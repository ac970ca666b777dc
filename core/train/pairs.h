/* Files of pairs: lines of columns between tabs, of which two are taken and the others ignored. */
#ifndef PCO_TRAIN_PAIRS_H
#define PCO_TRAIN_PAIRS_H

#include "base/file.h"

typedef struct pco_pair {
    const char *text[2]; /* source and target, in the map */
    uint32_t size[2];
    uint32_t line; /* from 1 */
    int held_out;
} pco_pair;

typedef struct pco_pairs_params {
    int64_t columns[2]; /* of source and target, from 1 */
    double held_out;    /* share of the lines, chosen by number alone: the same lines for every seed and run */
} pco_pairs_params;

/* Splits a mapped file into pairs[*count] (free). `label` is its path. Errors, FORMAT, each with file and
 * line: an empty file, a line that is not UTF-8 or has a NUL byte, a missing or an empty column.
 * OUT_OF_HOST_MEMORY. */
pco_status pco_pairs_read(const pco_map *map, const char *label, const pco_pairs_params *params, pco_pair **pairs,
                          uint32_t *count, pco_error *err) PCO_NODISCARD;

#endif
