/* Builds GGUF files in memory, for tests: call in the order of the file. Good and bad files alike; sizes are
 * not checked against each other. */
#ifndef PCO_TESTS_GGUF_BUILDER_H
#define PCO_TESTS_GGUF_BUILDER_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "formats/gguf.h"

typedef struct built {
    unsigned char data[65536];
    size_t size;
} built;

static inline void put(built *out, const void *data, size_t size)
{
    if (size > sizeof out->data - out->size) abort();
    if (size) memcpy(out->data + out->size, data, size);
    out->size += size;
}

static inline void put_u32(built *out, uint32_t value) { put(out, &value, 4); }
static inline void put_u64(built *out, uint64_t value) { put(out, &value, 8); }
static inline void put_f32(built *out, float value) { put(out, &value, 4); }

static inline void put_text(built *out, const char *text)
{
    put_u64(out, strlen(text));
    put(out, text, strlen(text));
}

static inline void put_header(built *out, uint32_t version, uint64_t tensors, uint64_t keys)
{
    out->size = 0;
    put(out, "GGUF", 4);
    put_u32(out, version);
    put_u64(out, tensors);
    put_u64(out, keys);
}

static inline void put_key(built *out, const char *key, uint32_t type)
{
    put_text(out, key);
    put_u32(out, type);
}

static inline void put_key_u32(built *out, const char *key, uint32_t value)
{
    put_key(out, key, PCO_GGUF_U32);
    put_u32(out, value);
}

static inline void put_key_bool(built *out, const char *key, int value)
{
    unsigned char byte = value != 0;
    put_key(out, key, PCO_GGUF_BOOL);
    put(out, &byte, 1);
}

static inline void put_key_text(built *out, const char *key, const char *text)
{
    put_key(out, key, PCO_GGUF_STRING);
    put_text(out, text);
}

static inline void put_key_array(built *out, const char *key, uint32_t type, uint64_t count)
{
    put_key(out, key, PCO_GGUF_ARRAY);
    put_u32(out, type);
    put_u64(out, count);
}

static inline void put_key_texts(built *out, const char *key, const char *const *texts, uint32_t count)
{
    put_key_array(out, key, PCO_GGUF_STRING, count);
    for (uint32_t i = 0; i < count; i++) put_text(out, texts[i]);
}

/* Dimensions in the order of the file: innermost first. */
static inline void put_tensor(built *out, const char *name, uint32_t rank, const uint64_t *dimensions, uint32_t type,
                              uint64_t offset)
{
    put_text(out, name);
    put_u32(out, rank);
    put(out, dimensions, rank * sizeof *dimensions);
    put_u32(out, type);
    put_u64(out, offset);
}

static inline void put_padding(built *out, size_t alignment)
{
    while (out->size % alignment) put(out, "", 1);
}

#endif
