/* portico translate: what an encoder-decoder answers, line by line, by beam search. */
#include "cli/beams.h"
#include "cli/lines.h"
#include "cli/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct translate_arguments {
    const char *model, *text, *input, *prefix, *device;
    int64_t context, max_tokens;
    int cache_type, json, piped;
    cli_beams beams;
} translate_arguments;

typedef struct translate_call {
    pco_model *model;
    const translate_arguments *arguments;
    int64_t lines, source_tokens, target_tokens;
    double seconds;
    int broken;
} translate_call;

static pco_status translate_line(void *user, const char *line, pco_error *err)
{
    translate_call *call = user;
    pco_generate_stats stats = {.size = sizeof stats};
    const pco_generate_params params = {
        .size = sizeof params, .max_tokens = call->arguments->max_tokens, .prefix = call->arguments->prefix};
    pco_status status = cli_beam_search(call->model, line, &params, &call->arguments->beams, call->arguments->json,
                                        &stats, &call->broken, err);
    call->lines++;
    call->source_tokens += stats.prompt_tokens;
    call->target_tokens += stats.generated_tokens;
    call->seconds += stats.prompt_seconds + stats.generation_seconds;
    return status;
}

static int translate_model(pco_model *model, const translate_arguments *arguments)
{
    translate_call call = {.model = model, .arguments = arguments};
    pco_error err = {""};
    pco_status status;
    if (!model->seq2seq) {
        cli_error("translate: %s is a language model, which continues a text: portico run", arguments->model);
        return CLI_FAILED;
    }
    if (arguments->text)
        status = translate_line(&call, arguments->text, &err);
    else
        status = cli_each_line(arguments->input, translate_line, &call, &call.broken, &err);
    if (status) return cli_fail(&err);
    cli_note("translated  %" PRId64 " line%s, %" PRId64 " tokens into %" PRId64 ", %.3f s on %s\n", call.lines,
             call.lines == 1 ? "" : "s", call.source_tokens, call.target_tokens, call.seconds,
             pco_session_device_id(model->session));
    return CLI_OK;
}

static const cli_option TRANSLATE_OPTIONS[] = {
    {CLI_OPERAND("a model", translate_arguments, model)},
    {CLI_TEXT("--text", translate_arguments, text), .letter = "-t", .traits = CLI_MAY_BE_EMPTY},
    {CLI_TEXT("--input", translate_arguments, input)},
    {CLI_FLAG("-", translate_arguments, piped)},
    {CLI_TEXT("--prefix", translate_arguments, prefix)},
    {CLI_WHOLE("--max-tokens", translate_arguments, max_tokens, 0, INT32_MAX), .letter = "-n"},
    {CLI_WHOLE("--beams", translate_arguments, beams.params.beams, 1, 64)},
    CLI_BEAMS(translate_arguments),
    {CLI_WHOLE("--context", translate_arguments, context, 1, 1 << 24)},
    {CLI_WORD("--cache-type", translate_arguments, cache_type, cli_cache_types)},
    {CLI_TEXT("--device", translate_arguments, device), .traits = CLI_MAY_BE_EMPTY},
    {CLI_FLAG("--json", translate_arguments, json)},
};

static int translate_parse(int argc, char **argv, translate_arguments *arguments)
{
    if (cli_parse(&cli_translate, argc, argv, arguments, NULL)) return CLI_USAGE;
    if (!!arguments->text + !!arguments->input + arguments->piped > 1) {
        cli_error("translate: --text, --input and - exclude each other");
        return CLI_USAGE;
    }
    if (arguments->text || arguments->input) return CLI_OK;
    if (!arguments->piped && isatty(STDIN_FILENO)) {
        cli_error("translate: a text is missing: --text TEXT, --input FILE, or lines on stdin");
        return CLI_USAGE;
    }
    arguments->input = "-";
    return CLI_OK;
}

static int translate_main(int argc, char **argv)
{
    translate_arguments arguments = {.beams = {.params.beams = 4, .length_penalty = 1}};
    pco_model *model = NULL;
    pco_error err = {""};
    int status = translate_parse(argc, argv, &arguments);
    if (status) return status;
    const pco_model_params how = {.device = arguments.device,
                                  .context_length = arguments.context,
                                  .cache_type = cli_cache_dtype(arguments.cache_type)};
    cli_watch_signals();
    pco_context *context = cli_context(arguments.device, &status);
    if (!context) return status;
    const pco_status opened = cli_open_model(context, arguments.model, &how, &model, &err);
    if (!opened)
        status = translate_model(model, &arguments);
    else
        status = opened == PCO_ERROR_CANCELLED ? CLI_OK : cli_fail(&err);
    if (cli_interrupted()) cli_note("interrupted\n");
    pco_model_close(model);
    pco_context_destroy(context);
    return cli_exit_status(status);
}

const cli_command cli_translate = {
    .name = "translate",
    .summary = "translate texts, or whatever an encoder-decoder was taught, line by line",
    .help = "usage: portico translate MODEL [--text TEXT | --input FILE | -] [OPTION ...]\n\n"
            "MODEL is an encoder-decoder (T5, BART, Marian, CTranslate2's transformer, or one that portico train\n"
            "wrote). Each line is a source of its own, and gives one line (or --return N of them) on stdout, the\n"
            "best that beam search finds. Statistics go to stderr.\n\n"
            "  --text, -t TEXT     one source\n"
            "  --input FILE        a source on each line; `-`, or nothing: stdin\n"
            "  --prefix TEXT       every answer begins with it\n"
            "  -n, --max-tokens N  most tokens of an answer; 0 (default): until it ends or the context is full\n"
            "  --beams N           texts that are tried side by side (default 4; 1: always the likeliest "
            "token)\n" CLI_BEAMS_HELP
            "  --context N         most tokens of a source and of an answer (default: what the model says)\n"
            "  --cache-type T      how keys and values are kept: f32 (default), f16 or q8_0\n"
            "  --device D          as PORTICO_BACKEND, and before it\n"
            "  --json              one JSON object a line for each answer: text, score, why it ended, tokens\n\n"
            "Exit status: 0 done, 1 failed, 2 wrong usage, 128 + N ended by signal N.\n",
    CLI_OPTIONS(TRANSLATE_OPTIONS),
    .run = translate_main,
};
