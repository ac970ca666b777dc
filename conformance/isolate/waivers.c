/* Waivers: failures that are expected, and why. The file has a paragraph for each, lines of "key: value":
 *
 *   device: vulkan:*          id or name of the device
 *   driver: *llvmpipe*15.*    its driver
 *   op: softmax               any of op, label, variant, state and case; at least one of op, label and case
 *   label: *f16*
 *   reason: flushes subnormals, which its contract denies
 *   reference: https://example.org/issues/12
 *
 * reason and reference must be there; what is absent matches all. A line that begins with # is a comment, one
 * that begins with a space goes on with the value above. In patterns * is any text and ? any character. */
#include "isolate/isolate.h"
#include "run/result.h"

#include "base/error.h"
#include "base/file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_DEVICE, KEY_DRIVER, KEY_OP, KEY_LABEL, KEY_VARIANT, KEY_CASE, KEY_STATE, KEY_REASON, KEY_REFERENCE, N_KEYS };
static const char *const KEYS[N_KEYS] = {"device", "driver", "op",     "label",    "variant",
                                         "case",   "state",  "reason", "reference"};

typedef struct waivers_entry {
    char *values[N_KEYS]; /* NULL: absent */
    char *text;           /* what a record is given: "reason (reference)" */
} waivers_entry;

struct pco_conformance_waivers {
    uint32_t count;
    waivers_entry *entries;
    pco_conformance_waiver *rows;
};

