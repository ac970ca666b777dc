#include "formats/json.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"

/* ---- parsing ------------------------------------------------------------------------------------------- */

static pco_status json_fail_at(const char *text, size_t at, const char *label, const char *what, pco_error *err)
{
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at; i++) {
        column++;
        if (text[i] == '\n') line++, column = 1;
    }
    return pco_fail(err, PCO_ERROR_FORMAT, "%s: line %zu, column %zu: %s", label, line, column, what);
}

/* What cJSON lets through: bytes that JSON does not allow, and the one escape that would end a C string. */
static pco_status json_check_text(const char *text, size_t size, const char *label, pco_error *err)
{
    size_t good = pco_utf8_check(text, size);
    if (good < size) return json_fail_at(text, good, label, "this is not UTF-8 text", err);
    if (size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
        return json_fail_at(text, 0, label, "there is a byte order mark, which JSON does not allow", err);
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char)text[i];
        if (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r')
            return json_fail_at(text, i, label, "there is a control character, which JSON does not allow", err);
        if (byte == '\\') {
            if (size - i > 5 && memcmp(text + i + 1, "u0000", 5) == 0)
                return json_fail_at(text, i, label, "strings with a NUL character are not accepted", err);
            i++;
        }
    }
    return PCO_OK;
}

static int json_compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static pco_status json_check_members(const cJSON *object, const char *label, pco_error *err)
{
    size_t count = 0, used = 0;
    for (const cJSON *member = object->child; member; member = member->next) count++;
    if (count < 2) return PCO_OK;
    const char **names = malloc(count * sizeof *names);
    if (!names) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "%s: no memory for its keys", label);
    for (const cJSON *member = object->child; member; member = member->next) names[used++] = member->string;
    qsort(names, count, sizeof *names, json_compare_names);
    pco_status status = PCO_OK;
    for (size_t i = 1; i < count && !status; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            status =
                pco_fail(err, PCO_ERROR_FORMAT, "%s: key '%s' is in one object twice; remove one", label, names[i]);
    free(names);
    return status;
}

/* The depth is bounded by cJSON's own limit (CJSON_NESTING_LIMIT). */
static pco_status json_check_keys(const cJSON *value, const char *label, pco_error *err)
{
    if (cJSON_IsObject(value)) {
        pco_status status = json_check_members(value, label, err);
        if (status) return status;
    }
    for (const cJSON *child = value->child; child; child = child->next) {
        if (!child->child) continue;
        pco_status status = json_check_keys(child, label, err);
        if (status) return status;
    }
    return PCO_OK;
}

/* cJSON does not say whether a text or the memory was at fault. So a text that it has refused is read once more,
 * without memory: what follows is 0 only for a text that it refuses for its own sake. */
typedef struct json_scan {
    const char *text;
    size_t size, at;
} json_scan;

static char json_next(const json_scan *scan) { return scan->at < scan->size ? scan->text[scan->at] : 0; }

static int json_accept(json_scan *scan, char c)
{
    if (json_next(scan) != c) return 0;
    scan->at++;
    return 1;
}

static void json_skip(json_scan *scan, const char *characters)
{
    while (json_next(scan) && strchr(characters, json_next(scan))) scan->at++;
}

static int json_scan_unit(json_scan *scan, unsigned *unit)
{
    char digits[5] = "";
    if (scan->size - scan->at < 4) return 0;
    memcpy(digits, scan->text + scan->at, 4);
    scan->at += 4;
    *unit = (unsigned)strtoul(digits, NULL, 16);
    return strspn(digits, "0123456789abcdefABCDEF") == 4;
}

static int json_scan_string(json_scan *scan)
{
    unsigned high, low;
    if (!json_accept(scan, '"')) return 0;
    while (scan->at < scan->size) {
        const char c = scan->text[scan->at++];
        if (c == '"') return 1;
        if (c != '\\') continue;
        if (!json_accept(scan, 'u')) {
            if (!json_next(scan) || !strchr("\"\\/bfnrt", json_next(scan))) return 0;
            scan->at++;
            continue;
        }
        if (!json_scan_unit(scan, &high) || (high >= 0xDC00 && high <= 0xDFFF)) return 0;
        if (high < 0xD800 || high > 0xDFFF) continue;
        if (!json_accept(scan, '\\') || !json_accept(scan, 'u') || !json_scan_unit(scan, &low)) return 0;
        if (low < 0xDC00 || low > 0xDFFF) return 0;
    }
    return 0;
}

