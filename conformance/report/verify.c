/* Checks a submission: nothing altered, of this suite, complete, waivers with reasons, figures that agree. */
#include "report/report_parts.h"

#include "base/error.h"
#include "base/file.h"
#include "base/philox.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { CONF_VERIFY_SHOWN = 100 };

typedef struct conf_verify {
    pco_conformance_findings *findings;
    bool no_memory;
} conf_verify;

__attribute__((format(printf, 3, 4))) static void
conf_verify_add(conf_verify *verify, pco_conformance_finding_kind kind, const char *format, ...)
{
    pco_conformance_findings *findings = verify->findings;
    if (findings->count[kind]++ >= CONF_VERIFY_SHOWN) return;
    pco_conformance_finding *items = realloc(findings->items, (findings->n_items + 1) * sizeof *items);
    if (!items) {
        verify->no_memory = true;
        return;
    }
    findings->items = items;
    items[findings->n_items].kind = kind;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(items[findings->n_items].text, sizeof items->text, format, arguments);
    va_end(arguments);
    findings->n_items++;
}

static void conf_verify_altered(void *user, const char *where)
{
    conf_verify_add(user, PCO_FINDING_ALTERED, "%s", where);
}

/* ---- the suite ---- */

static bool conf_verify_hash_case(void *user, const conf_case *one)
{
    char line[CONF_LABEL + 16];
    int length = snprintf(line, sizeof line, "%08" PRIx32 " %s\n", one->id, one->label);
    pco_sha256_add(user, line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1);
    return true;
}

void pco_conformance_suite_hash(pco_conformance_tier tier, char hash[PCO_SHA256_TEXT])
{
    pco_sha256 sha;
    char line[80];
    pco_sha256_start(&sha);
    snprintf(line, sizeof line, "portico conformance suite %d, tier %s\n", (int)PCO_CONFORMANCE_SUITE_VERSION,
             pco_conformance_tier_name(tier));
    pco_sha256_add(&sha, line, strlen(line));
    conf_cases_visit(tier, NULL, conf_verify_hash_case, &sha);
    pco_sha256_finish_text(&sha, hash);
}

static int conf_verify_order(const void *left, const void *right)
{
    const pco_conformance_case *a = *(const pco_conformance_case *const *)left,
                               *b = *(const pco_conformance_case *const *)right;
    if (a->id != b->id) return a->id < b->id ? -1 : 1;
    if (a->seed != b->seed) return a->seed < b->seed ? -1 : 1;
    return strcmp(a->variant, b->variant);
}

/* Records of one device, by case; which of them the tier has. */
typedef struct conf_verify_list {
    conf_verify *verify;
    const pco_conformance_report *report;
    uint32_t device, cases, missing, known;
    const pco_conformance_case **sorted;
    char first[200]; /* of the cases that are missing */
} conf_verify_list;

static bool conf_verify_case(void *user, const conf_case *one)
{
    conf_verify_list *list = user;
    const pco_conformance_report *report = list->report;
    const pco_conformance_result *result = &report->results[list->device];
    if (!conf_case_is_selected(one, &report->options)) return true;
    list->cases++;
    uint32_t low = 0, high = result->n_cases;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (list->sorted[middle]->id < one->id)
            low = middle + 1;
        else
            high = middle;
    }
    uint32_t begin = low, first = 0; /* records of the first round */
    for (; low < result->n_cases && list->sorted[low]->id == one->id; low++) {
        list->known++;
        first += list->sorted[low]->seed == result->seed;
        if (strcmp(list->sorted[low]->label, one->label) != 0 || list->sorted[low]->op != one->op)
            conf_verify_add(list->verify, PCO_FINDING_ALTERED, "device %s: %s #%08" PRIx32 " is called '%.150s'",
                            result->device_id, one->label, one->id, list->sorted[low]->label);
        if (low > begin && strcmp(list->sorted[low]->variant, list->sorted[low - 1]->variant) == 0 &&
            list->sorted[low]->seed == list->sorted[low - 1]->seed &&
            list->sorted[low]->width == list->sorted[low - 1]->width)
            conf_verify_add(list->verify, PCO_FINDING_ALTERED, "device %s: #%08" PRIx32 ", variant %s, twice",
                            result->device_id, one->id, list->sorted[low]->variant);
    }
    if (!first && list->missing++ == 0)
        snprintf(list->first, sizeof list->first, "#%08" PRIx32 " %.180s", one->id, one->label);
    return true;
}

static uint32_t conf_verify_bad(const uint32_t *count)
{
    uint32_t bad = 0;
    for (int state = 0; state < PCO_CASE_STATES; state++)
        if (pco_conformance_state_is_bad((pco_conformance_state)state)) bad += count[state];
    return bad;
}

