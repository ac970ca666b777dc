/* portico chat: a talk with a model, in a terminal or line by line from a pipe. */
#include "cli/line.h"
#include "cli/model.h"
#include "cli/talk.h"

#include "base/utf8.h"
#include "portico/chat.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct chat_arguments {
    cli_generate generate; /* the first member: CLI_SAMPLING */
    const char *model, *prompt, *system, *template, *load, *device, *adapter;
    int64_t context;
    int stats, cache_type; /* of cli_cache_types */
} chat_arguments;

typedef struct chat {
    const chat_arguments *arguments;
    pco_chat_params params;
    pco_model *model;
    pco_sequence *sequence;
    int64_t context;
    cli_lines *lines;
    cli_talk talk;
    pco_writer answer; /* under way */
    int interactive;
    int broken; /* stdout can no longer be written */
} chat;

/* ---- one answer ---- */

static int chat_text(void *user, const char *text, size_t bytes)
{
    chat *c = user;
    pco_write(&c->answer, text, bytes);
    if (fwrite(text, 1, bytes, stdout) != bytes || fflush(stdout) != 0) c->broken = 1;
    return c->broken || cli_interrupted();
}

static int chat_prompt(void *user, int64_t done, int64_t count)
{
    (void)user, (void)done, (void)count;
    return cli_interrupted() != 0;
}

static void chat_statistics(const chat *c, const pco_generate_stats *stats)
{
    size_t used = 0;
    (void)pco_sequence_ids(c->sequence, &used);
    const double read = stats->prompt_seconds, wrote = stats->generation_seconds;
    cli_note("(%" PRId64 " tokens read, %.3f s, %.1f tokens/s; %" PRId64
             " written, %.3f s, %.1f tokens/s; context %zu of %" PRId64 ")\n",
             stats->prompt_tokens, read, read > 0 ? (double)stats->prompt_tokens / read : 0, stats->generated_tokens,
             wrote, wrote > 0 ? (double)stats->generated_tokens / wrote : 0, used, c->context);
}

/* Leaves out the oldest turns until the messages leave room for an answer: what -n asks for, or an eighth of the
 * context, and always one token. */
static pco_status chat_fit(chat *c, pco_error *err)
{
    size_t forgotten = 0;
    const int64_t wanted = c->arguments->generate.params.max_tokens, eighth = c->context / 8,
                  room = wanted && wanted < eighth ? wanted
                         : eighth > 1              ? eighth
                                                   : 1;
    pco_status status = PCO_OK;
    for (;;) {
        int32_t *ids;
        size_t count;
        status = pco_chat_encode(c->model, c->talk.messages, c->talk.count, &c->params, &ids, &count, err);
        pco_free(ids);
        if (status || (int64_t)count + room <= c->context) break;
        const size_t more = cli_talk_forget(&c->talk);
        if (!more) break;
        forgotten += more;
    }
    if (forgotten)
        cli_note("(the context of %" PRId64 " tokens is full: the %zu oldest messages were left out)\n", c->context,
                 forgotten);
    return status;
}

/* The answer as UTF-8: what an interrupted one has of a last character is left out, and what is no character becomes
 * U+FFFD. */
static pco_status chat_keep(chat *c, pco_error *err)
{
    pco_writer text = {0};
    pco_status status = pco_writer_check(&c->answer, "an answer", err);
    pco_write_text(&text, "");
    for (size_t at = 0, step; !status && at < c->answer.size; at += step) {
        step = pco_utf8_decode(c->answer.data + at, c->answer.size - at, NULL);
        if (step)
            pco_write(&text, c->answer.data + at, step);
        else if (c->answer.size - at > 3)
            pco_write_text(&text, "\xEF\xBF\xBD");
        if (!step) step = pco_utf8_malformed(c->answer.data + at, c->answer.size - at);
    }
    if (!status) status = pco_writer_check(&text, "an answer", err);
    if (!status) status = cli_talk_add(&c->talk, "assistant", text.data, err);
    pco_writer_release(&text);
    return status;
}

