#include "base/utf8.h"

#include <string.h>
#include <strings.h>

size_t pco_utf8_decode(const char *text, size_t size, uint32_t *codepoint)
{
    if (size == 0) return 0;
    const unsigned char *byte = (const unsigned char *)text;
    uint32_t lead = byte[0], value, least;
    size_t length;
    if (lead < 0x80) {
        length = 1, value = lead, least = 0;
    } else if (lead >= 0xC2 && lead < 0xE0) {
        length = 2, value = lead & 0x1F, least = 0x80;
    } else if (lead >= 0xE0 && lead < 0xF0) {
        length = 3, value = lead & 0x0F, least = 0x800;
    } else if (lead >= 0xF0 && lead < 0xF5) {
        length = 4, value = lead & 0x07, least = 0x10000;
    } else {
        return 0;
    }
    if (length > size) return 0;
    for (size_t i = 1; i < length; i++) {
        if ((byte[i] & 0xC0) != 0x80) return 0;
        value = value << 6 | (byte[i] & 0x3Fu);
    }
    if (value < least || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) return 0;
    if (codepoint) *codepoint = value;
    return length;
}

size_t pco_utf8_malformed(const char *text, size_t size)
{
    for (size_t kept = size < 3 ? size : 3; kept > 1; kept--) {
        char whole[4] = {'\x80', '\x80', '\x80', '\x80'};
        memcpy(whole, text, kept);
        if (pco_utf8_decode(whole, sizeof whole, NULL) > kept) return kept;
    }
    return 1;
}

size_t pco_utf8_encode(uint32_t codepoint, char out[4])
{
    if (codepoint < 0x80) {
        out[0] = (char)codepoint;
        return 1;
    }
    size_t length = codepoint < 0x800 ? 2 : codepoint < 0x10000 ? 3 : 4;
    static const unsigned char lead[5] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = length - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (codepoint & 0x3F));
        codepoint >>= 6;
    }
    out[0] = (char)(lead[length] | codepoint);
    return length;
}

size_t pco_utf8_check(const char *text, size_t size)
{
    size_t at = 0;
    while (at < size) {
        uint64_t eight; /* bytes of ASCII */
        for (; size - at >= sizeof eight; at += sizeof eight) {
            memcpy(&eight, text + at, sizeof eight);
            if (eight & 0x8080808080808080u) break;
        }
        if (at == size) break;
        size_t length = pco_utf8_decode(text + at, size - at, NULL);
        if (length == 0) break;
        at += length;
    }
    return at;
}

int pco_text_ends(const char *text, const char *end)
{
    const size_t size = strlen(text), tail = strlen(end);
    return size >= tail && strcmp(text + size - tail, end) == 0;
}

int pco_text_ends_like(const char *text, const char *end)
{
    const size_t size = strlen(text), tail = strlen(end);
    return size >= tail && strcasecmp(text + size - tail, end) == 0;
}
