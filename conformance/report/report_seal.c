/* Digests over a report's content. The layout of the file and the order of members do not matter: what is
 * hashed is the canonical text of a value, members sorted by key, no space that is not needed, numbers in
 * their shortest form. Each record's digest takes in that of the record before it, so that none can be
 * changed, moved, added or left out unnoticed, and the record after it still tells for itself. */
#include "report/report_parts.h"

#include "base/error.h"
#include "formats/json.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { CONF_SEAL_DIGITS = 32 }; /* of a record's digest: 128 bits; the document's has all 256 */

/* Members whose elements have digests of their own. */
static bool conf_seal_is_chain(const cJSON *member)
{
    return cJSON_IsArray(member) && (strcmp(member->string, "ops") == 0 || strcmp(member->string, "cases") == 0);
}

static int conf_seal_order(const void *left, const void *right)
{
    return strcmp((*(const cJSON *const *)left)->string, (*(const cJSON *const *)right)->string);
}

/* The canonical text of `value` without its member `skip` (NULL: all of it). */
static bool conf_seal_text(pco_json_writer *json, const cJSON *value, const char *skip)
{
    bool fine = true;
    if (cJSON_IsObject(value)) {
        size_t count = 0;
        for (const cJSON *child = value->child; child; child = child->next) count++;
        const cJSON **members = malloc((count + 1) * sizeof *members);
        if (!members) return false;
        count = 0;
        for (const cJSON *child = value->child; child; child = child->next)
            if (!skip || strcmp(child->string, skip) != 0) members[count++] = child;
        qsort(members, count, sizeof *members, conf_seal_order);
        pco_json_begin_object(json);
        for (size_t i = 0; i < count && fine; i++) {
            pco_json_key(json, members[i]->string);
            fine = conf_seal_text(json, members[i], NULL);
        }
        pco_json_end_object(json);
        free(members);
    } else if (cJSON_IsArray(value)) {
        pco_json_begin_array(json);
        for (const cJSON *child = value->child; child && fine; child = child->next)
            fine = conf_seal_text(json, child, NULL);
        pco_json_end_array(json);
    } else if (cJSON_IsString(value)) {
        pco_json_write_string(json, value->valuestring);
    } else if (cJSON_IsNumber(value)) {
        pco_json_write_number(json, value->valuedouble);
    } else if (cJSON_IsBool(value)) {
        pco_json_write_bool(json, cJSON_IsTrue(value));
    } else {
        pco_json_write_null(json);
    }
    return fine;
}

/* SHA-256 of `before`, a newline, `name`, a newline and the value's text; `digits` of it. */
static pco_status conf_seal_digest(const char *before, const char *name, const cJSON *value, const char *skip,
                                   size_t digits, char *digest, pco_error *err)
{
    char whole[PCO_SHA256_TEXT];
    pco_writer text = {0};
    pco_json_writer json = {.out = &text};
    const bool fine = conf_seal_text(&json, value, skip) && !text.status;
    if (fine) {
        pco_sha256 sha;
        pco_sha256_start(&sha);
        pco_sha256_add(&sha, before, strlen(before));
        pco_sha256_add(&sha, "\n", 1);
        pco_sha256_add(&sha, name, strlen(name));
        pco_sha256_add(&sha, "\n", 1);
        pco_sha256_add(&sha, text.data, text.size);
        pco_sha256_finish_text(&sha, whole);
        memcpy(digest, whole, digits);
        digest[digits] = 0;
    }
    pco_writer_release(&text);
    return fine ? PCO_OK : pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the report's digests");
}

static const char *conf_seal_string(const cJSON *object, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    return text ? text : "";
}

/* ---- sealing ---- */

/* The digest of a chain without an element. */
static pco_status conf_seal_no_chain(const cJSON *array, char *digest, pco_error *err)
{
    return conf_seal_digest("", array->string, array, NULL, CONF_SEAL_DIGITS, digest, err);
}