/* Every round of a soak must have all `cases`, but for the last, which its time limit may have cut. Of the first all
 * records are there, of the later ones the bad. */
static void conf_verify_rounds(conf_verify *verify, const pco_conformance_report *report, uint32_t device,
                               uint32_t cases)
{
    const pco_conformance_result *result = &report->results[device];
    uint32_t *of_round = calloc((size_t)result->rounds + 1, sizeof *of_round);
    if (!of_round) {
        verify->no_memory = true;
        return;
    }
    for (uint32_t i = 0; i < result->n_cases; i++) { /* round k has seed + k */
        const uint64_t k = result->cases[i].seed - result->seed;
        if (k < result->rounds) of_round[k]++;
    }
    for (uint32_t k = 0; k < result->rounds; k++) {
        const pco_conformance_round *round = &result->each_round[k];
        const uint32_t records = of_round[k], shown = k == 0 ? round->records : conf_verify_bad(round->count);
        if (round->seed != result->seed + k || records != shown)
            conf_verify_add(verify, PCO_FINDING_ALTERED,
                            "device %s: rounds[%" PRIu32 "] (seed %" PRIu64 ") does not fit the records: %" PRIu32
                            " are there, %" PRIu32 " should be",
                            result->device_id, k, round->seed, records, shown);
        if (report->options.variant || round->cases == cases) continue;
        if (round->cut && k > 0 && k + 1 == result->rounds) continue;
        conf_verify_add(verify, PCO_FINDING_INCOMPLETE,
                        "device %s: round %" PRIu32 " of %" PRIu32 " (seed %" PRIu64 ") has %" PRIu32 " of %" PRIu32
                        " cases%s%s; a soak needs one whole round, and only its last may be cut",
                        result->device_id, k + 1, result->rounds, round->seed, round->cases, cases,
                        round->cut ? ": " : "", round->end);
    }
    free(of_round);
    if (report->options.tier == PCO_CONFORMANCE_SOAK && !result->rounds && !result->not_opened)
        conf_verify_add(verify, PCO_FINDING_INCOMPLETE, "device %s: a soak without rounds", result->device_id);
}

static void conf_verify_complete(conf_verify *verify, const pco_conformance_report *report, uint32_t device)
{
    const pco_conformance_result *result = &report->results[device];
    conf_verify_list list = {.verify = verify, .report = report, .device = device};
    list.sorted = malloc((result->n_cases + 1) * sizeof *list.sorted);
    if (!list.sorted) {
        verify->no_memory = true;
        return;
    }
    for (uint32_t i = 0; i < result->n_cases; i++) list.sorted[i] = &result->cases[i];
    qsort(list.sorted, result->n_cases, sizeof *list.sorted, conf_verify_order);
    conf_cases_visit_on(report->devices[device].info, report->options.tier, report->options.ops, conf_verify_case,
                        &list);
    verify->findings->cases += list.cases;
    /* a run of some variants only has nothing to say of cases without them; without the device, of none */
    if (list.missing && !report->options.variant && !result->not_opened)
        conf_verify_add(verify, PCO_FINDING_INCOMPLETE,
                        "device %s: %" PRIu32 " of %" PRIu32 " cases have no record; the first: %s", result->device_id,
                        list.missing, list.cases, list.first);
    if (list.known != result->n_cases)
        conf_verify_add(verify, PCO_FINDING_ALTERED,
                        "device %s: %" PRIu32 " records are of cases that were not selected", result->device_id,
                        result->n_cases - list.known);
    conf_verify_rounds(verify, report, device, list.cases);
    free(list.sorted);
}

/* ---- figures that must agree ---- */

static void conf_verify_record(conf_verify *verify, const pco_conformance_result *result, uint32_t i)
{
    const pco_conformance_case *one = &result->cases[i];
    if (one->state == PCO_CASE_WAIVED) verify->findings->waived++;
    if (one->state == PCO_CASE_WAIVED && (!one->waiver || !*one->waiver))
        conf_verify_add(verify, PCO_FINDING_WAIVER,
                        "device %s: cases[%" PRIu32 "] (%s #%08" PRIx32 ") is waived without a reason",
                        result->device_id, i, one->op_name, one->id);
    if ((one->state == PCO_CASE_PASS || one->state == PCO_CASE_MISTRUSTED) && (one->wrong || !(one->ratio <= 1.0)))
        conf_verify_add(verify, PCO_FINDING_ALTERED,
                        "device %s: cases[%" PRIu32 "] (%s #%08" PRIx32 ") is %s with error/bound %g and %" PRId64
                        " wrong elements",
                        result->device_id, i, one->op_name, one->id, pco_conformance_state_name(one->state), one->ratio,
                        one->wrong);
}

