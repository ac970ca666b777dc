/* report.json back into structs. Every member that is used is checked; the message says where it is. */
#include "run/probe.h"
#include "report/report_parts.h"

#include "base/error.h"
#include "base/file.h"
#include "formats/json.h"
#include "graph/op.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void conf_report_path(char *path, size_t size, const char *folder, const char *name)
{
    size_t length = strlen(folder);
    snprintf(path, size, "%s%s%s", folder, length && folder[length - 1] == '/' ? "" : "/", name);
}

pco_status conf_report_load(const char *folder, cJSON **root, pco_error *err)
{
    char path[1024];
    const char *schema;
    *root = NULL;
    if (strlen(folder) > 900) return pco_fail(err, PCO_ERROR_IO, "the name of the folder is too long");
    if (!pco_is_directory(folder)) return pco_fail(err, PCO_ERROR_IO, "%s: no such folder", folder);
    conf_report_path(path, sizeof path, folder, "report.json");
    pco_status status = pco_json_load(path, root, err);
    if (status) return status;
    if (!cJSON_IsObject(*root))
        status = pco_fail(err, PCO_ERROR_FORMAT, "%s: no conformance report: not an object", path);
    if (!status) status = pco_json_string_or(*root, path, "schema", "", &schema, err);
    if (!status && strcmp(schema, PCO_CONFORMANCE_SCHEMA) != 0)
        status = pco_fail(err, PCO_ERROR_FORMAT, "%s: no report of this program: schema '%.80s', expected '%s'", path,
                          schema, PCO_CONFORMANCE_SCHEMA);
    if (!status) return PCO_OK;
    cJSON_Delete(*root);
    *root = NULL;
    return status;
}

/* ---- members ---- */

typedef struct conf_read {
    const char *label; /* the file, and where in it */
    pco_conformance_report *report;
    pco_error *err;
    pco_status status; /* the first that went wrong; nothing is read after it */
} conf_read;

static const char *conf_read_text(conf_read *read, const cJSON *object, const char *key)
{
    const char *text = "";
    if (!read->status) read->status = pco_json_string(object, read->label, key, &text, read->err);
    return read->status ? "" : text;
}

static const char *conf_read_text_or(conf_read *read, const cJSON *object, const char *key, const char *fallback)
{
    const char *text = fallback;
    if (!read->status) read->status = pco_json_string_or(object, read->label, key, fallback, &text, read->err);
    return read->status ? "" : text;
}

static int64_t conf_read_int(conf_read *read, const cJSON *object, const char *key, int64_t least, int64_t most)
{
    int64_t value = least;
    if (!read->status) read->status = pco_json_int(object, read->label, key, least, most, &value, read->err);
    return value;
}

static uint32_t conf_read_uint(conf_read *read, const cJSON *object, const char *key)
{
    return (uint32_t)conf_read_int(read, object, key, 0, UINT32_MAX);
}

static double conf_read_number(conf_read *read, const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    const char *text = cJSON_GetStringValue(item);
    double value = 0;
    if (read->status) return 0;
    if (text && strcmp(text, "nan") == 0) return (double)NAN;
    if (text && strcmp(text, "inf") == 0) return (double)INFINITY;
    if (text && strcmp(text, "-inf") == 0) return (double)-INFINITY;
    read->status = pco_json_number(object, read->label, key, -HUGE_VAL, HUGE_VAL, &value, read->err);
    return value;
}

/* Digits as text. */
static uint64_t conf_read_digits(conf_read *read, const cJSON *object, const char *key, int base)
{
    const char *text = conf_read_text(read, object, key);
    char *end;
    errno = 0;
    uint64_t value = strtoull(text, &end, base);
    if (!read->status && (!*text || *end || errno || !strchr("0123456789abcdef", *text)))
        read->status =
            pco_fail(read->err, PCO_ERROR_FORMAT, "%s: %s: '%.40s' is no number of digits", read->label, key, text);
    return value;
}

