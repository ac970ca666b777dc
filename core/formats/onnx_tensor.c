/* Tensors of ONNX files: values that stand in raw bytes, in typed fields, or in files of their own. */
#include "formats/onnx.h"

#include "base/error.h"

#include "onnx.pb-c.h"

#include <stdlib.h>
#include <string.h>

/* How many elements are in a byte of a file. */
static int onnx_packed(int32_t type)
{
    if (type == PCO_ONNX_INT2 || type == PCO_ONNX_UINT2) return 4;
    return type == PCO_ONNX_INT4 || type == PCO_ONNX_UINT4 || type == PCO_ONNX_FLOAT4E2M1 ? 2 : 1;
}

static uint64_t onnx_packed_bytes(const pco_onnx_tensor *tensor)
{
    const uint64_t n = (uint64_t)onnx_packed(tensor->type);
    return ((uint64_t)tensor->count + n - 1) / n;
}

/* Element i of those that are packed, the first in the lowest bits. */
static uint8_t onnx_packed_code(int32_t type, uint32_t byte, int64_t i)
{
    const int n = onnx_packed(type), bits = 8 / n;
    return (uint8_t)(byte >> (i % n * bits) & ((1u << bits) - 1));
}

static pco_status onnx_unpack(pco_onnx_tensor *to, const uint8_t *from, pco_error *err)
{
    to->value = malloc(((size_t)to->count + 1) * sizeof *to->value);
    if (!to->value) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a tensor");
    for (int64_t i = 0; i < to->count; i++) {
        const uint8_t code = onnx_packed_code(to->type, from[i / onnx_packed(to->type)], i);
        pco_onnx_decode(to->type, &code, 1, to->value + i);
    }
    return PCO_OK;
}

static pco_status onnx_take_raw(pco_onnx_tensor *to, const void *data, uint64_t bytes, pco_error *err)
{
    const uint64_t step = pco_onnx_type_bytes(to->type),
                   needed = onnx_packed(to->type) > 1 ? onnx_packed_bytes(to) : (uint64_t)to->count * step;
    if (bytes != needed)
        return pco_fail(err, PCO_ERROR_FORMAT, "a tensor has %llu bytes, and needs %llu", (unsigned long long)bytes,
                        (unsigned long long)needed);
    if (onnx_packed(to->type) > 1) return onnx_unpack(to, data, err);
    to->raw = data;
    return PCO_OK;
}

/* ---- typed fields ---- */

typedef struct onnx_typed {
    size_t count;
    const void *data;
    int32_t type;
} onnx_typed;

/* The field that has values; of several, count is SIZE_MAX. */
static onnx_typed onnx_typed_field(const Onnx__TensorProto *from)
{
    const onnx_typed fields[] = {{from->n_float_data, from->float_data, PCO_ONNX_FLOAT},
                                 {from->n_int32_data, from->int32_data, PCO_ONNX_INT32},
                                 {from->n_int64_data, from->int64_data, PCO_ONNX_INT64},
                                 {from->n_double_data, from->double_data, PCO_ONNX_DOUBLE},
                                 {from->n_uint64_data, from->uint64_data, PCO_ONNX_UINT64}};
    onnx_typed found = {0, "", from->data_type};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (!fields[i].count) continue;
        if (found.count) found.count = SIZE_MAX;
        if (!found.count) found = fields[i];
    }
    return found;
}

/* Halves and floats of fewer bits stand as bits in int32_data, whole numbers as they are; 4 and 2 bits packed. */
static pco_status onnx_take_typed(pco_onnx_tensor *to, const Onnx__TensorProto *from, pco_error *err)
{
    const onnx_typed field = onnx_typed_field(from);
    const int packed = onnx_packed(to->type);
    const uint64_t needed = onnx_packed_bytes(to);
    if (field.count != needed)
        return pco_fail(err, PCO_ERROR_FORMAT, "a tensor has not as many values as its shape says");
    if (field.type == to->type) {
        to->raw = field.data;
        return PCO_OK;
    }
    const bool bits =
        field.type == PCO_ONNX_INT32 &&
        (to->type == PCO_ONNX_FLOAT16 || to->type == PCO_ONNX_BFLOAT16 || packed > 1 ||
         (to->type >= PCO_ONNX_FLOAT8E4M3FN && to->type <= PCO_ONNX_FLOAT8E5M2FNUZ) || to->type == PCO_ONNX_FLOAT8E8M0);
    to->value = malloc(((size_t)to->count + 1) * sizeof *to->value);
    if (!to->value) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a tensor");
    if (!bits) {
        pco_onnx_decode(field.type, field.data, to->count, to->value);
        return PCO_OK;
    }
    for (int64_t i = 0; i < to->count; i++) {
        const int32_t *at = field.data;
        uint16_t code =
            (uint16_t)(packed > 1 ? onnx_packed_code(to->type, (uint32_t)at[i / packed], i) : (uint32_t)at[i]);
        pco_onnx_decode(to->type, &code, 1, to->value + i);
    }
    return PCO_OK;
}

/* ---- files of their own ---- */

