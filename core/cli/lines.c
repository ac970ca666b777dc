#include "cli/lines.h"

#include "cli/signals.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

pco_status cli_each_line(const char *path, cli_line_fn each, void *user, const int *stop, pco_error *err)
{
    const int is_stdin = strcmp(path, "-") == 0;
    FILE *in = is_stdin ? stdin : fopen(path, "r");
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    int failed = 0;
    uint64_t number = 0;
    pco_status status = PCO_OK;
    if (!in) return pco_fail(err, PCO_ERROR_IO, "%s cannot be opened: %s", path, strerror(errno));
    while (!status && !(stop && *stop) && !cli_interrupted()) {
        cli_signals_end_reads(1);
        length = getline(&line, &capacity, in);
        failed = errno;
        cli_signals_end_reads(0);
        if (length < 0 || cli_interrupted()) break;
        pco_error inner = {""};
        number++;
        while (length && (line[length - 1] == '\n' || line[length - 1] == '\r')) line[--length] = 0;
        status = strlen(line) == (size_t)length ? each(user, line, &inner)
                                                : pco_fail(&inner, PCO_ERROR_INVALID, "a NUL byte is no text");
        if (status) snprintf(err->message, sizeof err->message, "line %" PRIu64 ": %.980s", number, inner.message);
    }
    if (!status && ferror(in) && !cli_interrupted())
        status = pco_fail(err, PCO_ERROR_IO, "%s cannot be read: %s", path, strerror(failed));
    free(line);
    if (!is_stdin) fclose(in);
    return status;
}
