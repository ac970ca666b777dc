/* Reports: written, read back, sealed, verified, compared. `test_report FOLDER` leaves a made-up report with every
 * state there, to be looked at in a browser. */
#define CHECK_FOLDER
#include "check.h"

#include "base/file.h"
#include "base/utf8.h"
#include "formats/json.h"
#include "made_up_report.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

/* In place of the C library's: counts what it compares. */
static uint64_t compared;

int strcmp(const char *a, const char *b)
{
    compared++;
    for (; *a && *a == *b; a++) b++;
    return (unsigned char)*a - (unsigned char)*b;
}

static const char *in_folder(const char *name)
{
    static char path[200];
    snprintf(path, sizeof path, "%s/%s", check_folder, name);
    return path;
}

static pco_status verify(const char *name, uint32_t *count, char *first, pco_error *err)
{
    pco_conformance_report report;
    pco_conformance_findings findings;
    pco_status status = pco_conformance_verify(in_folder(name), &report, &findings, err);
    memcpy(count, findings.count, sizeof findings.count);
    if (first) snprintf(first, 400, "%s", findings.n_items ? findings.items[0].text : "");
    pco_conformance_findings_clear(&findings);
    pco_conformance_report_clear(&report);
    return status;
}

/* ---- round trips ---- */

static void same_number(double a, double b)
{
    assert_true((isnan(a) && isnan(b)) || (a == b && !signbit(a) == !signbit(b)));
}

static void same_case(const pco_conformance_case *a, const pco_conformance_case *b)
{
    assert_int_equal(a->op, b->op);
    assert_int_equal(a->id, b->id);
    assert_string_equal(a->op_name, b->op_name);
    assert_string_equal(a->regime, b->regime);
    assert_string_equal(a->dtype, b->dtype);
    assert_string_equal(a->label, b->label);
    assert_string_equal(a->variant, b->variant);
    assert_true(!a->waiver == !b->waiver && (!a->waiver || strcmp(a->waiver, b->waiver) == 0));
    assert_int_equal(a->width, b->width);
    same_number(a->seconds, b->seconds);
    assert_true(a->seed == b->seed);
    assert_int_equal(a->state, b->state);
    same_number(a->ratio, b->ratio);
    assert_int_equal(a->output, b->output);
    assert_int_equal(a->element, b->element);
    assert_int_equal(a->elements, b->elements);
    assert_int_equal(a->wrong, b->wrong);
    same_number(a->expected, b->expected);
    same_number(a->got, b->got);
    same_number(a->bound, b->bound);
    assert_true(a->replays.executions == b->replays.executions && a->replays.differed == b->replays.differed &&
                a->replays.wrong == b->replays.wrong && a->replays.distinct == b->replays.distinct);
    assert_string_equal(a->detail, b->detail);
    assert_string_equal(a->repeat, b->repeat);
}

static void same_result(const pco_conformance_result *a, const pco_conformance_result *b)
{
    assert_string_equal(a->device_id, b->device_id);
    assert_int_equal(a->status, b->status);
    assert_string_equal(a->message, b->message);
    assert_int_equal(a->tier, b->tier);
    assert_true(a->seed == b->seed);
    same_number(a->seconds, b->seconds);
    assert_memory_equal(a->count, b->count, sizeof a->count);
    assert_int_equal(a->n_ops, b->n_ops);
    for (uint32_t i = 0; i < a->n_ops; i++) {
        assert_int_equal(a->ops[i].op, b->ops[i].op);
        assert_string_equal(a->ops[i].name, b->ops[i].name);
        assert_memory_equal(a->ops[i].count, b->ops[i].count, sizeof a->ops[i].count);
        assert_int_equal(a->ops[i].variants, b->ops[i].variants);
        same_number(a->ops[i].median_ratio, b->ops[i].median_ratio);
        same_number(a->ops[i].max_ratio, b->ops[i].max_ratio);
        assert_string_equal(a->ops[i].reason, b->ops[i].reason);
    }
    assert_int_equal(a->n_cases, b->n_cases);
    for (uint32_t i = 0; i < a->n_cases; i++) same_case(&a->cases[i], &b->cases[i]);
}

