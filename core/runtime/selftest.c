#include "runtime/selftest.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "runtime/quarantine.h"
#include "runtime/selftest_internal.h"
#include "runtime/session_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SELFTEST_CHOICES = 4 };

/* What was decided for a node, so that the next like it costs a lookup. */
typedef struct selftest_memo {
    uint64_t key;
    uint32_t variant; /* to be forced, or PCO_NONE */
    int refused;
    uint64_t told; /* op and variant that a line of the log was written about, or 0 */
    char why[512];
} selftest_memo;

struct session_selftest {
    pco_open_device reference; /* plugin NULL: not opened */
    int searched;
    pco_quarantine *verdicts[SESSION_SLOTS];
    uint32_t count, capacity;
    selftest_memo *memos;
    uint32_t tested, failed;
    double seconds;
};

static pco_open_device selftest_slot(const pco_session *session, uint32_t slot)
{
    const session_slot *s = &session->slots[slot];
    return (pco_open_device){s->plugin, s->device, &s->entry->info};
}

/* ---- the reference ---- */

/* Opens cpu:reference; 1 if there is one. */
static int selftest_reference(pco_session *session)
{
    struct session_selftest *test = session->selftest;
    const pco_plugin_entry *plugins;
    const pco_device_entry *devices;
    uint32_t index, count;
    pco_error why = {""};
    if (test->searched) return test->reference.plugin != NULL;
    test->searched = 1;
    pco_registry_plugins(session->registry, &plugins);
    pco_registry_devices(session->registry, &devices);
    pco_status status = pco_registry_select(session->registry, "cpu:reference", &index, 1, &count, &why);
    if (!status) {
        const pco_plugin_entry *entry = &plugins[devices[index].plugin];
        pco_device *device;
        status = pco_plugin_open_device(entry->plugin, entry->backend, devices[index].index, &device, &why);
        if (!status) test->reference = (pco_open_device){entry->plugin, device, &devices[index].info};
    }
    if (status)
        pco_log_line(pco_registry_config(session->registry), PCO_LOG_WARNING,
                     "kernels are used without a self-test, because cpu:reference cannot be opened: %s", why.message);
    return test->reference.plugin != NULL;
}

static pco_status selftest_open(pco_session *session, uint32_t slot, pco_error *err)
{
    const pco_config *config = pco_registry_config(session->registry);
    const pco_plugin_entry *plugins;
    const pco_device_entry *entry = session->slots[slot].entry;
    if (!session->selftest && !(session->selftest = calloc(1, sizeof *session->selftest)))
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the self-test");
    if (session->selftest->verdicts[slot]) return PCO_OK;
    pco_registry_plugins(session->registry, &plugins);
    session->selftest->verdicts[slot] =
        pco_quarantine_open(config, &plugins[entry->plugin], &entry->info, config->self_test == PCO_SELF_TEST_ALWAYS);
    if (session->selftest->verdicts[slot]) return PCO_OK;
    return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the self-test");
}

void session_selftest_save(pco_session *session)
{
    struct session_selftest *test = session->selftest;
    if (!test) return;
    for (uint32_t slot = 0; slot < SESSION_SLOTS; slot++)
        if (test->verdicts[slot]) pco_quarantine_save(test->verdicts[slot]);
    if (test->tested)
        pco_log_line(pco_registry_config(session->registry), PCO_LOG_INFO,
                     "self-test: %u kernel variants compared with cpu:reference in %.2f s, %u of them failed",
                     test->tested, test->seconds, test->failed);
    test->tested = test->failed = 0;
    test->seconds = 0;
}

void session_selftest_close(pco_session *session)
{
    struct session_selftest *test = session->selftest;
    if (!test) return;
    session_selftest_save(session);
    for (uint32_t slot = 0; slot < SESSION_SLOTS; slot++) pco_quarantine_close(test->verdicts[slot]);
    if (test->reference.plugin) test->reference.plugin->device->close(test->reference.device);
    free(test->memos);
    free(test);
    session->selftest = NULL;
}

/* ---- variants ---- */

/* The node made so small that its test is quick, and still offered with the variant. NOT_FOUND when there is
 * no such size. */
static pco_status selftest_shrink(const pco_open_device *on, const pco_graph *graph, uint32_t node,
                                  const pco_variant *variant, selftest_case *made, uint32_t *forced, pco_error *err)
{
    static const int64_t CAPS[] = {128, 96, 64, 32, 0};
    for (int i = 0; i < 5; i++) {
        const double limit = CAPS[i] == 0 ? SELFTEST_WORK_WHOLE : CAPS[i] == 32 ? 4 * SELFTEST_WORK : SELFTEST_WORK;
        pco_status status = selftest_case_make(graph, node, CAPS[i], made, err);
        if (status == PCO_ERROR_OUT_OF_HOST_MEMORY) return status;
        if (status) continue;
        if (selftest_case_cost(made) <= limit && selftest_offers(on, made, variant, forced)) return PCO_OK;
        selftest_case_free(made);
    }
    return pco_fail(err, PCO_ERROR_NOT_FOUND, "no size of this node is small enough for a test");
}

