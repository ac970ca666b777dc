/* What is concluded from how a worker and its device behave. */
#include "isolate/isolate.h"
#include "run/result.h"

#include "base/clock.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

static void verdict_fail(conf_isolated *run, pco_status status)
{
    if (!run->status) run->status = status;
}

static bool verdict_is_down(pco_conformance_state state)
{
    return state == PCO_CASE_CRASHED || state == PCO_CASE_HUNG || state == PCO_CASE_DEVICE_LOST;
}

/* Keeps records for good, logs and shows them; cases [begin, end) are complete. */
static void verdict_commit(conf_isolated *run, conf_units *units, uint32_t begin, uint32_t end)
{
    const pco_conformance_options *options = run->options;
    pco_conformance_isolation *isolation = run->isolation;
    for (uint32_t i = begin; i < end; i++) {
        run->done += !run->list.items[i].done;
        run->list.items[i].done = true;
    }
    if (isolation->log)
        verdict_fail(run, conf_log_write(isolation->log, run->device->id, options->seed, units, &run->list, begin, end,
                                         run->err));
    for (uint32_t i = 0; i < units->count && !run->status; i++) {
        const conf_unit *unit = &units->items[i];
        verdict_fail(run, conf_units_add(&run->units, unit->order, unit->unit, &unit->one, run->err));
        if (verdict_is_down(unit->one.state) && !run->status)
            verdict_fail(run, conf_units_add(&run->crashes, unit->order, unit->unit, &unit->one, run->err));
        if (!options->progress) continue;
        pco_conformance_case shown = unit->one;
        if (isolation->waivers && pco_conformance_state_is_bad(shown.state) &&
            conf_waivers_cover(isolation->waivers, run->device, &shown))
            shown.state = PCO_CASE_WAIVED;
        pco_conformance_progress progress = {run->device, run->done, run->list.count, &shown};
        if (!options->progress(options->user, &progress))
            verdict_fail(run, pco_fail(run->err, PCO_ERROR_CANCELLED, "cancelled"));
    }
    conf_units_clear(units);
}

/* After these records the device was no longer what it was. */
static void verdict_lose(conf_units *units, const char *how)
{
    for (uint32_t i = 0; i < units->count; i++) {
        pco_conformance_case *one = &units->items[i].one;
        char detail[sizeof one->detail];
        if (one->state == PCO_CASE_UNSUPPORTED || one->state == PCO_CASE_NOT_PROMISED || verdict_is_down(one->state))
            continue;
        snprintf(detail, sizeof detail, "%.300s; the result itself: %s%s%.120s", how,
                 pco_conformance_state_name(one->state), *one->detail ? ", " : "", one->detail);
        memcpy(one->detail, detail, sizeof detail);
        one->state = PCO_CASE_DEVICE_LOST;
    }
}

static void verdict_move(conf_isolated *run, conf_units *from, conf_units *to)
{
    for (uint32_t i = 0; i < from->count && !run->status; i++)
        verdict_fail(run, conf_units_add(to, from->items[i].order, from->items[i].unit, &from->items[i].one, run->err));
    conf_units_clear(from);
}

/* One case of a family is judged; with the last of them all are. */
static void verdict_family(conf_isolated *run, conf_family *family, conf_units *units)
{
    verdict_move(run, units, &family->held);
    if (--family->left > 0 || run->status) return;
    if (!family->lost)
        verdict_lose(&family->held,
                     "after a group of cases with this one the device answered a known question wrongly, "
                     "and after none of them alone");
    conf_units_sort(&family->held);
    while (family->held.count && !run->status) { /* case by case: they need not stand side by side */
        conf_units one = {0};
        uint32_t order = family->held.items[0].order, kept = 0;
        for (uint32_t i = 0; i < family->held.count && !run->status; i++) {
            conf_unit *unit = &family->held.items[i];
            if (unit->order == order) {
                verdict_fail(run, conf_units_add(&one, unit->order, unit->unit, &unit->one, run->err));
                conf_case_free(&unit->one);
            } else {
                family->held.items[kept++] = *unit;
            }
        }
        family->held.count = kept;
        verdict_commit(run, &one, order, order + 1);
    }
}

