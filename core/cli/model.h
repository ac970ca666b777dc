/* Opening models, for the subcommands that run them. */
#ifndef PCO_CLI_MODEL_H
#define PCO_CLI_MODEL_H

#include "api/api.h"
#include "cli/cli.h"

/* A context whose device matches `device` (NULL: the environment's choice). NULL after a message, with the
 * exit status in *status. */
pco_context *cli_context(const char *device, int *status);

/* Opens a model that writes text, with a progress line on stderr; a signal (cli/signals.h) cancels. Of `how` the size
 * and the progress are not looked at. Errors: as pco_model_open; UNSUPPORTED for an
 * encoder, and for a model that hears. */
pco_status cli_open_model(pco_context *context, const char *path, const pco_model_params *how, pco_model **model,
                          pco_error *err) PCO_NODISCARD;

/* The same for models of any kind. */
pco_status cli_open_any_model(pco_context *context, const char *path, const pco_model_params *how, pco_model **model,
                              pco_error *err) PCO_NODISCARD;

/* For a pco_model_params as above. */
#define CLI_OPEN(device_id, context_tokens) CLI_OPEN_ADAPTED(device_id, context_tokens, NULL)
#define CLI_OPEN_ADAPTED(device_id, context_tokens, adapter_folder) \
    (&(pco_model_params){.device = (device_id), .context_length = (context_tokens), .adapter = (adapter_folder)})

/* Of the help of commands that have it. */
#define CLI_ADAPTER_HELP "  --adapter DIR       a low-rank adapter (LoRA) as PEFT and portico train write it\n"

/* Types of a cache, for --cache-type, and the pco_dtype of each. */
extern const char *const cli_cache_types[];
uint32_t cli_cache_dtype(int word);

/* How a text is generated, as the options below say. */
enum { CLI_STOPS = 16 };
typedef struct cli_generate {
    pco_generate_params params; /* its stop strings are those below: the struct stays where it is */
    const char *stops[CLI_STOPS];
} cli_generate;

/* Rows of options of a command whose struct of arguments begins with `cli_generate generate`. */
#define CLI_SAMPLING(type) \
    {CLI_WHOLE("--max-tokens", type, generate.params.max_tokens, 0, INT32_MAX), .letter = "-n"}, \
        {CLI_NUMBER("--temperature", type, generate.params.temperature, 0, 1000)}, \
        {CLI_WHOLE("--top-k", type, generate.params.top_k, 0, INT32_MAX)}, {CLI_READ("--top-p", cli_read_top_p)}, \
        {CLI_NUMBER("--min-p", type, generate.params.min_p, 0, 1)}, \
        {CLI_NUMBER("--typical-p", type, generate.params.typical_p, 0, 1)}, \
        {CLI_NUMBER("--repeat-penalty", type, generate.params.repeat_penalty, 0.001, 1000)}, \
        {CLI_WHOLE("--repeat-last-n", type, generate.params.repeat_last_n, 0, INT32_MAX)}, \
        {CLI_NUMBER("--presence-penalty", type, generate.params.presence_penalty, -1000, 1000)}, \
        {CLI_NUMBER("--frequency-penalty", type, generate.params.frequency_penalty, -1000, 1000)}, \
        {CLI_READ("--stop", cli_read_stop)}, \
    { \
        CLI_WHOLE("--seed", type, generate.params.seed, 0, INT64_MAX) \
    }
/* Of their help, what both say in the same words. */
#define CLI_SAMPLERS_HELP \
    "  --min-p P           draw among those at least P times as likely as the likeliest\n" \
    "  --typical-p P       draw among those nearest to the entropy that have the share P together\n" \
    "  --repeat-penalty R  above 1: tokens of the prompt and the text become less likely (logits above 0\n" \
    "                      are divided by R, others multiplied)\n" \
    "  --presence-penalty A\n" \
    "                      taken from the logits of tokens that were generated\n" \
    "  --frequency-penalty A\n" \
    "                      taken from them for each time that they were\n" \
    "  --repeat-last-n N   penalties look at the last N tokens (0, default: all)\n" \
    "  --stop TEXT         the text ends before TEXT; may be given several times\n"
int cli_read_stop(void *arguments, const char *option, const char *value);
int cli_read_top_p(void *arguments, const char *option, const char *value);

/* log of the sum of exp(logits[count]), in double: what turns a logit into a log-probability, in nats. */
double cli_log_total(const float *logits, int64_t count);

/* The whole of a file, or of stdin for "-": *text (free) with a NUL behind its *size bytes. 0 after a message, or
 * when a signal ended it. */
int cli_read_text(const char *path, char **text, size_t *size);

#endif
