/* portico run: text in, text out. */
#include "cli/answer.h"
#include "cli/attention_map.h"
#include "cli/beams.h"
#include "cli/lines.h"
#include "cli/model.h"
#include "cli/prompts.h"
#include "text/grammar.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct run_arguments {
    cli_generate generate; /* the first member: CLI_SAMPLING */
    cli_beams beams;
    const char *model, *draft, *grammar, *schema, *prompt, *input, *prompts, *device, *adapter;
    int64_t parallel;          /* of --prompts: sequences side by side; 0: RUN_SIDE_BY_SIDE */
    int piped;                 /* "-": the prompt is on stdin */
    int implied;               /* nobody said where the prompt is: input is stdin, and must hold one */
    int64_t context, logprobs; /* below 0: none */
    int cache_type;            /* of cli_cache_types */
    int json;
    attention_picture attention; /* path NULL: none */
} run_arguments;

enum { RUN_SIDE_BY_SIDE = 8 };

/* Totals over all sources. */
typedef struct run_totals {
    int64_t shared_tokens, prompt_tokens, generated_tokens, answers, shifts, drafted, accepted;
    double prompt_seconds, generation_seconds, load_seconds;
    uint64_t peak;
    pco_stop_reason stop_reason;
    int broken; /* stdout can no longer be written */
} run_totals;

static int run_piece(void *user, const char *text, size_t bytes)
{
    run_totals *totals = user;
    if (fwrite(text, 1, bytes, stdout) != bytes || fflush(stdout) != 0) totals->broken = 1;
    return totals->broken || cli_interrupted();
}

static void run_add(run_totals *totals, const pco_generate_stats *stats)
{
    totals->answers++;
    totals->prompt_tokens += stats->prompt_tokens;
    totals->generated_tokens += stats->generated_tokens;
    totals->prompt_seconds += stats->prompt_seconds;
    totals->generation_seconds += stats->generation_seconds;
    totals->shifts += stats->context_shifts;
    totals->shared_tokens += stats->shared_tokens;
    totals->drafted += stats->drafted_tokens;
    totals->accepted += stats->accepted_tokens;
    totals->load_seconds = stats->load_seconds;
    totals->peak = stats->peak_device_bytes;
    totals->stop_reason = stats->stop_reason;
}

static double run_rate(int64_t count, double seconds) { return seconds > 0 ? (double)count / seconds : 0; }

static void run_statistics(const pco_model *model, const run_totals *totals)
{
    static const char *const reasons[] = {"the model ended the text", "-n was reached", "the context is full",
                                          "stopped", "a stop string came"};
    char bytes[32];
    const pco_device_info *info = pco_session_device(model->session);
    cli_note("device      %s, %s\n", pco_session_device_id(model->session), info->name);
    cli_note("load        %.3f s\n", totals->load_seconds);
    cli_note("prompt      %" PRId64 " tokens, %.3f s, %.1f tokens/s\n", totals->prompt_tokens, totals->prompt_seconds,
             run_rate(totals->prompt_tokens, totals->prompt_seconds));
    cli_note("generation  %" PRId64 " tokens, %.3f s, %.1f tokens/s", totals->generated_tokens,
             totals->generation_seconds, run_rate(totals->generated_tokens, totals->generation_seconds));
    if (totals->answers == 1) cli_note("; %s", reasons[totals->stop_reason]);
    if (totals->answers > 1) cli_note("; %" PRId64 " answers", totals->answers);
    cli_note("\n");
    if (totals->shared_tokens)
        cli_note("prefixes    %" PRId64 " tokens of prompts shared, and read once\n", totals->shared_tokens);
    if (totals->shifts) cli_note("context     full %" PRId64 " times, and half of it forgotten\n", totals->shifts);
    if (totals->drafted)
        cli_note("draft       %" PRId64 " of %" PRId64 " tokens accepted (%.1f %%)\n", totals->accepted,
                 totals->drafted, 100 * run_rate(totals->accepted, (double)totals->drafted));
    cli_note("memory      %s at most on the device\n", cli_bytes(totals->peak, bytes));
}

static pco_status run_json(pco_model *model, const run_arguments *arguments, const char *text, run_totals *totals,
                           pco_error *err)
{
    pco_generate_stats stats = {.size = sizeof stats};
    pco_generate_params params = arguments->generate.params;
    cli_answer answer;
    int written = 1;
    cli_answer_begin(&answer, model, arguments->logprobs);
    params.token = cli_answer_token;
    pco_status status = pco_model_generate(model, text, &params, cli_answer_text, &answer, &stats, err);
    if (!status) {
        run_add(totals, &stats);
        status = cli_answer_print(&answer, &stats, &written, err);
    }
    cli_answer_release(&answer);
    totals->broken |= !written;
    return status;
}

