#include "formats/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/utf8.h"
#include "formats/json.h"

#define SAFETENSORS_HEADER_MOST UINT64_C(100000000)
#define SAFETENSORS_ALIGNMENT   64u

typedef struct safetensors_type {
    const char *name; /* "": the format has none */
    int32_t dtype;    /* pco_dtype or -1 */
    uint32_t bytes;
} safetensors_type;

static const safetensors_type safetensors_types[] = {
#define PCO_DTYPE(number, NAME, name, class, block, bytes, quants, scales, instead, gguf, gguf_name, file_type, \
                  file_name, ...) \
    {file_name, number, bytes},
#include "base/dtypes.def"
#undef PCO_DTYPE
    {"F64", -1, 8}, {"I64", -1, 8}, {"U64", -1, 8},     {"U32", -1, 4},     {"I16", -1, 2},     {"U16", -1, 2},
    {"I8", -1, 1},  {"U8", -1, 1},  {"F8_E4M3", -1, 1}, {"F8_E5M2", -1, 1}, {"F8_E8M0", -1, 1}, {"C64", -1, 8},
};

static const safetensors_type *safetensors_find(const char *name, int32_t dtype)
{
    for (size_t i = 0; i < sizeof safetensors_types / sizeof *safetensors_types; i++) {
        const safetensors_type *type = &safetensors_types[i];
        if (*type->name && (dtype >= 0 ? type->dtype == dtype : name && strcmp(type->name, name) == 0)) return type;
    }
    return NULL;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

static pco_status safetensors_note(pco_weights *weights, const cJSON *metadata, pco_error *err)
{
    if (!cJSON_IsObject(metadata))
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: '__metadata__' must be an object of strings", weights->label);
    for (const cJSON *note = metadata->child; note; note = note->next) {
        if (!cJSON_IsString(note))
            return pco_fail(err, PCO_ERROR_FORMAT, "%s: '%s' in '__metadata__' must be a string", weights->label,
                            note->string);
        pco_status status = pco_weights_add_note(weights, note->string, note->valuestring, err);
        if (status) return status;
    }
    return PCO_OK;
}

static pco_status safetensors_shape(const pco_weights *weights, const cJSON *entry, pco_weight *weight, pco_error *err)
{
    const cJSON *shape = cJSON_GetObjectItemCaseSensitive(entry, "shape");
    if (!cJSON_IsArray(shape))
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: tensor '%s': 'shape' must be an array", weights->label,
                        entry->string);
    for (const cJSON *item = shape->child; item; item = item->next) {
        int64_t dimension;
        if (!pco_json_whole(item, &dimension) || dimension < 0)
            return pco_fail(err, PCO_ERROR_FORMAT,
                            "%s: tensor '%s': dimension %" PRIu32 " of 'shape' is not an integer from 0 to 2^53",
                            weights->label, entry->string, weight->rank);
        if (weight->rank == PCO_MAX_RANK)
            return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: tensor '%s' has more than %d dimensions", weights->label,
                            entry->string, PCO_MAX_RANK);
        weight->shape[weight->rank++] = dimension;
    }
    return PCO_OK;
}

