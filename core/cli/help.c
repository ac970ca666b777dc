#include "cli/help.h"

#include <string.h>

const char *cli_line_end(const char *line) { return line + strcspn(line, "\n"); }

size_t cli_indent(const char *line) { return strspn(line, " "); }

int cli_help_item_at(const char *line, cli_help_item *item)
{
    const size_t indent = cli_indent(line);
    if (indent == 0 || indent > 4 || line[indent] != '-') return 0;
    const char *end = cli_line_end(line), *at = line + indent;
    item->names = at;
    while (at < end && !(at[0] == ' ' && at[1] == ' ') && !(at[0] == ' ' && at[1] >= 'a' && at[1] <= 'z')) at++;
    item->names_end = at;
    while (at < end && *at == ' ') at++;
    item->text = at;
    /* what goes on has a deeper indent */
    while (*end && cli_indent(end + 1) > indent + 2) end = cli_line_end(end + 1);
    item->end = end;
    return 1;
}