static pco_status conf_seal_chain(cJSON *array, char *last, pco_error *err)
{
    snprintf(last, PCO_SHA256_TEXT, "%s", array->string);
    if (!array->child) return conf_seal_no_chain(array, last, err);
    for (cJSON *record = array->child; record; record = record->next) {
        char digest[PCO_SHA256_TEXT];
        pco_status status = conf_seal_digest(last, "", record, "digest", CONF_SEAL_DIGITS, digest, err);
        if (status) return status;
        if (!cJSON_AddStringToObject(record, "digest", digest))
            return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the report's digests");
        snprintf(last, PCO_SHA256_TEXT, "%s", digest);
    }
    return PCO_OK;
}

/* Seals the members of a device's object, or of the document's. */
static pco_status conf_seal_members(cJSON *object, pco_error *err)
{
    cJSON *seal = cJSON_CreateObject();
    pco_status status = PCO_OK;
    for (cJSON *member = object->child; seal && member && !status; member = member->next) {
        char digest[PCO_SHA256_TEXT];
        if (conf_seal_is_chain(member))
            status = conf_seal_chain(member, digest, err);
        else if (strcmp(member->string, "conformance") == 0)
            continue;
        else
            status = conf_seal_digest("", member->string, member, NULL, CONF_SEAL_DIGITS, digest, err);
        if (!status && !cJSON_AddStringToObject(seal, member->string, digest))
            status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the report's digests");
    }
    if (!status && seal && cJSON_AddItemToObject(object, "seal", seal)) return PCO_OK;
    cJSON_Delete(seal);
    return status ? status : pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the report's digests");
}

pco_status conf_seal(cJSON *root, pco_error *err)
{
    char digest[PCO_SHA256_TEXT];
    cJSON *devices = cJSON_GetObjectItemCaseSensitive(root, "conformance"), *device;
    pco_status status = PCO_OK;
    cJSON_ArrayForEach(device, devices)
    {
        if (!status) status = conf_seal_members(device, err);
    }
    if (!status) status = conf_seal_members(root, err);
    if (!status) status = conf_seal_digest("", "report", root, NULL, PCO_SHA256_TEXT - 1, digest, err);
    if (!status && !cJSON_AddStringToObject(root, "digest", digest))
        status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the report's digests");
    return status;
}

/* ---- checking ---- */

typedef struct conf_seal_check_state {
    conf_seal_fn found;
    void *user;
    uint32_t n;
} conf_seal_check_state;

__attribute__((format(printf, 2, 3))) static void conf_seal_say(conf_seal_check_state *check, const char *format, ...)
{
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    check->n++;
    check->found(check->user, text);
}

static pco_status conf_seal_check_chain(conf_seal_check_state *check, const char *name, const cJSON *array,
                                        const char *sealed, pco_error *err)
{
    char before[PCO_SHA256_TEXT], digest[PCO_SHA256_TEXT];
    uint32_t index = 0;
    snprintf(before, sizeof before, "%s", array->string);
    for (const cJSON *record = array->child; record; record = record->next, index++) {
        const char *has = conf_seal_string(record, "digest");
        pco_status status = conf_seal_digest(before, "", record, "digest", CONF_SEAL_DIGITS, digest, err);
        if (status) return status;
        if (strcmp(has, digest) != 0) {
            const char *id = conf_seal_string(record, "case"), *variant = conf_seal_string(record, "variant");
            conf_seal_say(check, "%s: %s[%" PRIu32 "] (%s%s%s%s%s) was altered, or the one before it moved", name,
                          array->string, index, conf_seal_string(record, "op"), *id ? " #" : "", id,
                          *variant ? ", variant " : "", variant);
        }
        snprintf(before, sizeof before, "%.64s", has);
    }
    if (!index) {
        pco_status status = conf_seal_no_chain(array, before, err);
        if (status) return status;
    }
    if (strcmp(before, sealed) != 0)
        conf_seal_say(check, "%s: the last of %s were left out, or others added", name, array->string);
    return PCO_OK;
}

