#include "formats/npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/error.h"

typedef struct npy_type {
    const char *descr, *name; /* "": .npy does not have the type */
    int32_t dtype;
    uint32_t bytes;
} npy_type;

static const npy_type npy_types[] = {
#define PCO_DTYPE(number, NAME, name, class, block, bytes, quants, scales, instead, gguf, gguf_name, file_type, \
                  file_name, numpy, ...) \
    {numpy, file_name, number, bytes},
#include "base/dtypes.def"
#undef PCO_DTYPE
    {"<f8", "F64", -1, 8},
    {"<i8", "I64", -1, 8},
    {"|i1", "I8", -1, 1},
    {"|u1", "U8", -1, 1},
};

/* ---- the header: a Python dictionary of three keys -------------------------------------------------------
 */

typedef struct npy_cursor {
    const char *at, *end;
} npy_cursor;

static void npy_skip(npy_cursor *cursor)
{
    while (cursor->at < cursor->end && (*cursor->at == ' ' || *cursor->at == '\n' || *cursor->at == '\t')) cursor->at++;
}

/* Steps over `text`, after blanks; 0 and no step when something else is there. */
static int npy_accept(npy_cursor *cursor, const char *text)
{
    size_t size = strlen(text);
    npy_skip(cursor);
    if ((size_t)(cursor->end - cursor->at) < size || memcmp(cursor->at, text, size) != 0) return 0;
    cursor->at += size;
    return 1;
}

/* A quoted string without escapes. */
static int npy_quoted(npy_cursor *cursor, char *text, size_t size)
{
    npy_skip(cursor);
    if (cursor->at == cursor->end || (*cursor->at != '\'' && *cursor->at != '"')) return 0;
    char quote = *cursor->at++;
    size_t used = 0;
    while (cursor->at < cursor->end && *cursor->at != quote) {
        if (*cursor->at == '\\' || used + 1 == size) return 0;
        text[used++] = *cursor->at++;
    }
    if (cursor->at == cursor->end) return 0;
    cursor->at++;
    text[used] = 0;
    return 1;
}

static int npy_integer(npy_cursor *cursor, int64_t *value)
{
    npy_skip(cursor);
    const char *begin = cursor->at;
    *value = 0;
    while (cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9') {
        if (__builtin_mul_overflow(*value, (int64_t)10, value) ||
            __builtin_add_overflow(*value, (int64_t)(*cursor->at - '0'), value))
            return 0;
        cursor->at++;
    }
    return cursor->at > begin;
}

/* "()", "(3,)", "(2, 3)": a single number needs its comma. */
static int npy_shape(npy_cursor *cursor, pco_weight *array)
{
    int comma = 0;
    if (!npy_accept(cursor, "(")) return 0;
    array->rank = 0;
    while (!npy_accept(cursor, ")")) {
        if (array->rank && !comma) return 0;
        if (array->rank == PCO_MAX_RANK || !npy_integer(cursor, &array->shape[array->rank])) return 0;
        array->rank++;
        comma = npy_accept(cursor, ",");
    }
    return array->rank != 1 || comma;
}

static pco_status npy_bad_header(const char *label, const char *what, pco_error *err)
{
    return pco_fail(err, PCO_ERROR_FORMAT, "%s: the .npy header is not valid: %s; save the array again", label, what);
}

static pco_status npy_header(const char *text, size_t size, const char *label, const npy_type **type, pco_weight *array,
                             pco_error *err)
{
    npy_cursor cursor = {text, text + size};
    char key[24], descr[24] = "";
    unsigned seen = 0;
    if (!npy_accept(&cursor, "{")) return npy_bad_header(label, "it does not begin with '{'", err);
    while (!npy_accept(&cursor, "}")) {
        unsigned bit = 0;
        int good = npy_quoted(&cursor, key, sizeof key) && npy_accept(&cursor, ":");
        if (good && strcmp(key, "descr") == 0) {
            bit = 1;
            good = npy_quoted(&cursor, descr, sizeof descr);
        } else if (good && strcmp(key, "fortran_order") == 0) {
            bit = 2;
            if (npy_accept(&cursor, "True"))
                return npy_bad_header(label, "Fortran order is not supported (numpy.ascontiguousarray)", err);
            good = npy_accept(&cursor, "False");
        } else if (good && strcmp(key, "shape") == 0) {
            bit = 4;
            good = npy_shape(&cursor, array);
        }
        if (!good || !bit || (seen & bit))
            return npy_bad_header(label, "'descr', 'fortran_order' and 'shape' are expected once each", err);
        seen |= bit;
        if (!npy_accept(&cursor, ",")) {
            if (!npy_accept(&cursor, "}")) return npy_bad_header(label, "it does not end with '}'", err);
            break;
        }
    }
    npy_skip(&cursor);
    if (seen != 7 || cursor.at != cursor.end)
        return npy_bad_header(label, "'descr', 'fortran_order' and 'shape' are expected and nothing else", err);
    for (size_t i = 0; i < sizeof npy_types / sizeof *npy_types; i++)
        if (*descr && strcmp(npy_types[i].descr, descr) == 0) *type = &npy_types[i];
    if (!*type)
        return pco_fail(err, PCO_ERROR_FORMAT,
                        "%s: type '%s' is not one of <f4 <f8 <f2 <i4 <i8 |i1 |u1 |b1; convert it", label, descr);
    return PCO_OK;
}