/* One entry of the header; `space` is the number of bytes after it. */
static pco_status safetensors_entry(pco_weights *weights, const cJSON *entry, const unsigned char *data, uint64_t space,
                                    pco_error *err)
{
    static const char *const keys[] = {"dtype", "shape", "data_offsets"};
    const char *label = weights->label, *name = entry->string, *dtype;
    char where[512];
    snprintf(where, sizeof where, "%.200s: tensor '%.200s'", label, name);
    pco_status status = pco_json_known(entry, where, keys, 3, err);
    if (!status) status = pco_json_string(entry, where, "dtype", &dtype, err);
    if (status) return status;
    const safetensors_type *type = safetensors_find(dtype, -1);
    if (!type)
        return pco_fail(err, PCO_ERROR_FORMAT, "%s has type '%.60s', which safetensors does not define", where, dtype);
    pco_weight weight = {.type_name = type->name, .dtype = type->dtype};
    status = safetensors_shape(weights, entry, &weight, err);
    if (!status) status = pco_shape_bytes(weight.rank, weight.shape, 1, type->bytes, &weight.bytes, err);
    if (status == PCO_ERROR_INVALID) return pco_fail_prefix(err, PCO_ERROR_FORMAT, "%s", where);
    if (status) return status;
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(entry, "data_offsets");
    int64_t begin, end;
    if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2 ||
        !pco_json_whole(cJSON_GetArrayItem(offsets, 0), &begin) ||
        !pco_json_whole(cJSON_GetArrayItem(offsets, 1), &end) || begin < 0 || end < begin)
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: 'data_offsets' must be [begin, end] with 0 <= begin <= end", where);
    if ((uint64_t)(end - begin) != weight.bytes)
        return pco_fail(err, PCO_ERROR_FORMAT,
                        "%s: offsets %" PRId64 " to %" PRId64 " hold %" PRId64
                        " bytes; its shape and type need %" PRIu64,
                        where, begin, end, end - begin, weight.bytes);
    if ((uint64_t)end > space)
        return pco_fail(err, PCO_ERROR_FORMAT,
                        "%s ends at offset %" PRId64 ", and the file has only %" PRIu64
                        " bytes of data: it is cut off; download it again",
                        where, end, space);
    weight.data = data + begin;
    return pco_weights_add(weights, &weight, name, strlen(name), err);
}

static int safetensors_by_offset(const void *a, const void *b, void *items)
{
    const pco_weight *first = (const pco_weight *)items + *(const uint32_t *)a;
    const pco_weight *second = (const pco_weight *)items + *(const uint32_t *)b;
    if (first->data != second->data) return (const char *)first->data < (const char *)second->data ? -1 : 1;
    return first->bytes < second->bytes ? -1 : first->bytes > second->bytes;
}

/* Together the tensors must cover the data exactly: no holes, no overlaps, nothing behind. */
static pco_status safetensors_cover(pco_weights *weights, const unsigned char *data, uint64_t space, pco_error *err)
{
    uint32_t *order = malloc(((size_t)weights->count + 1) * sizeof *order);
    if (!order)
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "%s: no memory for the list of tensors", weights->label);
    for (uint32_t i = 0; i < weights->count; i++) order[i] = i;
    if (weights->count) qsort_r(order, weights->count, sizeof *order, safetensors_by_offset, weights->items);
    uint64_t expected = 0;
    pco_status status = PCO_OK;
    for (uint32_t i = 0; i < weights->count && !status; i++) {
        const pco_weight *weight = &weights->items[order[i]];
        uint64_t begin = (uint64_t)((const unsigned char *)weight->data - data);
        if (begin != expected)
            status =
                pco_fail(err, PCO_ERROR_FORMAT,
                         "%s: tensor '%s' begins at offset %" PRIu64 " and %" PRIu64 " was expected: tensors %s",
                         weights->label, weight->name, begin, expected, begin < expected ? "overlap" : "leave a hole");
        expected = begin + weight->bytes;
    }
    if (!status && expected != space)
        status = pco_fail(err, PCO_ERROR_FORMAT,
                          "%s: the tensors end at offset %" PRIu64 " of %" PRIu64
                          " bytes of data: the header and the data do not belong together",
                          weights->label, expected, space);
    free(order);
    return status;
}