static const char *onnx_entry(const Onnx__TensorProto *from, const char *key)
{
    for (size_t i = 0; i < from->n_external_data; i++)
        if (from->external_data[i]->key && strcmp(from->external_data[i]->key, key) == 0)
            return from->external_data[i]->value;
    return NULL;
}

/* A whole number at `key`, or `initial` without one; false: it is none. */
static bool onnx_entry_number(const Onnx__TensorProto *from, const char *key, uint64_t *number)
{
    const char *text = onnx_entry(from, key);
    char *end;
    if (!text) return true;
    if (*text < '0' || *text > '9' || strlen(text) > 18) return false;
    *number = strtoull(text, &end, 10);
    return *end == 0;
}

static pco_status onnx_take_external(const pco_onnx_file *file, pco_onnx_tensor *to, const Onnx__TensorProto *from,
                                     pco_error *err)
{
    const char *location = onnx_entry(from, "location");
    const pco_map *map = NULL;
    uint64_t offset = 0, length = UINT64_MAX;
    for (uint32_t i = 0; file && location && i < file->n_external; i++)
        if (strcmp(file->external[i].location, location) == 0) map = &file->external[i].map;
    if (!map)
        return pco_fail(err, PCO_ERROR_FORMAT, "tensor '%.100s' has its values in a file, which is not there",
                        from->name ? from->name : "");
    if (!onnx_entry_number(from, "offset", &offset) || !onnx_entry_number(from, "length", &length))
        return pco_fail(err, PCO_ERROR_FORMAT, "external data of tensor '%.100s': offset or length is no number",
                        from->name ? from->name : "");
    if (offset > map->size) offset = map->size;
    if (length == UINT64_MAX) length = map->size - offset;
    if (length > map->size - offset)
        return pco_fail(err, PCO_ERROR_FORMAT, "'%.200s' ends within the values of tensor '%.100s'", location,
                        from->name ? from->name : "");
    return onnx_take_raw(to, length ? map->data + offset : (const void *)"", length, err);
}

/* ---- a tensor ---- */

pco_status pco_onnx_tensor_of(const pco_onnx_file *file, const void *message, pco_onnx_tensor *to, pco_error *err)
{
    const Onnx__TensorProto *from = message;
    *to = (pco_onnx_tensor){.type = from->data_type, .count = 1};
    if (!pco_onnx_type_bytes(from->data_type))
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "element type %s", pco_onnx_type_name(from->data_type));
    if (from->n_dims > PCO_MAX_RANK) return pco_fail(err, PCO_ERROR_UNSUPPORTED, "rank %zu", from->n_dims);
    to->rank = (uint32_t)from->n_dims;
    for (uint32_t i = 0; i < to->rank; i++) {
        to->shape[i] = from->dims[i];
        if (from->dims[i] < 0 || from->dims[i] > INT32_MAX)
            return pco_fail(err, PCO_ERROR_FORMAT, "a dimension is out of range");
        if (__builtin_mul_overflow(to->count, from->dims[i], &to->count) || to->count > INT64_C(1) << 40)
            return pco_fail(err, PCO_ERROR_FORMAT, "a tensor is too large");
    }
    if (from->data_location == 1) return onnx_take_external(file, to, from, err);
    if (from->has_raw_data && from->raw_data.len)
        return onnx_take_raw(to, from->raw_data.data, from->raw_data.len, err);
    return onnx_take_typed(to, from, err);
}

pco_status pco_onnx_initializer(const pco_onnx_file *file, const pco_onnx_graph *graph, uint32_t index,
                                pco_onnx_tensor *tensor, pco_error *err)
{
    const Onnx__GraphProto *message = graph->message;
    return pco_onnx_tensor_of(file, message->initializer[index], tensor, err);
}

pco_status pco_onnx_tensor_values(pco_onnx_tensor *tensor, pco_error *err)
{
    if (tensor->value || !tensor->raw) return PCO_OK;
    tensor->value = malloc(((size_t)tensor->count + 1) * sizeof *tensor->value);
    if (!tensor->value) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a tensor");
    pco_onnx_decode(tensor->type, tensor->raw, tensor->count, tensor->value);
    return PCO_OK;
}

pco_status pco_onnx_tensor_read(const char *path, pco_onnx_tensor *tensor, pco_error *err)
{
    pco_map map;
    *tensor = (pco_onnx_tensor){0};
    pco_status status = pco_map_open(path, &map, err);
    if (status) return status;
    Onnx__TensorProto *message = onnx__tensor_proto__unpack(NULL, map.size, map.data);
    pco_map_close(&map);
    if (!message) return pco_fail(err, PCO_ERROR_FORMAT, "'%s' is not a tensor", path);
    status = pco_onnx_tensor_of(NULL, message, tensor, err);
    if (!status) status = pco_onnx_tensor_values(tensor, err);
    tensor->raw = NULL;
    onnx__tensor_proto__free_unpacked(message, NULL);
    return status;
}

void pco_onnx_tensor_clear(pco_onnx_tensor *tensor)
{
    free(tensor->value);
    *tensor = (pco_onnx_tensor){0};
}
