/* The streaming writer of json.h. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "formats/json.h"

static void json_newline(const pco_json_writer *writer)
{
    if (writer->indent) fprintf(writer->file, "\n%*s", (int)writer->depth * writer->indent, "");
}

static void json_separate(pco_json_writer *writer)
{
    if (writer->after_key) {
        writer->after_key = 0;
        return;
    }
    if (writer->depth == 0) return;
    uint64_t bit = UINT64_C(1) << (writer->depth - 1);
    if (writer->filled & bit) fputs(writer->indent ? "," : ", ", writer->file);
    writer->filled |= bit;
    json_newline(writer);
}

static void json_begin(pco_json_writer *writer, char bracket)
{
    json_separate(writer);
    fputc(bracket, writer->file);
    if (writer->depth < 64) writer->depth++;
    writer->filled &= ~(UINT64_C(1) << (writer->depth - 1));
}

static void json_end(pco_json_writer *writer, char bracket)
{
    if (writer->depth == 0) return;
    int filled = (writer->filled >> (writer->depth - 1) & 1) != 0;
    writer->depth--;
    if (filled) json_newline(writer);
    fputc(bracket, writer->file);
    if (writer->depth == 0 && writer->indent) fputc('\n', writer->file);
}

void pco_json_begin_object(pco_json_writer *writer)
{
    json_begin(writer, '{');
}
void pco_json_end_object(pco_json_writer *writer)
{
    json_end(writer, '}');
}
void pco_json_begin_array(pco_json_writer *writer)
{
    json_begin(writer, '[');
}
void pco_json_end_array(pco_json_writer *writer)
{
    json_end(writer, ']');
}

static void json_quote(FILE *file, const char *text, size_t size)
{
    fputc('"', file);
    for (size_t at = 0; at < size;) {
        size_t length = pco_utf8_decode(text + at, size - at, NULL);
        unsigned char byte = (unsigned char)text[at];
        if (length == 0) {
            fputs("\xEF\xBF\xBD", file);
            at++;
            continue;
        }
        if (byte == '"' || byte == '\\')
            fprintf(file, "\\%c", byte);
        else if (byte == '\n')
            fputs("\\n", file);
        else if (byte == '\r')
            fputs("\\r", file);
        else if (byte == '\t')
            fputs("\\t", file);
        else if (byte < 0x20 || byte == 0x7F)
            fprintf(file, "\\u%04x", byte);
        else
            fwrite(text + at, 1, length, file);
        at += length;
    }
    fputc('"', file);
}

void pco_json_key(pco_json_writer *writer, const char *key)
{
    json_separate(writer);
    json_quote(writer->file, key, strlen(key));
    fputs(": ", writer->file);
    writer->after_key = 1;
}

void pco_json_write_bytes(pco_json_writer *writer, const char *text, size_t size)
{
    json_separate(writer);
    json_quote(writer->file, text, size);
}

void pco_json_write_string(pco_json_writer *writer, const char *text)
{
    pco_json_write_bytes(writer, text, strlen(text));
}

void pco_json_write_int(pco_json_writer *writer, int64_t value)
{
    json_separate(writer);
    fprintf(writer->file, "%" PRId64, value);
}

void pco_json_write_uint(pco_json_writer *writer, uint64_t value)
{
    json_separate(writer);
    fprintf(writer->file, "%" PRIu64, value);
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
    char *comma = strchr(text, ','); /* a locale of the host program */
    if (comma) *comma = '.';
    fputs(text, writer->file);
}

void pco_json_write_bool(pco_json_writer *writer, int value)
{
    json_separate(writer);
    fputs(value ? "true" : "false", writer->file);
}

void pco_json_write_null(pco_json_writer *writer)
{
    json_separate(writer);
    fputs("null", writer->file);
}
