/* The terminal that stderr may be: a line there that is rewritten, and as wide as fits. */
#ifndef PCO_CLI_TERMINAL_H
#define PCO_CLI_TERMINAL_H

#include <stddef.h>
#include <stdint.h>

/* Is stderr a terminal? */
int cli_terminal(void);

/* "HEAD [####    ] TAIL", the bar filled to `part` (0 to 1), in at most `columns` columns: the bar gives way first,
 * down to nothing, then the end of the text is cut off, between characters. `line` has `size` bytes. */
void cli_line_fit(char *line, size_t size, const char *head, double part, const char *tail, uint32_t columns);

/* Writes such a line to stderr: on a terminal over the one before, elsewhere as a line of its own. */
void cli_line_show(const char *head, double part, const char *tail);

/* Takes the line off the terminal again; nothing elsewhere. */
void cli_line_clear(void);

/* A progress line: "label  42 % [####    ]  12/30  3.1/s  5 s left". On a terminal it is rewritten, at most ten times a
 * second; otherwise a plain line comes at every tenth, and at most once a second. `unit` may be "". */
typedef struct cli_progress {
    const char *label, *unit;
    double start, last_print;
    int last_tenth;
} cli_progress;
void cli_progress_start(cli_progress *progress, const char *label, const char *unit);
void cli_progress_update(cli_progress *progress, uint64_t done, uint64_t total);
void cli_progress_end(cli_progress *progress);

#endif