static void test_round_trip(void **state)
{
    (void)state;
    pco_conformance_report wrote = make_report("neg,add,matmul", 2, true), read;
    wrote.options.variant = "*";
    wrote.options.case_id = 0;
    check_ok(pco_conformance_report_write(in_folder("deep/er"), &wrote, NULL, &err));
    check_ok(pco_conformance_report_read(in_folder("deep/er"), &read, &err));
    assert_string_equal(read.program, PCO_VERSION);
    assert_int_equal(read.suite_version, PCO_CONFORMANCE_SUITE_VERSION);
    assert_int_equal(strlen(read.digest), 64);
    assert_int_equal(read.options.tier, wrote.options.tier);
    assert_string_equal(read.options.ops, "neg,add,matmul");
    assert_string_equal(read.options.variant, "*");
    assert_true(read.options.seed == UINT64_MAX);
    assert_int_equal(read.n_devices, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_string_equal(read.devices[i].id, wrote.devices[i].id);
        assert_memory_equal(read.devices[i].info, wrote.devices[i].info, sizeof(pco_device_info));
        same_result(&wrote.results[i], &read.results[i]);
    }
    /* written again over itself, in place */
    check_ok(pco_conformance_report_write(in_folder("deep/er"), &wrote, NULL, &err));
    pco_conformance_report_clear(&read);
    pco_conformance_report_clear(&wrote);
}

/* ---- alterations ---- */

typedef struct seen {
    uint32_t count;
    char first[400];
} seen;

static void see(void *user, const char *where)
{
    seen *all = user;
    if (all->count++ == 0) snprintf(all->first, sizeof all->first, "%s", where);
}

static seen look(const cJSON *root)
{
    seen all = {0};
    check_ok(conf_seal_check(root, see, &all, &err));
    return all;
}

/* As it would be written. The caller frees it. */
static char *print_tree(const cJSON *root)
{
    pco_writer text = {0};
    conf_tree_print(root, &text);
    check_ok(pco_writer_check(&text, "a report", &err));
    return text.data;
}

static cJSON *sealed_tree(const pco_conformance_report *report)
{
    cJSON *root;
    check_ok(conf_tree_make(report, NULL, true, &root, &err));
    check_ok(conf_seal(root, &err));
    return root;
}

/* Changes every value below `at`, one at a time, and takes every member out; each must be seen, in a record
 * with the record's index. Returns the number of changes. */
static uint32_t alter_all(const cJSON *root, cJSON *at, const char *path)
{
    uint32_t changes = 0, index = 0;
    for (cJSON *child = at->child; child; child = child->next, index++) {
        char here[64];
        cJSON kept = *child;
        snprintf(here, sizeof here, "%s", path);
        if (cJSON_IsArray(at) && (strcmp(at->string, "cases") == 0 || strcmp(at->string, "ops") == 0))
            snprintf(here, sizeof here, "%s[%u]", at->string, index);
        if (child->child) {
            changes += alter_all(root, child, here);
            continue;
        }
        if (cJSON_IsNumber(child))
            child->valuedouble = kept.valuedouble == 0 ? -0.0 : nextafter(kept.valuedouble, INFINITY);
        else if (cJSON_IsString(child))
            child->valuestring = (char *)(uintptr_t)(strcmp(kept.valuestring, "pass") ? "pass" : "fail");
        else
            child->type = cJSON_IsTrue(child) ? cJSON_False : cJSON_NULL;
        seen all = look(root);
        if (all.count == 0 || !strstr(all.first, here)) fail_msg("%s %s: '%s'", here, kept.string, all.first);
        *child = kept;
        changes++;
        if (!cJSON_IsObject(at)) continue;
        child->string = (char *)(uintptr_t) "renamed"; /* as good as taken out, and another put in */
        if (look(root).count == 0) fail_msg("%s: %s renamed", here, kept.string);
        child->string = kept.string;
        changes++;
    }
    return changes;
}

