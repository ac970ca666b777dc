#include "api/stop.h"

#include <string.h>

/* Does one of the strings begin at text[size], as far as the text goes? 1: all of it, -1: it may. */
static int stop_at(const api_stop *stop, const char *text, size_t size)
{
    int may = 0;
    for (size_t i = 0; i < stop->count; i++) {
        const size_t length = strlen(stop->strings[i]);
        if (memcmp(text, stop->strings[i], length < size ? length : size) != 0) continue;
        if (length <= size) return 1;
        may = -1;
    }
    return may;
}

size_t api_stop_add(api_stop *stop, const char *piece, size_t bytes, int *found)
{
    size_t sure = 0;
    int open = 0; /* what begins at `sure` may become one; what begins later may be one already */
    *found = 0;
    pco_write(&stop->held, piece, bytes);
    if (stop->held.status) return 0;
    for (size_t at = 0; at < stop->held.size; at++) {
        const int begins = stop_at(stop, stop->held.data + at, stop->held.size - at);
        if (begins > 0) {
            *found = 1;
            return at;
        }
        open |= begins < 0;
        if (!open) sure = at + 1;
    }
    return sure;
}

void api_stop_given(api_stop *stop, size_t bytes)
{
    if (!bytes) return;
    stop->held.size -= bytes;
    memmove(stop->held.data, stop->held.data + bytes, stop->held.size);
}
