/* Lines from a person at a terminal, with history and editing where the program was built with libedit, or from a pipe
 * or a file. */
#ifndef PCO_CLI_LINE_H
#define PCO_CLI_LINE_H

#include <stddef.h>

typedef struct cli_lines cli_lines;

typedef enum cli_line_end {
    CLI_LINE,             /* a line was read */
    CLI_LINE_END,         /* there are no more: end of the file, or Ctrl-D */
    CLI_LINE_INTERRUPTED, /* a signal came (cli/signals.h): what was typed is gone */
    CLI_LINE_FAILED,      /* after a message */
} cli_line_end;

/* NULL after a message. */
cli_lines *cli_lines_open(void);
void cli_lines_close(cli_lines *lines);

/* Is it a terminal on both ends: stdin, and stderr, where prompts go? */
int cli_lines_interactive(const cli_lines *lines);

/* The next line, without its end: *line stays until the next call. The prompt is shown at a terminal. */
cli_line_end cli_lines_read(cli_lines *lines, const char *prompt, char **line);

#endif
