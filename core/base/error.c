#include "base/error.h"
#include "base/printable.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Of a line that is too long, as one with a long path is, the middle goes: the reason stands at its end. */
static void error_take(pco_error *err, const char *line)
{
    static const char cut[] = " ... ";
    const size_t length = strlen(line), room = sizeof err->message - 1, head = room / 2,
                 tail = room - head - (sizeof cut - 1);
    if (length <= room) {
        memcpy(err->message, line, length + 1);
    } else {
        memcpy(err->message, line, head);
        memcpy(err->message + head, cut, sizeof cut - 1);
        memcpy(err->message + room - tail, line + length - tail, tail + 1);
    }
    pco_printable_line(err->message, sizeof err->message);
}

/* Room for a line with a path or two. */
enum { ERROR_LINE = 8192 };

pco_status pco_fail(pco_error *err, pco_status status, const char *format, ...)
{
    if (!err) return status;
    char line[ERROR_LINE];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    error_take(err, line);
    return status;
}

pco_status pco_fail_prefix(pco_error *err, pco_status status, const char *format, ...)
{
    if (!err) return status;
    char line[ERROR_LINE];
    va_list args;
    va_start(args, format);
    const int used = vsnprintf(line, sizeof line - sizeof err->message - 2, format, args);
    va_end(args);
    if (used >= 0) snprintf(line + strlen(line), sizeof err->message + 2, ": %s", err->message);
    error_take(err, line);
    return status;
}

pco_status pco_fail_missing(pco_error *err, const char *function, const char *argument)
{
    return pco_fail(err, PCO_ERROR_INVALID, "%s: %s is NULL", function, argument);
}

pco_status pco_check_sized(size_t known, size_t size, pco_error *err)
{
    if (size < sizeof size)
        return pco_fail(err, PCO_ERROR_INVALID, "the size of a struct is %zu: set it to its sizeof", size);
    if (size <= known) return PCO_OK;
    return pco_fail(err, PCO_ERROR_INVALID,
                    "a struct has %zu bytes, and this library knows %zu: the program was compiled with a newer header",
                    size, known);
}

pco_status pco_copy_sized(void *to, size_t known, const void *from, size_t size, pco_error *err)
{
    pco_status status = pco_check_sized(known, size, err);
    if (!status) memcpy(to, from, size);
    return status;
}

pco_status pco_fill_sized(void *to, const void *from, size_t known, pco_error *err)
{
    size_t size;
    memcpy(&size, to, sizeof size);
    pco_status status = pco_check_sized(known, size, err);
    if (!status && size > sizeof size)
        memcpy((char *)to + sizeof size, (const char *)from + sizeof size, size - sizeof size);
    return status;
}
