#include "base/writer.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"

enum { WRITER_LEAST = 256 };

/* Makes room for `size` bytes and a NUL. */
static int writer_reserve(pco_writer *out, size_t size)
{
    if (out->status) return 0;
    if (size < out->capacity - out->size) return 1; /* capacity 0: neither */
    size_t capacity = out->capacity < WRITER_LEAST ? WRITER_LEAST : 2 * out->capacity;
    if (size < PTRDIFF_MAX / 2 && out->size < PTRDIFF_MAX / 2) {
        if (capacity <= out->size + size) capacity = out->size + size + 1;
        char *grown = realloc(out->data, capacity);
        if (grown) {
            out->data = grown;
            out->capacity = capacity;
            return 1;
        }
    }
    out->status = PCO_ERROR_OUT_OF_HOST_MEMORY;
    return 0;
}

void pco_write(pco_writer *out, const void *data, size_t size)
{
    if (!writer_reserve(out, size)) return;
    if (size) memcpy(out->data + out->size, data, size);
    out->size += size;
    out->data[out->size] = 0;
}

void pco_write_char(pco_writer *out, char c) { pco_write(out, &c, 1); }

void pco_write_text(pco_writer *out, const char *text) { pco_write(out, text, strlen(text)); }

void pco_write_xml(pco_writer *out, const char *text)
{
    for (size_t at = 0, size = strlen(text); at < size;) {
        uint32_t codepoint;
        const size_t length = pco_utf8_decode(text + at, size - at, &codepoint);
        if (length == 0 || (codepoint < 0x20 && !strchr("\t\n\r", (int)codepoint)) || codepoint == 0xFFFE ||
            codepoint == 0xFFFF)
            pco_write_text(out, "\xEF\xBF\xBD");
        else if (codepoint < 0x80 && strchr("<>&\"'\t\n\r", (int)codepoint))
            pco_print(out, "&#%" PRIu32 ";", codepoint);
        else
            pco_write(out, text + at, length);
        at += length ? length : pco_utf8_malformed(text + at, size - at);
    }
}

void pco_print(pco_writer *out, const char *format, ...)
{
    if (!writer_reserve(out, 0)) return;
    for (;;) {
        const size_t room = out->capacity - out->size;
        va_list arguments;
        va_start(arguments, format);
        const int length = vsnprintf(out->data + out->size, room, format, arguments);
        va_end(arguments);
        if (length >= 0 && (size_t)length < room) {
            out->size += (size_t)length;
            return;
        }
        out->data[out->size] = 0;
        if (length < 0) out->status = PCO_ERROR_OUT_OF_HOST_MEMORY; /* the C library had none for its own use */
        if (!writer_reserve(out, (size_t)length)) return;
    }
}

pco_status pco_writer_check(const pco_writer *out, const char *what, pco_error *err)
{
    return out->status ? pco_fail(err, out->status, "%s: out of host memory", what) : PCO_OK;
}

pco_status pco_writer_save(const pco_writer *out, const char *path, pco_error *err)
{
    pco_status status = pco_writer_check(out, path, err);
    return status ? status : pco_file_write(path, out->data, out->size, err);
}

pco_status pco_writer_flush(pco_writer *out, int fd, const char *label, pco_error *err)
{
    pco_status status = pco_writer_check(out, label, err);
    if (!status) status = pco_file_send(fd, out->data, out->size, label, err);
    out->size = 0;
    out->status = PCO_OK;
    return status;
}

void pco_writer_release(pco_writer *out)
{
    free(out->data);
    *out = (pco_writer){0};
}