typedef struct run_call {
    pco_model *model;
    const run_arguments *arguments;
    run_totals *totals;
} run_call;

/* The best of several, each on a line of its own. */
static pco_status run_beams(pco_model *model, const run_arguments *arguments, const char *text, run_totals *totals,
                            pco_error *err)
{
    pco_generate_stats stats = {.size = sizeof stats};
    pco_status status = cli_beam_search(model, text, &arguments->generate.params, &arguments->beams, arguments->json,
                                        &stats, &totals->broken, err);
    if (!status) run_add(totals, &stats);
    return status;
}

/* One prompt, or one source; a newline follows the text. */
static pco_status run_one(pco_model *model, const run_arguments *arguments, const char *text, run_totals *totals,
                          pco_error *err)
{
    if (arguments->beams.params.beams) return run_beams(model, arguments, text, totals, err);
    if (arguments->json) return run_json(model, arguments, text, totals, err);
    pco_generate_stats stats = {.size = sizeof stats};
    pco_status status = pco_model_generate(model, text, &arguments->generate.params, run_piece, totals, &stats, err);
    if (status) return status;
    run_add(totals, &stats);
    if (!totals->broken && (putchar('\n') == EOF || fflush(stdout) != 0)) totals->broken = 1;
    return PCO_OK;
}

static pco_status run_line(void *user, const char *line, pco_error *err)
{
    const run_call *call = user;
    return run_one(call->model, call->arguments, line, call->totals, err);
}

/* An encoder-decoder answers each line as it comes. */
static pco_status run_lines(pco_model *model, const run_arguments *arguments, run_totals *totals, pco_error *err)
{
    run_call call = {model, arguments, totals};
    return cli_each_line(arguments->input, run_line, &call, &totals->broken, err);
}

/* The counts of one answer; seconds of several that come side by side are those of all. */
static void run_add_answer(void *user, const pco_generate_stats *stats)
{
    pco_generate_stats counts = *stats;
    counts.prompt_seconds = counts.generation_seconds = 0;
    run_add(user, &counts);
}

/* Each prompt of a file, side by side where the model can. */
static pco_status run_prompts(pco_model *model, const run_arguments *arguments, const cli_prompts *prompts,
                              run_totals *totals, pco_error *err)
{
    pco_status status = PCO_OK;
    if (arguments->beams.params.beams) {
        for (size_t i = 0; !status && i < prompts->count && !totals->broken && !cli_interrupted(); i++) {
            status = run_beams(model, arguments, prompts->texts[i], totals, err);
            if (status) status = pco_fail_prefix(err, status, "prompt %zu", i);
        }
        return status;
    }
    pco_generate_stats stats = {.size = sizeof stats};
    const cli_answers how = {.params = &arguments->generate.params,
                             .json = arguments->json,
                             .logprobs = arguments->logprobs,
                             .each = run_add_answer,
                             .user = totals,
                             .broken = &totals->broken};
    status = cli_answer_prompts(model, prompts, &how, &stats, err);
    totals->prompt_seconds += stats.prompt_seconds;
    totals->generation_seconds += stats.generation_seconds;
    return status;
}

/* The picture of what was generated last: the answer to `prompt`. */
static pco_status run_attention(pco_model *model, const run_arguments *arguments, const char *prompt, pco_error *err)
{
    int32_t *source = NULL;
    size_t count = 0;
    pco_status status = PCO_OK;
    if (model->seq2seq && !*prompt) { /* its answer is empty, and nothing ran */
        snprintf(err->message, sizeof err->message, "an empty source has no attention to draw; give a prompt");
        return PCO_ERROR_INVALID;
    }
    if (model->seq2seq) status = pco_model_tokenize(model, prompt, strlen(prompt), 1, &source, &count, err);
    if (!status) status = attention_draw(model, source, count, &arguments->attention, err);
    if (!status) cli_note("attention   %s\n", arguments->attention.path);
    pco_free(source);
    return status;
}

/* Nothing was said, and nothing came on stdin. */
static int run_no_prompt(void)
{
    cli_error("run: a prompt is missing: --prompt TEXT, --input FILE, or text on stdin (--prompt \"\": a language "
              "model begins by itself)");
    return CLI_USAGE;
}

