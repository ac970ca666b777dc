/* Two runs, record by record: what became worse, what became better, what came and went. */
#include "report/report_parts.h"

#include "base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *pco_conformance_change_name(pco_conformance_change_kind kind)
{
    static const char *const KINDS[PCO_CHANGE_KINDS] = {"regression",  "fixed", "grown",
                                                        "other_state", "new",   "removed"};
    return (unsigned)kind < PCO_CHANGE_KINDS ? KINDS[kind] : "?";
}

/* By op, case, variant and width: one record is the same in two runs when these agree. */
static int conf_baseline_order(const pco_conformance_case *a, const pco_conformance_case *b)
{
    int names = strcmp(a->op_name, b->op_name);
    if (names) return names;
    if (a->id != b->id) return a->id < b->id ? -1 : 1;
    int variants = strcmp(a->variant, b->variant);
    if (variants) return variants;
    return a->width < b->width ? -1 : a->width > b->width;
}

static int conf_baseline_compare(const void *left, const void *right)
{
    return conf_baseline_order(*(const pco_conformance_case *const *)left, *(const pco_conformance_case *const *)right);
}

static const pco_conformance_case **conf_baseline_sorted(const pco_conformance_result *result)
{
    const pco_conformance_case **sorted = malloc((result->n_cases + 1) * sizeof *sorted);
    for (uint32_t i = 0; sorted && i < result->n_cases; i++) sorted[i] = &result->cases[i];
    if (sorted) qsort(sorted, result->n_cases, sizeof *sorted, conf_baseline_compare);
    return sorted;
}

static pco_status conf_baseline_add(pco_conformance_comparison *comparison, uint32_t *capacity,
                                    pco_conformance_change change, pco_error *err)
{
    if (comparison->n_changes == *capacity) {
        uint32_t grown = *capacity ? *capacity * 2 : 256;
        pco_conformance_change *changes = realloc(comparison->changes, grown * sizeof *changes);
        if (!changes) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the comparison");
        comparison->changes = changes, *capacity = grown;
    }
    comparison->changes[comparison->n_changes++] = change;
    comparison->count[change.kind]++;
    return PCO_OK;
}

/* What a record present in both runs has become; PCO_CHANGE_KINDS: nothing worth a word. */
static pco_conformance_change_kind conf_baseline_judge(const pco_conformance_comparison *comparison,
                                                       const pco_conformance_case *before,
                                                       const pco_conformance_case *now)
{
    int was_bad = pco_conformance_state_is_bad(before->state), is_bad = pco_conformance_state_is_bad(now->state);
    if (is_bad && !was_bad) return PCO_CHANGE_REGRESSION;
    if (before->state == PCO_CASE_PASS && now->state == PCO_CASE_UNSUPPORTED) return PCO_CHANGE_REGRESSION;
    if (was_bad && now->state == PCO_CASE_PASS) return PCO_CHANGE_FIXED;
    if (before->state == PCO_CASE_WAIVED && now->state == PCO_CASE_PASS) return PCO_CHANGE_FIXED;
    if (before->state != now->state) return PCO_CHANGE_STATE;
    if (now->state == PCO_CASE_PASS && comparison->same_data && now->ratio > 0.01 &&
        now->ratio > comparison->factor * before->ratio)
        return PCO_CHANGE_GROWN;
    return PCO_CHANGE_KINDS;
}

static pco_status conf_baseline_device(pco_conformance_comparison *comparison, uint32_t *capacity,
                                       const pco_conformance_result *before, const pco_conformance_result *now,
                                       uint32_t device, pco_error *err)
{
    static const pco_conformance_result NONE;
    if (!before) before = &NONE;
    if (!now) now = &NONE;
    const pco_conformance_case **old = conf_baseline_sorted(before), **new = conf_baseline_sorted(now);
    pco_status status = PCO_OK;
    if (!old || !new) status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the comparison");
    for (uint32_t i = 0, j = 0; !status && (i < before->n_cases || j < now->n_cases);) {
        int order = i == before->n_cases ? 1 : j == now->n_cases ? -1 : conf_baseline_order(old[i], new[j]);
        pco_conformance_change change = {.device = device};
        if (order <= 0) change.before = old[i++];
        if (order >= 0) change.now = new[j++];
        change.kind = order < 0   ? PCO_CHANGE_REMOVED
                      : order > 0 ? PCO_CHANGE_NEW
                                  : conf_baseline_judge(comparison, change.before, change.now);
        if (change.kind < PCO_CHANGE_KINDS) status = conf_baseline_add(comparison, capacity, change, err);
    }
    free(old);
    free(new);
    return status;
}

/* The earlier device for device i of the newer run. */
static uint32_t conf_baseline_pair(const pco_conformance_report *before, const pco_conformance_report *now, uint32_t i)
{
    const pco_conformance_device *device = &now->devices[i];
    for (uint32_t b = 0; b < before->n_devices; b++)
        if (strcmp(before->devices[b].id, device->id) == 0) return b;
    for (uint32_t b = 0; b < before->n_devices; b++)
        if (strcmp(before->devices[b].info->name, device->info->name) == 0) return b;
    return before->n_devices == 1 && now->n_devices == 1 ? 0 : PCO_NONE;
}

/* Regressions first; within a kind by device, then the largest error / bound first. */
static int conf_baseline_rank(const void *left, const void *right)
{
    const pco_conformance_change *a = left, *b = right;
    double ratio_a = a->now ? a->now->ratio : a->before->ratio, ratio_b = b->now ? b->now->ratio : b->before->ratio;
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    if (a->device != b->device) return a->device < b->device ? -1 : 1;
    if (ratio_a != ratio_b) return ratio_a > ratio_b ? -1 : 1;
    return conf_baseline_order(a->now ? a->now : a->before, b->now ? b->now : b->before);
}

pco_status pco_conformance_compare(const pco_conformance_report *before, const pco_conformance_report *now,
                                   double factor, pco_conformance_comparison *comparison, pco_error *err)
{
    uint32_t capacity = 0;
    pco_status status = PCO_OK;
    *comparison = (pco_conformance_comparison){.factor = factor, .before = before};
    comparison->same_data = before->options.seed == now->options.seed;
    comparison->pairs = malloc((now->n_devices + 1) * sizeof *comparison->pairs);
    if (!comparison->pairs) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the comparison");
    for (uint32_t i = 0; i < now->n_devices && !status; i++) {
        uint32_t pair = comparison->pairs[i] = conf_baseline_pair(before, now, i);
        status = conf_baseline_device(comparison, &capacity, pair == PCO_NONE ? NULL : &before->results[pair],
                                      &now->results[i], i, err);
    }
    for (uint32_t b = 0; b < before->n_devices && !status; b++) {
        bool paired = false;
        for (uint32_t i = 0; i < now->n_devices; i++) paired |= comparison->pairs[i] == b;
        if (!paired) status = conf_baseline_device(comparison, &capacity, &before->results[b], NULL, PCO_NONE, err);
    }
    if (comparison->n_changes)
        qsort(comparison->changes, comparison->n_changes, sizeof *comparison->changes, conf_baseline_rank);
    return status;
}

void pco_conformance_comparison_clear(pco_conformance_comparison *comparison)
{
    free(comparison->changes);
    free(comparison->pairs);
    *comparison = (pco_conformance_comparison){0};
}