/* Asks, and shows the answer as it comes. What fails leaves the talk as it was before the question. */
static pco_status chat_ask(chat *c, const char *question, pco_error *err)
{
    pco_generate_stats stats = {.size = sizeof stats};
    pco_generate_params generate = c->arguments->generate.params;
    generate.progress = chat_prompt;
    c->answer.size = 0;
    pco_status status = cli_talk_add(&c->talk, "user", question, err);
    if (status) return status;
    status = chat_fit(c, err);
    if (!status)
        status = pco_chat_answer(c->sequence, c->talk.messages, c->talk.count, &c->params, &generate, chat_text, c,
                                 &stats, err);
    if (status) {
        cli_talk_cut(&c->talk, c->talk.count - 1);
        return status;
    }
    if (!c->broken && (putchar('\n') == EOF || fflush(stdout) != 0)) c->broken = 1;
    if (stats.stop_reason == PCO_STOP_CONTEXT) cli_note("(the context of %" PRId64 " tokens is full)\n", c->context);
    if (c->arguments->stats) chat_statistics(c, &stats);
    return chat_keep(c, err);
}

/* ---- commands ---- */

static pco_status chat_help(chat *c, const char *rest, pco_error *err)
{
    (void)c, (void)rest, (void)err;
    fputs("/system TEXT  what the model is told first; without TEXT, nothing\n"
          "/clear        begin anew (the system's message stays)\n"
          "/save FILE    write the messages to a file, as JSON\n"
          "/load FILE    go on with such a file\n"
          "/help         this list\n"
          "/quit         end, as Ctrl-D does\n"
          "A line that ends with \\ goes on in the next; one that begins with // is a message with one /.\n"
          "Ctrl-C ends an answer.\n",
          stderr);
    return PCO_OK;
}

static pco_status chat_system(chat *c, const char *rest, pco_error *err)
{
    return cli_talk_system(&c->talk, rest, err);
}

static pco_status chat_clear(chat *c, const char *rest, pco_error *err)
{
    (void)rest, (void)err;
    cli_talk_cut(&c->talk, c->talk.count && strcmp(c->talk.messages[0].role, "system") == 0);
    return PCO_OK;
}

static pco_status chat_save(chat *c, const char *rest, pco_error *err)
{
    pco_status status = cli_talk_save(&c->talk, rest, err);
    if (!status) cli_note("(%zu messages in %s)\n", c->talk.count, rest);
    return status;
}

static pco_status chat_load(chat *c, const char *rest, pco_error *err)
{
    pco_status status = cli_talk_load(&c->talk, rest, err);
    if (!status) cli_note("(%zu messages from %s)\n", c->talk.count, rest);
    return status;
}

static const struct {
    const char *name;
    pco_status (*run)(chat *c, const char *rest, pco_error *err); /* NULL: the chat ends */
    int needs;                                                    /* a file */
} CHAT_COMMANDS[] = {{"/system", chat_system, 0}, {"/clear", chat_clear, 0}, {"/save", chat_save, 1},
                     {"/load", chat_load, 1},     {"/help", chat_help, 0},   {"/quit", NULL, 0},
                     {"/exit", NULL, 0}};

/* 1: the chat ends. */
static int chat_command(chat *c, const char *line, pco_status *status, pco_error *err)
{
    const size_t length = strcspn(line, " \t");
    const char *rest = line + length + strspn(line + length, " \t");
    for (size_t i = 0; i < sizeof CHAT_COMMANDS / sizeof *CHAT_COMMANDS; i++) {
        if (strlen(CHAT_COMMANDS[i].name) != length || strncmp(line, CHAT_COMMANDS[i].name, length) != 0) continue;
        if (!CHAT_COMMANDS[i].run) return 1;
        if (CHAT_COMMANDS[i].needs && !*rest) {
            *status = PCO_ERROR_INVALID;
            snprintf(err->message, sizeof err->message, "chat: %s needs a file", CHAT_COMMANDS[i].name);
            return 0;
        }
        *status = CHAT_COMMANDS[i].run(c, rest, err);
        return 0;
    }
    *status = PCO_ERROR_INVALID;
    snprintf(err->message, sizeof err->message, "chat: there is no command %.*s; /help lists them",
             (int)(length < 80 ? length : 80), line);
    return 0;
}