static int run_generate(pco_model *model, const run_arguments *arguments, const cli_prompts *prompts,
                        run_totals *totals)
{
    pco_error err = {""};
    pco_status status;
    if (prompts->count) {
        status = run_prompts(model, arguments, prompts, totals, &err);
    } else if (model->seq2seq && arguments->input && arguments->attention.path) {
        cli_error("run: --attention draws one source of an encoder-decoder: give it with --prompt");
        return CLI_USAGE;
    } else if (model->seq2seq && arguments->input) {
        status = run_lines(model, arguments, totals, &err);
        if (!status && arguments->implied && !totals->answers && !cli_interrupted()) return run_no_prompt();
    } else {
        char *text = NULL;
        size_t size = 0;
        if (arguments->input && !cli_read_text(arguments->input, &text, &size)) return CLI_FAILED;
        if (arguments->implied && size == 0) {
            free(text);
            return run_no_prompt();
        }
        if (size && text[size - 1] == '\n') text[--size] = 0; /* as editors and echo end a text */
        const char *prompt = text ? text : arguments->prompt ? arguments->prompt : "";
        status = run_one(model, arguments, prompt, totals, &err);
        if (!status && arguments->attention.path && !totals->broken && !cli_interrupted())
            status = run_attention(model, arguments, prompt, &err);
        free(text);
    }
    if (status) return cli_fail(&err);
    return CLI_OK;
}

static const cli_option RUN_OPTIONS[] = {
    {CLI_OPERAND("a model", run_arguments, model)},
    {CLI_TEXT("--prompt", run_arguments, prompt), .letter = "-p", .traits = CLI_MAY_BE_EMPTY},
    {CLI_TEXT("--input", run_arguments, input)},
    {CLI_TEXT("--prompts", run_arguments, prompts)},
    {CLI_WHOLE("--parallel", run_arguments, parallel, 1, 1024)},
    {CLI_FLAG("-", run_arguments, piped)},
    {CLI_WHOLE("--context", run_arguments, context, 1, 1 << 24)},
    CLI_SAMPLING(run_arguments),
    {CLI_TEXT("--adapter", run_arguments, adapter)},
    {CLI_TEXT("--device", run_arguments, device), .traits = CLI_MAY_BE_EMPTY},
    {CLI_WORD("--cache-type", run_arguments, cache_type, cli_cache_types)},
    {CLI_WHOLE("--beams", run_arguments, beams.params.beams, 1, 64)},
    CLI_BEAMS(run_arguments),
    {CLI_TEXT("--grammar", run_arguments, grammar)},
    {CLI_TEXT("--json-schema", run_arguments, schema)},
    {CLI_TEXT("--draft", run_arguments, draft)},
    {CLI_WHOLE("--draft-tokens", run_arguments, generate.params.draft_tokens, 1, 64)},
    {CLI_FLAG("--context-shift", run_arguments, generate.params.context_shift)},
    {CLI_WHOLE("--keep", run_arguments, generate.params.keep, 0, 1 << 24)},
    {CLI_FLAG("--echo", run_arguments, generate.params.echo)},
    {CLI_TEXT("--attention", run_arguments, attention.path)},
    {CLI_FLAG("--json", run_arguments, json)},
    {CLI_WHOLE("--logprobs", run_arguments, logprobs, 0, CLI_MOST_LOGPROBS)},
    {CLI_WHOLE("--attention-layer", run_arguments, attention.layer, 0, 1 << 12)},
};

static int run_parse(int argc, char **argv, run_arguments *arguments)
{
    if (cli_parse(&cli_run, argc, argv, arguments, NULL)) return CLI_USAGE;
    if (arguments->attention.layer >= 0 && !arguments->attention.path) {
        cli_error("run: --attention-layer is for --attention");
        return CLI_USAGE;
    }
    if (arguments->generate.params.keep && !arguments->generate.params.context_shift) {
        cli_error("run: --keep is for --context-shift");
        return CLI_USAGE;
    }
    if (arguments->generate.params.draft_tokens && !arguments->draft) {
        cli_error("run: --draft-tokens is for --draft");
        return CLI_USAGE;
    }
    if (!arguments->beams.params.beams && arguments->beams.params.returned) {
        cli_error("run: --return is for --beams");
        return CLI_USAGE;
    }
    if (arguments->logprobs >= 0 && !arguments->json) {
        cli_error("run: --logprobs is for --json");
        return CLI_USAGE;
    }
    if (arguments->prompts && (arguments->prompt || arguments->input || arguments->piped)) {
        cli_error("run: --prompts and %s exclude each other", arguments->prompt  ? "--prompt"
                                                              : arguments->input ? "--input"
                                                                                 : "-");
        return CLI_USAGE;
    }
    if (arguments->prompts && arguments->attention.path) {
        cli_error("run: --attention draws one text; give it with --prompt");
        return CLI_USAGE;
    }
    if (arguments->parallel && !arguments->prompts) {
        cli_error("run: --parallel is for --prompts");
        return CLI_USAGE;
    }
    if (arguments->piped && arguments->input) {
        cli_error("run: --input and - exclude each other");
        return CLI_USAGE;
    }
    if (arguments->piped) arguments->input = "-";
    if (arguments->prompt && arguments->input) {
        cli_error("run: --prompt and %s exclude each other", strcmp(arguments->input, "-") ? "--input" : "-");
        return CLI_USAGE;
    }
    if (!arguments->prompt && !arguments->input && !arguments->prompts) {
        if (isatty(STDIN_FILENO)) return run_no_prompt();
        arguments->input = "-";
        arguments->implied = 1;
    }
    return CLI_OK;
}

