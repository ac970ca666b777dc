/* Tensor types and tensor descriptions of GGUF. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "formats/gguf_parse.h"

#define GGUF_ALIGNMENT_DEFAULT 32u

/* Our types, and those that files may have besides; sizes as ggml's block structures define them. Numbers that are
 * absent were removed from the format. */
static const pco_ggml_type gguf_types[] = {
#define PCO_DTYPE(number, NAME, name, class, block, bytes, quants, scales, instead, gguf, gguf_name, file_type, ...) \
    {(uint32_t)gguf, gguf_name, block, bytes, number, file_type},
#include "base/dtypes.def"
#undef PCO_DTYPE
    {9, "Q8_1", 32, 36, -1, -1},     {15, "Q8_K", 256, 292, -1, -1},   {16, "IQ2_XXS", 256, 66, -1, -1},
    {17, "IQ2_XS", 256, 74, -1, -1}, {18, "IQ3_XXS", 256, 98, -1, -1}, {19, "IQ1_S", 256, 50, -1, -1},
    {21, "IQ3_S", 256, 110, -1, -1}, {22, "IQ2_S", 256, 82, -1, -1},   {24, "I8", 1, 1, -1, -1},
    {25, "I16", 1, 2, -1, -1},       {27, "I64", 1, 8, -1, -1},        {28, "F64", 1, 8, -1, -1},
    {29, "IQ1_M", 256, 56, -1, -1},  {34, "TQ1_0", 256, 54, -1, -1},   {35, "TQ2_0", 256, 66, -1, -1},
};

const pco_ggml_type *pco_ggml_type_find(uint32_t id)
{
    for (size_t i = 0; i < sizeof gguf_types / sizeof *gguf_types; i++)
        if (gguf_types[i].id == id && *gguf_types[i].name) return &gguf_types[i];
    return NULL;
}

const pco_ggml_type *pco_ggml_type_of(uint32_t dtype)
{
    for (size_t i = 0; i < sizeof gguf_types / sizeof *gguf_types; i++)
        if (gguf_types[i].dtype == (int32_t)dtype && *gguf_types[i].name) return &gguf_types[i];
    return NULL;
}

static pco_status gguf_alignment(const pco_gguf *gguf, uint32_t *alignment, pco_error *err)
{
    const pco_gguf_entry *entry = pco_gguf_find(gguf, "general.alignment");
    *alignment = GGUF_ALIGNMENT_DEFAULT;
    if (!entry) return PCO_OK;
    if (entry->is_array || entry->type != PCO_GGUF_U32)
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: key 'general.alignment' must have type u32", pco_gguf_label(gguf));
    memcpy(alignment, entry->data, sizeof *alignment);
    if (*alignment == 0 || (*alignment & (*alignment - 1)))
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: key 'general.alignment' is %" PRIu32 "; a power of two is expected",
                        pco_gguf_label(gguf), *alignment);
    return PCO_OK;
}

/* Dimensions of the tensor described at reader->at, reversed into weight->shape. */
static pco_status gguf_read_shape(gguf_reader *reader, const char *where, pco_weight *weight, pco_error *err)
{
    uint64_t dimension[GGUF_RANK_MOST];
    if (!gguf_take(reader, &weight->rank, sizeof weight->rank))
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: the file ends in its description: it is cut off", where);
    if (weight->rank > GGUF_RANK_MOST)
        return pco_fail(err, PCO_ERROR_FORMAT, "%s has %" PRIu32 " dimensions; GGUF has at most %u", where,
                        weight->rank, GGUF_RANK_MOST);
    if (!gguf_take(reader, dimension, weight->rank * sizeof *dimension))
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: the file ends in its description: it is cut off", where);
    for (uint32_t i = 0; i < weight->rank; i++) {
        if (dimension[i] > INT64_MAX)
            return pco_fail(err, PCO_ERROR_FORMAT, "%s: dimension %" PRIu32 " is negative or too large", where, i);
        weight->shape[weight->rank - 1 - i] = (int64_t)dimension[i];
    }
    return PCO_OK;
}

