/* The log of a run: a line that says which run it is, then a line per record and one per finished case. Lines
 * are only ever appended; a last line that was cut off is dropped. Records of a case that was not finished do
 * not count. */
#include "cases/cases.h"
#include "isolate/isolate.h"
#include "run/result.h"
#include "isolate/wire.h"

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { LOG_VERSION = 1 };

struct pco_conformance_log {
    char *path;
    int fd;
    int is_regular;  /* or a pipe, a terminal: nothing to go on from */
    pco_writer next; /* lines that are still to be written */
    uint32_t count;
    cJSON **lines; /* of the runs before, without the header */
};

/* ---- the header ---- */

static bool log_hash_case(void *user, const conf_case *one)
{
    uint64_t *hash = user;
    *hash = pco_hash(*hash, one->label, strlen(one->label) + 1);
    return true;
}

static void log_member(pco_json_writer *writer, const char *key, const char *text)
{
    pco_json_key(writer, key);
    pco_json_write_string(writer, text);
}

/* Operations of one's own are what their library's file was: what its functions compute is seen nowhere else. */
static void log_library(pco_json_writer *writer, const char *path)
{
    char digest[PCO_SHA256_TEXT] = "unreadable";
    pco_sha256 sha;
    pco_map map;
    pco_error err;
    if (!pco_map_open(path, &map, &err)) {
        pco_sha256_start(&sha);
        pco_sha256_add(&sha, map.data, map.size);
        pco_sha256_finish_text(&sha, digest);
        pco_map_close(&map);
    }
    log_member(writer, "library", digest);
}

static void log_header(pco_writer *out, const pco_conformance_options *options, const pco_conformance_device *devices,
                       uint32_t n_devices)
{
    char text[32];
    uint64_t hash = PCO_HASH_START;
    conf_cases_visit(options->tier, NULL, log_hash_case, &hash);
    pco_json_writer writer = {.out = out};
    pco_json_begin_object(&writer);
    pco_json_key(&writer, "portico_conformance_log");
    pco_json_write_int(&writer, LOG_VERSION);
    log_member(&writer, "version", PCO_VERSION);
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    log_member(&writer, "suite", text);
    log_member(&writer, "tier", pco_conformance_tier_name(options->tier));
    snprintf(text, sizeof text, "%" PRIu32 "/%" PRIu32, options->slice.number, options->slice.count);
    log_member(&writer, "slice", options->slice.count ? text : "*");
    snprintf(text, sizeof text, "%" PRIu64, options->seed);
    log_member(&writer, "seed", text);
    log_member(&writer, "ops", options->ops ? options->ops : "*");
    if (options->own_from) log_library(&writer, options->own_from);
    log_member(&writer, "variant", options->variant ? options->variant : "*");
    snprintf(text, sizeof text, "%08" PRIx32, options->case_id);
    log_member(&writer, "case", options->case_id ? text : "*");
    snprintf(text, sizeof text, "%" PRIu32, options->replays);
    log_member(&writer, "replays", text);
    for (uint32_t i = 0; i < n_devices; i++) {
        char key[32];
        snprintf(key, sizeof key, "device %" PRIu32, i + 1);
        pco_json_key(&writer, key);
        char device[700];
        snprintf(device, sizeof device, "%s, %s, %s", devices[i].id, devices[i].info->name, devices[i].info->driver);
        pco_json_write_string(&writer, device);
    }
    pco_json_end_object(&writer);
    pco_write_char(out, '\n');
}

/* The first member in which two headers differ. */
static pco_status log_compare(const char *path, const cJSON *old, const cJSON *now, pco_error *err)
{
    for (const cJSON *member = now->child; member; member = member->next) {
        const cJSON *was = cJSON_GetObjectItemCaseSensitive(old, member->string);
        const char *text = cJSON_IsString(was) ? was->valuestring : NULL;
        if (cJSON_Compare(was, member, 1)) continue;
        return pco_fail(
            err, PCO_ERROR_INVALID,
            "%s: this is the log of another run: its %s is %s%.100s%s, now it is '%.100s'; use another file", path,
            member->string, text ? "'" : "", text ? text : "absent", text ? "'" : "",
            member->valuestring ? member->valuestring : "another");
    }
    if (cJSON_GetArraySize(old) != cJSON_GetArraySize(now))
        return pco_fail(err, PCO_ERROR_INVALID, "%s: this is the log of a run on more devices; use another file", path);
    return PCO_OK;
}