static void test_every_edit(void **state)
{
    (void)state;
    pco_conformance_report report = make_report("matmul", 1, true);
    cJSON *root = sealed_tree(&report);
    seen all = look(root);
    if (all.count) fail_msg("%s", all.first);
    uint32_t changes = alter_all(root, root, "");
    print_message("%u single edits, each noticed\n", changes);
    assert_true(changes > 500);
    assert_int_equal(look(root).count, 0);
    cJSON *device = cJSON_GetObjectItem(root, "conformance")->child;
    cJSON *cases = cJSON_GetObjectItem(device, "cases");
    int n = cJSON_GetArraySize(cases);
    for (int i = 0; i < n; i++) { /* one left out, one twice, two in each other's place */
        char *text = print_tree(root);
        cJSON *copy = cJSON_Parse(text);
        free(text);
        cJSON *here = cJSON_GetObjectItem(cJSON_GetObjectItem(copy, "conformance")->child, "cases");
        cJSON *one = cJSON_GetArrayItem(here, i), *next = cJSON_GetArrayItem(here, (i + 1) % n);
        cJSON *child = one->child;
        assert_int_equal(look(copy).count, 0);
        one->child = next->child, next->child = child;
        assert_true(look(copy).count > 0);
        next->child = one->child, one->child = child;
        cJSON twice = *one;
        twice.next = one->next, one->next = &twice;
        assert_true(look(copy).count > 0);
        one->next = twice.next;
        assert_int_equal(look(copy).count, 0);
        cJSON_DeleteItemFromArray(here, i);
        assert_true(look(copy).count > 0);
        cJSON_Delete(copy);
    }
    cJSON_AddItemToArray(cJSON_GetObjectItem(root, "conformance"), cJSON_Duplicate(device, 1));
    assert_true(look(root).count > 0);
    cJSON_Delete(root);
    pco_conformance_report_clear(&report);
}

/* Other line ends, other spaces and another order of members are no alteration. */
static void test_layout(void **state)
{
    (void)state;
    pco_conformance_report report = make_report("neg", 1, false);
    cJSON *root = sealed_tree(&report), *again;
    char *text = print_tree(root), *wide = calloc(3, strlen(text));
    for (char *from = text, *to = wide; *from; from++) {
        *to++ = *from;
        if (*from == '\n') *to++ = '\r', *to++ = '\t';
    }
    check_ok(pco_json_parse(wide, strlen(wide), "report", &again, &err));
    assert_int_equal(look(again).count, 0);
    cJSON *device = cJSON_GetObjectItem(again, "conformance")->child;
    cJSON_AddItemToObject(device, "device", cJSON_DetachItemFromObject(device, "device"));
    cJSON_AddItemToObject(again, "schema", cJSON_DetachItemFromObject(again, "schema"));
    assert_string_not_equal(again->child->string, "schema");
    assert_int_equal(look(again).count, 0);
    free(text);
    free(wide);
    cJSON_Delete(again);
    cJSON_Delete(root);
    pco_conformance_report_clear(&report);
}

/* ---- folders ---- */

static void write_text(const char *name, const char *text, size_t size)
{
    check_ok(pco_file_write(in_folder(name), text, size, &err));
}

static void test_verify(void **state)
{
    (void)state;
    uint32_t count[PCO_FINDING_KINDS];
    char first[400];
    pco_conformance_report report = make_report("neg,add", 2, false);
    check_ok(pco_conformance_report_write(in_folder("good"), &report, NULL, &err));
    check_ok(verify("good", count, first, &err));
    for (int kind = 0; kind < PCO_FINDING_KINDS; kind++)
        if (count[kind]) fail_msg("%s", first);
    /* the files beside it */
    write_text("good/report.html", "<p>fine", 7);
    check_ok(verify("good", count, first, &err));
    assert_int_equal(count[PCO_FINDING_ALTERED], 1);
    assert_string_equal(first, "report.html was altered");
    unlink(in_folder("good/report.html"));
    check_ok(verify("good", count, first, &err));
    assert_int_equal(count[PCO_FINDING_INCOMPLETE], 1);
    /* in the file itself: a verdict, a figure */
    pco_map map;
    check_ok(pco_conformance_report_write(in_folder("good"), &report, NULL, &err));
    check_ok(pco_map_open(in_folder("good/report.json"), &map, &err));
    char *text = malloc(map.size + 1);
    memcpy(text, map.data, map.size);
    text[map.size] = 0;
    size_t size = map.size;
    pco_map_close(&map);
    memcpy(strstr(text, "\"state\": \"pass\""), "\"state\": \"hung\"", 15);
    write_text("good/report.json", text, size);
    check_ok(verify("good", count, first, &err));
    assert_true(count[PCO_FINDING_ALTERED] > 0);
    assert_non_null(strstr(first, "device toy:0: cases[0] ("));
    /* cut off at every place but the last bytes, which are a newline and a brace */
    for (size_t cut = 0; cut + 3 < size; cut += cut < 200 ? 7 : size / 40) {
        write_text("good/report.json", text, cut);
        check_fails(verify("good", count, NULL, &err), PCO_ERROR_FORMAT, "report.json: ");
    }
    char *schema = strstr(text, "report/1");
    schema[7] = '9';
    write_text("good/report.json", text, size);
    check_fails(verify("good", count, NULL, &err), PCO_ERROR_FORMAT, "schema 'portico-conformance-report/9'");
    check_fails(pco_conformance_report_write(in_folder("good"), &report, NULL, &err), PCO_ERROR_INVALID, "schema");
    unlink(in_folder("good/report.json"));
    check_fails(verify("good", count, NULL, &err), PCO_ERROR_IO, "report.json");
    check_fails(verify("nowhere", count, NULL, &err), PCO_ERROR_IO, "no such folder");
    free(text);
    mkdir(in_folder("other"), 0755);
    write_text("other/thesis.tex", "x", 1);
    check_fails(pco_conformance_report_write(in_folder("other"), &report, NULL, &err), PCO_ERROR_INVALID, "thesis.tex");
    check_fails(pco_conformance_report_write(in_folder("other/thesis.tex"), &report, NULL, &err), PCO_ERROR_INVALID,
                "not a folder");
    pco_conformance_report_clear(&report);
}

