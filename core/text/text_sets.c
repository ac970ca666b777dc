/* Sets of code points that tokenizers cut at or drop. Where Hugging Face's have tables of an older Unicode than ours, a
 * character that came later is an unknown one for them, and so it must be here: those sets are listed
 * (unicode_sets.def). */
#include <utf8proc.h>

#include "text/tokenizer_kinds.h"

typedef struct text_range {
    uint32_t first, last;
} text_range;

#define TEXT_ROW(first, last) {first, last},

static const text_range TEXT_PUNCTUATIONS[] = {
#define TEXT_PUNCTUATION TEXT_ROW
#include "text/unicode_sets.def"
};
static const text_range TEXT_CONTROLS[] = {
#define TEXT_CONTROL TEXT_ROW
#include "text/unicode_sets.def"
};
static const text_range TEXT_NONSPACINGS[] = {
#define TEXT_NONSPACING TEXT_ROW
#include "text/unicode_sets.def"
};
static const text_range TEXT_MARKS[] = {
#define TEXT_MARK TEXT_ROW
#include "text/unicode_sets.def"
};
static const text_range TEXT_INERTS[] = {
#define TEXT_INERT TEXT_ROW
#include "text/unicode_sets.def"
};

/* By halving the sorted ranges. */
static int set_has(const text_range *ranges, size_t count, uint32_t codepoint)
{
    while (count) {
        size_t half = count / 2;
        if (codepoint > ranges[half].last) {
            ranges += half + 1;
            count -= half + 1;
        } else if (codepoint >= ranges[half].first) {
            return 1;
        } else {
            count = half;
        }
    }
    return 0;
}
#define SET_HAS(ranges, codepoint) set_has(ranges, sizeof(ranges) / sizeof *(ranges), codepoint)

int text_is_punctuation(uint32_t c)
{
    if (c < 0x80)
        return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
    return SET_HAS(TEXT_PUNCTUATIONS, c);
}

int text_is_control(uint32_t c)
{
    if (c < 0x7F) return c < ' ' && c != '\t' && c != '\n' && c != '\r';
    return SET_HAS(TEXT_CONTROLS, c);
}

int text_is_nonspacing(uint32_t c) { return SET_HAS(TEXT_NONSPACINGS, c); }
int text_is_mark(uint32_t c) { return SET_HAS(TEXT_MARKS, c); }
int text_is_inert(uint32_t c) { return SET_HAS(TEXT_INERTS, c); }

int text_is_number(uint32_t c)
{
    if (c < 0x80) return c >= '0' && c <= '9';
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}