/* ---- reading ---- */

static pco_status log_line(pco_conformance_log *log, const char *text, size_t length, uint32_t number, const cJSON *now,
                           pco_error *err)
{
    char label[400];
    cJSON *line;
    snprintf(label, sizeof label, "%.300s: line %" PRIu32, log->path, number);
    pco_status status = pco_json_parse(text, length, label, &line, err);
    if (status) return status;
    if (number == 1) {
        if (!cJSON_HasObjectItem(line, "portico_conformance_log"))
            status = pco_fail(err, PCO_ERROR_FORMAT, "%s: this is no log of a conformance run", log->path);
        else
            status = log_compare(log->path, line, now, err);
        cJSON_Delete(line);
        return status;
    }
    if (log->count % 256 == 0) {
        cJSON **grown = realloc(log->lines, (log->count + 256) * sizeof *grown);
        if (!grown) {
            cJSON_Delete(line);
            return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the log");
        }
        log->lines = grown;
    }
    log->lines[log->count++] = line;
    return PCO_OK;
}

/* Reads all whole lines; *end: where they end. */
static pco_status log_read(pco_conformance_log *log, const cJSON *now, size_t *end, pco_error *err)
{
    pco_map map;
    pco_status status = pco_map_descriptor(log->fd, log->path, &map, err);
    if (status) return status;
    *end = 0;
    for (uint32_t number = 1; !status && *end < map.size; number++) {
        const char *at = (const char *)map.data + *end, *stop = memchr(at, '\n', map.size - *end);
        if (!stop && number == 1)
            status = pco_fail(err, PCO_ERROR_FORMAT, "%s: this is no log of a conformance run", log->path);
        if (!stop) break;
        status = log_line(log, at, (size_t)(stop - at), number, now, err);
        *end += (size_t)(stop - at) + 1;
    }
    pco_map_close(&map);
    return status;
}

/* Opens the file, goes on behind the last whole line of one that is there, and begins one that is not. */
static pco_status log_start(pco_conformance_log *log, pco_writer *header, const cJSON *now, pco_error *err)
{
    size_t end = 0;
    pco_status status = pco_file_open_log(log->path, &log->fd, &log->is_regular, err);
    if (status) return status;
    if (log->is_regular && flock(log->fd, LOCK_EX | LOCK_NB) != 0)
        return pco_fail(err, PCO_ERROR_INVALID, "%s: another run writes this log", log->path);
    if (log->is_regular) status = log_read(log, now, &end, err);
    if (!status && log->is_regular && ftruncate(log->fd, (off_t)end) != 0)
        status = pco_fail(err, PCO_ERROR_IO, "%s: cannot write: %s", log->path, strerror(errno));
    return status || end ? status : pco_writer_flush(header, log->fd, log->path, err);
}

pco_status pco_conformance_log_open(const char *path, const pco_conformance_options *options,
                                    const pco_conformance_device *devices, uint32_t n_devices,
                                    pco_conformance_log **out, pco_error *err)
{
    cJSON *now = NULL;
    pco_writer header = {0};
    pco_conformance_log *log = calloc(1, sizeof *log);
    if (log) log->fd = -1;
    if (log) log->path = strdup(path);
    log_header(&header, options, devices, n_devices);
    pco_status status = pco_writer_check(&header, path, err);
    if (!status && (!log || !log->path))
        status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "%s: out of host memory", path);
    if (!status) status = pco_json_parse(header.data, strcspn(header.data, "\n"), "a log's header", &now, err);
    if (!status) status = log_start(log, &header, now, err);
    pco_writer_release(&header);
    cJSON_Delete(now);
    if (status) {
        pco_conformance_log_close(log);
        log = NULL;
    }
    *out = log;
    return status;
}

void pco_conformance_log_close(pco_conformance_log *log)
{
    if (!log) return;
    for (uint32_t i = 0; i < log->count; i++) cJSON_Delete(log->lines[i]);
    free(log->lines);
    pco_writer_release(&log->next);
    if (log->fd >= 0) close(log->fd);
    free(log->path);
    free(log);
}

/* ---- records ---- */