static const cJSON *conf_read_member(conf_read *read, const cJSON *object, const char *key, bool array)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (read->status || (array ? cJSON_IsArray(item) : cJSON_IsObject(item))) return item;
    read->status =
        pco_fail(read->err, PCO_ERROR_FORMAT, "%s: '%s' should be an %s", read->label, key, array ? "array" : "object");
    return NULL;
}

static char *conf_read_keep(conf_read *read, const char *text)
{
    char *copy = pco_arena_text(&read->report->texts, text);
    if (!copy && !read->status)
        read->status = pco_fail(read->err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the report");
    return copy;
}

/* A text that pco_conformance_clear gives back. */
static const char *conf_read_own(conf_read *read, const char *text)
{
    char *copy = read->status ? NULL : strdup(text);
    if (!copy && !read->status)
        read->status = pco_fail(read->err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the report");
    return copy;
}

static void *conf_read_zeroed(conf_read *read, size_t count, size_t size)
{
    void *memory = read->status ? NULL : calloc(count + 1, size);
    if (!memory && !read->status)
        read->status = pco_fail(read->err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the report");
    return memory;
}

/* ---- devices ---- */

static uint32_t conf_read_accumulator(conf_read *read, const cJSON *object, const char *key)
{
    const char *text = conf_read_text(read, object, key);
    for (uint32_t type = 0; type < PCO_DTYPE_COUNT; type++)
        if (strcmp(text, pco_accumulator_word(type)) == 0) return type;
    if (!read->status && strcmp(text, "f64") != 0)
        read->status = pco_fail(read->err, PCO_ERROR_FORMAT, "%s: %s: '%.40s' is no type", read->label, key, text);
    return PCO_CONTRACT_F64;
}

static void conf_read_contract(conf_read *read, const cJSON *at, pco_contract *c)
{
    c->accumulate_f32 = conf_read_accumulator(read, at, "accumulate_f32");
    c->accumulate_f16 = conf_read_accumulator(read, at, "accumulate_f16");
    c->accumulate_bf16 = conf_read_accumulator(read, at, "accumulate_bf16");
    c->compute = conf_read_accumulator(read, at, "compute");
    c->round_to_nearest = conf_read_uint(read, at, "round_to_nearest");
    c->subnormals = conf_read_uint(read, at, "subnormals");
    c->contraction = conf_read_uint(read, at, "contraction");
    c->nan_inf = conf_read_uint(read, at, "nan_inf");
    c->div_ulp = (float)conf_read_number(read, at, "div_ulp");
    c->sqrt_ulp = (float)conf_read_number(read, at, "sqrt_ulp");
    c->rsqrt_ulp = (float)conf_read_number(read, at, "rsqrt_ulp");
    c->function_ulp = (float)conf_read_number(read, at, "function_ulp");
}

static void conf_read_limits(conf_read *read, const cJSON *at, pco_device_info *info)
{
    info->memory = conf_read_digits(read, at, "memory", 10);
    info->max_allocation = conf_read_digits(read, at, "max_allocation", 10);
    info->max_binding = conf_read_digits(read, at, "max_binding", 10);
    info->buffer_alignment = conf_read_uint(read, at, "buffer_alignment");
    info->max_workgroup = conf_read_uint(read, at, "max_workgroup");
    info->shared_memory = conf_read_uint(read, at, "shared_memory");
    info->subgroup_min = conf_read_uint(read, at, "subgroup_min");
    info->subgroup_max = conf_read_uint(read, at, "subgroup_max");
    const char *edges = conf_read_text(read, at, "edges");
    while (*edges && info->n_edges < PCO_MAX_EDGES) {
        char *end;
        info->edges[info->n_edges++] = (uint32_t)strtoul(edges, &end, 10);
        edges = *end ? end + 1 : end;
    }
}

static void conf_read_device(conf_read *read, const cJSON *at, pco_conformance_device *device, pco_device_info *info)
{
    const char *uuid = conf_read_text(read, at, "uuid");
    info->size = sizeof *info;
    device->info = info;
    device->id = conf_read_keep(read, conf_read_text(read, at, "id"));
    snprintf(info->name, sizeof info->name, "%s", conf_read_text(read, at, "name"));
    snprintf(info->driver, sizeof info->driver, "%s", conf_read_text(read, at, "driver"));
    snprintf(info->platform, sizeof info->platform, "%s", conf_read_text(read, at, "platform"));
    snprintf(info->aliases, sizeof info->aliases, "%s", conf_read_text(read, at, "aliases"));
    snprintf(info->not_in_build, sizeof info->not_in_build, "%s", conf_read_text(read, at, "not_in_build"));
    for (size_t i = 0; i < 16 && strlen(uuid) == 32; i++) {
        char digits[3] = {uuid[2 * i], uuid[2 * i + 1], 0};
        info->uuid[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    info->type = conf_read_uint(read, at, "type");
    snprintf(info->api, sizeof info->api, "%s", conf_read_text_or(read, at, "api", ""));
    snprintf(info->driver_version, sizeof info->driver_version, "%s",
             conf_read_text_or(read, at, "driver_version", ""));
    snprintf(info->driver_file, sizeof info->driver_file, "%s", conf_read_text_or(read, at, "driver_file", ""));
    info->vendor_id = (uint32_t)strtoul(conf_read_text_or(read, at, "vendor_id", "0"), NULL, 16);
    info->device_id = (uint32_t)strtoul(conf_read_text_or(read, at, "device_id", "0"), NULL, 16);
    const cJSON *features = conf_read_member(read, at, "features", true), *feature;
    cJSON_ArrayForEach(feature, features) for (int i = 0; i < PCO_N_FEATURE_WORDS; i++)
    {
        const char *name = cJSON_GetStringValue(feature);
        if (name && strcmp(name, PCO_FEATURE_WORDS[i].name) == 0) info->features |= PCO_FEATURE_WORDS[i].bit;
    }
    conf_read_limits(read, conf_read_member(read, at, "limits", false), info);
    conf_read_contract(read, conf_read_member(read, at, "contract", false), &info->contract);
}

/* ---- results ---- */

static void conf_read_counts(conf_read *read, const cJSON *at, uint32_t *count)
{
    for (int state = 0; state < PCO_CASE_STATES; state++) {
        char key[32];
        snprintf(key, sizeof key, "%s", pco_conformance_state_name((pco_conformance_state)state));
        for (char *space; (space = strchr(key, ' ')) != NULL;) *space = '_';
        count[state] = conf_read_uint(read, at, key);
    }
}

/* The op's number and its name in this program; an op that it does not know keeps its name. */
static uint32_t conf_read_op(conf_read *read, const cJSON *at, const char **name)
{
    uint32_t count;
    const pco_op_info *table = pco_op_table(&count);
    const char *text = conf_read_text(read, at, "op");
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(table[i].name, text) == 0) {
            *name = table[i].name;
            return table[i].op;
        }
    *name = conf_read_keep(read, text);
    return PCO_NONE;
}

static void conf_read_row(conf_read *read, const cJSON *at, pco_conformance_op *op)
{
    op->op = conf_read_op(read, at, &op->name);
    conf_read_counts(read, at, op->count);
    op->variants = conf_read_uint(read, at, "variants");
    op->median_ratio = conf_read_number(read, at, "median_error_over_bound");
    op->max_ratio = conf_read_number(read, at, "max_error_over_bound");
    for (int kind = 0; kind < PCO_PIECE_KINDS; kind++) {
        if (!cJSON_HasObjectItem(at, CONF_PIECE_MEMBERS[kind][0])) continue;
        op->invariance.compared[kind] = conf_read_uint(read, at, CONF_PIECE_MEMBERS[kind][0]);
        op->invariance.differed[kind] = conf_read_uint(read, at, CONF_PIECE_MEMBERS[kind][1]);
    }
    snprintf(op->reason, sizeof op->reason, "%s", conf_read_text_or(read, at, "unsupported_because", ""));
}

static pco_conformance_state conf_read_state(conf_read *read, const cJSON *at)
{
    const char *text = conf_read_text(read, at, "state");
    for (int state = 0; state < PCO_CASE_STATES; state++)
        if (strcmp(text, pco_conformance_state_name((pco_conformance_state)state)) == 0)
            return (pco_conformance_state)state;
    if (!read->status)
        read->status = pco_fail(read->err, PCO_ERROR_FORMAT, "%s: '%.40s' is no state", read->label, text);
    return PCO_CASE_FAIL;
}

/* Names of regimes and types live as long as the report. */
static const char *conf_read_static(conf_read *read, const char *text, const char *last)
{
    return last && strcmp(last, text) == 0 ? last : conf_read_keep(read, text);
}

static void conf_read_replays(conf_read *read, const cJSON *parent, pco_conformance_replays *replays)
{
    if (!cJSON_HasObjectItem(parent, "replays")) return;
    const cJSON *at = conf_read_member(read, parent, "replays", false);
    replays->executions = (uint64_t)conf_read_int(read, at, "executions", 1, INT64_C(1) << 53);
    replays->differed = (uint64_t)conf_read_int(read, at, "differed", 0, INT64_C(1) << 53);
    replays->wrong = (uint64_t)conf_read_int(read, at, "wrong", 0, INT64_C(1) << 53);
    replays->distinct = (uint64_t)conf_read_int(read, at, "distinct", 0, INT64_C(1) << 53);
}

static void conf_read_probe(conf_read *read, const cJSON *parent, pco_conformance_probe *probe)
{
    if (!cJSON_HasObjectItem(parent, "probe")) return;
    const cJSON *at = conf_read_member(read, parent, "probe", false),
                *lines = conf_read_member(read, at, "lines", true), *item;
    snprintf(probe->message, sizeof probe->message, "%s", conf_read_text(read, at, "message"));
    cJSON_ArrayForEach(item, lines)
    {
        pco_conformance_probe_line line;
        if (read->status) break;
        read->status = conf_probe_line_read(item, read->label, &line, read->err);
        if (!read->status) read->status = conf_probe_add(probe, &line, read->err);
    }
    conf_probe_finish(probe);
    if (!read->status && conf_read_digits(read, at, "fingerprint", 16) != probe->fingerprint && !read->status)
        read->status =
            pco_fail(read->err, PCO_ERROR_FORMAT, "%s: the fingerprint is not that of its lines", read->label);
}

static void conf_read_case(conf_read *read, const cJSON *at, pco_conformance_case *one,
                           const pco_conformance_case *last, uint64_t seed)
{
    one->op = conf_read_op(read, at, &one->op_name);
    one->id = (uint32_t)conf_read_digits(read, at, "case", 16);
    one->seed = cJSON_HasObjectItem(at, "seed") ? conf_read_digits(read, at, "seed", 10) : seed;
    one->regime = conf_read_static(read, conf_read_text(read, at, "regime"), last ? last->regime : NULL);
    one->dtype = conf_read_static(read, conf_read_text(read, at, "dtype"), last ? last->dtype : NULL);
    one->state = conf_read_state(read, at);
    one->element = -1;
    if (cJSON_HasObjectItem(at, "width")) one->width = conf_read_uint(read, at, "width");
    one->seconds = conf_read_number(read, at, "seconds");
    one->elements = conf_read_int(read, at, "elements", 0, INT64_C(1) << 53);
    if (pco_conformance_state_is_judged(one->state)) {
        one->ratio = conf_read_number(read, at, "error_over_bound");
        one->output = conf_read_uint(read, at, "output");
        one->element = conf_read_int(read, at, "element", -1, INT64_C(1) << 53);
        one->wrong = conf_read_int(read, at, "wrong", 0, INT64_C(1) << 53);
        one->expected = conf_read_number(read, at, "expected");
        one->got = conf_read_number(read, at, "got");
        one->bound = conf_read_number(read, at, "bound");
    }
    conf_read_replays(read, at, &one->replays);
    snprintf(one->detail, sizeof one->detail, "%s", conf_read_text_or(read, at, "detail", ""));
    snprintf(one->repeat, sizeof one->repeat, "%s", conf_read_text_or(read, at, "repeat", ""));
    const char *waiver = conf_read_text_or(read, at, "waiver", NULL);
    one->label = conf_read_own(read, conf_read_text(read, at, "label"));
    one->variant = conf_read_own(read, conf_read_text(read, at, "variant"));
    if (waiver) one->waiver = conf_read_own(read, waiver);
}

static pco_conformance_tier conf_read_tier(conf_read *read, const cJSON *at)
{
    pco_conformance_tier tier = PCO_CONFORMANCE_QUICK;
    const char *text = conf_read_text(read, at, "tier");
    if (!read->status && !pco_conformance_tier_parse(text, &tier))
        read->status = pco_fail(read->err, PCO_ERROR_FORMAT, "%s: '%.40s' is no tier", read->label, text);
    return tier;
}

static void conf_read_rounds(conf_read *read, const cJSON *at, pco_conformance_result *result)
{
    const cJSON *rounds = cJSON_GetObjectItemCaseSensitive(at, "rounds"), *item;
    if (!rounds) return;
    rounds = conf_read_member(read, at, "rounds", true);
    result->each_round = conf_read_zeroed(read, (size_t)cJSON_GetArraySize(rounds), sizeof *result->each_round);
    cJSON_ArrayForEach(item, rounds)
    {
        if (read->status) break;
        pco_conformance_round *round = &result->each_round[result->rounds++];
        round->seed = conf_read_digits(read, item, "seed", 10);
        round->cases = conf_read_uint(read, item, "cases");
        round->records = conf_read_uint(read, item, "records");
        conf_read_counts(read, item, round->count);
        round->seconds = conf_read_number(read, item, "seconds");
        round->cut = cJSON_HasObjectItem(item, "cut");
        snprintf(round->end, sizeof round->end, "%.63s", conf_read_text_or(read, item, "cut", ""));
    }
}

static void conf_read_result(conf_read *read, const cJSON *at, const char *file, pco_conformance_result *result)
{
    char label[1200];
    const cJSON *ops = conf_read_member(read, at, "ops", true), *cases = conf_read_member(read, at, "cases", true),
                *item;
    result->tier = conf_read_tier(read, at);
    result->seed = conf_read_digits(read, at, "seed", 10);
    result->seconds = conf_read_number(read, at, "seconds");
    result->status = (pco_status)conf_read_int(read, at, "status", 0, 1000);
    snprintf(result->message, sizeof result->message, "%s", conf_read_text(read, at, "message"));
    result->not_opened = cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(at, "opened")); /* earlier reports: no word */
    conf_read_counts(read, at, result->count);
    conf_read_replays(read, at, &result->replays);
    conf_read_probe(read, at, &result->probe);
    conf_read_rounds(read, at, result);
    result->ops = conf_read_zeroed(read, (size_t)cJSON_GetArraySize(ops), sizeof *result->ops);
    result->cases = conf_read_zeroed(read, (size_t)cJSON_GetArraySize(cases), sizeof *result->cases);
    const char *outer = read->label;
    read->label = label;
    cJSON_ArrayForEach(item, ops)
    {
        if (read->status) break;
        snprintf(label, sizeof label, "%s: device %s: ops[%" PRIu32 "]", file, result->device_id, result->n_ops);
        conf_read_row(read, item, &result->ops[result->n_ops++]);
    }
    cJSON_ArrayForEach(item, cases)
    {
        if (read->status) break;
        snprintf(label, sizeof label, "%s: device %s: cases[%" PRIu32 "]", file, result->device_id, result->n_cases);
        pco_conformance_case *one = &result->cases[result->n_cases++];
        conf_read_case(read, item, one, result->n_cases > 1 ? one - 1 : NULL, result->seed);
    }
    read->label = outer;
}

static void conf_read_head(conf_read *read, const cJSON *root)
{
    pco_conformance_report *report = read->report;
    const cJSON *suite = conf_read_member(read, root, "suite", false),
                *run = conf_read_member(read, root, "run", false);
    snprintf(report->program, sizeof report->program, "%s", conf_read_text(read, root, "program"));
    snprintf(report->written, sizeof report->written, "%s", conf_read_text(read, root, "written"));
    snprintf(report->digest, sizeof report->digest, "%s", conf_read_text(read, root, "digest"));
    const cJSON *host = cJSON_GetObjectItemCaseSensitive(root, "host"); /* earlier reports: no word of these */
    const char *command = conf_read_text_or(read, root, "command", NULL);
    snprintf(report->commit, sizeof report->commit, "%s", conf_read_text_or(read, root, "commit", ""));
    if (command) report->command = conf_read_keep(read, command);
    if (host) {
        snprintf(report->os, sizeof report->os, "%s", conf_read_text(read, host, "os"));
        snprintf(report->kernel, sizeof report->kernel, "%s", conf_read_text(read, host, "kernel"));
    }
    report->suite_version = conf_read_uint(read, suite, "version");
    snprintf(report->suite_hash, sizeof report->suite_hash, "%s", conf_read_text(read, suite, "hash"));
    report->options.tier = conf_read_tier(read, suite);
    report->options.seed = conf_read_digits(read, run, "seed", 10);
    const char *ops = conf_read_text_or(read, run, "ops", NULL),
               *variant = conf_read_text_or(read, run, "variant", NULL);
    if (ops) report->options.ops = conf_read_keep(read, ops);
    if (variant) report->options.variant = conf_read_keep(read, variant);
    if (cJSON_HasObjectItem(run, "case")) report->options.case_id = (uint32_t)conf_read_digits(read, run, "case", 16);
    const char *slice = conf_read_text_or(read, run, "slice", NULL);
    if (slice && !read->status && !pco_conformance_slice_parse(slice, &report->options.slice))
        read->status = pco_fail(read->err, PCO_ERROR_FORMAT, "%s: '%.40s' is no slice", read->label, slice);
}

pco_status conf_report_from_tree(const cJSON *root, const char *label, pco_conformance_report *report, pco_error *err)
{
    conf_read read = {.label = label, .report = report, .err = err};
    *report = (pco_conformance_report){0};
    conf_read_head(&read, root);
    const cJSON *results = conf_read_member(&read, root, "conformance", true), *at;
    size_t count = results ? (size_t)cJSON_GetArraySize(results) : 0;
    report->devices = conf_read_zeroed(&read, count, sizeof *report->devices);
    report->results = conf_read_zeroed(&read, count, sizeof *report->results);
    pco_device_info *infos = report->infos = conf_read_zeroed(&read, count, sizeof *infos);
    cJSON_ArrayForEach(at, results)
    {
        uint32_t i = report->n_devices;
        if (read.status) break;
        conf_read_device(&read, conf_read_member(&read, at, "device", false), &report->devices[i], &infos[i]);
        if (read.status) break;
        report->n_devices++;
        report->results[i].device_id = report->devices[i].id;
        conf_read_result(&read, at, label, &report->results[i]);
    }
    return read.status;
}

pco_status pco_conformance_report_read(const char *folder, pco_conformance_report *report, pco_error *err)
{
    char path[1024];
    cJSON *root;
    *report = (pco_conformance_report){0};
    pco_status status = conf_report_load(folder, &root, err);
    if (status) return status;
    conf_report_path(path, sizeof path, folder, "report.json");
    status = conf_report_from_tree(root, path, report, err);
    cJSON_Delete(root);
    return status;
}

void pco_conformance_report_clear(pco_conformance_report *report)
{
    if (report->results) pco_conformance_clear(report->results, report->n_devices);
    free(report->devices);
    free(report->results);
    free(report->infos);
    pco_arena_release(&report->texts);
    *report = (pco_conformance_report){0};
}
