/* What the tables of commands, options and environment variables become besides the program's help: manual pages and
 * completions of shells. */
#ifndef PCO_CLI_PAGES_H
#define PCO_CLI_PAGES_H

#include "cli/cli.h"

/* The manual page of a command, or with NULL that of portico itself, as roff for man(7). `command` lives in
 * cli_commands. */
void cli_man_page(FILE *out, const cli_command *command);

/* What completes command lines of portico in a shell: "bash", "zsh" or "fish". 0 for any other. */
int cli_completion(FILE *out, const char *shell);

#endif