/* ---- files --------------------------------------------------------------------------------------------- */

pco_status pco_npy_parse(const void *data, size_t size, const char *label, pco_npy *npy, pco_error *err)
{
    const unsigned char *byte = data;
    memset(npy, 0, sizeof *npy);
    if (size < 10 || memcmp(byte, "\x93NUMPY", 6) != 0)
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: not a .npy file", label);
    if ((byte[6] != 1 && byte[6] != 2) || byte[7] != 0)
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: .npy version %u.%u is not supported (1.0 and 2.0 are)", label,
                        byte[6], byte[7]);
    size_t begin = byte[6] == 1 ? 10 : 12, length = 0;
    if (size >= begin) memcpy(&length, byte + 8, begin - 8);
    if (size < begin || length > size - begin) return npy_bad_header(label, "the file ends before its end", err);
    const npy_type *type = NULL;
    pco_weight array = {0};
    pco_status status = npy_header((const char *)byte + begin, length, label, &type, &array, err);
    if (status) return status;
    status = pco_shape_bytes(array.rank, array.shape, 1, type->bytes, &array.bytes, err);
    if (status) return pco_fail_prefix(err, PCO_ERROR_FORMAT, "%s", label);
    uint64_t left = size - begin - length;
    if (left != array.bytes)
        return pco_fail(err, PCO_ERROR_FORMAT,
                        "%s: the array needs %" PRIu64 " bytes and the file has %" PRIu64 " at offset %zu", label,
                        array.bytes, left, begin + length);
    array.data = byte + begin + length;
    for (uint64_t i = 0; type->dtype == PCO_BOOL && i < array.bytes; i++)
        if (((const unsigned char *)array.data)[i] > 1)
            return pco_fail(err, PCO_ERROR_FORMAT, "%s: element %" PRIu64 " is neither False nor True", label, i);
    array.name = (char *)"array"; /* never written to */
    array.type_name = type->name;
    array.dtype = type->dtype;
    npy->array = array;
    return PCO_OK;
}

pco_status pco_npy_open(const char *path, pco_npy *npy, pco_error *err)
{
    pco_map map;
    memset(npy, 0, sizeof *npy);
    pco_status status = pco_map_open(path, &map, err);
    if (status) return status;
    status = pco_npy_parse(map.data, map.size, path, npy, err);
    if (status)
        pco_map_close(&map);
    else
        npy->map = map;
    return status;
}

void pco_npy_close(pco_npy *npy)
{
    if (npy->map.data) pco_map_close(&npy->map);
    memset(npy, 0, sizeof *npy);
}

pco_status pco_npy_encode(const pco_weight *array, void **file, size_t *size, pco_error *err)
{
    const npy_type *type = NULL;
    *file = NULL;
    for (size_t i = 0; i < sizeof npy_types / sizeof *npy_types; i++)
        if (*npy_types[i].descr &&
            (array->dtype >= 0 ? npy_types[i].dtype == array->dtype
                               : array->type_name && strcmp(npy_types[i].name, array->type_name) == 0))
            type = &npy_types[i];
    if (!type)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "type %s cannot be written as .npy; convert it to f32 first",
                        array->dtype >= 0  ? pco_dtype_name((uint32_t)array->dtype)
                        : array->type_name ? array->type_name
                                           : "unknown");
    uint64_t bytes;
    pco_status status = pco_shape_bytes(array->rank, array->shape, 1, type->bytes, &bytes, err);
    if (status) return status;
    char header[320];
    int used = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (", type->descr);
    for (uint32_t i = 0; i < array->rank; i++)
        used += snprintf(header + used, sizeof header - (size_t)used, "%s%" PRId64 "%s", i ? " " : "", array->shape[i],
                         array->rank == 1 || i + 1 < array->rank ? "," : "");
    used += snprintf(header + used, sizeof header - (size_t)used, "), }");
    size_t begin = (10 + (size_t)used + 1 + 63) / 64 * 64; /* data aligned to 64 bytes, as NumPy does */
    if (bytes > SIZE_MAX - begin) return pco_fail(err, PCO_ERROR_INVALID, "the array is too large for one file");
    unsigned char *out = malloc(begin + (size_t)bytes);
    if (!out) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory to write a .npy file");
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (unsigned char)(begin - 10);
    out[9] = (unsigned char)((begin - 10) >> 8);
    memcpy(out + 10, header, (size_t)used);
    memset(out + 10 + used, ' ', begin - 10 - (size_t)used);
    out[begin - 1] = '\n';
    if (bytes) memcpy(out + begin, array->data, (size_t)bytes);
    *file = out;
    *size = begin + (size_t)bytes;
    return PCO_OK;
}

pco_status pco_npy_write(const char *path, const pco_weight *array, pco_error *err)
{
    void *file;
    size_t size = 0;
    pco_status status = pco_npy_encode(array, &file, &size, err);
    if (status) return pco_fail_prefix(err, status, "%s", path);
    status = pco_file_write(path, file, size, err);
    free(file);
    return status;
}