static pco_status safetensors_read(pco_weights *weights, const unsigned char *bytes, size_t size, pco_error *err)
{
    uint64_t length = 0;
    if (size < 8)
        return pco_fail(err, PCO_ERROR_FORMAT,
                        "%s: %zu bytes are too few for a safetensors header: the file is cut off or of another "
                        "format",
                        weights->label, size);
    memcpy(&length, bytes, sizeof length);
    if (length > SAFETENSORS_HEADER_MOST)
        return pco_fail(err, PCO_ERROR_FORMAT,
                        "%s: a header of %" PRIu64 " bytes is above the limit of %" PRIu64
                        ": this is not a safetensors file",
                        weights->label, length, SAFETENSORS_HEADER_MOST);
    if (length > size - 8)
        return pco_fail(err, PCO_ERROR_FORMAT,
                        "%s: the header has %" PRIu64 " bytes and the file only %zu after its length: it is cut "
                        "off; download it again",
                        weights->label, length, size - 8);
    cJSON *root = NULL;
    const unsigned char *data = bytes + 8 + length;
    uint64_t space = size - 8 - length;
    pco_status status = pco_json_parse((const char *)bytes + 8, (size_t)length, weights->label, &root, err);
    if (status) return pco_fail_prefix(err, status, "safetensors header");
    if (!cJSON_IsObject(root))
        status = pco_fail(err, PCO_ERROR_FORMAT, "%s: the header must be a JSON object", weights->label);
    for (const cJSON *entry = root->child; entry && !status; entry = entry->next) {
        if (strcmp(entry->string, "__metadata__") == 0)
            status = safetensors_note(weights, entry, err);
        else
            status = safetensors_entry(weights, entry, data, space, err);
    }
    cJSON_Delete(root);
    if (!status) status = pco_weights_index(weights, err);
    if (!status) status = safetensors_cover(weights, data, space, err);
    return status;
}

pco_status pco_safetensors_parse(const void *data, size_t size, const char *label, pco_weights **weights,
                                 pco_error *err)
{
    *weights = NULL;
    pco_weights *made = pco_weights_create(label);
    if (!made) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "%s: no memory to open it", label);
    pco_status status = safetensors_read(made, data, size, err);
    if (status)
        pco_weights_close(made);
    else
        *weights = made;
    return status;
}

pco_status pco_safetensors_open(const char *path, pco_weights **weights, pco_error *err)
{
    return pco_weights_open_mapped(path, pco_safetensors_parse, weights, err);
}

/* ---- writing ------------------------------------------------------------------------------------------- */

typedef struct safetensors_item {
    const pco_weight *tensor;
    const safetensors_type *type;
    uint64_t bytes, offset;
} safetensors_item;

static int safetensors_by_layout(const void *a, const void *b)
{
    const safetensors_item *first = a, *second = b;
    const int matrices[2] = {first->tensor->rank > 1, second->tensor->rank > 1};
    if (first->type->bytes != second->type->bytes) return first->type->bytes > second->type->bytes ? -1 : 1;
    if (matrices[0] != matrices[1]) return matrices[0] ? -1 : 1;
    return first->tensor < second->tensor ? -1 : first->tensor > second->tensor;
}

static int safetensors_by_name(const void *a, const void *b)
{
    return strcmp((*(const safetensors_item *const *)a)->tensor->name,
                  (*(const safetensors_item *const *)b)->tensor->name);
}

static pco_status safetensors_no_memory(pco_error *err)
{
    return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory to write a safetensors file");
}

/* Types, sizes and offsets of all items, in the order of the file; *total is the size of the data. */
static pco_status safetensors_layout(const pco_weight *tensors, uint32_t count, safetensors_item *items,
                                     uint64_t *total, pco_error *err)
{
    for (uint32_t i = 0; i < count; i++) {
        const pco_weight *tensor = &tensors[i];
        const char *name = tensor->name ? tensor->name : "";
        if (!*name || strcmp(name, "__metadata__") == 0 || pco_utf8_check(name, strlen(name)) != strlen(name))
            return pco_fail(err, PCO_ERROR_INVALID, "'%s' cannot be the name of a tensor in safetensors", name);
        items[i].tensor = tensor;
        items[i].type = safetensors_find(tensor->type_name, tensor->dtype);
        if (!items[i].type)
            return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                            "tensor '%s' has type %s, which safetensors does not have; convert it first", name,
                            tensor->dtype >= 0  ? pco_dtype_name((uint32_t)tensor->dtype)
                            : tensor->type_name ? tensor->type_name
                                                : "unknown");
        pco_status status = pco_shape_bytes(tensor->rank, tensor->shape, 1, items[i].type->bytes, &items[i].bytes, err);
        if (status) return pco_fail_prefix(err, status, "tensor '%s'", name);
    }
    if (count) qsort(items, count, sizeof *items, safetensors_by_layout);
    *total = 0;
    for (uint32_t i = 0; i < count; i++) {
        items[i].offset = *total;
        if (__builtin_add_overflow(*total, items[i].bytes, total) || *total > (UINT64_C(1) << 53))
            return pco_fail(err, PCO_ERROR_INVALID, "the tensors together are too large for one file");
    }
    return PCO_OK;
}

