/* A run in worker processes. The parent never opens the device. It gives groups of cases to workers, each a
 * process that opens the device for itself, and waits for their records. A worker says what it begins, so
 * that when it dies, hangs or loses the device the case and variant under way is to blame; a new worker goes
 * on behind it. */
#include "run/diagnose.h"
#include "isolate/isolate.h"
#include "run/result.h"
#include "isolate/wire.h"

#include "base/clock.h"
#include "base/error.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_JOBS = 256, MAX_STARTS = 3, CLOSE_SECONDS = 20, TICK_MILLISECONDS = 200 };

static void isolate_fail(conf_isolated *run, pco_status status)
{
    if (!run->status) run->status = status;
}

/* ---- answers ---- */

static void isolate_forget(conf_job *job)
{
    conf_case_free(&job->next);
    job->announced = false;
}

/* Fills a record from a line and from the list of cases; false after an error. */
static bool isolate_read(conf_job *job, const cJSON *line, pco_conformance_case *one, uint32_t *order)
{
    conf_isolated *run = job->run;
    *one = (pco_conformance_case){0};
    pco_status status = conf_wire_read(line, one, run->err);
    *order = status ? PCO_NONE : conf_list_find(&run->list, one->id);
    if (!status && *order == PCO_NONE)
        status = pco_fail(run->err, PCO_ERROR_INTERNAL, "a worker ran a case that it was not given");
    if (status) {
        isolate_fail(run, status);
        return false;
    }
    const conf_listed *listed = &run->list.items[*order];
    one->op = listed->op, one->op_name = listed->op_name, one->regime = listed->regime;
    one->dtype = listed->dtype, one->label = listed->label;
    return true;
}

/* "case", "begin" and "record" */
static void isolate_record(conf_job *job, const char *kind, const cJSON *line)
{
    conf_isolated *run = job->run;
    pco_conformance_case one;
    uint32_t order;
    if (!isolate_read(job, line, &one, &order)) return;
    const bool announced = job->announced;
    isolate_forget(job);
    if (order != job->order) {
        job->unit = order == job->group.begin ? job->group.from : 0;
        if (++run->list.items[order].begun > CONF_MAX_BEGUN)
            isolate_fail(run, pco_fail(run->err, PCO_ERROR_INTERNAL,
                                       "case %08" PRIx32 " was begun %d times without an end", one.id, CONF_MAX_BEGUN));
    }
    job->order = order;
    job->begun = true;
    if (strcmp(kind, "record") == 0) {
        if (!announced) job->whole = !*one.variant; /* it was refused before it began */
        isolate_fail(run, conf_units_add(&job->pending, order, job->unit++, &one, run->err));
    } else {
        isolate_fail(run, conf_case_copy(&one, &job->next, run->err));
        job->announced = !run->status;
        job->whole = strcmp(kind, "case") == 0;
    }
}

static void isolate_known(conf_job *job, const char *kind, const cJSON *line)
{
    conf_isolated *run = job->run;
    int64_t mask = 0;
    isolate_fail(run, pco_json_int(line, "an answer", "number", 0, UINT32_MAX, &mask, run->err));
    if (!run->asked) run->known = (uint32_t)mask;
    run->asked = true;
    bool sane = ((uint32_t)mask & run->known) == run->known;
    if (strcmp(kind, "ready") == 0 && sane) {
        job->ready = true;
        run->failed_starts = 0;
    } else if (strcmp(kind, "ready") == 0) {
        snprintf(job->why, sizeof job->why,
                 "a known question that was answered rightly before is now answered wrongly");
        job->stopped = true;
    } else if (job->busy) {
        conf_job_asked(job, sane);
        job->stopped = !sane;
    }
}

static void isolate_constant(conf_job *job, const cJSON *line)
{
    conf_isolated *run = job->run;
    pco_conformance_constant seen;
    bool fresh = false;
    pco_status status = conf_wire_read_constant(line, &seen, run->err);
    if (!status) status = conf_constants_note(&run->constants, &seen, &fresh, run->err);
    if (fresh && run->isolation->log)
        conf_log_constant(run->isolation->log, run->device->id, run->options->seed, &seen);
    isolate_fail(run, status);
}

