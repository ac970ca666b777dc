/* Replays: a program that was prepared once is executed again and again, and how often it gave something else
 * is counted. Devices whose errors come and go are right in one run of three. */
#include "run/result.h"
#include "run/runner.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "graph/op.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- cases between the replays ---- */

/* A case that ran before, with its program. What it points to is its own. */
typedef struct conf_companion {
    conf_case one;
    conf_problem problem;
    conf_run_state run;
    conf_session session;
} conf_companion;

enum { CONF_COMPANIONS = 7 };

struct conf_companions {
    conf_alive_fn alive; /* may be NULL */
    void *user;
    uint32_t count, next; /* next: the oldest, which gives way */
    conf_companion *items[CONF_COMPANIONS];
};

static void conf_companion_free(conf_companion *companion)
{
    if (!companion) return;
    if (companion->session.run) conf_session_close(&companion->session);
    conf_run_clear(&companion->run);
    conf_problem_clear(&companion->problem);
    free(companion);
}

pco_status conf_companions_create(conf_companions **companions, conf_alive_fn alive, void *user, pco_error *err)
{
    *companions = calloc(1, sizeof **companions);
    if (!*companions) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for replays");
    (*companions)->alive = alive, (*companions)->user = user;
    return PCO_OK;
}

void conf_companions_destroy(conf_companions *companions)
{
    for (uint32_t i = 0; companions && i < companions->count; i++) conf_companion_free(companions->items[i]);
    free(companions);
}

/* What the second and later executions find where they write: what the one before left, or zeros. */
static pco_status conf_replay_execute(conf_session *session, uint32_t number, pco_error *err)
{
    pco_status status =
        number == 0 ? pco_trial_memory_write(&session->memory, err) : pco_trial_memory_restore(&session->memory, err);
    if (!status && number % 2) status = pco_trial_memory_zero(&session->memory, err);
    return status ? status : conf_session_execute(session, err);
}

pco_status conf_companions_add(conf_companions *companions, const pco_conformance_device *device, const conf_case *one,
                               uint64_t seed, pco_error *err)
{
    conf_companion *made = calloc(1, sizeof *made);
    if (!made) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for replays");
    made->one = *one;
    pco_status status = conf_problem_make(&made->problem, &made->one, seed, &device->info->contract, err);
    made->run = conf_run_start(device, &made->problem);
    if (!status) status = pco_trial_supports(&made->run.trial, err);
    if (!status) status = conf_run_propose(&made->run, err);
    if (!status) status = conf_session_open(&made->session, &made->run, PCO_NONE, err);
    if (!status) status = conf_replay_execute(&made->session, 0, err);
    if (!status) status = conf_session_compare(&made->session, "", err);
    if (status) { /* it was judged as a case: what it cannot do here was said there */
        conf_companion_free(made);
        return status == PCO_ERROR_DEVICE_LOST || status == PCO_ERROR_OUT_OF_HOST_MEMORY ? status : PCO_OK;
    }
    if (companions->count < CONF_COMPANIONS) {
        companions->items[companions->count++] = made;
        return PCO_OK;
    }
    conf_companion_free(companions->items[companions->next]);
    companions->items[companions->next] = made;
    companions->next = (companions->next + 1) % CONF_COMPANIONS;
    return PCO_OK;
}

/* ---- counting ---- */

/* Executions that gave the same bits. */
typedef struct conf_outcome_class {
    uint64_t hash;
    uint32_t count;
    bool wrong; /* an element is outside its bounds, or memory around the results was changed */
} conf_outcome_class;

typedef struct conf_tally {
    uint32_t n_classes, capacity, executions;
    conf_outcome_class *classes; /* a table by hash; empty: count 0. A device may never repeat itself */
    uint32_t astray;             /* executions of companions that differed */
    char label[200];             /* of one of them */
    pco_error *err;
} conf_tally;

