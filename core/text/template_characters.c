/* Characters and pieces of texts, as Python's str has them. */
#include "text/template_parts.h"

#include <utf8proc.h>

#include "base/utf8.h"

size_t tpl_character(tpl_text text, size_t at, uint32_t *code)
{
    const size_t step = pco_utf8_decode(text.data + at, text.size - at, code);
    if (step) return step;
    *code = 0xFFFD;
    return 1;
}

int tpl_is_blank(uint32_t code)
{
    if (code < 0x80) return code == ' ' || (code >= 9 && code <= 13) || (code >= 0x1C && code <= 0x1F);
    return code == 0x85 || utf8proc_category((utf8proc_int32_t)code) == UTF8PROC_CATEGORY_ZS || code == 0x2028 ||
           code == 0x2029;
}

size_t tpl_count_characters(tpl_text text)
{
    size_t count = 0;
    uint32_t code;
    for (size_t at = 0; at < text.size; count++) at += tpl_character(text, at, &code);
    return count;
}

static int tpl_strips(uint32_t code, tpl_text characters)
{
    uint32_t other;
    if (!characters.data) return tpl_is_blank(code);
    for (size_t at = 0; at < characters.size;) {
        at += tpl_character(characters, at, &other);
        if (other == code) return 1;
    }
    return 0;
}

tpl_text tpl_strip(tpl_text text, tpl_text characters, int sides)
{
    uint32_t code;
    while ((sides & 1) && text.size) {
        const size_t step = tpl_character(text, 0, &code);
        if (!tpl_strips(code, characters)) break;
        text.data += step;
        text.size -= step;
    }
    while ((sides & 2) && text.size) {
        size_t at = text.size - 1;
        while (at && ((unsigned char)text.data[at] & 0xC0) == 0x80) at--;
        tpl_character(text, at, &code);
        if (!tpl_strips(code, characters)) break;
        text.size = at;
    }
    return text;
}

size_t tpl_find(tpl_text text, tpl_text part, size_t from)
{
    if (from > text.size || part.size > text.size - from) return SIZE_MAX;
    if (!part.size) return from;
    const char *found = memmem(text.data + from, text.size - from, part.data, part.size);
    return found ? (size_t)(found - text.data) : SIZE_MAX;
}
