/* Looking up keys of GGUF metadata, with types checked. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "formats/gguf_parse.h"

static const struct {
    const char *name;
    unsigned char bytes;
} gguf_value_types[] = {
    [PCO_GGUF_U8] = {"u8", 1},       [PCO_GGUF_I8] = {"i8", 1},     [PCO_GGUF_U16] = {"u16", 2},
    [PCO_GGUF_I16] = {"i16", 2},     [PCO_GGUF_U32] = {"u32", 4},   [PCO_GGUF_I32] = {"i32", 4},
    [PCO_GGUF_F32] = {"f32", 4},     [PCO_GGUF_BOOL] = {"bool", 1}, [PCO_GGUF_STRING] = {"string", 0},
    [PCO_GGUF_ARRAY] = {"array", 0}, [PCO_GGUF_U64] = {"u64", 8},   [PCO_GGUF_I64] = {"i64", 8},
    [PCO_GGUF_F64] = {"f64", 8},
};

size_t gguf_type_bytes(uint32_t type) { return type <= PCO_GGUF_F64 ? gguf_value_types[type].bytes : 0; }

const char *pco_gguf_type_name(uint32_t type) { return type <= PCO_GGUF_F64 ? gguf_value_types[type].name : "unknown"; }

const pco_weights *pco_gguf_weights(const pco_gguf *gguf) { return gguf->weights; }
pco_weights *pco_gguf_own_weights(pco_gguf *gguf) { return gguf->weights; }
uint32_t pco_gguf_version(const pco_gguf *gguf) { return gguf->version; }
const char *pco_gguf_label(const pco_gguf *gguf) { return gguf->weights->label; }
uint64_t pco_gguf_entry_count(const pco_gguf *gguf) { return gguf->entry_count; }

const pco_gguf_entry *pco_gguf_entry_at(const pco_gguf *gguf, uint64_t index)
{
    return index < gguf->entry_count ? &gguf->entries[index] : NULL;
}

const pco_gguf_entry *pco_gguf_find(const pco_gguf *gguf, const char *key)
{
    uint64_t low = 0, high = gguf->entry_count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        const pco_gguf_entry *entry = &gguf->entries[gguf->order[middle]];
        int side = strcmp(key, entry->key);
        if (side == 0) return entry;
        if (side < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* ---- elements ------------------------------------------------------------------------------------------ */

/* An element as an integer (u64 beyond int64 is held at its end); returns 0 for any other type. */
static int gguf_integer(const pco_gguf_entry *entry, uint64_t index, int64_t *value)
{
    size_t bytes = gguf_type_bytes(entry->type);
    uint64_t raw = 0;
    if (!bytes) return 0;
    memcpy(&raw, entry->data + index * bytes, bytes);
    switch (entry->type) {
    case PCO_GGUF_U8:
    case PCO_GGUF_U16:
    case PCO_GGUF_U32: *value = (int64_t)raw; return 1;
    case PCO_GGUF_I8: *value = (int8_t)raw; return 1;
    case PCO_GGUF_I16: *value = (int16_t)raw; return 1;
    case PCO_GGUF_I32: *value = (int32_t)raw; return 1;
    case PCO_GGUF_I64: *value = (int64_t)raw; return 1;
    case PCO_GGUF_U64: *value = raw > INT64_MAX ? INT64_MAX : (int64_t)raw; return 1;
    default: return 0;
    }
}

static int gguf_float(const pco_gguf_entry *entry, uint64_t index, float *value)
{
    if (entry->type == PCO_GGUF_F32) {
        memcpy(value, entry->data + index * 4, 4);
        return 1;
    }
    if (entry->type != PCO_GGUF_F64) return 0;
    double wide;
    memcpy(&wide, entry->data + index * 8, 8);
    *value = (float)wide;
    return 1;
}

/* ---- single values ------------------------------------------------------------------------------------- */

static pco_status gguf_missing(const pco_gguf *gguf, const char *key, pco_error *err)
{
    return pco_fail(err, PCO_ERROR_NOT_FOUND,
                    "%s: key '%s' is missing from the metadata; convert the model with a current converter",
                    pco_gguf_label(gguf), key);
}

