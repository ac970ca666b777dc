/* What a model generated, as JSON: the text, its tokens and their log-probabilities. */
#ifndef PCO_CLI_ANSWER_H
#define PCO_CLI_ANSWER_H

#include "cli/model.h"
#include "formats/json.h"

enum { CLI_MOST_LOGPROBS = 1000 };

typedef struct cli_answer {
    pco_model *model;
    int64_t logprobs; /* so many of the likeliest tokens at each step; below 0: no log-probabilities at all */
    pco_writer text, tokens;
    pco_json_writer json; /* of tokens */
} cli_answer;

/* "end", "max_tokens" ... */
const char *cli_stop_reason(pco_stop_reason reason);

void cli_answer_begin(cli_answer *answer, pco_model *model, int64_t logprobs);

/* The callbacks of a generation, whose `user` is the answer. A signal stops it. */
int cli_answer_text(void *user, const char *text, size_t bytes);
int cli_answer_token(void *user, const pco_token *token);

/* Prints it on one line of stdout, and releases it. 0 when stdout can no longer be written. Errors: OUT_OF_HOST_MEMORY.
 */
pco_status cli_answer_print(cli_answer *answer, const pco_generate_stats *stats, int *written, pco_error *err);
/* The text alone, and a newline. */
pco_status cli_answer_print_text(cli_answer *answer, int *written, pco_error *err);
void cli_answer_release(cli_answer *answer);

#endif
