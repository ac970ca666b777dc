#include "base/number.h"

#include <langinfo.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

double pco_number_read(const char *text, char **end)
{
    const char *radix = nl_langinfo(RADIXCHAR);
    const size_t size = strlen(radix), most = strspn(text, "+-.0123456789eE");
    char copy[320], *stop;
    size_t used = 0, point = SIZE_MAX;
    if (strcmp(radix, ".") == 0) return strtod(text, end);
    for (size_t at = 0; at < most && used + size < sizeof copy; at++) {
        const int is_point = text[at] == '.';
        if (is_point && point == SIZE_MAX) point = used;
        memcpy(copy + used, is_point ? radix : text + at, is_point ? size : 1);
        used += is_point ? size : 1;
    }
    copy[used] = 0;
    const double value = strtod(copy, &stop);
    size_t read = (size_t)(stop - copy);
    if (read > point) read -= size - 1;
    if (end) *end = (char *)(uintptr_t)(text + read);
    return value;
}

char *pco_number_plain(char *text)
{
    const char *radix = nl_langinfo(RADIXCHAR);
    char *found = strstr(text, radix);
    if (!found || strcmp(radix, ".") == 0) return text;
    const size_t size = strlen(radix);
    *found = '.';
    memmove(found + 1, found + size, strlen(found + size) + 1);
    return text;
}
