/* Text of others (names in files, messages of drivers and plugins) for a terminal, a log or a line of an error: what
 * would move the cursor, colour, begin a new line or turn the direction of writing is written as an escape. All
 * functions are pure and may be called from any thread. */
#ifndef PCO_BASE_PRINTABLE_H
#define PCO_BASE_PRINTABLE_H

#include <stddef.h>
#include <stdint.h>

enum {
    PCO_PRINTABLE_MOST = 4,    /* bytes that one byte becomes, at most */
    PCO_PRINTABLE_LINE = 2048, /* bytes of a line, at most */
};

/* Is the code point shown as itself? Not control characters (C0, DEL, C1), those of bidirectional text, separators of
 * lines, and what is invisible. */
int pco_printable_plain(uint32_t codepoint);

/* The first character of text[size], size > 0, into out (PCO_PRINTABLE_MOST times as many bytes as it has, no NUL):
 * itself, or an escape such as \n, \x1b (a byte, also one that is not UTF-8) or \u202e. Returns how many bytes that is;
 * *taken: how many of the text. */
size_t pco_printable_next(const char *text, size_t size, char *out, size_t *taken);

/* All of text[bytes], with a NUL, cut behind a character where `size` is too small. Returns out. */
char *pco_printable(const char *text, size_t bytes, char *out, size_t size);

/* The same in place, for a line in an array of `size` bytes, at most PCO_PRINTABLE_LINE; one without a NUL gets one. */
void pco_printable_line(char *text, size_t size);

#endif