static bool conf_tally_is_wrong(const conf_session *session)
{
    const conf_problem *problem = session->run->problem;
    for (uint32_t i = 0; i < problem->node.n_outputs; i++) {
        const oracle_output *out = &problem->oracle.out[i];
        conf_verdict verdict;
        if (out->count == 0) continue;
        conf_judge(out, &problem->rules, pco_trial_memory_result(&session->memory, problem->node.outputs[i]), &verdict);
        if (verdict.wrong) return true;
    }
    return false;
}

/* The place of a class, or where it would be. */
static conf_outcome_class *conf_tally_at(conf_outcome_class *classes, uint32_t capacity, uint64_t hash)
{
    uint32_t at = (uint32_t)hash & (capacity - 1);
    while (classes[at].count && classes[at].hash != hash) at = (at + 1) & (capacity - 1);
    return &classes[at];
}

static pco_status conf_tally_grow(conf_tally *tally)
{
    const uint32_t capacity = tally->capacity ? 2 * tally->capacity : 8;
    conf_outcome_class *grown = calloc(capacity, sizeof *grown);
    if (!grown) return pco_fail(tally->err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for replays");
    for (uint32_t i = 0; i < tally->capacity; i++)
        if (tally->classes[i].count) *conf_tally_at(grown, capacity, tally->classes[i].hash) = tally->classes[i];
    free(tally->classes);
    tally->classes = grown, tally->capacity = capacity;
    return PCO_OK;
}

static pco_status conf_tally_add(conf_tally *tally, const conf_session *session, bool astray)
{
    const conf_problem *problem = session->run->problem;
    uint64_t hash = pco_hash(PCO_HASH_START, &astray, sizeof astray);
    for (uint32_t i = 0; i < problem->node.n_outputs; i++) {
        const uint32_t t = problem->node.outputs[i];
        if (problem->tensors[t].bytes)
            hash = pco_hash(hash, pco_trial_memory_result(&session->memory, t), problem->tensors[t].bytes);
    }
    tally->executions++;
    pco_status status = 2 * tally->n_classes < tally->capacity ? PCO_OK : conf_tally_grow(tally);
    if (status) return status;
    conf_outcome_class *one = conf_tally_at(tally->classes, tally->capacity, hash);
    if (one->count++) return PCO_OK;
    one->hash = hash, one->wrong = astray || conf_tally_is_wrong(session);
    tally->n_classes++;
    return PCO_OK;
}

/* One execution of a companion, in turn; its results must be those that it had. */
static pco_status conf_replay_companion(const conf_companions *companions, uint32_t number, conf_tally *tally)
{
    if (!companions || !companions->count) return PCO_OK;
    conf_companion *companion = companions->items[number % companions->count];
    pco_status status = conf_replay_execute(&companion->session, 1 + number, tally->err);
    if (!status) status = conf_session_compare(&companion->session, "between the replays it", tally->err);
    if (status != PCO_ERROR_INTERNAL) return status;
    if (tally->astray++ == 0)
        snprintf(tally->label, sizeof tally->label, "%s #%08" PRIx32, conf_case_op(&companion->one)->name,
                 companion->one.id);
    return pco_trial_memory_write(&companion->session.memory, tally->err);
}

static pco_status conf_replay_all(conf_run_state *run, const pco_conformance_options *options, conf_tally *tally)
{
    conf_session session = {.run = run};
    pco_status status = conf_run_propose(run, tally->err);
    if (!status) status = conf_session_open(&session, run, PCO_NONE, tally->err);
    double heard = pco_seconds();
    for (uint32_t i = 0; i < options->replays && !status; i++) {
        if (options->companions && options->companions->alive && pco_seconds() - heard > 1) {
            options->companions->alive(options->companions->user);
            heard = pco_seconds();
        }
        status = conf_replay_companion(options->companions, i, tally);
        if (status) break;
        status = conf_replay_execute(&session, i, tally->err);
        const bool astray = status == PCO_ERROR_INTERNAL;
        if (astray) status = PCO_OK;
        if (!status) status = conf_tally_add(tally, &session, astray);
        if (!status && astray) status = pco_trial_memory_write(&session.memory, tally->err);
    }
    conf_session_close(&session);
    conf_run_clear(run);
    return status;
}

static void conf_replay_conclude(const conf_tally *tally, pco_conformance_case *result)
{
    pco_conformance_replays *replays = &result->replays;
    uint32_t most = 0;
    *replays = (pco_conformance_replays){.executions = tally->executions, .distinct = tally->n_classes};
    for (uint32_t i = 0; i < tally->capacity; i++) {
        if (tally->classes[i].count > most) most = tally->classes[i].count;
        if (tally->classes[i].wrong) replays->wrong += tally->classes[i].count;
    }
    replays->differed = tally->executions - most;
    if (!replays->differed && !replays->wrong && !tally->astray) return;
    char before[sizeof result->detail];
    const bool was_bad = pco_conformance_state_is_bad(result->state);
    snprintf(before, sizeof before, "%s%.200s", was_bad ? "; without replays: " : "", was_bad ? result->detail : "");
    int length = snprintf(result->detail, sizeof result->detail,
                          "%" PRIu64 " of %" PRIu64 " replays differed, %" PRIu64 " were wrong, %" PRIu64
                          " different results; with 95 %% confidence at most %.3g %% of executions differ",
                          replays->differed, replays->executions, replays->wrong, replays->distinct,
                          100 * pco_conformance_flake_bound(replays->differed, replays->executions));
    if (tally->astray)
        length += snprintf(result->detail + length, sizeof result->detail - (size_t)length,
                           "; %" PRIu32 " executions of %s in between differed from its first one", tally->astray,
                           tally->label);
    snprintf(result->detail + length, sizeof result->detail - (size_t)length, "%s", before);
    result->state = replays->wrong == replays->executions && replays->executions ? PCO_CASE_FAIL : PCO_CASE_FLAKY;
}

pco_status conf_run_replay(conf_run_state *run, const pco_conformance_options *options, pco_conformance_case *result,
                           pco_error *err)
{
    conf_tally tally = {.err = err};
    if (!options->replays || result->state == PCO_CASE_UNSUPPORTED || result->state == PCO_CASE_DEVICE_LOST)
        return PCO_OK;
    pco_status status = conf_replay_all(run, options, &tally);
    if (!status) conf_replay_conclude(&tally, result);
    free(tally.classes);
    if (!status) return PCO_OK;
    result->state = status == PCO_ERROR_DEVICE_LOST ? PCO_CASE_DEVICE_LOST : PCO_CASE_FAIL;
    snprintf(result->detail, sizeof result->detail, "replay %" PRIu32 ": %.400s", tally.executions + 1, err->message);
    return status == PCO_ERROR_DEVICE_LOST || status == PCO_ERROR_OUT_OF_HOST_MEMORY ? status : PCO_OK;
}

/* ---- the bound ---- */

/* P(at most `k` of n) where each has probability p > k/n. Below the mean each term is less than the one above it, so
 * the sum ends where they no longer count: it is not as long as a broken device has wrong results. */
static double conf_flake_below(double k, double n, double p)
{
    double term = exp(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) + k * log(p) + (n - k) * log1p(-p)), sum = 0;
    for (double i = k; i >= 0 && term > sum * 0x1p-60; i--) {
        sum += term;
        term *= i / (n - i + 1) * ((1 - p) / p);
    }
    return sum;
}

double pco_conformance_flake_bound(uint64_t differed, uint64_t executions)
{
    if (differed >= executions) return 1;
    if (differed == 0) return -expm1(log(0.05) / (double)executions);
    double low = (double)differed / (double)executions, high = 1;
    for (int i = 0; i < 60; i++) {
        const double middle = (low + high) / 2;
        if (conf_flake_below((double)differed, (double)executions, middle) > 0.05)
            low = middle;
        else
            high = middle;
    }
    return high;
}