static pco_status safetensors_unique(const safetensors_item *items, uint32_t count, pco_error *err)
{
    const safetensors_item **order = malloc(((size_t)count + 1) * sizeof *order);
    if (!order) return safetensors_no_memory(err);
    for (uint32_t i = 0; i < count; i++) order[i] = &items[i];
    qsort(order, count, sizeof *order, safetensors_by_name);
    pco_status status = PCO_OK;
    for (uint32_t i = 1; i < count && !status; i++)
        if (strcmp(order[i - 1]->tensor->name, order[i]->tensor->name) == 0)
            status = pco_fail(err, PCO_ERROR_INVALID, "tensor '%s' is given twice", order[i]->tensor->name);
    free(order);
    return status;
}

static void safetensors_header(pco_writer *out, const safetensors_item *items, uint32_t count,
                               const pco_weights_note *notes, uint32_t note_count)
{
    pco_json_writer writer = {.out = out};
    pco_json_begin_object(&writer);
    if (note_count) {
        pco_json_key(&writer, "__metadata__");
        pco_json_begin_object(&writer);
        for (uint32_t i = 0; i < note_count; i++) {
            pco_json_key(&writer, notes[i].key);
            pco_json_write_string(&writer, notes[i].value);
        }
        pco_json_end_object(&writer);
    }
    for (uint32_t i = 0; i < count; i++) {
        pco_json_key(&writer, items[i].tensor->name);
        pco_json_begin_object(&writer);
        pco_json_key(&writer, "dtype");
        pco_json_write_string(&writer, items[i].type->name);
        pco_json_key(&writer, "shape");
        pco_json_begin_array(&writer);
        for (uint32_t d = 0; d < items[i].tensor->rank; d++) pco_json_write_int(&writer, items[i].tensor->shape[d]);
        pco_json_end_array(&writer);
        pco_json_key(&writer, "data_offsets");
        pco_json_begin_array(&writer);
        pco_json_write_uint(&writer, items[i].offset);
        pco_json_write_uint(&writer, items[i].offset + items[i].bytes);
        pco_json_end_array(&writer);
        pco_json_end_object(&writer);
    }
    pco_json_end_object(&writer);
}

/* Length and header, with blanks behind up to where the data begin. */
static pco_status safetensors_begin(pco_writer *out, const safetensors_item *items, uint32_t count,
                                    const pco_weights_note *notes, uint32_t note_count, pco_error *err)
{
    uint64_t length = 0;
    pco_write(out, &length, sizeof length);
    safetensors_header(out, items, count, notes, note_count);
    while (out->size % SAFETENSORS_ALIGNMENT && !out->status) pco_write_char(out, ' ');
    if (out->status) return safetensors_no_memory(err);
    length = out->size - sizeof length;
    if (length > SAFETENSORS_HEADER_MOST)
        return pco_fail(err, PCO_ERROR_INVALID, "a header of %" PRIu64 " bytes is above the format's limit", length);
    memcpy(out->data, &length, sizeof length);
    return PCO_OK;
}

pco_status pco_safetensors_head(const pco_weight *tensors, uint32_t count, const pco_weights_note *notes,
                                uint32_t note_count, pco_writer *out, uint32_t *order, uint64_t *total, pco_error *err)
{
    safetensors_item *items = calloc((size_t)count + 1, sizeof *items);
    if (!items) return safetensors_no_memory(err);
    pco_status status = safetensors_layout(tensors, count, items, total, err);
    if (!status) status = safetensors_unique(items, count, err);
    if (!status) status = safetensors_begin(out, items, count, notes, note_count, err);
    for (uint32_t i = 0; i < count && !status; i++) order[i] = (uint32_t)(items[i].tensor - tensors);
    free(items);
    return status;
}