/* Writes a report with its seal, whatever it says, and returns what verify finds. */
static void verify_made_up(const pco_conformance_report *report, uint32_t *count, char *first)
{
    cJSON *root = sealed_tree(report);
    char *text = print_tree(root);
    mkdir(in_folder("made-up"), 0755);
    write_text("made-up/report.json", text, strlen(text));
    free(text);
    cJSON_Delete(root);
    check_ok(verify("made-up", count, first, &err));
}

/* Sealed, and wrong all the same. */
static void test_contradictions(void **state)
{
    (void)state;
    uint32_t count[PCO_FINDING_KINDS];
    char first[400], hash[PCO_SHA256_TEXT];
    pco_conformance_report report = make_report("neg", 1, false);
    pco_conformance_result *result = &report.results[0];
    report.suite_version = PCO_CONFORMANCE_SUITE_VERSION;
    pco_conformance_suite_hash(PCO_CONFORMANCE_TINY, hash);
    snprintf(report.suite_hash, sizeof report.suite_hash, "%s", hash);
    verify_made_up(&report, count, first);
    assert_string_equal(first, "");
    result->cases[2].wrong = 3;
    verify_made_up(&report, count, first);
    assert_true(count[PCO_FINDING_ALTERED] == 1 && strstr(first, "cases[2] (neg #"));
    result->cases[2].wrong = 0;
    result->cases[2].state = PCO_CASE_FAIL; /* the verdict is that of the records, not that of the counts */
    verify_made_up(&report, count, first);
    assert_int_equal(count[PCO_FINDING_ALTERED], 2);
    assert_int_equal(count[PCO_FINDING_VERDICT], 1);
    result->cases[2].state = PCO_CASE_PASS;
    double most = result->ops[0].max_ratio;
    result->ops[0].max_ratio += 0.5;
    verify_made_up(&report, count, first);
    assert_true(count[PCO_FINDING_ALTERED] == 1 && strstr(first, "ops[0] (neg)"));
    result->ops[0].max_ratio = most;
    result->count[PCO_CASE_PASS]++;
    verify_made_up(&report, count, first);
    assert_true(count[PCO_FINDING_ALTERED] == 1 && strstr(first, "counts"));
    result->count[PCO_CASE_PASS]--;
    result->n_cases--, result->count[PCO_CASE_PASS]--, result->ops[0].count[PCO_CASE_PASS]--;
    verify_made_up(&report, count, first);
    assert_true(count[PCO_FINDING_INCOMPLETE] == 1 && strstr(first, "1 of "));
    result->n_cases++, result->count[PCO_CASE_PASS]++, result->ops[0].count[PCO_CASE_PASS]++;
    result->status = PCO_ERROR_DEVICE_LOST;
    verify_made_up(&report, count, first);
    assert_true(count[PCO_FINDING_INCOMPLETE] == 1 && count[PCO_FINDING_VERDICT] == 1);
    result->status = PCO_OK;
    result->cases[0].state = PCO_CASE_WAIVED;
    verify_made_up(&report, count, first);
    assert_int_equal(count[PCO_FINDING_WAIVER], 1);
    result->cases[0].state = PCO_CASE_PASS;
    report.suite_hash[0] ^= 1;
    verify_made_up(&report, count, first);
    assert_int_equal(count[PCO_FINDING_SUITE], 1);
    assert_int_equal(count[PCO_FINDING_ALTERED] + count[PCO_FINDING_INCOMPLETE], 0);
    pco_conformance_report_clear(&report);
}