static uint32_t verdict_cases(const conf_isolated *run, const conf_group *group)
{
    uint32_t cases = 0;
    for (uint32_t i = group->begin; i < group->end; i++) cases += !run->list.items[i].done;
    return cases;
}

static void verdict_requeue(conf_isolated *run, conf_group group)
{
    group.begun = true;
    if (verdict_cases(run, &group) && !run->status) verdict_fail(run, conf_queue_add(&run->queue, &group, run->err));
}

/* Tries each case of a group alone. */
static void verdict_split(conf_isolated *run, const conf_group *group, uint32_t cases)
{
    conf_family *family = calloc(1, sizeof *family);
    if (!family) {
        verdict_fail(run, pco_fail(run->err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a list of cases"));
        return;
    }
    family->left = cases;
    for (uint32_t i = group->begin; i < group->end; i++)
        verdict_requeue(
            run, (conf_group){.begin = i, .end = i + 1, .from = i == group->begin ? group->from : 0, .family = family});
    if (run->status && run->queue.count == 0) free(family);
}

void conf_job_asked(conf_job *job, bool sane)
{
    static const char HOW[] = "after this case the device no longer answered a known question rightly";
    conf_isolated *run = job->run;
    const conf_group group = job->group;
    uint32_t cases = verdict_cases(run, &group);
    job->busy = false;
    if (!sane && !group.family && cases > 1) {
        conf_units_clear(&job->pending);
        verdict_split(run, &group, cases);
        return;
    }
    if (!sane) verdict_lose(&job->pending, HOW);
    if (group.family) {
        group.family->lost += !sane;
        verdict_family(run, group.family, &job->pending);
    } else {
        verdict_commit(run, &job->pending, group.begin, group.end);
    }
}

/* The record of what had begun when the worker was gone; `more`: the case has variants that are still to be
 * run. */
static bool verdict_blame(conf_job *job, const char *how)
{
    conf_isolated *run = job->run;
    const pco_conformance_state state = job->hung ? PCO_CASE_HUNG : PCO_CASE_CRASHED;
    if (job->announced) {
        pco_conformance_case one = job->next;
        one.state = state;
        one.seconds = pco_seconds() - job->heard;
        snprintf(one.detail, sizeof one.detail, "%s", how);
        verdict_fail(run, conf_units_add(&job->pending, job->order, job->unit++, &one, run->err));
        return !job->whole;
    }
    if (job->stopped) return !job->whole; /* the last record says why */
    for (uint32_t i = job->pending.count; i-- > 0;) {
        pco_conformance_case *one = &job->pending.items[i].one;
        if (job->pending.items[i].order != job->order) continue;
        one->state = state;
        snprintf(one->detail, sizeof one->detail, "when it was done: %.480s", how);
        break;
    }
    return !job->whole;
}

void conf_job_gone(conf_job *job, const char *how)
{
    conf_isolated *run = job->run;
    conf_group rest = job->group;
    if (!job->busy) return;
    if (!job->begun) {
        verdict_fail(run, pco_fail(run->err, PCO_ERROR_INTERNAL, "a worker ended without beginning a case: %s", how));
        return;
    }
    if (job->order == PCO_NONE) { /* while it was asked */
        conf_job_asked(job, false);
        return;
    }
    bool more = verdict_blame(job, how);
    uint32_t order = job->order;
    job->busy = false;
    rest.begin = more ? order : order + 1;
    rest.from = more ? job->unit : 0;
    if (rest.family) { /* of one case */
        rest.family->lost++;
        if (more) {
            verdict_move(run, &job->pending, &rest.family->held);
            verdict_requeue(run, rest);
        } else {
            verdict_family(run, rest.family, &job->pending);
        }
        return;
    }
    verdict_commit(run, &job->pending, job->group.begin, rest.begin);
    verdict_requeue(run, rest);
}