/* ---- the talk ---- */

/* One message or command: lines up to one that does not end with a backslash. In *text (free). */
static cli_line_end chat_read(chat *c, char **text)
{
    pco_writer all = {0};
    char *line;
    cli_line_end end = cli_lines_read(c->lines, "> ", &line);
    while (end == CLI_LINE) {
        const size_t length = strlen(line), more = length && line[length - 1] == '\\';
        pco_write(&all, line, length - more);
        if (!more) break;
        pco_write_char(&all, '\n');
        end = cli_lines_read(c->lines, "... ", &line);
        if (end == CLI_LINE_END) end = CLI_LINE;
        if (end == CLI_LINE && !line) break;
    }
    if (end == CLI_LINE && all.status) {
        cli_error("out of host memory for a message");
        end = CLI_LINE_FAILED;
    }
    *text = end == CLI_LINE ? all.data : NULL;
    if (!*text) pco_writer_release(&all);
    return end;
}

/* Ctrl-C at a terminal is forgotten here; what else ended a line or an answer ends the chat. */
static int chat_goes_on(const chat *c)
{
    return !c->broken && (!cli_interrupted() || (c->interactive && cli_forget_interrupt()));
}

static int chat_loop(chat *c)
{
    int status = CLI_OK;
    while (chat_goes_on(c)) {
        pco_error err = {""};
        char *text;
        pco_status failed = PCO_OK;
        int quit = 0;
        const cli_line_end end = chat_read(c, &text);
        if (end == CLI_LINE_INTERRUPTED) continue;
        if (end != CLI_LINE) return end == CLI_LINE_END ? status : CLI_FAILED;
        if (text[0] == '/' && text[1] != '/')
            quit = chat_command(c, text, &failed, &err);
        else if (text[strspn(text, " \t\n")])
            failed = chat_ask(c, text + (text[0] == '/'), &err);
        free(text);
        if (quit) return status;
        if (failed == PCO_ERROR_CANCELLED) continue;
        if (failed) cli_fail(&err);
        if (failed && !c->interactive) status = CLI_FAILED; /* a script sees it in the end */
        if (failed == PCO_ERROR_DEVICE_LOST) return CLI_FAILED;
    }
    return status;
}

static pco_status chat_begin(chat *c, const char *template, pco_error *err)
{
    const chat_arguments *a = c->arguments;
    pco_model_info info = {.size = sizeof info};
    char *source = NULL;
    pco_model_describe(c->model, &info);
    c->context = info.context_length;
    c->params = (pco_chat_params){.size = sizeof c->params, .source = template};
    pco_status status = pco_sequence_create(c->model, &c->sequence, err);
    if (!status && !template) status = pco_chat_source(c->model, &source, err); /* there is one */
    if (!status && a->load) status = cli_talk_load(&c->talk, a->load, err);
    if (!status && a->system) status = cli_talk_system(&c->talk, a->system, err);
    pco_free(source);
    return status;
}

static int chat_run(chat *c, const char *template)
{
    pco_error err = {""};
    pco_status failed = chat_begin(c, template, &err);
    int status = CLI_OK;
    if (!failed && c->arguments->prompt) {
        failed = chat_ask(c, c->arguments->prompt, &err);
    } else if (!failed) {
        c->lines = cli_lines_open();
        c->interactive = c->lines && cli_lines_interactive(c->lines);
        if (c->interactive) {
            pco_model_info info = {.size = sizeof info};
            pco_model_describe(c->model, &info);
            cli_note("%s, %s, context %" PRId64 "; /help lists commands, Ctrl-D ends\n", info.architecture, info.device,
                     c->context);
        }
        status = c->lines ? chat_loop(c) : CLI_FAILED;
        cli_lines_close(c->lines);
    }
    if (failed && failed != PCO_ERROR_CANCELLED) status = cli_fail(&err);
    pco_sequence_destroy(c->sequence);
    pco_writer_release(&c->answer);
    cli_talk_release(&c->talk);
    return status;
}

