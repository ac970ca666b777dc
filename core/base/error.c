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

pco_status pco_fail_missing(pco_error *err, const char *function, const char *argument)
{
    return pco_fail(err, PCO_ERROR_INVALID, "%s: %s is NULL", function, argument);
}

pco_status pco_check_sized(size_t known, size_t size, pco_error *err)
{
    if (size == 0) return pco_fail(err, PCO_ERROR_INVALID, "the size of a struct is 0: set it to its sizeof");
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