/* ---- one test ---- */

/* Runs the case on both devices and compares. GOOD, BAD with what was seen, or UNKNOWN where nothing can be
 * said. */
static pco_status selftest_compare(const pco_open_device *on, const pco_open_device *reference, selftest_case *one,
                                   uint32_t variant, pco_verdict *verdict, char *seen, size_t size, pco_error *err)
{
    void *want[PCO_MAX_OUTPUTS], *got[PCO_MAX_OUTPUTS];
    int was_in_place;
    *verdict = PCO_VERDICT_UNKNOWN;
    pco_status status = selftest_case_fill(one, on->info->contract.nan_inf != 0, err);
    if (status) return status;
    status = selftest_run(reference, one, PCO_NONE, 0, &was_in_place, want, err);
    if (status) return status == PCO_ERROR_OUT_OF_HOST_MEMORY ? status : PCO_OK;
    *verdict = PCO_VERDICT_GOOD;
    for (int in_place = 0; in_place < 2 && *verdict == PCO_VERDICT_GOOD; in_place++) {
        status = selftest_run(on, one, variant, in_place, &was_in_place, got, err);
        if (status) break;
        if (in_place && !was_in_place) continue;
        status = selftest_agree(one, &on->info->contract, got, want, verdict, seen, size, err);
        selftest_results_free(got);
        if (status) break;
    }
    selftest_results_free(want);
    if (!status) return PCO_OK;
    /* not enough memory now, or not for this size, says nothing of the kernel */
    *verdict = PCO_VERDICT_UNKNOWN;
    if (status == PCO_ERROR_OUT_OF_HOST_MEMORY) return status;
    if (status == PCO_ERROR_OUT_OF_DEVICE_MEMORY || status == PCO_ERROR_UNSUPPORTED) return PCO_OK;
    *verdict = PCO_VERDICT_BAD;
    snprintf(seen, size, "%.*s", (int)size - 1, err->message);
    return status == PCO_ERROR_DEVICE_LOST ? status : PCO_OK;
}

static uint64_t selftest_key(const selftest_case *one, const char *name)
{
    return pco_hash(selftest_case_hash(one), name, strlen(name));
}

/* A variant that has cost the device is tried for no size of its op again. */
static uint64_t selftest_key_lost(const pco_graph *graph, uint32_t node, const char *name)
{
    return pco_hash(pco_hash(PCO_HASH_START, &graph->nodes[node].op, sizeof(uint32_t)), name, strlen(name));
}

/* The verdict on one variant of a node by one case, from the table or from a test. */
static pco_status selftest_judge_case(pco_session *session, uint32_t slot, const char *name, selftest_case *one,
                                      uint32_t variant, pco_verdict *verdict, char *seen, size_t size, pco_error *err)
{
    struct session_selftest *test = session->selftest;
    const pco_open_device on = selftest_slot(session, slot);
    const uint64_t lost = selftest_key_lost(one->graph, 0, name), key = selftest_key(one, name);
    const char *known;
    *verdict = pco_quarantine_find(test->verdicts[slot], lost, &known);
    if (*verdict == PCO_VERDICT_UNKNOWN) *verdict = pco_quarantine_find(test->verdicts[slot], key, &known);
    if (*verdict != PCO_VERDICT_UNKNOWN) {
        snprintf(seen, size, "%s", known);
        return PCO_OK;
    }
    if (!selftest_reference(session)) return PCO_OK;
    const volatile sig_atomic_t *interrupted = pco_registry_config(session->registry)->interrupted;
    if (interrupted && *interrupted) return pco_fail(err, PCO_ERROR_CANCELLED, "interrupted in the self-test");
    const double start = pco_seconds();
    char what[PCO_QUARANTINE_SEEN];
    snprintf(what, sizeof what, "op '%s', variant '%s'", pco_node_op(&one->graph->nodes[0])->name, name);
    pco_quarantine_begin(test->verdicts[slot], what);
    pco_status status = selftest_compare(&on, &test->reference, one, variant, verdict, seen, size, err);
    pco_quarantine_end(test->verdicts[slot]);
    test->seconds += pco_seconds() - start;
    test->tested += *verdict != PCO_VERDICT_UNKNOWN;
    test->failed += *verdict == PCO_VERDICT_BAD;
    if (*verdict == PCO_VERDICT_UNKNOWN) return status;
    pco_error memory;
    pco_status added =
        pco_quarantine_add(test->verdicts[slot], status == PCO_ERROR_DEVICE_LOST ? lost : key, *verdict, seen, &memory);
    return added && !status ? pco_fail(err, added, "%s", memory.message) : status;
}