static pco_status gguf_wrong(const pco_gguf *gguf, const pco_gguf_entry *entry, const char *expected, pco_error *err)
{
    return pco_fail(err, PCO_ERROR_FORMAT, "%s: key '%s' has type %s%s; %s is expected", pco_gguf_label(gguf),
                    entry->key, entry->is_array ? "array of " : "", pco_gguf_type_name(entry->type), expected);
}

static pco_status gguf_whole(const pco_gguf *gguf, const char *key, int64_t least, int64_t most, int64_t *out,
                             pco_error *err)
{
    const pco_gguf_entry *entry = pco_gguf_find(gguf, key);
    if (!entry) return gguf_missing(gguf, key, err);
    if (entry->is_array || !gguf_integer(entry, 0, out)) return gguf_wrong(gguf, entry, "an integer", err);
    if (*out < least || *out > most)
        return pco_fail(err, PCO_ERROR_FORMAT,
                        "%s: key '%s' is %" PRId64 "; an integer from %" PRId64 " to %" PRId64 " is expected",
                        pco_gguf_label(gguf), key, *out, least, most);
    return PCO_OK;
}

pco_status pco_gguf_u32(const pco_gguf *gguf, const char *key, uint32_t *out, pco_error *err)
{
    int64_t value;
    pco_status status = gguf_whole(gguf, key, 0, UINT32_MAX, &value, err);
    if (!status) *out = (uint32_t)value;
    return status;
}

pco_status pco_gguf_i32(const pco_gguf *gguf, const char *key, int32_t *out, pco_error *err)
{
    int64_t value;
    pco_status status = gguf_whole(gguf, key, INT32_MIN, INT32_MAX, &value, err);
    if (!status) *out = (int32_t)value;
    return status;
}

pco_status pco_gguf_f32(const pco_gguf *gguf, const char *key, float *out, pco_error *err)
{
    const pco_gguf_entry *entry = pco_gguf_find(gguf, key);
    if (!entry) return gguf_missing(gguf, key, err);
    if (entry->is_array || !gguf_float(entry, 0, out)) return gguf_wrong(gguf, entry, "f32", err);
    return PCO_OK;
}

pco_status pco_gguf_bool(const pco_gguf *gguf, const char *key, int *out, pco_error *err)
{
    const pco_gguf_entry *entry = pco_gguf_find(gguf, key);
    if (!entry) return gguf_missing(gguf, key, err);
    if (entry->is_array || entry->type != PCO_GGUF_BOOL) return gguf_wrong(gguf, entry, "bool", err);
    *out = entry->data[0] != 0;
    return PCO_OK;
}

pco_status pco_gguf_text(const pco_gguf *gguf, const char *key, const char **out, pco_error *err)
{
    const pco_gguf_entry *entry = pco_gguf_find(gguf, key);
    if (!entry) return gguf_missing(gguf, key, err);
    if (entry->is_array || entry->type != PCO_GGUF_STRING) return gguf_wrong(gguf, entry, "string", err);
    if (strlen(entry->text) != entry->strings[0].size)
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: key '%s' is a string with a NUL in it", pco_gguf_label(gguf), key);
    *out = entry->text;
    return PCO_OK;
}

pco_status pco_gguf_u32_or(const pco_gguf *gguf, const char *key, uint32_t fallback, uint32_t *out, pco_error *err)
{
    *out = fallback;
    return pco_gguf_find(gguf, key) ? pco_gguf_u32(gguf, key, out, err) : PCO_OK;
}

pco_status pco_gguf_f32_or(const pco_gguf *gguf, const char *key, float fallback, float *out, pco_error *err)
{
    *out = fallback;
    return pco_gguf_find(gguf, key) ? pco_gguf_f32(gguf, key, out, err) : PCO_OK;
}

pco_status pco_gguf_bool_or(const pco_gguf *gguf, const char *key, int fallback, int *out, pco_error *err)
{
    *out = fallback;
    return pco_gguf_find(gguf, key) ? pco_gguf_bool(gguf, key, out, err) : PCO_OK;
}