/* * and ? only: labels are full of brackets. */
static bool waivers_match(const char *pattern, const char *text)
{
    const char *star = NULL, *from = NULL;
    if (!pattern) return true;
    while (*text) {
        if (*pattern == '*') {
            star = pattern++, from = text;
        } else if (*pattern == '?' || *pattern == *text) {
            pattern++, text++;
        } else if (star) {
            pattern = star + 1, text = ++from;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return *pattern == 0;
}

static bool waivers_match_one(const waivers_entry *entry, const pco_conformance_device *device,
                              const pco_conformance_case *one)
{
    char id[12];
    snprintf(id, sizeof id, "%08" PRIx32, one->id);
    return (waivers_match(entry->values[KEY_DEVICE], device->id) ||
            waivers_match(entry->values[KEY_DEVICE], device->info->name)) &&
           waivers_match(entry->values[KEY_DRIVER], device->info->driver) &&
           waivers_match(entry->values[KEY_OP], one->op_name) && waivers_match(entry->values[KEY_LABEL], one->label) &&
           waivers_match(entry->values[KEY_VARIANT], one->variant) && waivers_match(entry->values[KEY_CASE], id);
}

static bool waivers_match_state(const waivers_entry *entry, pco_conformance_state state)
{
    return waivers_match(entry->values[KEY_STATE], pco_conformance_state_name(state));
}

/* ---- reading ---- */

typedef struct waivers_reader {
    const char *path;
    uint32_t line, first; /* of the paragraph; 0: none has begun */
    int key;              /* that a further line belongs to */
    pco_conformance_waivers *waivers;
    pco_error *err;
} waivers_reader;

static pco_status waivers_fail(const waivers_reader *reader, uint32_t line, const char *format, const char *what)
{
    pco_status status = pco_fail(reader->err, PCO_ERROR_FORMAT, format, what);
    return pco_fail_prefix(reader->err, status, "%s: line %" PRIu32, reader->path, line);
}

static pco_status waivers_memory(const waivers_reader *reader)
{
    return pco_fail(reader->err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for waivers");
}

static pco_status waivers_check_state(const waivers_reader *reader, const char *pattern)
{
    for (int i = 0; i < PCO_CASE_STATES; i++)
        if (pco_conformance_state_is_bad((pco_conformance_state)i) &&
            waivers_match(pattern, pco_conformance_state_name((pco_conformance_state)i)))
            return PCO_OK;
    return waivers_fail(reader, reader->line,
                        "state '%.60s' is none of fail, mistrusted, flaky, crashed, hung, device lost", pattern);
}

/* The end of a paragraph. */
static pco_status waivers_finish(waivers_reader *reader)
{
    pco_conformance_waivers *waivers = reader->waivers;
    if (!reader->first) return PCO_OK;
    waivers_entry *entry = &waivers->entries[waivers->count - 1];
    pco_conformance_waiver *row = &waivers->rows[waivers->count - 1];
    for (int key = KEY_REASON; key <= KEY_REFERENCE; key++)
        if (!entry->values[key] || !entry->values[key][0])
            return waivers_fail(reader, reader->first, "this waiver has no %s", KEYS[key]);
    if (!entry->values[KEY_OP] && !entry->values[KEY_LABEL] && !entry->values[KEY_CASE])
        return waivers_fail(reader, reader->first, "this waiver has no %s",
                            "op, label or case: it would waive everything");
    size_t size = strlen(entry->values[KEY_REASON]) + strlen(entry->values[KEY_REFERENCE]) + 4;
    entry->text = malloc(size);
    if (!entry->text) return waivers_memory(reader);
    snprintf(entry->text, size, "%s (%s)", entry->values[KEY_REASON], entry->values[KEY_REFERENCE]);
    *row = (pco_conformance_waiver){
        .line = reader->first, .reason = entry->values[KEY_REASON], .reference = entry->values[KEY_REFERENCE]};
    reader->first = 0;
    return PCO_OK;
}

static pco_status waivers_begin(waivers_reader *reader)
{
    pco_conformance_waivers *waivers = reader->waivers;
    waivers_entry *entries = realloc(waivers->entries, (waivers->count + 1) * sizeof *entries);
    if (entries) waivers->entries = entries;
    pco_conformance_waiver *rows = realloc(waivers->rows, (waivers->count + 1) * sizeof *rows);
    if (rows) waivers->rows = rows;
    if (!entries || !rows) return waivers_memory(reader);
    entries[waivers->count] = (waivers_entry){0};
    rows[waivers->count++] = (pco_conformance_waiver){0};
    reader->first = reader->line;
    reader->key = -1;
    return PCO_OK;
}

/* Sets a value, or goes on with it. */
static pco_status waivers_value(waivers_reader *reader, const char *text)
{
    char **value = &reader->waivers->entries[reader->waivers->count - 1].values[reader->key];
    size_t old = *value ? strlen(*value) : 0, size = old + strlen(text) + 2;
    char *grown = realloc(*value, size);
    if (!grown) return waivers_memory(reader);
    snprintf(grown + old, size - old, "%s%s", old ? " " : "", text);
    *value = grown;
    return PCO_OK;
}

static pco_status waivers_line(waivers_reader *reader, char *text)
{
    size_t length = strlen(text);
    while (length > 0 && strchr(" \t\r", text[length - 1])) text[--length] = 0;
    if (text[0] == '#') return PCO_OK;
    if (length == 0) return waivers_finish(reader);
    if (text[0] == ' ' || text[0] == '\t') {
        if (!reader->first || reader->key < 0)
            return waivers_fail(reader, reader->line, "there is nothing that '%.60s' goes on with",
                                text + strspn(text, " \t"));
        return waivers_value(reader, text + strspn(text, " \t"));
    }
    pco_status status = reader->first ? PCO_OK : waivers_begin(reader);
    if (status) return status;
    char *colon = strchr(text, ':');
    if (!colon) return waivers_fail(reader, reader->line, "'%.60s' is no 'key: value'", text);
    *colon = 0;
    for (reader->key = 0; reader->key < N_KEYS && strcmp(text, KEYS[reader->key]) != 0;) reader->key++;
    if (reader->key == N_KEYS)
        return waivers_fail(reader, reader->line,
                            "'%.60s' is no key; there are device, driver, op, label, variant, case, state, reason "
                            "and reference",
                            text);
    if (reader->waivers->entries[reader->waivers->count - 1].values[reader->key])
        return waivers_fail(reader, reader->line, "'%.60s' stands here twice; an empty line ends a waiver", text);
    const char *value = colon + 1 + strspn(colon + 1, " \t");
    if (reader->key == KEY_STATE) status = waivers_check_state(reader, value);
    return status ? status : waivers_value(reader, value);
}

pco_status pco_conformance_waivers_read(const char *path, pco_conformance_waivers **out, pco_error *err)
{
    pco_map map;
    pco_error local;
    waivers_reader reader = {.path = path, .err = err ? err : &local};
    *out = NULL;
    pco_status status = pco_map_open(path, &map, reader.err);
    if (status) return status;
    reader.waivers = calloc(1, sizeof *reader.waivers);
    if (!reader.waivers) status = waivers_memory(&reader);
    for (size_t at = 0; at < map.size && !status;) {
        const char *text = (const char *)map.data + at, *end = memchr(text, '\n', map.size - at);
        size_t length = end ? (size_t)(end - text) : map.size - at;
        reader.line++;
        if (memchr(text, 0, length)) {
            status = waivers_fail(&reader, reader.line, "this is no text%s", "");
            break;
        }
        char *line = strndup(text, length);
        status = line ? waivers_line(&reader, line) : waivers_memory(&reader);
        free(line);
        at += length + 1;
    }
    if (!status) status = waivers_finish(&reader);
    pco_map_close(&map);
    if (status) {
        pco_conformance_waivers_destroy(reader.waivers);
        return status;
    }
    *out = reader.waivers;
    return PCO_OK;
}

void pco_conformance_waivers_destroy(pco_conformance_waivers *waivers)
{
    if (!waivers) return;
    for (uint32_t i = 0; i < waivers->count; i++) {
        for (int key = 0; key < N_KEYS; key++) free(waivers->entries[i].values[key]);
        free(waivers->entries[i].text);
    }
    free(waivers->entries);
    free(waivers->rows);
    free(waivers);
}

uint32_t pco_conformance_waivers_list(const pco_conformance_waivers *waivers, const pco_conformance_waiver **rows)
{
    *rows = waivers->rows;
    return waivers->count;
}

/* ---- waiving ---- */

bool conf_waivers_cover(const pco_conformance_waivers *waivers, const pco_conformance_device *device,
                        const pco_conformance_case *one)
{
    for (uint32_t i = 0; i < waivers->count; i++)
        if (waivers_match_one(&waivers->entries[i], device, one) &&
            waivers_match_state(&waivers->entries[i], one->state))
            return true;
    return false;
}

/* Waives one record, or counts that it passed. */
static pco_status waivers_apply(pco_conformance_waivers *waivers, const pco_conformance_device *device,
                                pco_conformance_case *one, pco_error *err)
{
    bool bad = pco_conformance_state_is_bad(one->state);
    for (uint32_t i = 0; i < waivers->count; i++) {
        if (!waivers_match_one(&waivers->entries[i], device, one)) continue;
        waivers->rows[i].passed += one->state == PCO_CASE_PASS;
        if (!bad || !waivers_match_state(&waivers->entries[i], one->state)) continue;
        char detail[sizeof one->detail], *text = strdup(waivers->entries[i].text);
        if (!text) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for results");
        snprintf(detail, sizeof detail, "%s: %.480s", pco_conformance_state_name(one->state), one->detail);
        memcpy(one->detail, detail, sizeof detail);
        free((void *)(uintptr_t)one->waiver);
        one->waiver = text;
        one->state = PCO_CASE_WAIVED;
        waivers->rows[i].waived++;
        return PCO_OK;
    }
    return PCO_OK;
}

pco_status pco_conformance_waive(pco_conformance_waivers *waivers, const pco_conformance_device *device,
                                 pco_conformance_result *result, pco_error *err)
{
    for (uint32_t i = 0; i < result->n_cases; i++) {
        pco_conformance_case *one = &result->cases[i];
        pco_conformance_state before = one->state;
        pco_status status = waivers_apply(waivers, device, one, err);
        if (status) return status;
        if (one->state == before) continue;
        result->count[before]--, result->count[one->state]++;
        for (uint32_t k = 0; k < result->n_ops; k++)
            if (result->ops[k].op == one->op) result->ops[k].count[before]--, result->ops[k].count[one->state]++;
    }
    return PCO_OK;
}
