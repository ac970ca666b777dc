/* The precompiled normalisation table of SentencePiece (Kudo and Richardson 2018): a double-array trie (Aoe 1989, in
 * the layout of darts-clone) from strings to offsets of what replaces them, and the replacements, each with a NUL. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer_kinds.h"

typedef struct text_charsmap {
    uint32_t units, bytes;
    const char *strings; /* behind the units; the last byte is NUL */
    uint32_t unit[];
} text_charsmap;

pco_status text_charsmap_make(const void *data, size_t size, const char *label, void **charsmap, pco_error *err)
{
    uint32_t trie = 0;
    *charsmap = NULL;
    if (size >= 4) memcpy(&trie, data, 4); /* little endian, as the machines that we run on */
    if (size < 5 || trie % 4 || trie < 1024 || trie > size - 5)
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: a precompiled normalisation table of %zu bytes is cut off or wrong",
                        label, size);
    text_charsmap *made = malloc(sizeof *made + size);
    if (!made) return text_no_memory(err);
    made->units = trie / 4;
    made->bytes = (uint32_t)(size - 4 - trie);
    memcpy(made->unit, (const char *)data + 4, size - 4);
    made->strings = (const char *)(made->unit + made->units);
    ((char *)(made->unit + made->units))[made->bytes] = 0;
    *charsmap = made;
    return PCO_OK;
}

/* What a unit of the trie says. */
static uint32_t charsmap_offset(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
static uint32_t charsmap_label(uint32_t unit) { return unit & (1u << 31 | 0xFF); }

/* What stands for the shortest (longest) string of the table that text[size] begins with; NULL where there is none.
 * Its length in *length. */
static const char *charsmap_find(const text_charsmap *map, const char *text, size_t size, int longest, size_t *length)
{
    const char *found = NULL;
    uint32_t at = charsmap_offset(map->unit[0]);
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char)text[i];
        at ^= byte;
        if (!byte || at >= map->units || charsmap_label(map->unit[at]) != byte) break;
        int has_leaf = map->unit[at] >> 8 & 1;
        at ^= charsmap_offset(map->unit[at]);
        if (!has_leaf || at >= map->units) continue;
        uint32_t value = map->unit[at] & ((1u << 31) - 1);
        if (value > map->bytes) break;
        found = map->strings + value;
        *length = i + 1;
        if (!longest) break;
    }
    return found;
}

static void charsmap_put(const text_charsmap *map, const char *text, size_t size, pco_writer *out)
{
    size_t length;
    const char *found = charsmap_find(map, text, size, 0, &length);
    if (found)
        pco_write_text(out, found);
    else
        pco_write(out, text, size);
}

/* Bytes of the grapheme that text[size] begins with. */
static size_t charsmap_grapheme(const char *text, size_t size)
{
    uint32_t before, next;
    utf8proc_int32_t state = 0;
    size_t at = pco_utf8_decode(text, size, &before), length;
    while (at < size && (length = pco_utf8_decode(text + at, size - at, &next)) &&
           !utf8proc_grapheme_break_stateful((utf8proc_int32_t)before, (utf8proc_int32_t)next, &state)) {
        at += length;
        before = next;
    }
    return at;
}

pco_status text_norm_charsmap_hf(const text_norm *norm, const char *text, size_t size, pco_writer *out, pco_error *err)
{
    const text_charsmap *map = norm->charsmap;
    (void)err;
    for (size_t at = 0, grapheme; at < size; at += grapheme) {
        size_t length;
        grapheme = charsmap_grapheme(text + at, size - at);
        const char *whole = grapheme < 6 ? charsmap_find(map, text + at, grapheme, 0, &length) : NULL;
        if (whole) {
            pco_write_text(out, whole);
            continue;
        }
        for (size_t i = 0, character; i < grapheme; i += character) {
            character = pco_utf8_decode(text + at + i, grapheme - i, NULL);
            charsmap_put(map, text + at + i, character, out);
        }
    }
    return PCO_OK;
}

const char *text_charsmap_longest(const void *charsmap, const char *text, size_t size, size_t *length)
{
    return charsmap_find(charsmap, text, size, 1, length);
}

void text_charsmap_bytes(const void *charsmap, pco_writer *out)
{
    const text_charsmap *map = charsmap;
    const uint32_t trie = 4 * map->units;
    pco_write(out, &trie, sizeof trie);
    pco_write(out, map->unit, trie + map->bytes);
}
