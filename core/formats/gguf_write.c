#include "formats/gguf_write.h"

#include "base/dtype.h"
#include "base/error.h"
#include "formats/gguf_parse.h"

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

enum { GGUF_WRITE_ALIGNMENT = 32 }; /* the format's own, where general.alignment does not say another */

static void gguf_put_string(pco_writer *out, const char *data, uint64_t size)
{
    pco_write(out, &size, sizeof size);
    if (size) pco_write(out, data, (size_t)size);
}

static void gguf_put_key(pco_gguf_writer *out, const char *key, uint32_t type)
{
    gguf_put_string(&out->keys, key, strlen(key));
    pco_write(&out->keys, &type, sizeof type);
    out->key_count++;
}

static void gguf_put_array(pco_gguf_writer *out, const char *key, uint32_t type, uint64_t count)
{
    gguf_put_key(out, key, PCO_GGUF_ARRAY);
    pco_write(&out->keys, &type, sizeof type);
    pco_write(&out->keys, &count, sizeof count);
}

void pco_gguf_put_u32(pco_gguf_writer *out, const char *key, uint32_t value)
{
    gguf_put_key(out, key, PCO_GGUF_U32);
    pco_write(&out->keys, &value, sizeof value);
}

void pco_gguf_put_f32(pco_gguf_writer *out, const char *key, float value)
{
    gguf_put_key(out, key, PCO_GGUF_F32);
    pco_write(&out->keys, &value, sizeof value);
}

void pco_gguf_put_bool(pco_gguf_writer *out, const char *key, int value)
{
    gguf_put_key(out, key, PCO_GGUF_BOOL);
    pco_write_char(&out->keys, value ? 1 : 0);
}

void pco_gguf_put_text(pco_gguf_writer *out, const char *key, const char *value)
{
    gguf_put_key(out, key, PCO_GGUF_STRING);
    gguf_put_string(&out->keys, value, strlen(value));
}

void pco_gguf_put_i32s(pco_gguf_writer *out, const char *key, const int32_t *values, uint64_t count)
{
    gguf_put_array(out, key, PCO_GGUF_I32, count);
    if (count) pco_write(&out->keys, values, (size_t)count * sizeof *values);
}

void pco_gguf_put_bytes(pco_gguf_writer *out, const char *key, const void *values, uint64_t count)
{
    gguf_put_array(out, key, PCO_GGUF_U8, count);
    if (count) pco_write(&out->keys, values, (size_t)count);
}

void pco_gguf_put_f32s(pco_gguf_writer *out, const char *key, const float *values, uint64_t count)
{
    gguf_put_array(out, key, PCO_GGUF_F32, count);
    if (count) pco_write(&out->keys, values, (size_t)count * sizeof *values);
}

void pco_gguf_put_texts(pco_gguf_writer *out, const char *key, const pco_gguf_string *values, uint64_t count)
{
    gguf_put_array(out, key, PCO_GGUF_STRING, count);
    for (uint64_t i = 0; i < count; i++) gguf_put_string(&out->keys, values[i].data, values[i].size);
}

void pco_gguf_put_entry(pco_gguf_writer *out, const pco_gguf_entry *entry)
{
    if (entry->is_array)
        gguf_put_array(out, entry->key, entry->type, entry->count);
    else
        gguf_put_key(out, entry->key, entry->type);
    if (entry->type == PCO_GGUF_STRING)
        for (uint64_t i = 0; i < entry->count; i++)
            gguf_put_string(&out->keys, entry->strings[i].data, entry->strings[i].size);
    else if (entry->count)
        pco_write(&out->keys, entry->data, (size_t)entry->count * gguf_type_bytes(entry->type));
}

static uint64_t gguf_write_rest(uint64_t size)
{
    return (GGUF_WRITE_ALIGNMENT - size % GGUF_WRITE_ALIGNMENT) % GGUF_WRITE_ALIGNMENT;
}