static int json_scan_digits(json_scan *scan)
{
    const size_t begin = scan->at;
    json_skip(scan, "0123456789");
    return scan->at > begin;
}

static int json_scan_number(json_scan *scan)
{
    enum { LONGEST = 62 }; /* that cJSON takes whole */
    const size_t begin = scan->at;
    json_accept(scan, '-');
    if (!json_scan_digits(scan)) return 0;
    if (json_accept(scan, '.') && !json_scan_digits(scan)) return 0;
    if (json_accept(scan, 'e') || json_accept(scan, 'E')) {
        if (!json_accept(scan, '+')) json_accept(scan, '-');
        if (!json_scan_digits(scan)) return 0;
    }
    return scan->at - begin <= LONGEST;
}

static int json_scan_value(json_scan *scan, int depth)
{
    static const char space[] = " \t\r\n", *const words[] = {"null", "true", "false"};
    json_skip(scan, space);
    const char open = json_next(scan), close = open == '{' ? '}' : ']';
    if (open == '"') return json_scan_string(scan);
    for (int i = 0; i < 3; i++) {
        const size_t length = strlen(words[i]);
        if (scan->size - scan->at < length || memcmp(scan->text + scan->at, words[i], length) != 0) continue;
        scan->at += length;
        return 1;
    }
    if (open != '{' && open != '[') return json_scan_number(scan);
    if (depth >= CJSON_NESTING_LIMIT) return 0;
    scan->at++;
    json_skip(scan, space);
    if (json_accept(scan, close)) return 1;
    do {
        json_skip(scan, space);
        if (open == '{') {
            if (!json_scan_string(scan)) return 0;
            json_skip(scan, space);
            if (!json_accept(scan, ':')) return 0;
        }
        if (!json_scan_value(scan, depth + 1)) return 0;
        json_skip(scan, space);
    } while (json_accept(scan, ','));
    return json_accept(scan, close);
}

static pco_status json_fail_refused(const char *text, size_t size, size_t at, const char *label, pco_error *err)
{
    json_scan scan = {text, size, 0};
    if (json_scan_value(&scan, 0)) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "%s: out of host memory", label);
    return json_fail_at(text, at < size ? at : size, label, "this is not valid JSON", err);
}

pco_status pco_json_parse(const char *text, size_t size, const char *label, cJSON **root, pco_error *err)
{
    *root = NULL;
    pco_status status = json_check_text(text, size, label, err);
    if (status) return status;
    if (size == 0) return pco_fail(err, PCO_ERROR_FORMAT, "%s: the file is empty; JSON was expected", label);
    const char *end = NULL;
    cJSON *parsed = cJSON_ParseWithLengthOpts(text, size, &end, 0);
    size_t at = end ? (size_t)(end - text) : 0;
    if (!parsed) return json_fail_refused(text, size, at, label, err);
    while (at < size && strchr(" \t\r\n", text[at]) && text[at]) at++;
    if (at < size) {
        status = json_fail_at(text, at, label, "there is text after the end of the JSON value", err);
        goto fail;
    }
    status = json_check_keys(parsed, label, err);
    if (status) goto fail;
    *root = parsed;
    return PCO_OK;
fail:
    cJSON_Delete(parsed);
    return status;
}

pco_status pco_json_load(const char *path, cJSON **root, pco_error *err)
{
    pco_map map;
    *root = NULL;
    pco_status status = pco_map_open(path, &map, err);
    if (status) return status;
    status = pco_json_parse(map.data ? (const char *)map.data : "", map.size, path, root, err);
    pco_map_close(&map);
    return status;
}