/* Names compared while a report of `size` ops with a record each is checked. */
static uint64_t comparisons(uint32_t size)
{
    uint32_t count[PCO_FINDING_KINDS];
    char first[400];
    pco_conformance_report report = make_report("neg", 1, false);
    pco_conformance_result *result = &report.results[0];
    const uint32_t n_ops = result->n_ops, n_cases = result->n_cases;
    pco_conformance_op *ops = result->ops;
    pco_conformance_case *cases = result->cases;
    char(*names)[16] = calloc(size, sizeof *names);
    result->ops = calloc(size, sizeof *result->ops);
    result->cases = calloc(size, sizeof *result->cases);
    result->n_ops = result->n_cases = size;
    for (uint32_t i = 0; i < size; i++) {
        snprintf(names[i], sizeof names[i], "op%u", i);
        result->cases[i] = cases[i % n_cases];
        result->ops[i] = ops[0];
        result->cases[i].op_name = result->ops[i].name = names[i];
    }
    compared = 0;
    verify_made_up(&report, count, first);
    const uint64_t all = compared;
    free(result->ops);
    free(result->cases);
    free(names);
    result->ops = ops, result->cases = cases;
    result->n_ops = n_ops, result->n_cases = n_cases;
    pco_conformance_report_clear(&report);
    return all;
}

/* A report of twice the size is twice the work: whoever is sent one can check it. */
static void test_work(void **state)
{
    (void)state;
    const uint64_t none = comparisons(500), some = comparisons(1000) - none, more = comparisons(2000) - none - some;
    if (more > 5 * some / 2) /* 2 for what is linear, 4 for squares */
        fail_msg("%llu comparisons more for 500 records, and %llu more for the next 1000", (unsigned long long)some,
                 (unsigned long long)more);
}

/* ---- comparison, figures, samples ---- */

static void test_baseline(void **state)
{
    (void)state;
    pco_conformance_report before = make_report("neg,add", 1, false), now = make_report("neg,add", 1, false);
    pco_conformance_comparison comparison;
    check_ok(pco_conformance_compare(&before, &now, 2, &comparison, &err));
    assert_int_equal(comparison.n_changes, 0);
    pco_conformance_comparison_clear(&comparison);
    pco_conformance_case *was = before.results[0].cases, *is = now.results[0].cases;
    is[0].state = PCO_CASE_FAIL;
    is[1].state = PCO_CASE_UNSUPPORTED;
    was[2].state = PCO_CASE_CRASHED;
    is[3].state = PCO_CASE_WAIVED;
    was[4].ratio = 0.2, is[4].ratio = 0.5;
    was[5].ratio = 0.001, is[5].ratio = 0.009; /* grown, and nothing to speak of */
    was[6].ratio = 0.2, is[6].ratio = 0.39;
    is[7].width = 64; /* another record than before: one new, one removed */
    check_ok(pco_conformance_compare(&before, &now, 2, &comparison, &err));
    const uint32_t expected[PCO_CHANGE_KINDS] = {2, 1, 1, 1, 1, 1};
    assert_memory_equal(comparison.count, expected, sizeof expected);
    assert_int_equal(comparison.n_changes, 7);
    assert_int_equal(comparison.changes[0].kind, PCO_CHANGE_REGRESSION);
    check_ok(pco_conformance_report_write(in_folder("compared"), &now, &comparison, &err));
    pco_conformance_comparison_clear(&comparison);
    cJSON *root;
    check_ok(pco_json_load(in_folder("compared/report.json"), &root, &err));
    cJSON *baseline = cJSON_GetObjectItem(root, "baseline");
    assert_int_equal(cJSON_GetObjectItem(baseline, "regression")->valueint, 2);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(baseline, "changes")), 7);
    assert_int_equal(look(root).count, 0);
    cJSON_Delete(root);
    /* other data: states are compared, figures are not */
    now.options.seed = 5;
    check_ok(pco_conformance_compare(&before, &now, 2, &comparison, &err));
    assert_int_equal(comparison.count[PCO_CHANGE_GROWN], 0);
    assert_int_equal(comparison.count[PCO_CHANGE_REGRESSION], 2);
    pco_conformance_comparison_clear(&comparison);
    pco_conformance_report_clear(&before);
    pco_conformance_report_clear(&now);
}

