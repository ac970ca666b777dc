#include "formats/gguf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "formats/gguf_parse.h"

#define GGUF_KEY_MOST 65535u

/* The smallest key-value pair (length, one byte of key, type, one byte of value) and tensor description: no
 * file can hold more of them than this lets in. */
#define GGUF_ENTRY_LEAST  14u
#define GGUF_TENSOR_LEAST 25u

static pco_status gguf_no_memory(const char *label, pco_error *err)
{
    return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "%s: no memory for its metadata", label);
}

static pco_status gguf_cut(const gguf_reader *reader, const char *what, pco_error *err)
{
    return pco_fail(err, PCO_ERROR_FORMAT,
                    "%s: %s at offset %zu does not fit in the file's %zu bytes: it is cut off or damaged; download "
                    "it again",
                    reader->label, what, reader->at, reader->size);
}

/* ---- keys and values ----------------------------------------------------------------------------------- */

static pco_status gguf_read_strings(gguf_reader *reader, pco_gguf_entry *entry, pco_error *err)
{
    char what[160];
    snprintf(what, sizeof what, "the value of key '%.100s'", entry->key);
    if (entry->count > (reader->size - reader->at) / sizeof(uint64_t)) return gguf_cut(reader, what, err);
    entry->strings = malloc(((size_t)entry->count + 1) * sizeof *entry->strings);
    if (!entry->strings) return gguf_no_memory(reader->label, err);
    for (uint64_t i = 0; i < entry->count; i++)
        if (!gguf_take_string(reader, &entry->strings[i])) return gguf_cut(reader, what, err);
    if (entry->is_array) return PCO_OK;
    entry->text = malloc(entry->strings[0].size + 1);
    if (!entry->text) return gguf_no_memory(reader->label, err);
    memcpy(entry->text, entry->strings[0].data, entry->strings[0].size);
    entry->text[entry->strings[0].size] = 0;
    return PCO_OK;
}

static pco_status gguf_read_value(gguf_reader *reader, pco_gguf_entry *entry, pco_error *err)
{
    char what[160];
    size_t type_at = reader->at;
    snprintf(what, sizeof what, "the value of key '%.100s'", entry->key);
    if (!gguf_take(reader, &entry->type, sizeof entry->type)) return gguf_cut(reader, what, err);
    entry->count = 1;
    if (entry->type == PCO_GGUF_ARRAY) {
        entry->is_array = 1;
        type_at = reader->at;
        if (!gguf_take(reader, &entry->type, sizeof entry->type) ||
            !gguf_take(reader, &entry->count, sizeof entry->count))
            return gguf_cut(reader, what, err);
        if (entry->type == PCO_GGUF_ARRAY)
            return pco_fail(err, PCO_ERROR_FORMAT, "%s: key '%s' is an array of arrays, which is not supported",
                            reader->label, entry->key);
    }
    if (entry->type == PCO_GGUF_STRING) return gguf_read_strings(reader, entry, err);
    size_t bytes = gguf_type_bytes(entry->type);
    if (!bytes)
        return pco_fail(err, PCO_ERROR_FORMAT,
                        "%s: key '%s' has the unknown type %" PRIu32 " at offset %zu: the file is damaged or newer",
                        reader->label, entry->key, entry->type, type_at);
    if (entry->count > (reader->size - reader->at) / bytes) return gguf_cut(reader, what, err);
    entry->data = reader->data + reader->at;
    reader->at += (size_t)entry->count * bytes;
    return PCO_OK;
}

static pco_status gguf_read_entry(gguf_reader *reader, pco_gguf_entry *entry, pco_error *err)
{
    pco_gguf_string key;
    size_t at = reader->at;
    if (!gguf_take_string(reader, &key)) return gguf_cut(reader, "a key", err);
    if (key.size == 0 || key.size > GGUF_KEY_MOST || memchr(key.data, 0, key.size))
        return pco_fail(err, PCO_ERROR_FORMAT,
                        "%s: the key at offset %zu is empty, too long or contains NUL: the file is damaged",
                        reader->label, at);
    entry->key = malloc(key.size + 1);
    if (!entry->key) return gguf_no_memory(reader->label, err);
    memcpy(entry->key, key.data, key.size);
    entry->key[key.size] = 0;
    return gguf_read_value(reader, entry, err);
}

static int gguf_compare(const void *a, const void *b, void *entries)
{
    const pco_gguf_entry *entry = entries;
    return strcmp(entry[*(const uint64_t *)a].key, entry[*(const uint64_t *)b].key);
}