pco_status pco_json_load_if(const char *folder, const char *name, char **path, cJSON **root, pco_error *err)
{
    *root = NULL;
    const pco_status status = pco_file_find(folder, name, path, err);
    return status || !*path ? status : pco_json_load(*path, root, err);
}

int pco_json_give(cJSON *parent, const char *key, cJSON *item)
{
    if (item && parent && (key ? cJSON_AddItemToObject(parent, key, item) : cJSON_AddItemToArray(parent, item)))
        return 1;
    cJSON_Delete(item);
    return 0;
}

/* ---- getters ------------------------------------------------------------------------------------------- */

/* Absent: *value is NULL, and an error when the key is required. */
static pco_status json_member(const cJSON *object, const char *label, const char *key, int required,
                              const cJSON **value, pco_error *err)
{
    *value = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!*value && required) return pco_fail(err, PCO_ERROR_FORMAT, "%s: key '%s' is missing; add it", label, key);
    return PCO_OK;
}

/* A short form of a value, for messages. */
static const char *json_describe(const cJSON *value, char *text, size_t size)
{
    if (cJSON_IsString(value))
        snprintf(text, size, "the string '%.60s'", value->valuestring);
    else if (cJSON_IsNumber(value))
        snprintf(text, size, "%.17g", value->valuedouble);
    else if (cJSON_IsBool(value))
        snprintf(text, size, "%s", cJSON_IsTrue(value) ? "true" : "false");
    else if (cJSON_IsNull(value))
        snprintf(text, size, "null");
    else
        snprintf(text, size, "%s", cJSON_IsArray(value) ? "an array" : "an object");
    return text;
}

int pco_json_whole(const cJSON *value, int64_t *out)
{
    if (!cJSON_IsNumber(value)) return 0;
    double number = value->valuedouble;
    if (!(fabs(number) <= 0x1p53) || floor(number) != number) return 0;
    *out = (int64_t)number;
    return 1;
}

static pco_status json_int(const cJSON *object, const char *label, const char *key, int64_t least, int64_t most,
                           const int64_t *fallback, int64_t *out, pco_error *err)
{
    const cJSON *value;
    char text[96];
    pco_status status = json_member(object, label, key, !fallback, &value, err);
    if (status) return status;
    if (!value) {
        *out = *fallback;
        return PCO_OK;
    }
    int64_t number;
    if (!pco_json_whole(value, &number) || number < least || number > most)
        return pco_fail(err, PCO_ERROR_FORMAT,
                        "%s: key '%s' is %s; an integer from %" PRId64 " to %" PRId64 " is expected", label, key,
                        json_describe(value, text, sizeof text), least, most);
    *out = number;
    return PCO_OK;
}

pco_status pco_json_int(const cJSON *object, const char *label, const char *key, int64_t least, int64_t most,
                        int64_t *out, pco_error *err)
{
    return json_int(object, label, key, least, most, NULL, out, err);
}

pco_status pco_json_int_or(const cJSON *object, const char *label, const char *key, int64_t least, int64_t most,
                           int64_t fallback, int64_t *out, pco_error *err)
{
    return json_int(object, label, key, least, most, &fallback, out, err);
}

static pco_status json_number(const cJSON *object, const char *label, const char *key, double least, double most,
                              const double *fallback, double *out, pco_error *err)
{
    const cJSON *value;
    char text[96];
    pco_status status = json_member(object, label, key, !fallback, &value, err);
    if (status) return status;
    if (!value) {
        *out = *fallback;
        return PCO_OK;
    }
    if (!cJSON_IsNumber(value) || !(value->valuedouble >= least && value->valuedouble <= most))
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: key '%s' is %s; a number from %g to %g is expected", label, key,
                        json_describe(value, text, sizeof text), least, most);
    *out = value->valuedouble;
    return PCO_OK;
}

pco_status pco_json_number(const cJSON *object, const char *label, const char *key, double least, double most,
                           double *out, pco_error *err)
{
    return json_number(object, label, key, least, most, NULL, out, err);
}