pco_status pco_gguf_text_or(const pco_gguf *gguf, const char *key, const char *fallback, const char **out,
                            pco_error *err)
{
    *out = fallback;
    return pco_gguf_find(gguf, key) ? pco_gguf_text(gguf, key, out, err) : PCO_OK;
}

/* ---- arrays -------------------------------------------------------------------------------------------- */

pco_status pco_gguf_string_array(const pco_gguf *gguf, const char *key, const pco_gguf_string **out, uint64_t *count,
                                 pco_error *err)
{
    const pco_gguf_entry *entry = pco_gguf_find(gguf, key);
    if (!entry) return gguf_missing(gguf, key, err);
    if (!entry->is_array || entry->type != PCO_GGUF_STRING) return gguf_wrong(gguf, entry, "an array of strings", err);
    *out = entry->strings;
    *count = entry->count;
    return PCO_OK;
}

pco_status pco_gguf_i32_array(const pco_gguf *gguf, const char *key, int32_t **out, uint64_t *count, pco_error *err)
{
    *out = NULL;
    const pco_gguf_entry *entry = pco_gguf_find(gguf, key);
    if (!entry) return gguf_missing(gguf, key, err);
    int64_t value = 0;
    if (!entry->is_array || entry->type == PCO_GGUF_STRING || entry->type == PCO_GGUF_BOOL ||
        (entry->count && !gguf_integer(entry, 0, &value)))
        return gguf_wrong(gguf, entry, "an array of integers", err);
    int32_t *copy = malloc(((size_t)entry->count + 1) * sizeof *copy);
    if (!copy)
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "%s: no memory for key '%s'", pco_gguf_label(gguf), key);
    for (uint64_t i = 0; i < entry->count; i++) {
        (void)gguf_integer(entry, i, &value);
        if (value < INT32_MIN || value > INT32_MAX) {
            free(copy);
            return pco_fail(err, PCO_ERROR_FORMAT, "%s: element %" PRIu64 " of key '%s' does not fit in 32 bits",
                            pco_gguf_label(gguf), i, key);
        }
        copy[i] = (int32_t)value;
    }
    *out = copy;
    *count = entry->count;
    return PCO_OK;
}

pco_status pco_gguf_bool_array(const pco_gguf *gguf, const char *key, unsigned char **out, uint64_t *count,
                               pco_error *err)
{
    *out = NULL;
    const pco_gguf_entry *entry = pco_gguf_find(gguf, key);
    if (!entry) return gguf_missing(gguf, key, err);
    int64_t value = 0;
    const int flags = entry->is_array && entry->type == PCO_GGUF_BOOL;
    if (!flags &&
        (!entry->is_array || entry->type == PCO_GGUF_STRING || (entry->count && !gguf_integer(entry, 0, &value))))
        return gguf_wrong(gguf, entry, "an array of bools or integers", err);
    unsigned char *copy = malloc((size_t)entry->count + 1);
    if (!copy)
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "%s: no memory for key '%s'", pco_gguf_label(gguf), key);
    for (uint64_t i = 0; i < entry->count; i++) {
        if (flags)
            value = entry->data[i];
        else
            (void)gguf_integer(entry, i, &value);
        copy[i] = value != 0;
    }
    *out = copy;
    *count = entry->count;
    return PCO_OK;
}

pco_status pco_gguf_f32_array(const pco_gguf *gguf, const char *key, float **out, uint64_t *count, pco_error *err)
{
    *out = NULL;
    const pco_gguf_entry *entry = pco_gguf_find(gguf, key);
    if (!entry) return gguf_missing(gguf, key, err);
    if (!entry->is_array || (entry->type != PCO_GGUF_F32 && entry->type != PCO_GGUF_F64))
        return gguf_wrong(gguf, entry, "an array of f32", err);
    float *copy = malloc(((size_t)entry->count + 1) * sizeof *copy);
    if (!copy)
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "%s: no memory for key '%s'", pco_gguf_label(gguf), key);
    for (uint64_t i = 0; i < entry->count; i++) (void)gguf_float(entry, i, &copy[i]);
    *out = copy;
    *count = entry->count;
    return PCO_OK;
}