/* The verdict on one variant of a node: of a small one like it, and of others where it will run more code than that. */
static pco_status selftest_judge(pco_session *session, uint32_t slot, const pco_graph *graph, uint32_t node,
                                 const pco_variant *variant, pco_verdict *verdict, char *seen, size_t size,
                                 pco_error *err)
{
    char name[PCO_VARIANT_TEXT];
    const pco_open_device on = selftest_slot(session, slot);
    selftest_choice choices[SELFTEST_CHOICES];
    uint32_t forced = PCO_NONE, count = 0, missing = 0;
    selftest_case one;
    *verdict = PCO_VERDICT_UNKNOWN;
    pco_variant_text(variant, name);
    pco_status status = selftest_shrink(&on, graph, node, variant, &one, &forced, err);
    if (status) return status == PCO_ERROR_NOT_FOUND ? PCO_OK : status;
    status = selftest_cover(&on, graph, node, variant, &one, choices, SELFTEST_CHOICES, &count, &missing, err);
    if (missing)
        pco_log_line(pco_registry_config(session->registry), PCO_LOG_INFO,
                     "self-test: op '%s', variant '%s': %u of the kernels that node '%s' runs are in no small problem",
                     pco_node_op(&graph->nodes[node])->name, name, missing, graph->nodes[node].name);
    if (!status) status = selftest_judge_case(session, slot, name, &one, forced, verdict, seen, size, err);
    selftest_case_free(&one);
    for (uint32_t i = 0; !status && *verdict == PCO_VERDICT_GOOD && i < count; i++) {
        status = selftest_case_make(graph, node, choices[i].cap, &one, err);
        if (status) break;
        one.window = choices[i].window;
        if (selftest_offers(&on, &one, variant, &forced))
            status = selftest_judge_case(session, slot, name, &one, forced, verdict, seen, size, err);
        if (*verdict == PCO_VERDICT_UNKNOWN) *verdict = PCO_VERDICT_GOOD; /* it says nothing, the others did */
        selftest_case_free(&one);
    }
    return status;
}

/* The test has cost the device: what is known is kept, and the device opened again if nothing else is on it.
 */
static pco_status selftest_lost(pco_session *session, uint32_t slot, const char *op, const char *name, pco_error *err)
{
    pco_quarantine_save(session->selftest->verdicts[slot]);
    if (session->slots[slot].live == 0) return session_reopen(session, slot, err) ? PCO_ERROR_DEVICE_LOST : PCO_OK;
    return pco_fail_prefix(
        err, session_noted(session, slot, PCO_ERROR_DEVICE_LOST),
        "device %s was lost in the self-test of op '%s', variant '%s', which is not used from now on; "
        "start again",
        session->slots[slot].entry->id, op, name);
}

/* ---- a node ---- */

/* The order in which variants are tried: the plugin's choice, then the others as they are listed, those that
 * require a width of subgroups, and what the other kind of device would run, last. */
static uint32_t selftest_order(const pco_variant *variants, uint32_t count, uint32_t chosen, uint32_t *order)
{
    uint32_t n = 0;
    if (chosen < count) order[n++] = chosen;
    for (int wide = 0; wide < 2; wide++)
        for (uint32_t i = 0; i < count; i++)
            if (i != chosen && (variants[i].subgroup_width || variants[i].form) == wide) order[n++] = i;
    return n;
}

/* Another variant is used: one line for each that failed. */
static void selftest_tell(pco_session *session, uint32_t slot, const char *op, const char *failed, const char *seen,
                          const char *used, selftest_memo *memo)
{
    const struct session_selftest *test = session->selftest;
    uint64_t told = pco_hash(pco_hash(PCO_HASH_START, &slot, sizeof slot), op, strlen(op) + 1);
    told = pco_hash(told, failed, strlen(failed));
    for (uint32_t i = 0; i < test->count; i++)
        if (test->memos[i].told == told) return;
    memo->told = told;
    pco_log_line(pco_registry_config(session->registry), PCO_LOG_WARNING,
                 "device %s: op '%s': variant '%s' failed the self-test: %s; '%s' is used instead",
                 session->slots[slot].entry->id, op, failed, seen, used);
}