/* One description; *offset is where it says that its data begin. */
static pco_status gguf_read_tensor(pco_gguf *gguf, gguf_reader *reader, uint64_t *offset, pco_error *err)
{
    char where[512];
    pco_gguf_string name;
    uint32_t id;
    size_t at = reader->at;
    pco_weight weight = {.dtype = -1};
    if (!gguf_take_string(reader, &name) || name.size == 0 || name.size >= GGUF_NAME_MOST ||
        memchr(name.data, 0, name.size))
        return pco_fail(err, PCO_ERROR_FORMAT,
                        "%s: the name of tensor %" PRIu32 " at offset %zu is empty, longer than %u bytes, cut off "
                        "or contains NUL: the file is damaged",
                        reader->label, gguf->weights->count, at, GGUF_NAME_MOST - 1);
    snprintf(where, sizeof where, "%.200s: tensor '%.*s'", reader->label, (int)name.size, name.data);
    pco_status status = gguf_read_shape(reader, where, &weight, err);
    if (status) return status;
    if (!gguf_take(reader, &id, sizeof id) || !gguf_take(reader, offset, sizeof *offset))
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: the file ends in its description: it is cut off", where);
    const pco_ggml_type *type = pco_ggml_type_find(id);
    if (!type)
        return pco_fail(err, PCO_ERROR_FORMAT,
                        "%s has the unknown type %" PRIu32 ": the file is damaged, newer, or of a removed type", where,
                        id);
    weight.type_name = type->name;
    weight.dtype = type->dtype;
    status = pco_shape_bytes(weight.rank, weight.shape, type->block, type->block_bytes, &weight.bytes, err);
    if (status) return pco_fail_prefix(err, PCO_ERROR_FORMAT, "%s of type %s", where, type->name);
    return pco_weights_add(gguf->weights, &weight, name.data, name.size, err);
}

/* Rounds up to a multiple of a power of two; 0 when that overflows. */
static int gguf_align(uint64_t value, uint32_t alignment, uint64_t *out)
{
    if (__builtin_add_overflow(value, (uint64_t)alignment - 1, out)) return 0;
    *out &= ~((uint64_t)alignment - 1);
    return 1;
}

/* Where the data lie: `space` bytes at `data`, NULL when only metadata are wanted. */
typedef struct gguf_space {
    const unsigned char *data;
    uint64_t bytes;
    uint32_t alignment;
} gguf_space;

static pco_status gguf_locate(const char *label, pco_weight *weight, uint64_t offset, const gguf_space *space,
                              uint64_t *next, pco_error *err)
{
    uint64_t end;
    if (offset != *next)
        return pco_fail(err, PCO_ERROR_FORMAT,
                        "%s: tensor '%s' lies at data offset %" PRIu64 " and %" PRIu64
                        " was expected (packed in order, alignment %" PRIu32 "): the file is damaged",
                        label, weight->name, offset, *next, space->alignment);
    if (__builtin_add_overflow(offset, weight->bytes, &end) || !gguf_align(end, space->alignment, next))
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: tensor '%s' ends beyond what can be counted", label, weight->name);
    if (!space->data) return PCO_OK;
    if (*next > space->bytes)
        return pco_fail(err, PCO_ERROR_FORMAT,
                        "%s: tensor '%s' needs data up to offset %" PRIu64 " (with padding) and the file has %" PRIu64
                        " bytes of it: it is cut off; download it again",
                        label, weight->name, *next, space->bytes);
    weight->data = space->data + offset;
    return PCO_OK;
}

pco_status gguf_read_tensors(pco_gguf *gguf, gguf_reader *reader, uint64_t count, uint32_t flags, pco_error *err)
{
    uint32_t alignment;
    pco_status status = gguf_alignment(gguf, &alignment, err);
    size_t descriptions = reader->at;
    uint64_t offset, next = 0, begin;
    for (uint64_t i = 0; i < count && !status; i++) status = gguf_read_tensor(gguf, reader, &offset, err);
    if (!status) status = pco_weights_index(gguf->weights, err);
    if (status) return status;
    gguf_space space = {.alignment = alignment};
    if (!(flags & PCO_GGUF_METADATA_ONLY) && count) {
        if (!gguf_align(reader->at, alignment, &begin) || begin > reader->size)
            return pco_fail(err, PCO_ERROR_FORMAT,
                            "%s: the file ends at offset %zu, before the tensors' data: it is cut off; download it "
                            "again",
                            reader->label, reader->size);
        space.data = reader->data + begin;
        space.bytes = reader->size - begin;
    }
    reader->at = descriptions; /* once more, for the offsets, now that names and sizes are known to be good */
    for (uint32_t i = 0; i < gguf->weights->count && !status; i++) {
        uint64_t name_size;
        (void)gguf_take(reader, &name_size, sizeof name_size);
        reader->at += (size_t)name_size + 4 + 8 * (size_t)gguf->weights->items[i].rank + 4;
        (void)gguf_take(reader, &offset, sizeof offset);
        status = gguf_locate(reader->label, &gguf->weights->items[i], offset, &space, &next, err);
    }
    return status;
}
