/* From the text of a template to tokens. */
#include "base/number.h"
#include "text/template_parts.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#include "base/utf8.h"

typedef struct tpl_lexer {
    const char *text; /* newlines are \n; without the one at the end */
    size_t size, at;
    uint32_t line;
    int line_starts; /* what was read last ended with a newline */
    const char *label;
    pco_arena *arena, *tokens;
    tpl_token *first, *last;
    pco_error *err;
} tpl_lexer;

static pco_status lex_error(const tpl_lexer *lexer, pco_status status, const char *what)
{
    return pco_fail(lexer->err, status, "%s: chat template, line %u: %s", lexer->label, lexer->line, what);
}

static pco_status lex_add(tpl_lexer *lexer, tpl_token token)
{
    token.line = lexer->line;
    tpl_token *added = pco_arena_copy(lexer->tokens, &token, sizeof token);
    if (!added) return pco_fail(lexer->err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a template");
    added->next = added;
    if (lexer->last)
        lexer->last->next = added;
    else
        lexer->first = added;
    lexer->last = added;
    return PCO_OK;
}

/* Moves on, counting lines. */
static void lex_skip(tpl_lexer *lexer, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) lexer->line += lexer->text[lexer->at + i] == '\n';
    lexer->at += bytes;
    if (bytes) lexer->line_starts = lexer->text[lexer->at - 1] == '\n';
}

static int lex_is(const tpl_lexer *lexer, const char *word)
{
    const size_t length = strlen(word);
    return lexer->size - lexer->at >= length && memcmp(lexer->text + lexer->at, word, length) == 0;
}

/* Bytes of blanks from `at` on. */
static size_t lex_blanks(const tpl_lexer *lexer, size_t at)
{
    const size_t begin = at;
    const tpl_text text = {lexer->text, lexer->size};
    while (at < lexer->size) {
        uint32_t code;
        const size_t step = tpl_character(text, at, &code);
        if (!tpl_is_blank(code)) break;
        at += step;
    }
    return at - begin;
}

/* ---- strings and numbers ---- */

/* `digits` of base 8 or 16 from text[*at] on, at most; -1 where there are fewer than `least`. */
static int64_t lex_digits(const tpl_lexer *lexer, size_t *at, size_t end, int base, int least, int most)
{
    int64_t code = 0;
    int count = 0;
    for (; count < most && *at < end; count++, ++*at) {
        const char c = lexer->text[*at];
        const int digit = c >= '0' && c <= '9'              ? c - '0'
                          : isxdigit((unsigned char)c) != 0 ? tolower((unsigned char)c) - 'a' + 10
                                                            : 99;
        if (digit >= base) break;
        code = code * base + digit;
    }
    return count < least ? -1 : code;
}

/* One escape at text[*at], behind the backslash, as in Python's strings: into out, which it leaves longer by *length.
 */
static pco_status lex_escape(tpl_lexer *lexer, size_t *at, size_t end, char *out, size_t *length)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    const char c = lexer->text[*at];
    const char *simple = c ? strchr(from, c) : NULL;
    int64_t code = 0;
    ++*at;
    *length = 1;
    if (simple) {
        *out = to[simple - from];
        return PCO_OK;
    }
    if (c == '\n') {
        *length = 0;
        return PCO_OK;
    }
    if (c >= '0' && c <= '7') {
        --*at;
        code = lex_digits(lexer, at, end, 8, 1, 3);
    } else if (c == 'x' || c == 'u' || c == 'U') {
        const int count = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        code = lex_digits(lexer, at, end, 16, count, count);
    } else if (c == 'N' || (unsigned char)c >= 0x80) {
        return lex_error(lexer, PCO_ERROR_UNSUPPORTED, "an escape in a string is not supported");
    } else {
        out[0] = '\\';
        out[1] = c;
        *length = 2;
        return PCO_OK;
    }
    if (code < 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
        return lex_error(lexer, PCO_ERROR_FORMAT, "an escape in a string is no character");
    *length = pco_utf8_encode((uint32_t)code, out);
    return PCO_OK;
}