static const cli_option CHAT_OPTIONS[] = {
    {CLI_OPERAND("a model", chat_arguments, model)},
    {CLI_TEXT("--prompt", chat_arguments, prompt), .letter = "-p"},
    {CLI_TEXT("--system", chat_arguments, system), .traits = CLI_MAY_BE_EMPTY},
    {CLI_TEXT("--load", chat_arguments, load)},
    {CLI_TEXT("--template", chat_arguments, template)},
    {CLI_WHOLE("--context", chat_arguments, context, 2, 1 << 24)},
    {CLI_WORD("--cache-type", chat_arguments, cache_type, cli_cache_types)},
    CLI_SAMPLING(chat_arguments),
    {CLI_TEXT("--adapter", chat_arguments, adapter)},
    {CLI_TEXT("--device", chat_arguments, device), .traits = CLI_MAY_BE_EMPTY},
    {CLI_FLAG("--stats", chat_arguments, stats)},
};

static int chat_main(int argc, char **argv)
{
    chat_arguments arguments = {.generate.params.size = sizeof arguments.generate.params};
    chat c = {.arguments = &arguments};
    pco_model_params how = {0};
    char *template = NULL;
    size_t size;
    pco_error err = {""};
    int status = cli_parse(&cli_chat, argc, argv, &arguments, NULL);
    if (status) return status;
    if (arguments.template && !cli_read_text(arguments.template, &template, &size)) return CLI_FAILED;
    how.device = arguments.device;
    how.context_length = arguments.context;
    how.adapter = arguments.adapter;
    how.cache_type = cli_cache_dtype(arguments.cache_type);
    cli_watch_signals();
    pco_context *context = cli_context(arguments.device, &status);
    if (context) {
        const pco_status opened = cli_open_model(context, arguments.model, &how, &c.model, &err);
        if (!opened)
            status = chat_run(&c, template);
        else
            status = opened == PCO_ERROR_CANCELLED ? CLI_OK : cli_fail(&err);
        if (cli_interrupted()) cli_note("interrupted\n");
        pco_model_close(c.model);
        pco_context_destroy(context);
        status = cli_exit_status(status);
    }
    free(template);
    return status;
}

const cli_command cli_chat = {
    .name = "chat",
    .summary = "talk with a model",
    .help = "usage: portico chat MODEL [--prompt TEXT] [OPTION ...]\n\n"
            "MODEL is a language model that was taught to chat: a .gguf file, or a folder of Hugging Face, with a\n"
            "chat template. At a terminal, lines are edited as in a shell, with a history; from a pipe or a file,\n"
            "each line is a message. stdout carries the answers, stderr all else. What was read stays on the\n"
            "device from turn to turn. Where the talk outgrows the context, its oldest turns are left out, and a\n"
            "line says so.\n\n"
            "  --prompt, -p TEXT   one message: the answer, and the end\n"
            "  --system TEXT       what the model is told first\n"
            "  --load FILE         go on with a talk that /save wrote\n"
            "  --template FILE     a chat template (Jinja) instead of the model's own\n"
            "  -n, --max-tokens N  most tokens of an answer; 0 (default): until it ends or the context is full\n"
            "  --context N         most tokens of the talk (default: what the model says, at most 4096)\n"
            "  --cache-type T      how keys and values are kept: f32 (default), f16 or q8_0\n"
            "  --temperature T     0 (default): always the likeliest token; 1: as the model was trained\n"
            "  --top-k K           draw among the K likeliest (0, default: all)\n"
            "  --top-p P           draw among the likeliest that have the share P together (default 1: all)\n"
            "  --seed S            another draw (default 0)\n" CLI_SAMPLERS_HELP CLI_ADAPTER_HELP
            "  --device D          as PORTICO_BACKEND, and before it\n"
            "  --stats             a line behind each answer: tokens, their rates, and how full the context is\n\n"
            "Commands: /system TEXT, /clear, /save FILE, /load FILE, /help, /quit. A line that ends with \\ goes\n"
            "on in the next. Ctrl-C ends an answer, or clears the line; from a pipe it ends the program.\n"
            "Exit status: 0 done, 1 failed (also when a line of a pipe did), 2 wrong usage, 128 + N ended by\n"
            "signal N.\n",
    CLI_OPTIONS(CHAT_OPTIONS),
    .run = chat_main,
};
