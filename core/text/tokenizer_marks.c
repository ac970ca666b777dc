/* Tokens that are found in text before anything else: the longest at the leftmost place. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer_kinds.h"

pco_status text_marks_add(text_marks *marks, const text_mark *mark, pco_error *err)
{
    if (marks->count == marks->capacity) {
        uint32_t capacity = marks->capacity ? 2 * marks->capacity : 16;
        text_mark *items = realloc(marks->items, capacity * sizeof *items);
        if (!items) return text_no_memory(err);
        marks->items = items;
        marks->capacity = capacity;
    }
    text_mark copy = *mark;
    copy.text = malloc(mark->size + 1);
    if (!copy.text) return text_no_memory(err);
    memcpy(copy.text, mark->text, mark->size);
    copy.text[mark->size] = 0;
    marks->items[marks->count++] = copy;
    return PCO_OK;
}

static int text_by_length(const void *a, const void *b)
{
    const text_mark *first = a, *second = b;
    unsigned char first_byte = (unsigned char)first->text[0], second_byte = (unsigned char)second->text[0];
    if (first_byte != second_byte) return first_byte < second_byte ? -1 : 1;
    if (first->size != second->size) return first->size > second->size ? -1 : 1;
    return first->id < second->id ? -1 : first->id > second->id;
}

void text_marks_sort(text_marks *marks)
{
    if (marks->count) qsort(marks->items, marks->count, sizeof *marks->items, text_by_length);
    memset(marks->first, 0, sizeof marks->first);
    for (uint32_t i = 0; i < marks->count; i++) marks->first[(unsigned char)marks->items[i].text[0] + 1]++;
    for (int byte = 0; byte < 256; byte++) marks->first[byte + 1] += marks->first[byte];
}

void text_marks_release(text_marks *marks)
{
    for (uint32_t i = 0; i < marks->count; i++) free(marks->items[i].text);
    free(marks->items);
}

/* ---- finding ---- */

static const text_mark *text_mark_at(const text_marks *marks, const char *text, size_t size, int control)
{
    unsigned char first = (unsigned char)text[0];
    for (uint32_t i = marks->first[first]; i < marks->first[first + 1]; i++) {
        const text_mark *mark = &marks->items[i];
        if (mark->control && !control) continue;
        if (mark->size <= size && memcmp(mark->text, text, mark->size) == 0) return mark;
    }
    return NULL;
}

const text_mark *text_marks_at(const text_marks *marks, const char *text, size_t size)
{
    return marks->count && size ? text_mark_at(marks, text, size, 1) : NULL;
}

/* The character that ends in front of text[at], and its bytes; 0 where there is none. */
static size_t text_before_at(const char *text, size_t at, uint32_t *codepoint)
{
    size_t length = 1;
    while (length < 4 && length < at && ((unsigned char)text[at - length] & 0xC0) == 0x80) length++;
    return at && pco_utf8_decode(text + at - length, length, codepoint) == length ? length : 0;
}

/* Part of a word, as \w of Unicode has it. */
static int text_is_word(uint32_t codepoint)
{
    switch (utf8proc_category((utf8proc_int32_t)codepoint)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC: return 1;
    default:
        return codepoint == 0x200C || codepoint == 0x200D || (codepoint >= 0x24B6 && codepoint <= 0x24E9) ||
               (codepoint >= 0x1F130 && codepoint <= 0x1F149) || (codepoint >= 0x1F150 && codepoint <= 0x1F169) ||
               (codepoint >= 0x1F170 && codepoint <= 0x1F189); /* letters in circles and squares */
    }
}

static int text_stands_alone(const char *text, size_t size, size_t begin, size_t end)
{
    uint32_t codepoint;
    if (text_before_at(text, begin, &codepoint) && text_is_word(codepoint)) return 0;
    return !pco_utf8_decode(text + end, size - end, &codepoint) || !text_is_word(codepoint);
}

pco_status text_marks_cut(text_run *run, const text_marks *marks, const char *text, size_t size, text_position position,
                          text_encode_fn encode)
{
    size_t begin = 0, at = 0, length;
    uint32_t codepoint;
    pco_status status = PCO_OK;
    while (at < size && marks->count && !status) {
        const text_mark *mark = text_mark_at(marks, text + at, size - at, run->control);
        size_t end = mark ? at + mark->size : at + 1;
        if (!mark || (mark->single_word && !text_stands_alone(text, size, at, end))) {
            at = end;
            continue;
        }
        while (mark->lstrip && at > begin && (length = text_before_at(text, at, &codepoint)) &&
               text_is_blank(codepoint))
            at -= length;
        while (mark->rstrip && (length = pco_utf8_decode(text + end, size - end, &codepoint)) &&
               text_is_blank(codepoint))
            end += length;
        if (at > begin) status = encode(run, text + begin, at - begin, begin ? TEXT_BEHIND_MARK : position);
        if (!status) status = text_push(&run->ids, mark->id, run->err);
        begin = at = end;
    }
    if (!status && size > begin) status = encode(run, text + begin, size - begin, begin ? TEXT_BEHIND_MARK : position);
    return status;
}
