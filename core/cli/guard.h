/* stdout on a terminal, and files that change while they are in use. */
#ifndef PCO_CLI_GUARD_H
#define PCO_CLI_GUARD_H

/* Where stdout is a terminal, it gets nothing but text, newlines and tabs from here on: whatever a model, a file or a
 * driver says is shown and not obeyed. A pipe or a file gets all bytes as they are. */
void cli_guard_terminal(void);

/* A mapped file that somebody cuts short has pages that end the process (SIGBUS). From here on that is one line, with
 * the name of the file, and exit status 1. For processes that no other one watches. */
void cli_guard_files(void);

#endif