static void test_figures(void **state)
{
    (void)state;
    pco_conformance_report report = make_report("softmax", 1, false);
    pco_conformance_result *result = &report.results[0];
    pco_contract contract = {.function_ulp = 4};
    conf_figures figures;
    for (uint32_t i = 0; i < result->n_cases; i++)
        result->cases[i].ratio = 0.004, result->cases[i].bound = i % 2 ? 1e-6 : 0;
    check_ok(conf_figures_make(result, PCO_OP_SOFTMAX, &contract, &figures, &err));
    assert_int_equal(figures.bounded, result->n_cases / 2);
    assert_true(figures.median == 0.004 && figures.low && figures.explained);
    contract.function_ulp = 2;
    check_ok(conf_figures_make(result, PCO_OP_SOFTMAX, &contract, &figures, &err));
    assert_true(figures.low && !figures.explained && strncmp(figures.why, "tighten:", 8) == 0);
    for (uint32_t i = 0; i < result->n_cases; i++) result->cases[i].ratio = 0; /* exact: nothing to tighten */
    check_ok(conf_figures_make(result, PCO_OP_SOFTMAX, &contract, &figures, &err));
    assert_false(figures.low);
    for (uint32_t i = 0; i < result->n_cases; i++) result->cases[i].ratio = 0.02;
    check_ok(conf_figures_make(result, PCO_OP_SOFTMAX, &contract, &figures, &err));
    assert_false(figures.low);
    pco_conformance_report_clear(&report);
}

static void test_samples(void **state)
{
    (void)state;
    pco_conformance_report report = make_report("neg,add,matmul", 1, true);
    const pco_conformance_result *result = &report.results[0];
    uint32_t first[10], again[10], other[10], all[4096], differ = 0;
    assert_int_equal(pco_conformance_sample(result, 1, 10, first), 10);
    assert_int_equal(pco_conformance_sample(result, 1, 10, again), 10);
    assert_int_equal(pco_conformance_sample(result, 2, 10, other), 10);
    assert_memory_equal(first, again, sizeof first);
    for (int i = 0; i < 10; i++) differ += first[i] != other[i];
    assert_true(differ > 3);
    for (int i = 1; i < 10; i++) assert_true(first[i] > first[i - 1]);
    uint32_t n = pco_conformance_sample(result, 1, 4096, all);
    assert_int_equal(n, result->n_cases - result->count[PCO_CASE_CRASHED] - result->count[PCO_CASE_HUNG] -
                            result->count[PCO_CASE_DEVICE_LOST] - result->count[PCO_CASE_NOT_PROMISED]);
    pco_conformance_report_clear(&report);
}