static pco_status selftest_decide(pco_session *session, uint32_t slot, const pco_graph *graph, uint32_t node,
                                  selftest_case *whole, selftest_memo *memo, pco_error *err)
{
    pco_open_device on = selftest_slot(session, slot);
    const char *op = pco_node_op(&graph->nodes[node])->name;
    pco_variant variants[PCO_VARIANTS];
    char name[PCO_VARIANT_TEXT], taken[PCO_VARIANT_TEXT];
    char seen[PCO_QUARANTINE_SEEN] = "", first[PCO_QUARANTINE_SEEN] = "";
    uint32_t order[PCO_VARIANTS], chosen = 0, forced, count;
    pco_node alone;
    const pco_trial trial = selftest_trial(&on, whole, PCO_NONE, &alone);
    pco_status status = pco_trial_variants(&trial, variants, &count, err);
    if (status || !count) return status;
    if (selftest_proposed(&on, whole, &chosen)) return PCO_OK; /* the part will say what is wrong */
    if (chosen >= count) chosen = 0;
    const uint32_t n = selftest_order(variants, count, chosen, order);
    pco_variant_text(&variants[order[0]], taken);
    for (uint32_t i = 0; i < n; i++) {
        const pco_variant *variant = &variants[order[i]];
        pco_verdict verdict;
        if (i > 0 && !selftest_offers(&on, whole, variant, &forced)) continue;
        pco_variant_text(variant, name);
        status = selftest_judge(session, slot, graph, node, variant, &verdict, seen, sizeof seen, err);
        if (status == PCO_ERROR_DEVICE_LOST) status = selftest_lost(session, slot, op, name, err);
        if (status) return status;
        on = selftest_slot(session, slot); /* another one if it was lost */
        if (verdict != PCO_VERDICT_BAD) {
            if (i == 0) return PCO_OK;
            memo->variant = forced;
            selftest_tell(session, slot, op, taken, first, name, memo);
            return PCO_OK;
        }
        if (i == 0) memcpy(first, seen, sizeof first);
    }
    memo->refused = 1;
    snprintf(memo->why, sizeof memo->why, "%svariant '%s' failed the self-test: %s",
             n > 1 ? "none of its kernels is right; " : "", taken, first);
    return PCO_OK;
}

static selftest_memo *selftest_remember(struct session_selftest *test, uint64_t key, int *known)
{
    *known = 1;
    for (uint32_t i = 0; i < test->count; i++)
        if (test->memos[i].key == key) return &test->memos[i];
    *known = 0;
    if (test->count == test->capacity) {
        const uint32_t capacity = test->capacity ? 2 * test->capacity : 32;
        selftest_memo *memos = realloc(test->memos, capacity * sizeof *memos);
        if (!memos) return NULL;
        test->memos = memos;
        test->capacity = capacity;
    }
    selftest_memo *memo = &test->memos[test->count++];
    *memo = (selftest_memo){.key = key, .variant = PCO_NONE};
    return memo;
}

/* Nothing to compute: no elements, or the memory of an operand that is not written. */
static int selftest_is_nothing(const pco_graph *graph, const pco_node *node)
{
    const pco_tensor *y = &graph->tensors[node->outputs[0]];
    return pco_tensor_elements(y) == 0 || (node->op == PCO_OP_RESHAPE && y->alias != PCO_NONE);
}

pco_status session_selftest(pco_session *session, uint32_t slot, pco_graph *graph, uint32_t index, pco_error *why,
                            pco_error *err)
{
    pco_node *node = &graph->nodes[index];
    const pco_plugin *plugin = session->slots[slot].plugin;
    selftest_case whole;
    int known;
    if (pco_registry_config(session->registry)->self_test == PCO_SELF_TEST_OFF || strcmp(plugin->name, "cpu") == 0 ||
        node->variant != PCO_NONE || selftest_is_nothing(graph, node))
        return PCO_OK;
    pco_status status = selftest_open(session, slot, err);
    if (!status) status = selftest_case_make(graph, index, 0, &whole, err);
    if (status) return status;
    const uint64_t key = pco_hash(selftest_case_hash(&whole), &slot, sizeof slot);
    selftest_memo *memo = selftest_remember(session->selftest, key, &known);
    if (!memo)
        status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the self-test");
    else if (!known)
        status = selftest_decide(session, slot, graph, index, &whole, memo, err);
    selftest_case_free(&whole);
    if (status) {
        if (memo) session->selftest->count--; /* nothing was decided; it is the last */
        return status;
    }
    node->variant = memo->variant;
    return memo->refused ? pco_fail(why, PCO_ERROR_UNSUPPORTED, "%s", memo->why) : PCO_OK;
}
