/* The patterns of a tokenizer.json as expressions of pcre2. They are written for Oniguruma (with Ruby's syntax), where
 * classes nest, \s is Unicode's white space, \w has marks (and of numbers that are no digits those of Latin-1), and \h
 * is a hexadecimal digit. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "text/tokenizer_kinds.h"

typedef struct onig_reader {
    const char *at, *label;
    int depth; /* of classes */
    pco_writer *out;
    pco_error *err;
} onig_reader;

static pco_status onig_refuse(const onig_reader *reader, const char *what)
{
    return pco_fail(reader->err, PCO_ERROR_UNSUPPORTED, "%s: a pattern with %s is not supported: '%.60s'",
                    reader->label, what, reader->at);
}

/* What a letter behind a backslash stands for, inside a class; NULL: the same as in pcre2. */
static const char *onig_class(char letter)
{
    switch (letter) {
    case 's': return "\\p{White_Space}";
    case 'S': return "\\P{White_Space}";
    case 'h': return "0-9a-fA-F";
    case 'w': return "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\xB2\\xB3\\xB9\\xBC-\\xBE";
    default: return NULL;
    }
}

static pco_status onig_escape(onig_reader *reader)
{
    const char letter = reader->at[1], *class = onig_class(letter);
    if (!letter || (letter == 'W' && reader->depth) || letter == 'H')
        return onig_refuse(reader, letter ? "\\H, or \\W in a class" : "a backslash at its end");
    if (letter == 'W') {
        pco_print(reader->out, "[^%s]", onig_class('w'));
    } else if (!class) {
        pco_write(reader->out, reader->at, 2);
    } else {
        pco_print(reader->out, reader->depth ? "%s" : "[%s]", class);
    }
    reader->at += 2;
    return PCO_OK;
}

/* At a '['. A class in a class is a part of it. */
static pco_status onig_open(onig_reader *reader)
{
    const char *end = reader->at[1] == ':' ? strstr(reader->at, ":]") : NULL;
    if (reader->depth && end) { /* [:alpha:] */
        pco_write(reader->out, reader->at, (size_t)(end - reader->at) + 2);
        reader->at = end + 2;
        return PCO_OK;
    }
    if (reader->depth && reader->at[1] == '^') return onig_refuse(reader, "a negated class in a class");
    if (!reader->depth) pco_write_char(reader->out, '[');
    reader->depth++;
    reader->at++;
    if (*reader->at == '^') pco_write_char(reader->out, *reader->at++);
    if (*reader->at == ']') { /* the first in a class is itself */
        pco_write_text(reader->out, "\\]");
        reader->at++;
    }
    return PCO_OK;
}

static pco_status onig_translate(onig_reader *reader)
{
    pco_status status = PCO_OK;
    pco_write_text(reader->out, "(?m)"); /* ^ and $ are ends of lines */
    while (*reader->at && !status) {
        if (*reader->at == '\\') {
            status = onig_escape(reader);
        } else if (*reader->at == '[') {
            status = onig_open(reader);
        } else if (reader->depth && *reader->at == ']') {
            if (--reader->depth == 0) pco_write_char(reader->out, ']');
            reader->at++;
        } else if (reader->depth && strncmp(reader->at, "&&", 2) == 0) {
            status = onig_refuse(reader, "an intersection of classes");
        } else {
            pco_write_char(reader->out, *reader->at++);
        }
    }
    return status;
}

pco_status text_json_pattern(const cJSON *item, const char *label, char **expression, pco_error *err)
{
    const cJSON *pattern = cJSON_GetObjectItemCaseSensitive(item, "pattern");
    const char *text, *regex;
    pco_writer out = {0};
    *expression = NULL;
    pco_status status = pco_json_string_or(pattern, label, "String", NULL, &text, err);
    if (!status) status = pco_json_string_or(pattern, label, "Regex", NULL, &regex, err);
    if (status) return status;
    if (!text && !regex) return pco_fail(err, PCO_ERROR_FORMAT, "%s: 'pattern' is neither a String nor a Regex", label);
    if (regex && !text) status = onig_translate(&(onig_reader){regex, label, 0, &out, err});
    for (const char *at = text ? text : ""; *at; at++) {
        if (strchr("\\^$.|?*+()[]{}#- ", *at)) pco_write_char(&out, '\\');
        pco_write_char(&out, *at);
    }
    if (!status) status = pco_writer_check(&out, "a pattern", err);
    if (!status && !out.data && !(out.data = strdup(""))) status = text_no_memory(err);
    if (status) pco_writer_release(&out);
    *expression = status ? NULL : out.data;
    return status;
}
