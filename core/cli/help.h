/* The help texts of commands, taken apart. */
#ifndef PCO_CLI_HELP_H
#define PCO_CLI_HELP_H

#include <stddef.h>

/* An option of a help text, as its lines have it:
 *
 *       --prompt, -p TEXT   the prompt
 *
 * `names` ends before two spaces or the end of the line; `text` has line breaks and indents in it, up to `end`. */
typedef struct cli_help_item {
    const char *names, *names_end;
    const char *text, *end;
} cli_help_item;

/* Is there an option in the line at `line`? */
int cli_help_item_at(const char *line, cli_help_item *item);

/* The end of that line, and the number of spaces that it begins with. */
const char *cli_line_end(const char *line);
size_t cli_indent(const char *line);

#endif