static pco_status lex_string(tpl_lexer *lexer)
{
    const char quote = lexer->text[lexer->at];
    size_t end = lexer->at + 1, used = 0;
    while (end < lexer->size && lexer->text[end] != quote) end += lexer->text[end] == '\\' ? 2 : 1;
    if (end >= lexer->size) return lex_error(lexer, PCO_ERROR_FORMAT, "a string has no end");
    /* an escape is not longer than what it is written as, but that of an unknown one, which stays as it is */
    char *made = pco_arena_allocate(lexer->arena, end - lexer->at + 4);
    if (!made) return pco_fail(lexer->err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a template");
    for (size_t at = lexer->at + 1; at < end;) {
        size_t length = 1;
        if (lexer->text[at] != '\\') {
            made[used] = lexer->text[at++];
        } else {
            at++;
            pco_status status = lex_escape(lexer, &at, end, made + used, &length);
            if (status) return status;
        }
        used += length;
    }
    pco_status status = lex_add(lexer, (tpl_token){.kind = TPL_TOKEN_STRING, .text = {made, used}});
    lex_skip(lexer, end + 1 - lexer->at);
    return status;
}

static size_t lex_decimal(const tpl_lexer *lexer, size_t at)
{
    const size_t begin = at;
    while (at < lexer->size && isdigit((unsigned char)lexer->text[at])) at++;
    return at - begin;
}

/* Decimal integers, and floats with a fraction or an exponent. */
static pco_status lex_number(tpl_lexer *lexer)
{
    char digits[64], *end;
    const char *text = lexer->text;
    const size_t whole = lex_decimal(lexer, lexer->at);
    size_t at = lexer->at + whole, more;
    int is_float = 0;
    if (at + 1 < lexer->size && text[at] == '.' && (more = lex_decimal(lexer, at + 1)) > 0) {
        is_float = 1;
        at += 1 + more;
    }
    if (at + 1 < lexer->size && (text[at] == 'e' || text[at] == 'E')) {
        const size_t sign = text[at + 1] == '+' || text[at + 1] == '-';
        if ((more = lex_decimal(lexer, at + 1 + sign)) > 0) {
            is_float = 1;
            at += 1 + sign + more;
        }
    }
    const size_t length = at - lexer->at;
    if (at < lexer->size && (isalnum((unsigned char)text[at]) || text[at] == '_' || (unsigned char)text[at] >= 0x80))
        return lex_error(lexer, PCO_ERROR_UNSUPPORTED, "a number of this form is not supported");
    if (length >= sizeof digits || (!is_float && whole > 1 && text[lexer->at] == '0'))
        return lex_error(lexer, PCO_ERROR_UNSUPPORTED, "a number of this form is not supported");
    memcpy(digits, text + lexer->at, length);
    digits[length] = 0;
    tpl_token token = {.kind = is_float ? TPL_TOKEN_FLOAT : TPL_TOKEN_INTEGER, .text = {text + lexer->at, length}};
    errno = 0;
    if (is_float)
        token.number = pco_number_read(digits, &end);
    else
        token.integer = strtoll(digits, &end, 10);
    if (errno == ERANGE) return lex_error(lexer, PCO_ERROR_UNSUPPORTED, "a number is too large");
    pco_status status = lex_add(lexer, token);
    lex_skip(lexer, length);
    return status;
}

/* ---- tags ---- */

/* Is it a name's character? Letters beyond ASCII are none here. */
static int lex_in_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

static pco_status lex_one(tpl_lexer *lexer, char *brackets, size_t *open)
{
    enum { MOST = 2 * TPL_NESTING };
    static const char *const operators[] = {"==", "!=", ">=", "<=", "//", "**", "+", "-", "/", "*", "%", "~", "[",
                                            "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    const char c = lexer->text[lexer->at];
    if (c == '"' || c == '\'') return lex_string(lexer);
    if (isdigit((unsigned char)c)) return lex_number(lexer);
    size_t length = 0;
    while (lexer->at + length < lexer->size && lex_in_name(lexer->text[lexer->at + length])) length++;
    tpl_token token = {.kind = TPL_TOKEN_NAME, .text = {lexer->text + lexer->at, length}};
    for (size_t i = 0; !length && i < sizeof operators / sizeof *operators; i++)
        if (lex_is(lexer, operators[i])) {
            length = strlen(operators[i]);
            token = (tpl_token){.kind = TPL_TOKEN_OPERATOR, .text = {operators[i], length}};
        }
    if (!length) return lex_error(lexer, PCO_ERROR_FORMAT, "a character has no meaning here");
    if (length == 1 && strchr("([{", c)) {
        if (*open == MOST) return lex_error(lexer, PCO_ERROR_UNSUPPORTED, "brackets are nested too deeply");
        brackets[(*open)++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (length == 1 && strchr(")]}", c) && token.kind == TPL_TOKEN_OPERATOR) {
        if (!*open || brackets[*open - 1] != c) return lex_error(lexer, PCO_ERROR_FORMAT, "a bracket is not paired");
        --*open;
    }
    pco_status status = lex_add(lexer, token);
    lex_skip(lexer, length);
    return status;
}

/* Skips what ends a tag, and the blanks that it takes with it; 0 where no such end is. `trim`: also one newline. */
static int lex_end(tpl_lexer *lexer, const char *end, int trim)
{
    const char *at = lexer->text + lexer->at;
    const size_t left = lexer->size - lexer->at, signs = left && (*at == '-' || (*at == '+' && trim));
    if (left < signs + 2 || memcmp(at + signs, end, 2) != 0) return 0;
    size_t length = signs + 2;
    if (signs && *at == '-')
        length += lex_blanks(lexer, lexer->at + length);
    else if (!signs && trim && lexer->at + length < lexer->size && lexer->text[lexer->at + length] == '\n')
        length++;
    lex_skip(lexer, length);
    return 1;
}

/* The inside of {{ }} and {% %}. */
static pco_status lex_inside(tpl_lexer *lexer, int block)
{
    char brackets[2 * TPL_NESTING];
    size_t open = 0;
    const tpl_token end = {.kind = block ? TPL_TOKEN_BLOCK_END : TPL_TOKEN_VARIABLE_END};
    pco_status status = lex_add(lexer, (tpl_token){.kind = block ? TPL_TOKEN_BLOCK : TPL_TOKEN_VARIABLE});
    while (!status) {
        if (!open) {
            const uint32_t line = lexer->line;
            if (lex_end(lexer, block ? "%}" : "}}", block)) {
                status = lex_add(lexer, end);
                if (!status) lexer->last->line = line;
                break;
            }
        }
        const size_t blanks = lex_blanks(lexer, lexer->at);
        lex_skip(lexer, blanks);
        if (lexer->at >= lexer->size) return lex_error(lexer, PCO_ERROR_FORMAT, "a tag has no end");
        if (!blanks) status = lex_one(lexer, brackets, &open);
    }
    return status;
}

static pco_status lex_comment(tpl_lexer *lexer)
{
    while (lexer->at < lexer->size) {
        if (lex_end(lexer, "#}", 1)) return PCO_OK;
        lex_skip(lexer, 1);
    }
    return lex_error(lexer, PCO_ERROR_FORMAT, "a comment has no end");
}

/* ---- data ---- */

/* Data of `size` bytes in front of a tag, with the blanks that the tag leaves it. `strip`: '-', '+' or 0. */
static pco_status lex_data(tpl_lexer *lexer, size_t size, char strip, int is_variable)
{
    tpl_text data = {lexer->text + lexer->at, size};
    if (strip == '-') {
        data = tpl_strip(data, (tpl_text){NULL, 0}, 2);
    } else if (strip != '+' && !is_variable) {
        size_t start = size;
        while (start && data.data[start - 1] != '\n') start--;
        if ((start || lexer->line_starts) && start < size && lex_blanks(lexer, lexer->at + start) >= size - start)
            data.size = start;
    }
    pco_status status = data.size ? lex_add(lexer, (tpl_token){.kind = TPL_TOKEN_DATA, .text = data}) : PCO_OK;
    lex_skip(lexer, size);
    return status;
}

static int lex_sign(const tpl_lexer *lexer, size_t at)
{
    const char c = at < lexer->size ? lexer->text[at] : 0;
    return c == '-' || c == '+' ? c : 0;
}

/* Is this {% word %}? Bytes up to the blanks behind the word, or 0. */
static size_t lex_tag(const tpl_lexer *lexer, size_t at, const char *word)
{
    const size_t begin = at, length = strlen(word);
    at += 2;
    at += lex_sign(lexer, at) != 0;
    at += lex_blanks(lexer, at);
    if (lexer->size - at < length || memcmp(lexer->text + at, word, length) != 0) return 0;
    at += length;
    return at + lex_blanks(lexer, at) - begin;
}

/* {% raw %} at `at`: its data, up to and with {% endraw %}. 0 in *is where it is something else. */
static pco_status lex_raw(tpl_lexer *lexer, int *is)
{
    const size_t kept = lexer->at, tag = lex_tag(lexer, lexer->at, "raw");
    const uint32_t line = lexer->line;
    const int starts = lexer->line_starts;
    *is = 0;
    if (!tag) return PCO_OK;
    lex_skip(lexer, tag);
    if (!lex_end(lexer, "%}", 0)) { /* takes no newline with it */
        lexer->at = kept;
        lexer->line = line;
        lexer->line_starts = starts;
        return PCO_OK;
    }
    *is = 1;
    for (size_t at = lexer->at; at + 2 < lexer->size; at++) {
        if (memcmp(lexer->text + at, "{%", 2) != 0) continue;
        const size_t end = lex_tag(lexer, at, "endraw");
        tpl_lexer ahead = *lexer;
        ahead.at = at + end;
        if (!end || !lex_end(&ahead, "%}", 1)) continue;
        pco_status status = lex_data(lexer, at - lexer->at, (char)lex_sign(lexer, at + 2), 0);
        lex_skip(lexer, ahead.at - lexer->at);
        return status;
    }
    return lex_error(lexer, PCO_ERROR_FORMAT, "{% raw %} has no {% endraw %}");
}

static pco_status lex_all(tpl_lexer *lexer)
{
    pco_status status = PCO_OK;
    while (!status && lexer->at < lexer->size) {
        size_t at = lexer->at;
        while (at < lexer->size &&
               !(lexer->text[at] == '{' && at + 1 < lexer->size &&
                 (lexer->text[at + 1] == '{' || lexer->text[at + 1] == '%' || lexer->text[at + 1] == '#')))
            at++;
        if (at == lexer->size) {
            const tpl_text rest = {lexer->text + lexer->at, at - lexer->at};
            status = lex_add(lexer, (tpl_token){.kind = TPL_TOKEN_DATA, .text = rest});
            lex_skip(lexer, rest.size);
            break;
        }
        const char kind = lexer->text[at + 1];
        const int sign = lex_sign(lexer, at + 2);
        int raw = 0;
        status = lex_data(lexer, at - lexer->at, (char)sign, kind == '{');
        if (!status && kind == '%') status = lex_raw(lexer, &raw);
        if (status || raw) continue;
        lex_skip(lexer, 2 + (sign != 0));
        status = kind == '#' ? lex_comment(lexer) : lex_inside(lexer, kind == '%');
    }
    return status ? status : lex_add(lexer, (tpl_token){.kind = TPL_TOKEN_END});
}

/* \r\n and \r become \n, and one newline at the end is dropped. */
static size_t lex_newlines(const char *text, size_t size, char *out)
{
    size_t used = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\r' && i + 1 < size && text[i + 1] == '\n') continue;
        out[used++] = text[i] == '\r' ? '\n' : text[i];
    }
    return used && out[used - 1] == '\n' ? used - 1 : used;
}

pco_status tpl_lex(const char *text, size_t size, const char *label, pco_arena *arena, pco_arena *tokens,
                   const tpl_token **first, pco_error *err)
{
    char *copy = pco_arena_allocate(arena, size + 1);
    if (!copy) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a template");
    tpl_lexer lexer = {.text = copy,
                       .size = lex_newlines(text, size, copy),
                       .line = 1,
                       .line_starts = 1,
                       .label = label,
                       .arena = arena,
                       .tokens = tokens,
                       .err = err};
    const pco_status status = lex_all(&lexer);
    *first = lexer.first;
    return status;
}