/* What the command line names files for. */
typedef struct run_files {
    char *grammar, *schema;
    cli_prompts prompts;
} run_files;

static int run_read_files(run_arguments *arguments, run_files *files)
{
    pco_error err = {""};
    size_t size;
    if (arguments->grammar && !cli_read_text(arguments->grammar, &files->grammar, &size)) return CLI_FAILED;
    if (arguments->schema && !cli_read_text(arguments->schema, &files->schema, &size)) return CLI_FAILED;
    arguments->generate.params.grammar = files->grammar;
    arguments->generate.params.json_schema = files->schema;
    if (!arguments->prompts || !cli_read_prompts(arguments->prompts, &files->prompts, &err)) return CLI_OK;
    cli_error("%s", err.message);
    return CLI_FAILED;
}

/* As many sequences as there are prompts, up to what --parallel says. */
static int64_t run_sequences(const run_arguments *arguments, const cli_prompts *prompts)
{
    const int64_t most = arguments->parallel ? arguments->parallel : RUN_SIDE_BY_SIDE;
    if (arguments->beams.params.beams || arguments->draft || !prompts->count) return 0;
    return (int64_t)prompts->count < most ? (int64_t)prompts->count : most;
}

static int run_open(run_arguments *arguments, const cli_prompts *prompts, run_totals *totals)
{
    pco_model *model = NULL;
    pco_error err = {""};
    int status;
    pco_model_params how = {.device = arguments->device,
                            .adapter = arguments->adapter,
                            .context_length = arguments->context,
                            .sequences = run_sequences(arguments, prompts),
                            .cache_type = cli_cache_dtype(arguments->cache_type)};
    pco_context *context = cli_context(arguments->device, &status);
    if (!context) return status;
    pco_model **draft = &arguments->generate.params.draft;
    pco_status opened = cli_open_model(context, arguments->model, &how, &model, &err);
    if (opened == PCO_ERROR_UNSUPPORTED &&
        how.sequences > 1) { /* an encoder-decoder has one, and anything else says so */
        how.sequences = 0;
        opened = cli_open_model(context, arguments->model, &how, &model, &err);
    }
    if (!opened && arguments->draft) opened = cli_open_model(context, arguments->draft, &how, draft, &err);
    if (opened) {
        status = opened == PCO_ERROR_CANCELLED ? CLI_OK : cli_fail(&err);
    } else {
        status = run_generate(model, arguments, prompts, totals);
        if (totals->answers) run_statistics(model, totals);
    }
    if (cli_interrupted()) cli_note("interrupted\n");
    pco_model_close(*draft);
    pco_model_close(model);
    pco_context_destroy(context);
    return status;
}

/* A grammar or schema that is wrong is said by its file's name, before the model is opened. */
static int run_check_constraints(const run_arguments *arguments)
{
    const char *grammar = arguments->generate.params.grammar, *schema = arguments->generate.params.json_schema;
    pco_grammar *parsed = NULL;
    pco_error err = {""};
    pco_status status = PCO_OK;
    if (grammar) status = pco_grammar_parse(grammar, strlen(grammar), arguments->grammar, &parsed, &err);
    pco_grammar_destroy(parsed);
    parsed = NULL;
    if (!status && schema) status = pco_grammar_of_schema(schema, strlen(schema), arguments->schema, &parsed, &err);
    pco_grammar_destroy(parsed);
    return status ? cli_fail(&err) : CLI_OK;
}