static bool log_is_of(const cJSON *line, const char *device_id, uint64_t seed)
{
    pco_error err;
    const char *device;
    uint64_t its;
    return pco_json_string(line, "a log", "device", &device, &err) == PCO_OK && strcmp(device, device_id) == 0 &&
           conf_wire_uint(line, "seed", &its, &err) == PCO_OK && its == seed;
}

pco_status conf_log_replay(pco_conformance_log *log, const char *device_id, uint64_t seed, conf_list *list,
                           conf_units *units, conf_constants *constants, pco_error *err)
{
    uint32_t id;
    pco_status status = PCO_OK;
    for (uint32_t i = 0; i < log->count; i++) { /* which cases are finished? */
        const cJSON *line = log->lines[i];
        pco_error ignored;
        if (!log_is_of(line, device_id, seed) || conf_wire_id(line, "done", &id, &ignored)) continue;
        uint32_t order = conf_list_find(list, id);
        if (order != PCO_NONE) list->items[order].done = true;
    }
    for (uint32_t i = 0; i < log->count && !status; i++) {
        const cJSON *line = log->lines[i];
        pco_conformance_case one = {0};
        pco_conformance_constant seen;
        int64_t unit;
        if (!log_is_of(line, device_id, seed) || cJSON_HasObjectItem(line, "done")) continue;
        if (cJSON_HasObjectItem(line, "kernel")) {
            status = conf_wire_read_constant(line, &seen, err);
            if (!status) status = conf_constants_note(constants, &seen, NULL, err);
            if (status) return pco_fail_prefix(err, status, "%s: line %" PRIu32, log->path, i + 2);
            continue;
        }
        status = conf_wire_read(line, &one, err);
        if (!status) status = pco_json_int(line, "a record", "unit", 0, UINT32_MAX, &unit, err);
        if (status) return pco_fail_prefix(err, status, "%s: line %" PRIu32, log->path, i + 2);
        uint32_t order = conf_list_find(list, one.id);
        if (order == PCO_NONE || !list->items[order].done) continue;
        const conf_listed *listed = &list->items[order];
        one.op = listed->op, one.op_name = listed->op_name, one.regime = listed->regime;
        one.dtype = listed->dtype, one.label = listed->label;
        status = conf_units_add(units, order, (uint32_t)unit, &one, err);
    }
    return status;
}

void conf_log_constant(pco_conformance_log *log, const char *device_id, uint64_t seed,
                       const pco_conformance_constant *seen)
{
    char text[32];
    pco_json_writer writer = {.out = &log->next};
    pco_json_begin_object(&writer);
    log_member(&writer, "device", device_id);
    snprintf(text, sizeof text, "%" PRIu64, seed);
    log_member(&writer, "seed", text);
    conf_wire_write_constant(&writer, seen);
    pco_json_end_object(&writer);
    pco_write_char(&log->next, '\n');
}

pco_status conf_log_write(pco_conformance_log *log, const char *device_id, uint64_t seed, const conf_units *units,
                          const conf_list *list, uint32_t begin, uint32_t end, pco_error *err)
{
    char text[32];
    for (uint32_t i = 0; i < units->count; i++) {
        pco_json_writer writer = {.out = &log->next};
        pco_json_begin_object(&writer);
        log_member(&writer, "device", device_id);
        pco_json_key(&writer, "unit");
        pco_json_write_int(&writer, units->items[i].unit);
        conf_wire_write(&writer, &units->items[i].one);
        pco_json_end_object(&writer);
        pco_write_char(&log->next, '\n');
    }
    for (uint32_t i = begin; i < end; i++) {
        pco_json_writer writer = {.out = &log->next};
        pco_json_begin_object(&writer);
        log_member(&writer, "device", device_id);
        snprintf(text, sizeof text, "%" PRIu64, seed);
        log_member(&writer, "seed", text);
        snprintf(text, sizeof text, "%08" PRIx32, list->items[i].id);
        log_member(&writer, "done", text);
        pco_json_end_object(&writer);
        pco_write_char(&log->next, '\n');
    }
    pco_status status = pco_writer_flush(&log->next, log->fd, log->path, err);
    if (!status && log->is_regular && fdatasync(log->fd) != 0)
        status = pco_fail(err, PCO_ERROR_IO, "%s: the log cannot be written: %s", log->path, strerror(errno));
    return status;
}