pco_status pco_json_number_or(const cJSON *object, const char *label, const char *key, double least, double most,
                              double fallback, double *out, pco_error *err)
{
    return json_number(object, label, key, least, most, &fallback, out, err);
}

pco_status pco_json_bool_or(const cJSON *object, const char *label, const char *key, int fallback, int *out,
                            pco_error *err)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, key);
    char text[96];
    if (value && !cJSON_IsBool(value))
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: key '%s' is %s; true or false is expected", label, key,
                        json_describe(value, text, sizeof text));
    *out = value ? cJSON_IsTrue(value) : fallback;
    return PCO_OK;
}

static pco_status json_string(const cJSON *object, const char *label, const char *key, int required,
                              const char *fallback, const char **out, pco_error *err)
{
    const cJSON *value;
    char text[96];
    pco_status status = json_member(object, label, key, required, &value, err);
    if (status) return status;
    if (value && !cJSON_IsString(value))
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: key '%s' is %s; a string is expected", label, key,
                        json_describe(value, text, sizeof text));
    *out = value ? value->valuestring : fallback;
    return PCO_OK;
}

pco_status pco_json_string(const cJSON *object, const char *label, const char *key, const char **out, pco_error *err)
{
    return json_string(object, label, key, 1, NULL, out, err);
}

pco_status pco_json_string_or(const cJSON *object, const char *label, const char *key, const char *fallback,
                              const char **out, pco_error *err)
{
    return json_string(object, label, key, 0, fallback, out, err);
}

/* Appends ", "-separated quoted names, and "..." when they do not fit. */
static void json_list(char *text, size_t size, const char *name)
{
    size_t used = strlen(text), need = strlen(name) + 4;
    if (used + need + 6 < size)
        snprintf(text + used, size - used, "%s'%s'", used ? ", " : "", name);
    else if (used + 6 < size && (used < 3 || strcmp(text + used - 3, "...") != 0))
        snprintf(text + used, size - used, "%s...", used ? ", " : "");
}

static pco_status json_enum(const cJSON *object, const char *label, const char *key, const char *const *names,
                            uint32_t count, const uint32_t *fallback, uint32_t *out, pco_error *err)
{
    const cJSON *value;
    char text[96], list[400] = "";
    pco_status status = json_member(object, label, key, !fallback, &value, err);
    if (status) return status;
    if (!value) {
        *out = *fallback;
        return PCO_OK;
    }
    for (uint32_t i = 0; i < count && cJSON_IsString(value); i++) {
        if (strcmp(value->valuestring, names[i]) == 0) {
            *out = i;
            return PCO_OK;
        }
    }
    for (uint32_t i = 0; i < count; i++) json_list(list, sizeof list, names[i]);
    return pco_fail(err, PCO_ERROR_FORMAT, "%s: key '%s' is %s; one of %s is expected", label, key,
                    json_describe(value, text, sizeof text), list);
}

pco_status pco_json_enum(const cJSON *object, const char *label, const char *key, const char *const *names,
                         uint32_t count, uint32_t *out, pco_error *err)
{
    return json_enum(object, label, key, names, count, NULL, out, err);
}

pco_status pco_json_enum_or(const cJSON *object, const char *label, const char *key, const char *const *names,
                            uint32_t count, uint32_t fallback, uint32_t *out, pco_error *err)
{
    return json_enum(object, label, key, names, count, &fallback, out, err);
}

pco_status pco_json_known(const cJSON *object, const char *label, const char *const *known, uint32_t count,
                          pco_error *err)
{
    char list[600] = "";
    if (!cJSON_IsObject(object)) return pco_fail(err, PCO_ERROR_FORMAT, "%s: a JSON object is expected", label);
    for (const cJSON *member = object->child; member; member = member->next) {
        uint32_t i = 0;
        while (i < count && strcmp(member->string, known[i]) != 0) i++;
        if (i == count) json_list(list, sizeof list, member->string);
    }
    if (!list[0]) return PCO_OK;
    return pco_fail(err, PCO_ERROR_FORMAT, "%s: unknown key %s; remove it or correct its spelling", label, list);
}
