/* Files and stdin of which each line is a text of its own. */
#ifndef PCO_CLI_LINES_H
#define PCO_CLI_LINES_H

#include "base/error.h"

typedef pco_status (*cli_line_fn)(void *user, const char *line, pco_error *err);

/* Calls `each` for the lines of a file ("-": stdin) as they come, without their ends, until one fails, a signal comes,
 * or *stop (which may be NULL) is not 0. Errors: IO; INVALID for a NUL byte; those of `each`, with the line's number in
 * front. */
pco_status cli_each_line(const char *path, cli_line_fn each, void *user, const int *stop, pco_error *err) PCO_NODISCARD;

#endif
