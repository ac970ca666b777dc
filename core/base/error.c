#include "base/error.h"
#include "base/printable.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

pco_status pco_fail(pco_error *err, pco_status status, const char *format, ...)
{
    if (!err) return status;
    va_list args;
    va_start(args, format);
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    pco_printable_line(err->message, sizeof err->message);
    return status;
}

pco_status pco_fail_prefix(pco_error *err, pco_status status, const char *format, ...)
{
    if (!err) return status;
    char old[sizeof err->message];
    memcpy(old, err->message, sizeof old);
    va_list args;
    va_start(args, format);
    int used = vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    if (used >= 0 && (size_t)used < sizeof err->message)
        snprintf(err->message + used, sizeof err->message - (size_t)used, ": %.*s",
                 (int)(sizeof err->message - (size_t)used - 3), old);
    pco_printable_line(err->message, sizeof err->message);
    return status;
}
