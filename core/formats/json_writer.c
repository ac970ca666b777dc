/* The streaming writer of json.h. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "formats/json.h"

static void json_newline(const pco_json_writer *writer)
{
    if (writer->indent) pco_print(writer->out, "\n%*s", (int)writer->depth * writer->indent, "");
}

static void json_separate(pco_json_writer *writer)
{
    if (writer->after_key) {
        writer->after_key = 0;
        return;
    }
    if (writer->depth == 0) return;
    uint64_t bit = UINT64_C(1) << (writer->depth - 1);
    if (writer->filled & bit) pco_write_text(writer->out, writer->indent ? "," : ", ");
    writer->filled |= bit;
    json_newline(writer);
}

static void json_begin(pco_json_writer *writer, char bracket)
{
    json_separate(writer);
    pco_write_char(writer->out, bracket);
    if (writer->depth < 64) writer->depth++;
    writer->filled &= ~(UINT64_C(1) << (writer->depth - 1));
}

static void json_end(pco_json_writer *writer, char bracket)
{
    if (writer->depth == 0) return;
    int filled = (writer->filled >> (writer->depth - 1) & 1) != 0;
    writer->depth--;
    if (filled) json_newline(writer);
    pco_write_char(writer->out, bracket);
    if (writer->depth == 0 && writer->indent) pco_write_char(writer->out, '\n');
}

void pco_json_begin_object(pco_json_writer *writer) { json_begin(writer, '{'); }
void pco_json_end_object(pco_json_writer *writer) { json_end(writer, '}'); }
void pco_json_begin_array(pco_json_writer *writer) { json_begin(writer, '['); }
void pco_json_end_array(pco_json_writer *writer) { json_end(writer, ']'); }

static void json_quote(pco_writer *out, const char *text, size_t size)
{
    pco_write_char(out, '"');
    for (size_t at = 0; at < size;) {
        uint32_t codepoint;
        size_t length = pco_utf8_decode(text + at, size - at, &codepoint);
        unsigned char byte = (unsigned char)text[at];
        if (length == 0) {
            pco_write_text(out, "\xEF\xBF\xBD");
            at += pco_utf8_malformed(text + at, size - at);
            continue;
        }
        if (byte == '"' || byte == '\\')
            pco_print(out, "\\%c", byte);
        else if (byte == '\n')
            pco_write_text(out, "\\n");
        else if (byte == '\r')
            pco_write_text(out, "\\r");
        else if (byte == '\t')
            pco_write_text(out, "\\t");
        else if (!pco_printable_plain(codepoint) && codepoint > 0xFFFF)
            pco_print(out, "\\u%04x\\u%04x", 0xD7C0 + (codepoint >> 10), 0xDC00 | (codepoint & 0x3FF));
        else if (!pco_printable_plain(codepoint))
            pco_print(out, "\\u%04x", codepoint);
        else
            pco_write(out, text + at, length);
        at += length;
    }
    pco_write_char(out, '"');
}

void pco_json_key(pco_json_writer *writer, const char *key)
{
    json_separate(writer);
    json_quote(writer->out, key, strlen(key));
    pco_write_text(writer->out, ": ");
    writer->after_key = 1;
}

void pco_json_write_bytes(pco_json_writer *writer, const char *text, size_t size)
{
    json_separate(writer);
    json_quote(writer->out, text, size);
}

void pco_json_write_string(pco_json_writer *writer, const char *text)
{
    pco_json_write_bytes(writer, text, strlen(text));
}

void pco_json_write_int(pco_json_writer *writer, int64_t value)
{
    json_separate(writer);
    pco_print(writer->out, "%" PRId64, value);
}

void pco_json_write_uint(pco_json_writer *writer, uint64_t value)
{
    json_separate(writer);
    pco_print(writer->out, "%" PRIu64, value);
}

void pco_json_write_number(pco_json_writer *writer, double value)
{
    static const int digits[] = {6, 9, 15, 16, 17};
    char text[40] = "null";
    json_separate(writer);
    for (size_t i = 0; i < sizeof digits / sizeof *digits && isfinite(value); i++) {
        snprintf(text, sizeof text, "%.*g", digits[i], value);
        if (strtod(text, NULL) == value) break;
    }
    pco_write_text(writer->out, pco_number_plain(text));
}

void pco_json_write_bool(pco_json_writer *writer, int value)
{
    json_separate(writer);
    pco_write_text(writer->out, value ? "true" : "false");
}

void pco_json_write_null(pco_json_writer *writer)
{
    json_separate(writer);
    pco_write_text(writer->out, "null");
}
