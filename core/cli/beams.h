/* Beam search, for the subcommands that have it. */
#ifndef PCO_CLI_BEAMS_H
#define PCO_CLI_BEAMS_H

#include "cli/cli.h"
#include "portico/beam.h"

typedef struct cli_beams {
    pco_beam_params params; /* beams 0: not asked for */
    double length_penalty;  /* 0 means 0, here */
    int early_stopping;     /* of cli_early_stopping */
} cli_beams;

extern const char *const cli_early_stopping[];

/* What --length-penalty says, as the library has it. */
double cli_length_penalty(double said);

/* Rows of options of a command whose struct of arguments has a member `cli_beams beams`, and their help. */
#define CLI_BEAMS(type) \
    {CLI_WHOLE("--return", type, beams.params.returned, 1, 64)}, \
        {CLI_NUMBER("--length-penalty", type, beams.length_penalty, -100, 100)}, \
    { \
        CLI_WORD("--early-stopping", type, beams.early_stopping, cli_early_stopping) \
    }
#define CLI_BEAMS_HELP \
    "  --return N          of a beam search, the N best texts, a line each (default 1)\n" \
    "  --length-penalty P  a text of n tokens scores log p / n^P (default 1; 0: log p; above 0 favours\n" \
    "                      long ones)\n" \
    "  --early-stopping W  likely (default): until no text under way scores more than those that have\n" \
    "                      ended; first: until as many as there are beams have ended; never: until none\n" \
    "                      can\n"

/* Searches, and prints the best texts, as text or as a JSON object each. *broken becomes 1 when stdout cannot be
 * written. A signal ends the search, which is no error. Errors: as pco_model_beam_search. */
pco_status cli_beam_search(pco_model *model, const char *text, const pco_generate_params *generate,
                           const cli_beams *beams, int json, pco_generate_stats *stats, int *broken,
                           pco_error *err) PCO_NODISCARD;

#endif