static void isolate_pipeline(conf_job *job, const cJSON *line)
{
    conf_isolated *run = job->run;
    pco_conformance_pipeline seen;
    bool fresh;
    pco_status status = conf_wire_read_pipeline(line, &seen, run->err);
    if (!status) status = conf_pipelines_note(&run->pipelines, &seen, &fresh, run->err);
    free(seen.figures);
    isolate_fail(run, status);
}

static bool isolate_answer(void *user, char *text)
{
    conf_job *job = user;
    conf_isolated *run = job->run;
    cJSON *line = NULL;
    const char *kind = "", *why = "";
    pco_status status = pco_json_parse(text, strlen(text), "a worker's answer", &line, run->err);
    if (!status) status = pco_json_string(line, "an answer", "kind", &kind, run->err);
    isolate_fail(run, status);
    job->heard = pco_seconds();
    if (status) {
        kind = "";
    } else if (strcmp(kind, "ready") == 0 || strcmp(kind, "asked") == 0) {
        isolate_known(job, kind, line);
    } else if (strcmp(kind, "asks") == 0) {
        int64_t question = 0;
        isolate_fail(run, pco_json_int(line, "an answer", "number", 0, 31, &question, run->err));
        job->question = (uint32_t)question;
    } else if (strcmp(kind, "case") == 0 || strcmp(kind, "begin") == 0 || strcmp(kind, "record") == 0) {
        isolate_record(job, kind, line);
    } else if (strcmp(kind, "constant") == 0) {
        isolate_constant(job, line);
    } else if (strcmp(kind, "pipeline") == 0) {
        isolate_pipeline(job, line);
    } else if (strcmp(kind, "done") == 0) {
        isolate_forget(job);
        job->order = PCO_NONE;
    } else if (strcmp(kind, "stops") == 0 || strcmp(kind, "broken") == 0) {
        job->stopped = true;
        isolate_fail(run, pco_json_string(line, "an answer", "why", &why, run->err));
        snprintf(job->why, sizeof job->why, "%s%.200s", *kind == 'b' ? "it could not be opened: " : "", why);
    }
    cJSON_Delete(line);
    return !run->status && !job->stopped;
}

/* ---- workers ---- */

static void isolate_start(conf_job *job)
{
    conf_isolated *run = job->run;
    isolate_fail(run, conf_process_start(&job->process, run->isolation->command, run->err));
    job->started = !run->status;
    job->ready = job->busy = job->stopped = job->hung = false;
    job->why[0] = 0;
    job->question = PCO_NONE;
    char command[40];
    snprintf(command, sizeof command, "{\"questions\": %" PRIu32 "}\n", run->questions);
    if (job->started) conf_process_send(&job->process, command);
    job->op = 0;
    job->order = PCO_NONE;
    job->heard = pco_seconds();
}

/* {"op": ..., "cases": [...], "from": n, "not": [...]}, and a newline */
static char *isolate_command(conf_isolated *run, const conf_group *group)
{
    char id[12];
    pco_writer text = {0};
    pco_json_writer writer = {.out = &text};
    pco_json_begin_object(&writer);
    pco_json_key(&writer, "op");
    pco_json_write_string(&writer, run->list.items[group->begin].op_name);
    pco_json_key(&writer, "from");
    pco_json_write_int(&writer, group->from);
    pco_json_key(&writer, "cases");
    pco_json_begin_array(&writer);
    for (uint32_t i = group->begin; i < group->end; i++) {
        if (run->list.items[i].done) continue;
        snprintf(id, sizeof id, "%08" PRIx32, run->list.items[i].id);
        pco_json_write_string(&writer, id);
    }
    pco_json_end_array(&writer);
    pco_json_key(&writer, "not");
    pco_json_begin_array(&writer);
    for (uint32_t i = 0; i < run->crashes.count; i++) {
        const pco_conformance_case *one = &run->crashes.items[i].one;
        pco_conformance_state state =
            conf_units_banned(&run->crashes, run->list.items[group->begin].op, one->variant, one->width, group->begin);
        if (one->op != run->list.items[group->begin].op || state == PCO_CASE_PASS) continue;
        char width[12];
        snprintf(width, sizeof width, "%" PRIu32, one->width);
        pco_json_begin_object(&writer);
        pco_json_key(&writer, "variant");
        pco_json_write_string(&writer, one->variant);
        pco_json_key(&writer, "width");
        pco_json_write_string(&writer, width);
        pco_json_key(&writer, "state");
        pco_json_write_string(&writer, pco_conformance_state_name(state));
        pco_json_end_object(&writer);
    }
    pco_json_end_array(&writer);
    pco_json_end_object(&writer);
    pco_write_char(&text, '\n');
    if (text.status) pco_writer_release(&text);
    return text.data;
}