static int run_run(int argc, char **argv)
{
    run_arguments arguments = {.beams.length_penalty = 1,
                               .generate.params.size = sizeof arguments.generate.params,
                               .attention.layer = -1,
                               .logprobs = -1};
    run_totals totals = {0};
    run_files files = {0};
    int status = run_parse(argc, argv, &arguments);
    if (status) return status;
    cli_watch_signals();
    status = run_read_files(&arguments, &files);
    if (!status) status = run_check_constraints(&arguments);
    if (!status) status = run_open(&arguments, &files.prompts, &totals);
    free(files.grammar);
    free(files.schema);
    cli_prompts_release(&files.prompts);
    return cli_exit_status(status);
}

const cli_command cli_run = {
    .name = "run",
    .summary = "continue a text, or answer it line by line",
    .help =
        "usage: portico run MODEL [--prompt TEXT | --input FILE | - | --prompts FILE] [OPTION ...]\n\n"
        "MODEL is a .gguf file, a folder of Hugging Face, CTranslate2 or Portico, or a checkpoint of\n"
        "llama2.c. A language model continues the prompt (an empty one: it begins by itself). An\n"
        "encoder-decoder answers the prompt; from a file or stdin, each line is a source of its own and\n"
        "gives one line. stdout carries the text and a newline, nothing else; progress and statistics go\n"
        "to stderr.\n\n"
        "  --prompt, -p TEXT   the prompt\n"
        "  --input FILE        the prompt is in a file; `-`, or `-` as an argument: on stdin, which is also\n"
        "                      read when nothing says where the prompt is and stdin is no terminal. A\n"
        "                      newline at the end of the file is not part of the prompt\n"
        "  --prompts FILE      a prompt each line (or on stdin, with `-`); of a file that ends in .jsonl, a JSON\n"
        "                      string each line, or an object with \"prompt\". The answers come in that order,\n"
        "                      each with a newline; --json tells them apart where they have lines\n"
        "  --parallel N        language models continue so many of them side by side, and what prompts have\n"
        "                      in common is read once (default 8, or as many as there are)\n"
        "  -n, --max-tokens N  most tokens that are generated; 0 (default): until the end or a full\n"
        "                      context\n"
        "  --context N         most tokens of prompt and text together (default: what the model says,\n"
        "                      at most 4096)\n"
        "  --beams N           beam search with N texts side by side, instead of drawing tokens\n" CLI_BEAMS_HELP
        "  --grammar FILE      only texts of a grammar in GBNF (the notation of llama.cpp) are written\n"
        "  --json-schema FILE  only JSON that a schema allows is written\n"
        "  --draft MODEL       a small model of the same vocabulary proposes tokens, which this one reads in\n"
        "                      one run: the same text as without, sooner where most are accepted\n"
        "  --draft-tokens N    so many at a time (default 4)\n"
        "  --cache-type T      how keys and values are kept: f32 (default), f16 or q8_0\n"
        "  --context-shift     a full context does not end the text: the older half of it is forgotten, and\n"
        "                      the rest is read again, as if the model had never seen the other (language\n"
        "                      models)\n"
        "  --keep N            the first N tokens of the prompt are not forgotten (default: BOS only)\n"
        "  --temperature T     0 (default): always the likeliest token; 1: as the model was trained\n"
        "  --top-k K           draw among the K likeliest (0, default: all)\n"
        "  --top-p P           draw among the likeliest that have the share P together (default 1: all)\n"
        "  --seed S            another draw (default 0); the same seed gives the same text on the same\n"
        "                      device\n" CLI_SAMPLERS_HELP CLI_ADAPTER_HELP
        "  --device D          as PORTICO_BACKEND, and before it\n"
        "  --echo              print the prompt first (language models)\n"
        "  --json              one JSON object a line for each answer, when it is whole: text, why it ended, tokens\n"
        "  --logprobs N        with --json: log-probabilities (natural, of the model itself: before temperature and\n"
        "                      penalties) of the tokens, and the N likeliest at each place\n"
        "  --attention FILE    draw the attention weights of the prompt and what was generated: a heat map\n"
        "                      for each layer and head, labelled with the tokens, as SVG; a FILE that ends\n"
        "                      in .json gets the numbers instead\n"
        "  --attention-layer N draw only that layer, from 0\n\n"
        "Ctrl-C ends the text cleanly, with statistics and the line \"interrupted\". Exit status: 0 done,\n"
        "1 failed (also when stdout was closed), 2 wrong usage, 128 + N ended by signal N (130: Ctrl-C).\n",
    CLI_OPTIONS(RUN_OPTIONS),
    .run = run_run,
};
