/* A report as a tree of JSON values. docs/conformance-schema.json says what is in it. */
#include "report/report_parts.h"

#include "base/error.h"
#include "formats/json.h"
#include "oracle/oracle_number.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *conf_verdict_name(pco_conformance_verdict verdict)
{
    static const char *const VERDICTS[] = {"pass", "fail", "nothing tested"};
    return VERDICTS[verdict];
}

/* ---- building: what cannot be allocated is remembered ---- */

typedef struct conf_tree {
    bool failed;
} conf_tree;

static cJSON *conf_tree_keep(conf_tree *tree, cJSON *item)
{
    if (!item) tree->failed = true;
    return item;
}

static void conf_tree_text(conf_tree *tree, cJSON *object, const char *key, const char *text)
{
    conf_tree_keep(tree, cJSON_AddStringToObject(object, key, text));
}

static void conf_tree_number(conf_tree *tree, cJSON *object, const char *key, double value)
{
    if (isfinite(value))
        conf_tree_keep(tree, cJSON_AddNumberToObject(object, key, value));
    else
        conf_tree_text(tree, object, key, isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
}

/* Numbers in JSON are doubles for most readers: what may lie beyond 2^53 is text. */
static void conf_tree_wide(conf_tree *tree, cJSON *object, const char *key, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    conf_tree_text(tree, object, key, text);
}

static void conf_tree_hex(conf_tree *tree, cJSON *object, const char *key, uint32_t value)
{
    char text[16];
    snprintf(text, sizeof text, "0x%04" PRIx32, value);
    conf_tree_text(tree, object, key, text);
}

static cJSON *conf_tree_object(conf_tree *tree, cJSON *parent, const char *key)
{
    return conf_tree_keep(tree, cJSON_AddObjectToObject(parent, key));
}

static cJSON *conf_tree_element(conf_tree *tree, cJSON *array)
{
    cJSON *object = cJSON_CreateObject();
    if (pco_json_give(array, NULL, object)) return object;
    tree->failed = true;
    return NULL;
}

/* ---- parts ---- */

static void conf_tree_contract(conf_tree *tree, cJSON *parent, const pco_contract *c)
{
    cJSON *at = conf_tree_object(tree, parent, "contract");
    conf_tree_text(tree, at, "accumulate_f32", pco_accumulator_word(c->accumulate_f32));
    conf_tree_text(tree, at, "accumulate_f16", pco_accumulator_word(c->accumulate_f16));
    conf_tree_text(tree, at, "accumulate_bf16", pco_accumulator_word(c->accumulate_bf16));
    conf_tree_text(tree, at, "compute", pco_accumulator_word(c->compute));
    conf_tree_number(tree, at, "round_to_nearest", c->round_to_nearest);
    conf_tree_number(tree, at, "subnormals", c->subnormals);
    conf_tree_number(tree, at, "contraction", c->contraction);
    conf_tree_number(tree, at, "nan_inf", c->nan_inf);
    conf_tree_number(tree, at, "div_ulp", (double)c->div_ulp);
    conf_tree_number(tree, at, "sqrt_ulp", (double)c->sqrt_ulp);
    conf_tree_number(tree, at, "rsqrt_ulp", (double)c->rsqrt_ulp);
    conf_tree_number(tree, at, "function_ulp", (double)c->function_ulp);
}

static void conf_tree_limits(conf_tree *tree, cJSON *parent, const pco_device_info *info)
{
    cJSON *at = conf_tree_object(tree, parent, "limits");
    conf_tree_wide(tree, at, "memory", info->memory);
    conf_tree_wide(tree, at, "max_allocation", info->max_allocation);
    conf_tree_wide(tree, at, "max_binding", info->max_binding);
    conf_tree_number(tree, at, "buffer_alignment", info->buffer_alignment);
    conf_tree_number(tree, at, "max_workgroup", info->max_workgroup);
    conf_tree_number(tree, at, "shared_memory", info->shared_memory);
    conf_tree_number(tree, at, "subgroup_min", info->subgroup_min);
    conf_tree_number(tree, at, "subgroup_max", info->subgroup_max);
    char edges[PCO_MAX_EDGES * 11 + 1] = "";
    for (uint32_t i = 0, length = 0; i < info->n_edges && i < PCO_MAX_EDGES; i++)
        length += (uint32_t)snprintf(edges + length, sizeof edges - length, "%s%" PRIu32, i ? " " : "", info->edges[i]);
    conf_tree_text(tree, at, "edges", edges);
}

static void conf_tree_device(conf_tree *tree, cJSON *parent, const pco_conformance_device *device)
{
    const pco_device_info *info = device->info;
    char uuid[33];
    cJSON *at = conf_tree_object(tree, parent, "device");
    for (int i = 0; i < 16; i++) snprintf(uuid + 2 * i, 3, "%02x", info->uuid[i]);
    conf_tree_text(tree, at, "id", device->id);
    conf_tree_text(tree, at, "name", info->name);
    conf_tree_text(tree, at, "driver", info->driver);
    conf_tree_text(tree, at, "platform", info->platform);
    conf_tree_text(tree, at, "aliases", info->aliases);
    conf_tree_text(tree, at, "uuid", uuid);
    conf_tree_number(tree, at, "type", info->type);
    conf_tree_text(tree, at, "api", info->api);
    conf_tree_hex(tree, at, "vendor_id", info->vendor_id);
    conf_tree_hex(tree, at, "device_id", info->device_id);
    conf_tree_text(tree, at, "driver_version", info->driver_version);
    conf_tree_text(tree, at, "driver_file", info->driver_file);
    conf_tree_limits(tree, at, info);
    cJSON *features = conf_tree_keep(tree, cJSON_AddArrayToObject(at, "features"));
    for (int i = 0; i < PCO_N_FEATURE_WORDS; i++) {
        if (!(info->features & PCO_FEATURE_WORDS[i].bit)) continue;
        if (!pco_json_give(features, NULL, cJSON_CreateString(PCO_FEATURE_WORDS[i].name))) tree->failed = true;
    }
    conf_tree_text(tree, at, "not_in_build", info->not_in_build);
    conf_tree_contract(tree, at, &info->contract);
}

static void conf_tree_counts(conf_tree *tree, cJSON *at, const uint32_t *count)
{
    for (int state = 0; state < PCO_CASE_STATES; state++) {
        char key[32];
        snprintf(key, sizeof key, "%s", pco_conformance_state_name((pco_conformance_state)state));
        for (char *space; (space = strchr(key, ' ')) != NULL;) *space = '_';
        conf_tree_number(tree, at, key, count[state]);
    }
}

static void conf_tree_replays(conf_tree *tree, cJSON *parent, const pco_conformance_replays *replays)
{
    if (!replays->executions) return;
    cJSON *at = conf_tree_object(tree, parent, "replays");
    conf_tree_number(tree, at, "executions", (double)replays->executions);
    conf_tree_number(tree, at, "differed", (double)replays->differed);
    conf_tree_number(tree, at, "wrong", (double)replays->wrong);
    conf_tree_number(tree, at, "distinct", (double)replays->distinct);
    conf_tree_number(tree, at, "differ_at_most", pco_conformance_flake_bound(replays->differed, replays->executions));
}

static void conf_tree_probe(conf_tree *tree, cJSON *parent, const pco_conformance_probe *probe)
{
    if (!probe->n_lines && !probe->message[0]) return;
    cJSON *at = conf_tree_object(tree, parent, "probe");
    char text[24];
    snprintf(text, sizeof text, "%016" PRIx64, probe->fingerprint);
    conf_tree_text(tree, at, "fingerprint", text);
    conf_tree_number(tree, at, "broken", probe->broken);
    conf_tree_text(tree, at, "message", probe->message);
    cJSON *lines = conf_tree_keep(tree, cJSON_AddArrayToObject(at, "lines"));
    for (uint32_t i = 0; i < probe->n_lines; i++) {
        const pco_conformance_probe_line *line = &probe->lines[i];
        cJSON *row = conf_tree_element(tree, lines);
        conf_tree_text(tree, row, "probe", line->name);
        conf_tree_text(tree, row, "value", line->value);
        conf_tree_text(tree, row, "declared", line->declared);
        conf_tree_text(tree, row, "verdict", pco_conformance_probe_word(line->verdict));
        conf_tree_number(tree, row, "bits", line->bits);
    }
}

static pco_status conf_tree_op(conf_tree *tree, cJSON *rows, const pco_conformance_result *result,
                               const pco_conformance_op *op, const pco_contract *contract, pco_error *err)
{
    conf_figures figures;
    pco_status status = conf_figures_make(result, op->op, contract, &figures, err);
    if (status) return status;
    cJSON *at = conf_tree_element(tree, rows);
    conf_tree_text(tree, at, "op", op->name);
    conf_tree_counts(tree, at, op->count);
    conf_tree_number(tree, at, "variants", op->variants);
    conf_tree_number(tree, at, "median_error_over_bound", op->median_ratio);
    conf_tree_number(tree, at, "max_error_over_bound", op->max_ratio);
    for (int kind = 0; kind < PCO_PIECE_KINDS; kind++) {
        if (!op->invariance.compared[kind]) continue;
        conf_tree_number(tree, at, CONF_PIECE_MEMBERS[kind][0], op->invariance.compared[kind]);
        conf_tree_number(tree, at, CONF_PIECE_MEMBERS[kind][1], op->invariance.differed[kind]);
    }
    conf_tree_number(tree, at, "bounded", figures.bounded);
    conf_tree_number(tree, at, "median_of_bounded", figures.median);
    if (figures.low) conf_tree_text(tree, at, "median_below_0.01", figures.why);
    if (op->reason[0]) conf_tree_text(tree, at, "unsupported_because", op->reason);
    return PCO_OK;
}

/* The rounds of a soak. */
static void conf_tree_rounds(conf_tree *tree, cJSON *parent, const pco_conformance_result *result)
{
    cJSON *rows = result->rounds ? conf_tree_keep(tree, cJSON_AddArrayToObject(parent, "rounds")) : NULL;
    for (uint32_t i = 0; i < result->rounds; i++) {
        const pco_conformance_round *round = &result->each_round[i];
        cJSON *at = conf_tree_element(tree, rows);
        conf_tree_wide(tree, at, "seed", round->seed);
        conf_tree_number(tree, at, "cases", round->cases);
        conf_tree_number(tree, at, "records", round->records);
        conf_tree_counts(tree, at, round->count);
        conf_tree_number(tree, at, "seconds", nearbyint(round->seconds * 1e6) / 1e6);
        if (round->cut) conf_tree_text(tree, at, "cut", round->end);
    }
}

/* None where the plugin does not describe its launches. */
static void conf_tree_constants(conf_tree *tree, cJSON *parent, const pco_conformance_result *result)
{
    cJSON *rows = result->n_constants ? conf_tree_keep(tree, cJSON_AddArrayToObject(parent, "constants")) : NULL;
    for (uint32_t i = 0; i < result->n_constants; i++) {
        const pco_conformance_constant *one = &result->constants[i];
        int values[PCO_CONSTANT_VALUES];
        for (uint32_t v = 0; v < one->n_values; v++) values[v] = one->values[v];
        cJSON *at = conf_tree_element(tree, rows);
        conf_tree_text(tree, at, "kernel", one->kernel);
        conf_tree_number(tree, at, "number", one->number);
        if (one->name[0]) conf_tree_text(tree, at, "name", one->name);
        if (!pco_json_give(at, "values", cJSON_CreateIntArray(values, (int)one->n_values))) tree->failed = true;
    }
}

/* Members that say nothing (no text, width 0, the command of a case that passed) are left out. */
static void conf_tree_case(conf_tree *tree, cJSON *rows, const pco_conformance_case *one, uint64_t seed,
                           const char *reproducer)
{
    char id[16];
    cJSON *at = conf_tree_element(tree, rows);
    snprintf(id, sizeof id, "%08" PRIx32, one->id);
    conf_tree_text(tree, at, "op", one->op_name);
    conf_tree_text(tree, at, "case", id);
    conf_tree_text(tree, at, "label", one->label);
    conf_tree_text(tree, at, "regime", one->regime);
    conf_tree_text(tree, at, "dtype", one->dtype);
    conf_tree_text(tree, at, "variant", one->variant);
    if (one->width) conf_tree_number(tree, at, "width", one->width);
    if (one->seed != seed) conf_tree_wide(tree, at, "seed", one->seed); /* of a later round of a soak */
    conf_tree_text(tree, at, "state", pco_conformance_state_name(one->state));
    conf_tree_number(tree, at, "seconds", nearbyint(one->seconds * 1e6) / 1e6);
    conf_tree_number(tree, at, "elements", (double)one->elements);
    if (pco_conformance_state_is_judged(one->state)) {
        conf_tree_number(tree, at, "error_over_bound", one->ratio);
        conf_tree_number(tree, at, "output", one->output);
        conf_tree_number(tree, at, "element", (double)one->element);
        conf_tree_number(tree, at, "wrong", (double)one->wrong);
        conf_tree_number(tree, at, "expected", one->expected);
        conf_tree_number(tree, at, "got", one->got);
        conf_tree_number(tree, at, "bound", one->bound);
    }
    conf_tree_replays(tree, at, &one->replays);
    if (one->detail[0]) conf_tree_text(tree, at, "detail", one->detail);
    if (one->waiver) conf_tree_text(tree, at, "waiver", one->waiver);
    if (one->state != PCO_CASE_PASS && one->repeat[0]) conf_tree_text(tree, at, "repeat", one->repeat);
    if (*reproducer) conf_tree_text(tree, at, "reproducer", reproducer);
}

static pco_status conf_tree_result(conf_tree *tree, cJSON *results, const pco_conformance_report *report,
                                   uint32_t index, bool records, pco_error *err)
{
    const pco_conformance_result *result = &report->results[index];
    const pco_conformance_device *device = &report->devices[index];
    char reproducer[1024];
    cJSON *at = conf_tree_element(tree, results);
    conf_tree_device(tree, at, device);
    conf_tree_text(tree, at, "verdict", conf_verdict_name(pco_conformance_judge(result, 1)));
    conf_tree_text(tree, at, "tier", pco_conformance_tier_name(result->tier));
    conf_tree_wide(tree, at, "seed", result->seed);
    conf_tree_number(tree, at, "seconds", nearbyint(result->seconds * 1e6) / 1e6);
    conf_tree_number(tree, at, "status", result->status);
    conf_tree_text(tree, at, "message", result->message);
    conf_tree_keep(tree, cJSON_AddBoolToObject(at, "opened", !result->not_opened));
    conf_tree_counts(tree, at, result->count);
    conf_tree_replays(tree, at, &result->replays);
    conf_tree_probe(tree, at, &result->probe);
    conf_tree_rounds(tree, at, result);
    cJSON *ops = conf_tree_keep(tree, cJSON_AddArrayToObject(at, "ops"));
    for (uint32_t i = 0; i < result->n_ops; i++) {
        pco_status status = conf_tree_op(tree, ops, result, &result->ops[i], &device->info->contract, err);
        if (status) return status;
    }
    if (records) conf_tree_constants(tree, at, result);
    cJSON *cases = conf_tree_keep(tree, cJSON_AddArrayToObject(at, records ? "cases" : "failures"));
    for (uint32_t i = 0; i < result->n_cases; i++) {
        const pco_conformance_case *one = &result->cases[i];
        if (!records && !pco_conformance_state_is_bad(one->state)) continue;
        (void)conf_origin_reproducer(report, index, one, reproducer, sizeof reproducer);
        conf_tree_case(tree, cases, one, result->seed, reproducer);
    }
    return PCO_OK;
}

static void conf_tree_change(conf_tree *tree, cJSON *rows, const pco_conformance_report *report,
                             const pco_conformance_change *change)
{
    const pco_conformance_case *one = change->now ? change->now : change->before;
    char id[16];
    cJSON *at = conf_tree_element(tree, rows);
    snprintf(id, sizeof id, "%08" PRIx32, one->id);
    conf_tree_text(tree, at, "change", pco_conformance_change_name(change->kind));
    if (change->device != PCO_NONE) conf_tree_text(tree, at, "device", report->devices[change->device].id);
    conf_tree_text(tree, at, "op", one->op_name);
    conf_tree_text(tree, at, "case", id);
    conf_tree_text(tree, at, "variant", one->variant);
    if (one->width) conf_tree_number(tree, at, "width", one->width);
    if (change->before) {
        conf_tree_text(tree, at, "before", pco_conformance_state_name(change->before->state));
        conf_tree_number(tree, at, "error_over_bound_before", change->before->ratio);
    }
    if (change->now) {
        conf_tree_text(tree, at, "now", pco_conformance_state_name(change->now->state));
        conf_tree_number(tree, at, "error_over_bound_now", change->now->ratio);
    }
}

static void conf_tree_comparison(conf_tree *tree, cJSON *root, const pco_conformance_report *report,
                                 const pco_conformance_comparison *comparison)
{
    const pco_conformance_report *before = comparison->before;
    cJSON *at = conf_tree_object(tree, root, "baseline");
    conf_tree_text(tree, at, "program", before->program);
    conf_tree_text(tree, at, "written", before->written);
    conf_tree_text(tree, at, "digest", before->digest);
    conf_tree_number(tree, at, "factor", comparison->factor);
    conf_tree_keep(tree, cJSON_AddBoolToObject(at, "same_data", comparison->same_data));
    cJSON *drivers = conf_tree_keep(tree, cJSON_AddArrayToObject(at, "drivers"));
    for (uint32_t i = 0; i < report->n_devices; i++) {
        uint32_t pair = comparison->pairs[i];
        cJSON *one = conf_tree_element(tree, drivers);
        conf_tree_text(tree, one, "device", report->devices[i].id);
        if (pair != PCO_NONE) conf_tree_text(tree, one, "before", before->devices[pair].info->driver);
        conf_tree_text(tree, one, "now", report->devices[i].info->driver);
    }
    for (int kind = 0; kind < PCO_CHANGE_KINDS; kind++)
        conf_tree_number(tree, at, pco_conformance_change_name((pco_conformance_change_kind)kind),
                         comparison->count[kind]);
    cJSON *changes = conf_tree_keep(tree, cJSON_AddArrayToObject(at, "changes"));
    for (uint32_t i = 0; i < comparison->n_changes; i++)
        conf_tree_change(tree, changes, report, &comparison->changes[i]);
}

static void conf_tree_head(conf_tree *tree, cJSON *root, const pco_conformance_report *report)
{
    const pco_conformance_options *options = &report->options;
    conf_tree_text(tree, root, "schema", PCO_CONFORMANCE_SCHEMA);
    conf_tree_text(tree, root, "program", report->program);
    conf_tree_text(tree, root, "commit", report->commit);
    conf_tree_text(tree, root, "written", report->written);
    if (report->command) conf_tree_text(tree, root, "command", report->command);
    cJSON *host = conf_tree_object(tree, root, "host");
    conf_tree_text(tree, host, "os", report->os);
    conf_tree_text(tree, host, "kernel", report->kernel);
    cJSON *suite = conf_tree_object(tree, root, "suite");
    conf_tree_number(tree, suite, "version", report->suite_version);
    conf_tree_text(tree, suite, "tier", pco_conformance_tier_name(options->tier));
    conf_tree_text(tree, suite, "hash", report->suite_hash);
    cJSON *run = conf_tree_object(tree, root, "run");
    conf_tree_wide(tree, run, "seed", options->seed);
    if (options->ops) conf_tree_text(tree, run, "ops", options->ops);
    if (options->variant) conf_tree_text(tree, run, "variant", options->variant);
    char text[32];
    snprintf(text, sizeof text, "%08" PRIx32, options->case_id);
    if (options->case_id) conf_tree_text(tree, run, "case", text);
    snprintf(text, sizeof text, "%" PRIu32 "/%" PRIu32, options->slice.number, options->slice.count);
    if (options->slice.count) conf_tree_text(tree, run, "slice", text);
}

pco_status conf_tree_make(const pco_conformance_report *report, const pco_conformance_comparison *comparison,
                          bool records, cJSON **root, pco_error *err)
{
    conf_tree tree = {0};
    pco_status status = PCO_OK;
    *root = conf_tree_keep(&tree, cJSON_CreateObject());
    if (records) conf_tree_head(&tree, *root, report);
    if (comparison) conf_tree_comparison(&tree, *root, report, comparison);
    cJSON *results = conf_tree_keep(&tree, cJSON_AddArrayToObject(*root, "conformance"));
    for (uint32_t i = 0; i < report->n_devices && !status; i++)
        status = conf_tree_result(&tree, results, report, i, records, err);
    if (!status && tree.failed) status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the report");
    if (status) {
        cJSON_Delete(*root);
        *root = NULL;
    }
    return status;
}

/* ---- printing ---- */

static bool conf_tree_is_flat(const cJSON *value)
{
    for (const cJSON *child = value->child; child; child = child->next)
        if (child->child) return false;
    return true;
}

static void conf_tree_value(pco_json_writer *json, const cJSON *value)
{
    int indent = json->indent;
    bool nested = cJSON_IsObject(value) || cJSON_IsArray(value);
    if (cJSON_IsObject(value)) pco_json_begin_object(json);
    if (cJSON_IsArray(value)) pco_json_begin_array(json);
    if (nested && json->depth > 1 && conf_tree_is_flat(value)) json->indent = 0;
    for (const cJSON *child = value->child; child; child = child->next) {
        if (cJSON_IsObject(value)) pco_json_key(json, child->string);
        conf_tree_value(json, child);
    }
    if (cJSON_IsObject(value)) pco_json_end_object(json);
    if (cJSON_IsArray(value)) pco_json_end_array(json);
    json->indent = indent;
    if (cJSON_IsString(value)) pco_json_write_string(json, value->valuestring);
    if (cJSON_IsNumber(value)) pco_json_write_number(json, value->valuedouble);
    if (cJSON_IsBool(value)) pco_json_write_bool(json, cJSON_IsTrue(value));
    if (cJSON_IsNull(value)) pco_json_write_null(json);
}

void conf_tree_print(const cJSON *root, pco_writer *out)
{
    pco_json_writer json = {.out = out, .indent = 1};
    conf_tree_value(&json, root);
}

pco_status pco_conformance_write_json(const pco_conformance_result *results, const pco_conformance_device *devices,
                                      uint32_t count, pco_writer *out, pco_error *err)
{
    pco_conformance_report report = {.n_devices = count,
                                     .devices = (pco_conformance_device *)(uintptr_t)devices,
                                     .results = (pco_conformance_result *)(uintptr_t)results};
    cJSON *root;
    pco_status status = conf_tree_make(&report, NULL, false, &root, err);
    if (status) return status;
    conf_tree_print(root, out);
    cJSON_Delete(root);
    return pco_writer_check(out, "the report", err);
}