/* The members of an object by key, so that finding each takes no walk through all; NULL: no memory. */
static const cJSON **conf_seal_sorted(const cJSON *object, size_t *count)
{
    *count = 0;
    for (const cJSON *child = object->child; child; child = child->next) ++*count;
    const cJSON **members = malloc((*count + 1) * sizeof *members);
    size_t n = 0;
    for (const cJSON *child = object->child; members && child; child = child->next) members[n++] = child;
    if (members) qsort(members, n, sizeof *members, conf_seal_order);
    return members;
}

static const cJSON *conf_seal_find(const cJSON **members, size_t count, const char *key)
{
    const cJSON wanted = {.string = (char *)(uintptr_t)key}, *at = &wanted;
    const cJSON **found = bsearch(&at, members, count, sizeof *members, conf_seal_order);
    return found ? *found : NULL;
}

static pco_status conf_seal_check_members(conf_seal_check_state *check, const char *name, const cJSON *object,
                                          pco_error *err)
{
    const cJSON *seal = cJSON_GetObjectItemCaseSensitive(object, "seal");
    if (!cJSON_IsObject(seal)) {
        conf_seal_say(check, "%s: its seal is missing", name);
        return PCO_OK;
    }
    size_t n_sealed, n_members;
    const cJSON **sealed = conf_seal_sorted(seal, &n_sealed), **members = conf_seal_sorted(object, &n_members);
    pco_status status = PCO_OK;
    if (!sealed || !members) status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the report's seal");
    for (const cJSON *member = object->child; member && !status; member = member->next) {
        char digest[PCO_SHA256_TEXT];
        if (strcmp(member->string, "seal") == 0 || strcmp(member->string, "digest") == 0 ||
            strcmp(member->string, "conformance") == 0)
            continue;
        const char *text = cJSON_GetStringValue(conf_seal_find(sealed, n_sealed, member->string));
        if (!text) text = "";
        if (conf_seal_is_chain(member)) {
            status = conf_seal_check_chain(check, name, member, text, err);
        } else {
            status = conf_seal_digest("", member->string, member, NULL, CONF_SEAL_DIGITS, digest, err);
            if (!status && strcmp(text, digest) != 0)
                conf_seal_say(check, "%s: '%s' was %s", name, member->string, *text ? "altered" : "added");
        }
    }
    for (const cJSON *entry = seal->child; entry && !status; entry = entry->next)
        if (!conf_seal_find(members, n_members, entry->string))
            conf_seal_say(check, "%s: '%s' is missing", name, entry->string);
    free(sealed);
    free(members);
    return status;
}

pco_status conf_seal_check(const cJSON *root, conf_seal_fn found, void *user, pco_error *err)
{
    conf_seal_check_state check = {.found = found, .user = user};
    char digest[PCO_SHA256_TEXT];
    const cJSON *devices = cJSON_GetObjectItemCaseSensitive(root, "conformance"), *device;
    const char *has = conf_seal_string(root, "digest");
    pco_status status = conf_seal_check_members(&check, "the report", root, err);
    uint32_t index = 0;
    cJSON_ArrayForEach(device, devices)
    {
        char name[128];
        const char *id = conf_seal_string(cJSON_GetObjectItemCaseSensitive(device, "device"), "id");
        snprintf(name, sizeof name, "device %.80s", id);
        if (!*id) snprintf(name, sizeof name, "device number %" PRIu32, index);
        index++;
        if (!status) status = conf_seal_check_members(&check, name, device, err);
    }
    if (!status) status = conf_seal_digest("", "report", root, "digest", PCO_SHA256_TEXT - 1, digest, err);
    if (!status && check.n == 0 && strcmp(has, digest) != 0)
        conf_seal_say(&check, "the report: a digest was altered, or a device added or left out");
    return status;
}