pco_status pco_gguf_put_tensor(pco_gguf_writer *out, const char *name, uint32_t rank, const int64_t *shape,
                               const pco_ggml_type *type, pco_error *err)
{
    uint64_t bytes;
    if (!*name || strlen(name) >= GGUF_NAME_MOST || rank > GGUF_RANK_MOST)
        return pco_fail(err, PCO_ERROR_INVALID,
                        "tensor '%.100s' has %" PRIu32 " dimensions and a name of %zu bytes; GGUF has at most %u, and "
                        "names of 1 to %u",
                        name, rank, strlen(name), GGUF_RANK_MOST, GGUF_NAME_MOST - 1);
    pco_status status = pco_shape_bytes(rank, shape, type->block, type->block_bytes, &bytes, err);
    if (status) return pco_fail_prefix(err, status, "tensor '%.100s' as %s", name, type->name);
    gguf_put_string(&out->tensors, name, strlen(name));
    pco_write(&out->tensors, &rank, sizeof rank);
    for (uint32_t i = rank; i-- > 0;) pco_write(&out->tensors, &shape[i], sizeof shape[i]);
    pco_write(&out->tensors, &type->id, sizeof type->id);
    pco_write(&out->tensors, &out->data_size, sizeof out->data_size);
    out->data_size += bytes + gguf_write_rest(bytes);
    out->tensor_count++;
    return PCO_OK;
}

/* What stands in front of the keys. */
static void gguf_write_head(const pco_gguf_writer *out, pco_writer *head)
{
    static const uint32_t version = 3;
    pco_write(head, "GGUF", 4);
    pco_write(head, &version, sizeof version);
    pco_write(head, &out->tensor_count, sizeof out->tensor_count);
    pco_write(head, &out->key_count, sizeof out->key_count);
}

pco_status pco_gguf_write_open(pco_gguf_writer *out, const char *path, pco_error *err)
{
    pco_writer head = {0};
    pco_status status = pco_writer_check(&out->keys, path, err);
    if (!status) status = pco_writer_check(&out->tensors, path, err);
    gguf_write_head(out, &head);
    if (!status) status = pco_writer_check(&head, path, err);
    if (!status) status = pco_file_stream_open(path, &out->file, err);
    if (!status) status = pco_file_stream_send(out->file, head.data, head.size, err);
    if (!status && out->keys.size) status = pco_file_stream_send(out->file, out->keys.data, out->keys.size, err);
    if (!status && out->tensors.size)
        status = pco_file_stream_send(out->file, out->tensors.data, out->tensors.size, err);
    pco_writer_release(&head);
    return status ? status : pco_gguf_write_padding(out, err);
}

pco_status pco_gguf_write_opened(pco_gguf_writer *out, const char *label, pco_gguf **gguf, pco_error *err)
{
    pco_writer all = {0};
    pco_map map = {0};
    *gguf = NULL;
    gguf_write_head(out, &all);
    pco_status status = pco_writer_check(&out->keys, label, err);
    if (!status && out->keys.size) pco_write(&all, out->keys.data, out->keys.size);
    if (!status) status = pco_writer_check(&all, label, err);
    if (!status) {
        void *memory = mmap(NULL, all.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %s", label);
        else
            map = (pco_map){memcpy(memory, all.data, all.size), all.size};
    }
    pco_writer_release(&all);
    if (!status) status = pco_gguf_parse(map.data, map.size, label, 0, gguf, err);
    if (!status) status = pco_weights_keep_map(pco_gguf_own_weights(*gguf), &map, err);
    if (!status) return PCO_OK;
    pco_gguf_close(*gguf);
    *gguf = NULL;
    pco_map_close(&map);
    return status;
}

pco_status pco_gguf_write_data(pco_gguf_writer *out, const void *data, size_t size, pco_error *err)
{
    return pco_file_stream_send(out->file, data, size, err);
}

pco_status pco_gguf_write_padding(pco_gguf_writer *out, pco_error *err)
{
    static const unsigned char zeros[GGUF_WRITE_ALIGNMENT];
    const uint64_t rest = gguf_write_rest(pco_file_stream_size(out->file));
    return rest ? pco_file_stream_send(out->file, zeros, (size_t)rest, err) : PCO_OK;
}

pco_status pco_gguf_write_map(const pco_gguf_writer *out, pco_map *map, pco_error *err)
{
    return pco_file_stream_map(out->file, map, err);
}

pco_status pco_gguf_write_close(pco_gguf_writer *out, pco_status status, pco_error *err)
{
    status = pco_file_stream_close(out->file, status, err);
    pco_writer_release(&out->keys);
    pco_writer_release(&out->tensors);
    *out = (pco_gguf_writer){0};
    return status;
}
