/* Many prompts from one file, and their answers in the file's order. */
#ifndef PCO_CLI_PROMPTS_H
#define PCO_CLI_PROMPTS_H

#include "cli/model.h"

typedef struct cli_prompts {
    char **texts; /* [count] */
    size_t count, room;
} cli_prompts;

/* Reads a file ("-": stdin): a prompt each line, or where its name ends in .jsonl, a JSON string each line or an object
 * with the key "prompt". cli_prompts_release follows in any case. Errors, with the number of the line: IO; FORMAT;
 * INVALID for a NUL byte and for a file without a line; OUT_OF_HOST_MEMORY. */
pco_status cli_read_prompts(const char *path, cli_prompts *prompts, pco_error *err) PCO_NODISCARD;
void cli_prompts_release(cli_prompts *prompts);

/* How they are answered. */
typedef struct cli_answers {
    const pco_generate_params *params;
    int json;
    int64_t logprobs;                                          /* as cli_answer_begin */
    void (*each)(void *user, const pco_generate_stats *stats); /* of each answer that was printed */
    void *user;
    int *broken; /* stdout can no longer be written */
} cli_answers;

/* Answers all of them, and prints each when those before it are printed: the text and a newline, or a line of JSON.
 * stats: of all. A signal ends it after whole answers. Errors: as pco_model_generate_batch. */
pco_status cli_answer_prompts(pco_model *model, const cli_prompts *prompts, const cli_answers *how,
                              pco_generate_stats *stats, pco_error *err) PCO_NODISCARD;

#endif