pco_status pco_safetensors_encode(const pco_weight *tensors, uint32_t count, const pco_weights_note *notes,
                                  uint32_t note_count, void **file, size_t *size, pco_error *err)
{
    *file = NULL;
    pco_writer head = {0};
    unsigned char *bytes = NULL;
    uint64_t total = 0, at = 0;
    uint32_t *order = calloc((size_t)count + 1, sizeof *order);
    pco_status status = order ? pco_safetensors_head(tensors, count, notes, note_count, &head, order, &total, err)
                              : safetensors_no_memory(err);
    if (!status && !(bytes = malloc(head.size + (size_t)total))) status = safetensors_no_memory(err);
    if (!status) memcpy(bytes, head.data, head.size);
    for (uint32_t i = 0; i < count && !status; i++) {
        const pco_weight *tensor = &tensors[order[i]];
        const safetensors_type *type = safetensors_find(tensor->type_name, tensor->dtype);
        uint64_t size_of = 0;
        status = pco_shape_bytes(tensor->rank, tensor->shape, 1, type->bytes, &size_of, err);
        if (!status && size_of && !tensor->data)
            status = pco_fail(err, PCO_ERROR_INVALID, "tensor '%s' has no data to write", tensor->name);
        if (!status && size_of) memcpy(bytes + head.size + at, tensor->data, (size_t)size_of);
        at += size_of;
    }
    *size = head.size + (size_t)total;
    pco_writer_release(&head);
    free(order);
    if (status)
        free(bytes);
    else
        *file = bytes;
    return status;
}

/* What a file must hold. */
typedef struct safetensors_wanted {
    const char *path;
    const pco_weight *tensors;
    const pco_weights_note *notes;
    uint32_t count, note_count;
} safetensors_wanted;

/* Reads the file's bytes as anyone will, and compares each tensor with the one that was to be written. */
static pco_status safetensors_check(void *user, const void *data, size_t size, pco_error *err)
{
    const safetensors_wanted *wanted = user;
    pco_weights *file = NULL;
    pco_status status = pco_safetensors_parse(data, size, wanted->path, &file, err);
    if (status) return status;
    int same = file->count == wanted->count;
    for (uint32_t i = 0; i < wanted->count && same; i++) {
        const pco_weight *tensor = &wanted->tensors[i], *back = pco_weights_find(file, tensor->name);
        same = back && back->rank == tensor->rank && back->dtype == tensor->dtype &&
               memcmp(back->shape, tensor->shape, tensor->rank * sizeof *tensor->shape) == 0 &&
               (!back->bytes || memcmp(back->data, tensor->data, (size_t)back->bytes) == 0);
    }
    for (uint32_t i = 0; i < wanted->note_count && same; i++) {
        const char *value = pco_weights_note_value(file, wanted->notes[i].key);
        same = value && strcmp(value, wanted->notes[i].value) == 0;
    }
    pco_weights_close(file);
    return same ? PCO_OK
                : pco_fail(err, PCO_ERROR_INTERNAL, "%s: reads back other than it was meant; nothing was replaced",
                           wanted->path);
}

pco_status pco_safetensors_write(const char *path, const pco_weight *tensors, uint32_t count,
                                 const pco_weights_note *notes, uint32_t note_count, pco_error *err)
{
    void *file = NULL;
    size_t size = 0;
    pco_status status = pco_safetensors_encode(tensors, count, notes, note_count, &file, &size, err);
    if (status) return pco_fail_prefix(err, status, "%s", path);
    safetensors_wanted wanted = {path, tensors, notes, count, note_count};
    status = pco_file_write_checked(path, file, size, safetensors_check, &wanted, err);
    free(file);
    return status;
}
