#include "base/printable.h"

#include "base/utf8.h"

#include <string.h>

int pco_printable_plain(uint32_t codepoint)
{
    static const struct {
        uint32_t first, last;
    } hidden[] = {{0, 0x1F},        {0x7F, 0x9F},     {0xAD, 0xAD},     {0x61C, 0x61C},   {0x200B, 0x200F},
                  {0x2028, 0x202E}, {0x2060, 0x206F}, {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFB}, {0xE0000, 0xE007F}};
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
        if (codepoint >= hidden[i].first && codepoint <= hidden[i].last) return 0;
    return 1;
}

static size_t printable_hex(uint32_t value, int digits, char *out)
{
    for (int i = 0; i < digits; i++) out[i] = "0123456789abcdef"[value >> 4 * (digits - 1 - i) & 15];
    return (size_t)digits;
}

size_t pco_printable_next(const char *text, size_t size, char *out, size_t *taken)
{
    uint32_t codepoint;
    *taken = pco_utf8_decode(text, size, &codepoint);
    if (*taken && pco_printable_plain(codepoint)) {
        memcpy(out, text, *taken);
        return *taken;
    }
    *out++ = '\\';
    if (*taken == 0 || codepoint < 0x80) {
        const char *short_name = codepoint == '\n' ? "n" : codepoint == '\t' ? "t" : codepoint == '\r' ? "r" : NULL;
        if (*taken && short_name) {
            *out = *short_name;
            return 2;
        }
        *taken = 1;
        *out++ = 'x';
        return 2 + printable_hex((unsigned char)*text, 2, out);
    }
    *out++ = codepoint > 0xFFFF ? 'U' : 'u';
    return 2 + printable_hex(codepoint, codepoint > 0xFFFF ? 8 : 4, out);
}

/* Whether eight bytes are ASCII that stays as it is: of each, one bit says that it is from ' ' to '~'. */
static int printable_eight(const char *text)
{
    const uint64_t ones = 0x0101010101010101u, high = 0x80 * ones;
    uint64_t eight;
    memcpy(&eight, text, sizeof eight);
    return (((eight | high) - ' ' * ones) & ~(eight + ones) & ~eight & high) == high;
}

char *pco_printable(const char *text, size_t bytes, char *out, size_t size)
{
    size_t used = 0;
    for (size_t at = 0, taken; at < bytes; at += taken) {
        char next[4 * PCO_PRINTABLE_MOST];
        for (; bytes - at >= 8 && size - used > 8 && printable_eight(text + at); at += 8, used += 8)
            memcpy(out + used, text + at, 8);
        if (at == bytes) break;
        const size_t length = pco_printable_next(text + at, bytes - at, next, &taken);
        if (used + length >= size) break;
        memcpy(out + used, next, length);
        used += length;
    }
    if (size) out[used] = 0;
    return out;
}

void pco_printable_line(char *text, size_t size)
{
    char copy[PCO_PRINTABLE_LINE];
    const size_t length = strnlen(text, size < sizeof copy ? size : sizeof copy);
    memcpy(copy, text, length);
    if (size) pco_printable(copy, length, text, size);
}
