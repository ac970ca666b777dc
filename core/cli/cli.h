/* The `portico` program: one file per subcommand, and what they share.
 *
 * Exit status: 0 done, 1 failed, 2 wrong usage, 128 + N ended by signal N. stdout carries results, stderr everything
 * else. */
#ifndef PCO_CLI_CLI_H
#define PCO_CLI_CLI_H

#include "base/writer.h"
#include "cli/options.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "runtime/registry.h"

#include <stdio.h>

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

typedef struct cli_command {
    const char *name;
    const char *summary;
    const char *help;          /* printed by --help, after the summary */
    const cli_option *options; /* CLI_OPTIONS */
    uint32_t n_options;
    int (*run)(int argc, char **argv); /* argv[0] is the command's name */
} cli_command;

extern const cli_command cli_run, cli_translate, cli_transcribe, cli_chat, cli_embed, cli_inspect, cli_ops, cli_devices,
    cli_compare, cli_conformance, cli_bench, cli_train, cli_eval, cli_tokenizer, cli_plot, cli_onnx, cli_convert,
    cli_classify;

/* It knows all of these, so it is not among them (completion.c). */
extern const cli_command cli_completion_command;

/* All of them, up to a NULL (commands.c). */
extern const cli_command *const cli_commands[];

/* "portico: ..." on stderr, one line: control characters in it become escapes. */
void cli_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What is no error, on stderr: a line, or a part of one. Control characters in it become escapes, but for a newline at
 * the end of `format`. */
void cli_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Somebody else's text on one line: control characters become escapes. */
void cli_text(FILE *out, const char *text);

/* Prints an error of the library; returns the exit status that fits: 2 for INVALID from the environment or a
 * flag, 1 otherwise. */
int cli_fail(const pco_error *err);

/* Prints a text that was made in memory, all of it or (without memory, after a message) nothing, and releases
 * it. Returns the exit status. */
int cli_print(pco_writer *text);

/* Prints `text` in lines of at most 100 columns, broken at spaces, all but the first indented; the first
 * begins at column `column`. Ends with a newline. */
void cli_wrap(const char *text, int column, int indent);

/* printf into text[size] at *used, which moves on; what does not fit is cut. */
void cli_append(char *text, size_t size, size_t *used, const char *format, ...) __attribute__((format(printf, 4, 5)));

/* The registry of the environment, for the devices that a selection names (pco_registry_create_for; NULL: as
 * PORTICO_BACKEND says; "all"); NULL after a message, with the exit status in *status. */
pco_registry *cli_registry(const char *device, int *status);

/* Is there a device for `selection` (NULL: what the environment says, or automatic)? 0 after a message, with
 * the exit status in *status: 2 for words that match nothing, 1 when no device can be used at all. */
int cli_check_device(pco_registry *registry, const char *selection, int *status);

/* What a list names ("all", or terms with commas, each of which must match something; NULL: as cli_check_device, the
 * first), a term with + as one device. The caller frees *entries. Returns their number; 0 after a message, with the
 * exit status in *status. */
uint32_t cli_select_sets(pco_registry *registry, const char *list, pco_device_entry **entries, int *status);

/* The same as indices of device entries; devices joined with + are refused. The caller frees *indices. */
uint32_t cli_select_devices(pco_registry *registry, const char *list, uint32_t **indices, int *status);

/* `text` as one word of a shell command: itself where no shell sees more in it than letters, else in single quotes.
 * malloc'ed; NULL without memory. */
char *cli_quote(const char *text);

/* "1.5 GiB" into text (32 bytes). */
char *cli_bytes(uint64_t bytes, char *text);

#endif