static pco_status gguf_index(pco_gguf *gguf, const char *label, pco_error *err)
{
    gguf->order = malloc(((size_t)gguf->entry_count + 1) * sizeof *gguf->order);
    if (!gguf->order) return gguf_no_memory(label, err);
    for (uint64_t i = 0; i < gguf->entry_count; i++) gguf->order[i] = i;
    if (gguf->entry_count)
        qsort_r(gguf->order, (size_t)gguf->entry_count, sizeof *gguf->order, gguf_compare, gguf->entries);
    for (uint64_t i = 1; i < gguf->entry_count; i++) {
        const char *key = gguf->entries[gguf->order[i]].key;
        if (strcmp(gguf->entries[gguf->order[i - 1]].key, key) == 0)
            return pco_fail(err, PCO_ERROR_FORMAT, "%s: key '%s' is in the file twice; write the file again", label,
                            key);
    }
    return PCO_OK;
}

/* ---- the file ------------------------------------------------------------------------------------------ */

static pco_status gguf_check_version(uint32_t version, const char *label, pco_error *err)
{
    if (version == 2 || version == 3) return PCO_OK;
    if (version && (version & 0xFFFFu) == 0)
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: a big-endian GGUF file; convert the model to little endian", label);
    return pco_fail(err, PCO_ERROR_FORMAT,
                    "%s: GGUF version %" PRIu32 " is not supported (2 and 3 are); convert the model again", label,
                    version);
}

static pco_status gguf_read(pco_gguf *gguf, gguf_reader *reader, uint32_t flags, pco_error *err)
{
    char magic[4];
    uint64_t tensor_count, entry_count;
    if (!gguf_take(reader, magic, sizeof magic) || memcmp(magic, "GGUF", 4) != 0)
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: not a GGUF file: it does not begin with 'GGUF'", reader->label);
    if (!gguf_take(reader, &gguf->version, 4)) return gguf_cut(reader, "the version", err);
    pco_status status = gguf_check_version(gguf->version, reader->label, err);
    if (status) return status;
    if (!gguf_take(reader, &tensor_count, 8) || !gguf_take(reader, &entry_count, 8))
        return gguf_cut(reader, "the header", err);
    size_t left = reader->size - reader->at;
    if (entry_count > left / GGUF_ENTRY_LEAST || tensor_count > left / GGUF_TENSOR_LEAST)
        return pco_fail(err, PCO_ERROR_FORMAT,
                        "%s: %" PRIu64 " keys and %" PRIu64
                        " tensors cannot be in a file of %zu bytes: it is cut off or damaged",
                        reader->label, entry_count, tensor_count, reader->size);
    gguf->entries = calloc((size_t)entry_count + 1, sizeof *gguf->entries);
    if (!gguf->entries) return gguf_no_memory(reader->label, err);
    for (uint64_t i = 0; i < entry_count; i++) {
        gguf->entry_count++;
        status = gguf_read_entry(reader, &gguf->entries[i], err);
        if (status) return status;
    }
    status = gguf_index(gguf, reader->label, err);
    if (!status) status = gguf_read_tensors(gguf, reader, tensor_count, flags, err);
    return status;
}

pco_status pco_gguf_parse(const void *data, size_t size, const char *label, uint32_t flags, pco_gguf **gguf,
                          pco_error *err)
{
    *gguf = NULL;
    if (flags & ~(uint32_t)PCO_GGUF_METADATA_ONLY)
        return pco_fail(err, PCO_ERROR_INVALID, "%s: unknown flags 0x%x", label, flags);
    pco_gguf *made = calloc(1, sizeof *made);
    if (made) made->weights = pco_weights_create(label);
    if (!made || !made->weights) {
        free(made);
        return gguf_no_memory(label, err);
    }
    gguf_reader reader = {.data = data, .size = size, .label = made->weights->label};
    pco_status status = gguf_read(made, &reader, flags, err);
    if (status)
        pco_gguf_close(made);
    else
        *gguf = made;
    return status;
}

pco_status gguf_open_one(const char *path, uint32_t flags, pco_gguf **gguf, pco_error *err)
{
    pco_map map;
    *gguf = NULL;
    pco_status status = pco_map_open(path, &map, err);
    if (status) return status;
    status = pco_gguf_parse(map.data, map.size, path, flags, gguf, err);
    if (!status) {
        status = pco_weights_keep_map((*gguf)->weights, &map, err);
        if (!status) return PCO_OK;
        pco_gguf_close(*gguf);
        *gguf = NULL;
    }
    pco_map_close(&map);
    return status;
}

void pco_gguf_close(pco_gguf *gguf)
{
    if (!gguf) return;
    for (uint64_t i = 0; i < gguf->entry_count; i++) {
        free(gguf->entries[i].key);
        free(gguf->entries[i].strings);
        free(gguf->entries[i].text);
    }
    free(gguf->entries);
    free(gguf->order);
    pco_weights_close(gguf->weights);
    free(gguf);
}