/* Text from elsewhere stays text, wherever it is put. */
static void test_text(void **state)
{
    (void)state;
    static const struct {
        const char *text, *comment, *string, *xml;
    } cases[] = {
        {"a*//b", "a*b\n", "\"a*//b\"", "a*//b"},
        {"*/*//\\", "**\n", "\"*/*//\\\\\"", "*/*//\\"},
        {"one\ntwo", "one two\n", "\"one two\"", "one&#10;two"},
        {"\"?\?/\"", "\"?\?/\"\n", "\"\\\"\\?\\?/\\\"\"", "&#34;?\?/&#34;"},
        {"<&'>", "<&'>\n", "\"<&'>\"", "&#60;&#38;&#39;&#62;"},
        {"\xC3\xA9\xFF\x01\xE2\x80", NULL, NULL, "\xC3\xA9\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *expected[] = {cases[i].comment, cases[i].string, cases[i].xml};
        for (int k = 0; k < 3; k++) {
            pco_writer out = {0};
            if (k == 0) conf_put_comment(&out, cases[i].text);
            if (k == 1) conf_put_string(&out, cases[i].text);
            if (k == 2) pco_write_xml(&out, cases[i].text);
            if (expected[k]) assert_string_equal(out.data, expected[k]);
            pco_writer_release(&out);
        }
    }
}

/* A driver's names need not be UTF-8; the files of a report must be. */
static void test_encoding(void **state)
{
    (void)state;
    pco_conformance_report report = make_report("neg,add", 2, true);
    pco_device_info *infos = report.infos;
    snprintf(infos[0].name, sizeof infos[0].name, "Toy \xFF\xC3<3>");
    snprintf(infos[1].driver, sizeof infos[1].driver, "1.0 \x80\x01");
    for (uint32_t i = 0; i < report.results[0].n_cases; i++)
        snprintf(report.results[0].cases[i].detail, sizeof report.results[0].cases[i].detail, "lost \xE2\x82");
    check_ok(pco_conformance_report_write(in_folder("encoding"), &report, NULL, &err));
    static const char *const files[] = {"encoding/report.html", "encoding/report.json", "encoding/junit.xml"};
    for (int i = 0; i < 3; i++) {
        pco_map map;
        check_ok(pco_map_open(in_folder(files[i]), &map, &err));
        if (pco_utf8_check((const char *)map.data, map.size) != map.size) fail_msg("%s is not UTF-8", files[i]);
        assert_null(memchr(map.data, 1, map.size));
        pco_map_close(&map);
    }
    pco_conformance_report_clear(&report);
}

/* Of as many executions as a broken device can have: the work does not grow with the wrong ones. */
static void test_flake_bound(void **state)
{
    (void)state;
    assert_true(fabs(pco_conformance_flake_bound(0, 100) - 0.029513) < 1e-6);
    assert_true(fabs(pco_conformance_flake_bound(5, 100) - 0.102253) < 1e-6);
    assert_true(fabs(pco_conformance_flake_bound(UINT64_C(1) << 30, UINT64_C(1) << 31) - 0.5) < 1e-4);
    assert_true(pco_conformance_flake_bound(7, 7) == 1);
}

/* Records of one case in one variant that differ in the forced width or the seed are not compared with each other. */
static void test_threads(void **state)
{
    (void)state;
    pco_conformance_op ops[1] = {{.name = NULL}};
    pco_conformance_case one[] = {{.op = PCO_OP_ADD, .id = 7, .variant = "v", .width = 4, .bits = 11},
                                  {.op = PCO_OP_ADD, .id = 7, .variant = "v", .width = 8, .bits = 22},
                                  {.op = PCO_OP_ADD, .id = 7, .variant = "v", .width = 4, .seed = 1, .bits = 33}},
                         two[] = {one[0], one[1]};
    pco_conformance_result result = {.ops = ops, .n_cases = 3, .cases = one}, other = {.n_cases = 2, .cases = two};
    pco_conformance_compare_threads(&result, &other);
    assert_int_equal(ops[0].invariance.compared[PCO_PIECE_THREADS], 2);
    assert_int_equal(ops[0].invariance.differed[PCO_PIECE_THREADS], 0);
    two[1].bits = 23;
    pco_conformance_compare_threads(&result, &other);
    assert_int_equal(ops[0].invariance.differed[PCO_PIECE_THREADS], 1);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        pco_conformance_report report = make_report("neg,add,matmul,softmax", 2, true);
        pco_error err = {""};
        pco_status status = pco_conformance_report_write(argv[1], &report, NULL, &err);
        pco_conformance_report_clear(&report);
        if (status) printf("%s\n", err.message);
        return status != PCO_OK;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_every_edit),     cmocka_unit_test(test_layout),
        cmocka_unit_test(test_verify),     cmocka_unit_test(test_contradictions), cmocka_unit_test(test_baseline),
        cmocka_unit_test(test_figures),    cmocka_unit_test(test_samples),        cmocka_unit_test(test_text),
        cmocka_unit_test(test_encoding),   cmocka_unit_test(test_work),           cmocka_unit_test(test_flake_bound),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests_name("report", tests, check_make_folder, check_remove_folder);
}
