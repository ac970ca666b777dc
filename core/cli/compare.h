/* What the files of `portico compare` know of each other. */
#ifndef PCO_CLI_COMPARE_H
#define PCO_CLI_COMPARE_H

#include "cli/model.h"
#include "formats/json.h"

/* Devices agree when every logit is within COMPARE_BOUND (|y| + rms of its row): f32 sums of a few thousand
 * terms in another order, through tens of layers, stay well below it. */
#define COMPARE_BOUND 1e-4

/* What one device did. `ids` are the prompt and what follows; for an encoder-decoder the source, then the
 * answer. */
typedef struct compare_result {
    char device[96], name[13];
    pco_status status;
    char reason[1024];
    int32_t *ids;
    int64_t prompt, count;
    int64_t steps; /* tokens that were fed one at a time */
    char *text;
    float *logits; /* [rows,vocab], for the reference's tokens */
    int64_t rows, vocab;
    double load_seconds, prompt_seconds, generation_seconds;
    int same;
    double difference, ratio; /* of the logit that is worst against its bound */
    int64_t row, column;
} compare_result;

/* The worst of `count` logits against those of the reference: |x - y| over its bound, infinity where
 * that is NaN. *column and *difference (either may be NULL) say which and by how much. */
double compare_row(const float *logits, const float *reference, int64_t count, int64_t *column, double *difference);

/* The index of the largest, the lowest among equals. */
int32_t compare_argmax(const float *logits, int64_t count);

/* Greedy tokens, with times. */
pco_status compare_generate(pco_model *model, const char *prompt, int64_t max_tokens, compare_result *result,
                            pco_error *err) PCO_NODISCARD;

/* Logits for the tokens of `target` into result->logits. */
pco_status compare_score(pco_model *model, const compare_result *target, compare_result *result,
                         pco_error *err) PCO_NODISCARD;

void compare_clear(compare_result *result);

#endif