/* The worker was gone before it had its group. */
static void isolate_not_handed(conf_job *job)
{
    conf_isolated *run = job->run;
    job->busy = false;
    job->group.begun = true;
    if (++job->group.handed < CONF_MAX_HANDED)
        isolate_fail(run, conf_queue_add(&run->queue, &job->group, run->err));
    else
        isolate_fail(run, pco_fail(run->err, PCO_ERROR_INTERNAL, "%d workers in a row ended when they were to begin",
                                   CONF_MAX_HANDED));
}

static void isolate_give(conf_job *job)
{
    conf_isolated *run = job->run;
    uint32_t others[MAX_JOBS], n = 0;
    for (uint32_t i = 0; i < run->n_jobs; i++)
        if (&run->jobs[i] != job && run->jobs[i].busy && n < MAX_JOBS) others[n++] = run->jobs[i].op;
    if (!conf_queue_take(&run->queue, job->op, others, n, &job->group)) return;
    job->op = run->list.items[job->group.begin].op;
    job->busy = true;
    job->begun = false;
    job->order = PCO_NONE;
    job->unit = 0;
    job->heard = pco_seconds();
    char *command = isolate_command(run, &job->group);
    if (!command)
        isolate_fail(run, pco_fail(run->err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory"));
    else if (!conf_process_send(&job->process, command)) /* it is gone: the group is for another */
        isolate_not_handed(job);
    free(command);
}

/* A worker did not come so far as to be given cases. */
static void isolate_not_ready(conf_job *job, const char *how)
{
    conf_isolated *run = job->run;
    uint32_t others = 0;
    for (uint32_t i = 0; i < run->n_jobs; i++) others += run->jobs[i].started && run->jobs[i].ready;
    if (!run->asked && job->question != PCO_NONE) { /* it cannot be asked that; cases will tell more */
        run->questions &= ~(UINT32_C(1) << job->question);
        return;
    }
    if (others) { /* perhaps it does not like company */
        job->closed = true;
        return;
    }
    if (run->asked && ++run->failed_starts < MAX_STARTS) {
        nanosleep(&(struct timespec){1, 0}, NULL);
        return;
    }
    run->lost = run->asked ? PCO_ERROR_DEVICE_LOST : PCO_ERROR_INTERNAL;
    run->not_opened = !run->asked;
    snprintf(run->message, sizeof run->message, "%s%.200s",
             run->asked     ? "the device can no longer be used: "
             : job->stopped ? ""
                            : "when the device was opened, ",
             how);
}

/* The worker of a job has ended, or is to be. */
static void isolate_end(conf_job *job, int state)
{
    char how[400];
    bool killed;
    if (job->process.pid) {
        if (job->hung) conf_process_kill(&job->process);
        state = conf_process_finish(&job->process, job->stopped ? 5 : 0, &killed);
    } else {
        conf_process_read(&job->process, isolate_answer, job); /* what it said before */
        conf_process_finish(&job->process, 0, &killed);
    }
    job->started = false;
    if (job->hung)
        snprintf(how, sizeof how, "no answer within %g s", job->run->isolation->timeout);
    else if (job->stopped && job->why[0])
        snprintf(how, sizeof how, "%s", job->why);
    else
        conf_process_describe(&job->process, state, how, sizeof how);
    if (!job->ready)
        isolate_not_ready(job, how);
    else
        conf_job_gone(job, how);
    isolate_forget(job);
    conf_units_clear(&job->pending);
}

static void isolate_look(conf_job *job)
{
    conf_isolated *run = job->run;
    int state = 0;
    double limit = run->isolation->timeout;
    conf_process_drain(&job->process);
    bool open = conf_process_read(&job->process, isolate_answer, job);
    if (run->status) return;
    if (conf_process_ended(&job->process, &state)) {
        conf_process_drain(&job->process);
        isolate_end(job, state);
    } else if (job->stopped) {
        isolate_end(job, 0);
    } else if ((job->busy || !job->ready) && pco_seconds() - job->heard > limit) {
        job->hung = true;
        isolate_end(job, 0);
    } else if (!open) {
        nanosleep(&(struct timespec){0, 1000000}, NULL); /* about to end */
    }
}

static void isolate_wait(conf_isolated *run)
{
    struct pollfd fds[2 * MAX_JOBS];
    nfds_t n = 0;
    for (uint32_t i = 0; i < run->n_jobs; i++) {
        if (!run->jobs[i].started) continue;
        fds[n++] = (struct pollfd){.fd = run->jobs[i].process.out, .events = POLLIN};
        fds[n++] = (struct pollfd){.fd = run->jobs[i].process.error, .events = POLLIN};
    }
    poll(fds, n, TICK_MILLISECONDS);
}

/* One round of the loop; false: nothing is left to do. */
static bool isolate_step(conf_isolated *run)
{
    const pco_conformance_isolation *isolation = run->isolation;
    uint32_t busy = 0, usable = 0, idle = 0;
    if (isolation->interrupted && *isolation->interrupted)
        isolate_fail(run, pco_fail(run->err, PCO_ERROR_CANCELLED, "interrupted"));
    if (isolation->deadline > 0 && pco_seconds() >= isolation->deadline)
        isolate_fail(run, pco_fail(run->err, PCO_ERROR_CANCELLED, "its time is up"));
    for (uint32_t i = 0; i < run->n_jobs && !run->status; i++) {
        conf_job *job = &run->jobs[i];
        /* the others wait for the first: it fills the driver's caches, and finds out what can be asked */
        if (!job->started && !job->closed && run->queue.open > idle && (run->asked || i == 0)) isolate_start(job);
        if (job->started && job->ready && !job->busy && run->queue.open) isolate_give(job);
        busy += job->busy;
        idle += job->started && !job->busy;
        usable += !job->closed;
    }
    if (run->status || (!busy && !run->queue.open)) return false;
    if (!usable) run->jobs[0].closed = false;
    isolate_wait(run);
    for (uint32_t i = 0; i < run->n_jobs && !run->status && !run->lost; i++)
        if (run->jobs[i].started) isolate_look(&run->jobs[i]);
    return !run->status && !run->lost;
}

/* Workers that have nothing to do close the device and go; that must work too. */
static void isolate_close(conf_isolated *run)
{
    for (uint32_t i = 0; i < run->n_jobs; i++) {
        conf_job *job = &run->jobs[i];
        bool killed, ended = !run->status && !run->lost;
        if (!job->started) continue;
        if (!ended) conf_process_kill(&job->process);
        int state = conf_process_finish(&job->process, CLOSE_SECONDS, &killed);
        char how[200];
        conf_process_describe(&job->process, state, how, sizeof how);
        if (ended && killed) snprintf(how, sizeof how, "it hung");
        if (ended && (killed || state != 0) && job->ready) {
            run->lost = PCO_ERROR_INTERNAL;
            snprintf(run->message, sizeof run->message, "all cases were run, but when the device was closed, %s", how);
        }
        conf_units_clear(&job->pending);
        isolate_forget(job);
        job->started = false;
    }
}

/* ---- the result ---- */

/* With several workers a variant may have been run behind the crashes that end it: as with one, it was not.
 */
static void isolate_ban(conf_isolated *run, conf_unit *unit)
{
    pco_conformance_case *one = &unit->one;
    pco_conformance_state state = conf_units_banned(&run->crashes, one->op, one->variant, one->width, unit->order);
    if (state == PCO_CASE_PASS) return;
    one->state = state;
    one->seconds = one->ratio = one->expected = one->got = one->bound = 0;
    one->output = 0, one->element = -1, one->elements = one->wrong = 0;
    one->explains = one->evidence = 0;
    snprintf(one->detail, sizeof one->detail, CONF_NOT_RUN, CONF_MAX_CRASHES);
}

static pco_status isolate_result(conf_isolated *run, pco_conformance_result *result, pco_error *err)
{
    conf_result_builder builder;
    pco_status status = conf_result_start(&builder, run->options, run->device->id, result, err);
    conf_units_sort(&run->units);
    conf_units_sort(&run->crashes);
    for (uint32_t i = 0; i < run->units.count && !status; i++) {
        isolate_ban(run, &run->units.items[i]);
        status = conf_result_add(&builder, &run->units.items[i].one, err);
    }
    if (!status) status = conf_result_finish(&builder, err);
    conf_result_constants(result, &run->constants);
    conf_result_pipelines(result, &run->pipelines);
    if (!status) conf_diagnose_name(result, &run->device->info->contract);
    result->status = run->lost;
    result->not_opened = run->not_opened;
    snprintf(result->message, sizeof result->message, "%s", run->message);
    if (!status && run->isolation->waivers)
        status = pco_conformance_waive(run->isolation->waivers, run->device, result, err);
    return status;
}

static void isolate_resume(conf_isolated *run)
{
    conf_units old = {0};
    isolate_fail(run, conf_log_replay(run->isolation->log, run->device->id, run->options->seed, &run->list, &old,
                                      &run->constants, run->err));
    for (uint32_t i = 0; i < run->list.count; i++) run->done += run->list.items[i].done;
    run->isolation->resumed += run->done;
    for (uint32_t i = 0; i < old.count && !run->status; i++) {
        const conf_unit *unit = &old.items[i];
        isolate_fail(run, conf_units_add(&run->units, unit->order, unit->unit, &unit->one, run->err));
        if (unit->one.state >= PCO_CASE_CRASHED && !run->status)
            isolate_fail(run, conf_units_add(&run->crashes, unit->order, unit->unit, &unit->one, run->err));
    }
    conf_units_clear(&old);
}

pco_status pco_conformance_run_isolated(const pco_conformance_options *options, pco_conformance_isolation *isolation,
                                        const pco_conformance_device *device, pco_conformance_result *result,
                                        pco_error *err)
{
    pco_error local;
    conf_isolated run = {.options = options, .isolation = isolation, .device = device, .err = err ? err : &local};
    run.questions = options->compile_only ? 0 : CONF_QUESTIONS;
    double start = pco_seconds();
    memset(result, 0, sizeof *result);
    isolate_fail(&run, conf_list_make(&run.list, options, device->info, run.err));
    if (!run.status && isolation->log) isolate_resume(&run);
    if (!run.status) isolate_fail(&run, conf_queue_make(&run.queue, &run.list, run.err));
    run.n_jobs = isolation->jobs < 1 ? 1 : isolation->jobs < MAX_JOBS ? isolation->jobs : MAX_JOBS;
    run.jobs = calloc(run.n_jobs, sizeof *run.jobs);
    if (!run.jobs) isolate_fail(&run, pco_fail(run.err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory"));
    for (uint32_t i = 0; run.jobs && i < run.n_jobs; i++) run.jobs[i].run = &run;
    while (!run.status && isolate_step(&run)) continue;
    if (run.jobs) isolate_close(&run);
    pco_error why;
    pco_status status = isolate_result(&run, result, &why);
    if (run.status) {
        result->status = run.status;
        snprintf(result->message, sizeof result->message, "%.255s", run.err->message);
    } else if (status) {
        *run.err = why;
    }
    result->seconds = pco_seconds() - start;
    conf_units_clear(&run.units);
    conf_units_clear(&run.crashes);
    conf_constants_clear(&run.constants);
    conf_pipelines_clear(&run.pipelines);
    conf_queue_clear(&run.queue);
    conf_list_clear(&run.list);
    free(run.jobs);
    return run.status ? run.status : status;
}