/* What the records of an op add up to. */
typedef struct conf_verify_sum {
    const char *name;
    uint32_t count[PCO_CASE_STATES];
    double most;
} conf_verify_sum;

static int conf_verify_sum_order(const void *left, const void *right)
{
    return strcmp(((const conf_verify_sum *)left)->name, ((const conf_verify_sum *)right)->name);
}

/* The first sum of that name; NULL: none. */
static conf_verify_sum *conf_verify_find(conf_verify_sum *sums, uint32_t count, const char *name)
{
    uint32_t low = 0, high = count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (strcmp(sums[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && strcmp(sums[low].name, name) == 0 ? &sums[low] : NULL;
}

static void conf_verify_row(conf_verify *verify, const pco_conformance_result *result, uint32_t i,
                            const conf_verify_sum *sum)
{
    const pco_conformance_op *row = &result->ops[i];
    const uint32_t *count = sum->count;
    const double most = sum->most;
    bool fits = true;
    for (int state = 0; state < PCO_CASE_STATES; state++) { /* what was not bad in later rounds is only counted */
        bool counted = result->rounds && !pco_conformance_state_is_bad((pco_conformance_state)state);
        fits &= count[state] == row->count[state] || (counted && count[state] < row->count[state]);
    }
    if (!fits || (result->rounds ? most > row->max_ratio : most != row->max_ratio && result->status == PCO_OK))
        conf_verify_add(verify, PCO_FINDING_ALTERED,
                        "device %s: ops[%" PRIu32 "] (%s) does not follow from its "
                        "records",
                        result->device_id, i, row->name);
}

/* Each row against the records of its op: a report is looked through once, however many rows it has. */
static void conf_verify_rows(conf_verify *verify, const pco_conformance_result *result)
{
    conf_verify_sum *sums = calloc((size_t)result->n_ops + 1, sizeof *sums);
    if (!sums) {
        verify->no_memory = true;
        return;
    }
    for (uint32_t i = 0; i < result->n_ops; i++) sums[i].name = result->ops[i].name;
    qsort(sums, result->n_ops, sizeof *sums, conf_verify_sum_order);
    for (uint32_t c = 0; c < result->n_cases; c++) {
        const pco_conformance_case *one = &result->cases[c];
        conf_verify_sum *sum = conf_verify_find(sums, result->n_ops, one->op_name);
        if (!sum) continue;
        sum->count[one->state]++;
        if (pco_conformance_state_is_judged(one->state) && one->ratio > sum->most) sum->most = one->ratio;
    }
    for (uint32_t i = 0; i < result->n_ops; i++)
        conf_verify_row(verify, result, i, conf_verify_find(sums, result->n_ops, result->ops[i].name));
    free(sums);
}

static void conf_verify_result(conf_verify *verify, const pco_conformance_report *report, uint32_t device)
{
    const pco_conformance_result *result = &report->results[device];
    uint32_t count[PCO_CASE_STATES] = {0};
    for (uint32_t i = 0; i < result->n_cases; i++) {
        conf_verify_record(verify, result, i);
        count[result->cases[i].state]++;
    }
    verify->findings->records += result->n_cases;
    conf_verify_rows(verify, result);
    uint32_t all[PCO_CASE_STATES] = {0}; /* a soak's: of all rounds */
    for (uint32_t k = 0; k < result->rounds; k++)
        for (int state = 0; state < PCO_CASE_STATES; state++) all[state] += result->each_round[k].count[state];
    if (memcmp(result->rounds ? all : count, result->count, sizeof count) != 0)
        conf_verify_add(verify, PCO_FINDING_ALTERED, "device %s: its counts do not follow from its records",
                        result->device_id);
    if (result->tier != report->options.tier || result->seed != report->options.seed)
        conf_verify_add(verify, PCO_FINDING_ALTERED, "device %s: its tier or seed is not that of the run",
                        result->device_id);
    if (result->status && !result->not_opened)
        conf_verify_add(verify, PCO_FINDING_INCOMPLETE, "device %s: the run was stopped: %s", result->device_id,
                        result->message);
    pco_conformance_result counted = *result; /* by its records, whatever its counts say */
    memcpy(counted.count, count, sizeof count);
    pco_conformance_verdict verdict = pco_conformance_judge(&counted, 1);
    uint32_t bad = conf_verify_bad(count);
    if (result->not_opened)
        conf_verify_add(verify, PCO_FINDING_VERDICT, "device %s was not tested: %s", result->device_id,
                        result->message);
    else if (verdict == PCO_VERDICT_NOTHING_TESTED)
        conf_verify_add(verify, PCO_FINDING_VERDICT, "device %s: nothing was tested", result->device_id);
    else if (verdict != PCO_VERDICT_PASS)
        conf_verify_add(verify, PCO_FINDING_VERDICT, "device %s: %" PRIu32 " of %" PRIu32 " records are bad",
                        result->device_id, bad, result->n_cases);
}

/* ---- the files beside it ---- */

static void conf_verify_file(conf_verify *verify, const char *folder, const cJSON *entry)
{
    char path[1024], digest[PCO_SHA256_TEXT];
    pco_map map;
    pco_error err;
    const char *has = cJSON_GetStringValue(entry);
    if (strchr(entry->string, '/')) return; /* only names that the writer gives */
    conf_report_path(path, sizeof path, folder, entry->string);
    if (pco_map_open(path, &map, &err)) {
        conf_verify_add(verify, PCO_FINDING_INCOMPLETE, "%s is missing or cannot be read", entry->string);
        return;
    }
    pco_sha256 sha;
    pco_sha256_start(&sha);
    pco_sha256_add(&sha, map.data, map.size);
    pco_sha256_finish_text(&sha, digest);
    pco_map_close(&map);
    if (!has || strcmp(has, digest) != 0) conf_verify_add(verify, PCO_FINDING_ALTERED, "%s was altered", entry->string);
}

static void conf_verify_suite(conf_verify *verify, const pco_conformance_report *report)
{
    char hash[PCO_SHA256_TEXT];
    pco_conformance_suite_hash(report->options.tier, hash);
    if (report->suite_version == PCO_CONFORMANCE_SUITE_VERSION && strcmp(hash, report->suite_hash) == 0) {
        for (uint32_t i = 0; i < report->n_devices; i++) conf_verify_complete(verify, report, i);
        return;
    }
    conf_verify_add(verify, PCO_FINDING_SUITE,
                    "the suite of Portico %s (version %" PRIu32 ", hash %.12s) is not this program's (%s: "
                    "version %d, %.12s), so that completeness cannot be checked; use that Portico",
                    report->program, report->suite_version, report->suite_hash, PCO_VERSION,
                    (int)PCO_CONFORMANCE_SUITE_VERSION, hash);
}

pco_status pco_conformance_verify(const char *folder, pco_conformance_report *report,
                                  pco_conformance_findings *findings, pco_error *err)
{
    conf_verify verify = {.findings = findings};
    char path[1024];
    cJSON *root;
    const cJSON *file;
    *report = (pco_conformance_report){0};
    *findings = (pco_conformance_findings){0};
    pco_status status = conf_report_load(folder, &root, err);
    if (status) return status;
    conf_report_path(path, sizeof path, folder, "report.json");
    status = conf_seal_check(root, conf_verify_altered, &verify, err);
    if (!status) {
        cJSON_ArrayForEach(file, cJSON_GetObjectItemCaseSensitive(root, "files"))
            conf_verify_file(&verify, folder, file);
        status = conf_report_from_tree(root, path, report, err);
        if (status == PCO_ERROR_FORMAT && findings->count[PCO_FINDING_ALTERED]) { /* no wonder */
            conf_verify_add(&verify, PCO_FINDING_ALTERED, "%s", err->message);
            pco_conformance_report_clear(report);
            status = PCO_OK;
        } else if (!status) {
            for (uint32_t i = 0; i < report->n_devices; i++) conf_verify_result(&verify, report, i);
            conf_verify_suite(&verify, report);
            if (report->n_devices == 0) conf_verify_add(&verify, PCO_FINDING_VERDICT, "no device was tested");
        }
    }
    cJSON_Delete(root);
    if (!status && verify.no_memory)
        status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory to check the report");
    return status;
}

void pco_conformance_findings_clear(pco_conformance_findings *findings)
{
    free(findings->items);
    *findings = (pco_conformance_findings){0};
}

/* ---- samples ---- */

/* What can be run again without harm: crashed, hung and lost cases would take this process with them. */
static bool conf_verify_can_repeat(const pco_conformance_case *one)
{
    return pco_conformance_state_is_judged(one->state) || one->state == PCO_CASE_UNSUPPORTED;
}

uint32_t pco_conformance_sample(const pco_conformance_result *result, uint64_t seed, uint32_t count, uint32_t *indices)
{
    uint32_t seen = 0, chosen = 0, repeatable = 0;
    for (uint32_t i = 0; i < result->n_cases; i++) repeatable += conf_verify_can_repeat(&result->cases[i]);
    if (count > repeatable) count = repeatable;
    for (uint32_t i = 0; i < result->n_cases && chosen < count; i++) {
        if (!conf_verify_can_repeat(&result->cases[i])) continue;
        /* of those that are left, as many as are wanted still: Knuth's selection sampling */
        pco_philox random = pco_philox4x32_10((pco_philox){{i}}, seed);
        uint64_t left = repeatable - seen++;
        if ((uint64_t)random.word[0] * left >> 32 < count - chosen) indices[chosen++] = i;
    }
    return chosen;
}
