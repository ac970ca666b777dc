/* Steps through a file's bytes, never past their end. */
#include "formats/gguf_parse.h"

#include <string.h>

int gguf_take(gguf_reader *reader, void *out, size_t bytes)
{
    if (bytes > reader->size - reader->at) return 0;
    memcpy(out, reader->data + reader->at, bytes);
    reader->at += bytes;
    return 1;
}

int gguf_take_string(gguf_reader *reader, pco_gguf_string *string)
{
    uint64_t length;
    if (!gguf_take(reader, &length, sizeof length) || length > reader->size - reader->at) return 0;
    string->data = (const char *)reader->data + reader->at;
    string->size = (size_t)length;
    reader->at += (size_t)length;
    return 1;
}
