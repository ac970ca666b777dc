/* UTF-8 as RFC 3629 defines it: no overlong forms, no surrogates, nothing above U+10FFFF. All functions are
 * pure and may be called from any thread. */
#ifndef PCO_BASE_UTF8_H
#define PCO_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Bytes (1 to 4) of the well-formed sequence at the start of text[size], or 0 when it is malformed, cut off
 * or size is 0. `codepoint` may be NULL. */
size_t pco_utf8_decode(const char *text, size_t size, uint32_t *codepoint);

/* Where text[size], of at least a byte, begins with no well-formed sequence: bytes (1 to 3) that one U+FFFD stands for,
 * which are as many as such a sequence could begin with (The Unicode Standard, 3.9, U+FFFD substitution of maximal
 * subparts; so do Python's errors="replace" and Rust's lossy conversions). */
size_t pco_utf8_malformed(const char *text, size_t size);

/* Writes `codepoint` (a Unicode scalar value) to `out`; returns its length in bytes, 1 to 4. No NUL. */
size_t pco_utf8_encode(uint32_t codepoint, char out[4]);

/* Offset of the first byte that is not part of a well-formed sequence; `size` when all of it is UTF-8. */
size_t pco_utf8_check(const char *text, size_t size);

/* Does the text end so? The second form takes ASCII letters of either case as the same, for the names of files. */
int pco_text_ends(const char *text, const char *end);
int pco_text_ends_like(const char *text, const char *end);

#endif
