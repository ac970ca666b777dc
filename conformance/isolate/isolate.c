/* A run in worker processes. The parent never opens the device. It gives groups of cases to workers, each a
 * process that opens the device for itself, and waits for their records. A worker says what it begins, so
 * that when it dies, hangs or loses the device the case and variant under way is to blame; a new worker goes
 * on behind it. */
#include "run/diagnose.h"
#include "isolate/isolate.h"
#include "run/result.h"
#include "isolate/wire.h"

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

static void isolate_forget(conf_slot *slot)
{
    conf_case_free(&slot->next);
    slot->announced = false;
}

/* Fills a record from a line and from the list of cases; false after an error. */
static bool isolate_read(conf_slot *slot, const cJSON *line, pco_conformance_case *one, uint32_t *order)
{
    conf_isolated *run = slot->run;
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
static void isolate_record(conf_slot *slot, const char *kind, const cJSON *line)
{
    conf_isolated *run = slot->run;
    pco_conformance_case one;
    uint32_t order;
    if (!isolate_read(slot, line, &one, &order)) return;
    const bool announced = slot->announced;
    isolate_forget(slot);
    if (order != slot->order) {
        slot->unit = order == slot->group.begin ? slot->group.from : 0;
        if (++run->list.items[order].begun > CONF_MAX_BEGUN)
            isolate_fail(run, pco_fail(run->err, PCO_ERROR_INTERNAL,
                                       "case %08" PRIx32 " was begun %d times without an end", one.id, CONF_MAX_BEGUN));
    }
    slot->order = order;
    slot->begun = true;
    if (strcmp(kind, "record") == 0) {
        if (!announced) slot->whole = !*one.variant; /* it was refused before it began */
        isolate_fail(run, conf_units_add(&slot->pending, order, slot->unit++, &one, run->err));
    } else {
        isolate_fail(run, conf_case_copy(&one, &slot->next, run->err));
        slot->announced = !run->status;
        slot->whole = strcmp(kind, "case") == 0;
    }
}

static void isolate_known(conf_slot *slot, const char *kind, const cJSON *line)
{
    conf_isolated *run = slot->run;
    int64_t mask = 0;
    isolate_fail(run, pco_json_int(line, "an answer", "number", 0, UINT32_MAX, &mask, run->err));
    if (!run->asked) run->known = (uint32_t)mask;
    run->asked = true;
    bool sane = ((uint32_t)mask & run->known) == run->known;
    if (strcmp(kind, "ready") == 0 && sane) {
        slot->ready = true;
        run->failed_starts = 0;
    } else if (strcmp(kind, "ready") == 0) {
        snprintf(slot->why, sizeof slot->why,
                 "a known question that was answered rightly before is now answered wrongly");
        slot->stopped = true;
    } else if (slot->busy) {
        conf_slot_asked(slot, sane);
        slot->stopped = !sane;
    }
}

static void isolate_constant(conf_slot *slot, const cJSON *line)
{
    conf_isolated *run = slot->run;
    pco_conformance_constant seen;
    bool fresh = false;
    pco_status status = conf_wire_read_constant(line, &seen, run->err);
    if (!status) status = conf_constants_note(&run->constants, &seen, &fresh, run->err);
    if (fresh && run->isolation->log)
        conf_log_constant(run->isolation->log, run->device->id, run->options->seed, &seen);
    isolate_fail(run, status);
}

static bool isolate_answer(void *user, char *text)
{
    conf_slot *slot = user;
    conf_isolated *run = slot->run;
    cJSON *line = NULL;
    const char *kind = "", *why = "";
    pco_status status = pco_json_parse(text, strlen(text), "a worker's answer", &line, run->err);
    if (!status) status = pco_json_string(line, "an answer", "kind", &kind, run->err);
    isolate_fail(run, status);
    slot->heard = conf_now();
    if (status) {
        kind = "";
    } else if (strcmp(kind, "ready") == 0 || strcmp(kind, "asked") == 0) {
        isolate_known(slot, kind, line);
    } else if (strcmp(kind, "asks") == 0) {
        int64_t question = 0;
        isolate_fail(run, pco_json_int(line, "an answer", "number", 0, 31, &question, run->err));
        slot->question = (uint32_t)question;
    } else if (strcmp(kind, "case") == 0 || strcmp(kind, "begin") == 0 || strcmp(kind, "record") == 0) {
        isolate_record(slot, kind, line);
    } else if (strcmp(kind, "constant") == 0) {
        isolate_constant(slot, line);
    } else if (strcmp(kind, "done") == 0) {
        isolate_forget(slot);
        slot->order = PCO_NONE;
    } else if (strcmp(kind, "stops") == 0 || strcmp(kind, "broken") == 0) {
        slot->stopped = true;
        isolate_fail(run, pco_json_string(line, "an answer", "why", &why, run->err));
        snprintf(slot->why, sizeof slot->why, "%s%.200s", *kind == 'b' ? "it could not be opened: " : "", why);
    }
    cJSON_Delete(line);
    return !run->status && !slot->stopped;
}

/* ---- workers ---- */

static void isolate_start(conf_slot *slot)
{
    conf_isolated *run = slot->run;
    isolate_fail(run, conf_process_start(&slot->process, run->isolation->command, run->err));
    slot->started = !run->status;
    slot->ready = slot->busy = slot->stopped = slot->hung = false;
    slot->why[0] = 0;
    slot->question = PCO_NONE;
    char command[40];
    snprintf(command, sizeof command, "{\"questions\": %" PRIu32 "}\n", run->questions);
    if (slot->started) conf_process_send(&slot->process, command);
    slot->op = 0;
    slot->order = PCO_NONE;
    slot->heard = conf_now();
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
static void isolate_not_handed(conf_slot *slot)
{
    conf_isolated *run = slot->run;
    slot->busy = false;
    slot->group.begun = true;
    if (++slot->group.handed < CONF_MAX_HANDED)
        isolate_fail(run, conf_queue_add(&run->queue, &slot->group, run->err));
    else
        isolate_fail(run, pco_fail(run->err, PCO_ERROR_INTERNAL, "%d workers in a row ended when they were to begin",
                                   CONF_MAX_HANDED));
}

static void isolate_give(conf_slot *slot)
{
    conf_isolated *run = slot->run;
    uint32_t others[MAX_JOBS], n = 0;
    for (uint32_t i = 0; i < run->n_slots; i++)
        if (&run->slots[i] != slot && run->slots[i].busy && n < MAX_JOBS) others[n++] = run->slots[i].op;
    if (!conf_queue_take(&run->queue, slot->op, others, n, &slot->group)) return;
    slot->op = run->list.items[slot->group.begin].op;
    slot->busy = true;
    slot->begun = false;
    slot->order = PCO_NONE;
    slot->unit = 0;
    slot->heard = conf_now();
    char *command = isolate_command(run, &slot->group);
    if (!command)
        isolate_fail(run, pco_fail(run->err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory"));
    else if (!conf_process_send(&slot->process, command)) /* it is gone: the group is for another */
        isolate_not_handed(slot);
    free(command);
}

/* A worker did not come so far as to be given cases. */
static void isolate_not_ready(conf_slot *slot, const char *how)
{
    conf_isolated *run = slot->run;
    uint32_t others = 0;
    for (uint32_t i = 0; i < run->n_slots; i++) others += run->slots[i].started && run->slots[i].ready;
    if (!run->asked && slot->question != PCO_NONE) { /* it cannot be asked that; cases will tell more */
        run->questions &= ~(UINT32_C(1) << slot->question);
        return;
    }
    if (others) { /* perhaps it does not like company */
        slot->closed = true;
        return;
    }
    if (run->asked && ++run->failed_starts < MAX_STARTS) {
        nanosleep(&(struct timespec){1, 0}, NULL);
        return;
    }
    run->lost = run->asked ? PCO_ERROR_DEVICE_LOST : PCO_ERROR_INTERNAL;
    run->not_opened = !run->asked;
    snprintf(run->message, sizeof run->message, "%s%.200s",
             run->asked      ? "the device can no longer be used: "
             : slot->stopped ? ""
                             : "when the device was opened, ",
             how);
}

/* The worker of a slot has ended, or is to be. */
static void isolate_end(conf_slot *slot, int state)
{
    char how[400];
    bool killed;
    if (slot->process.pid) {
        if (slot->hung) conf_process_kill(&slot->process);
        state = conf_process_finish(&slot->process, slot->stopped ? 5 : 0, &killed);
    } else {
        conf_process_read(&slot->process, isolate_answer, slot); /* what it said before */
        conf_process_finish(&slot->process, 0, &killed);
    }
    slot->started = false;
    if (slot->hung)
        snprintf(how, sizeof how, "no answer within %g s", slot->run->isolation->timeout);
    else if (slot->stopped && slot->why[0])
        snprintf(how, sizeof how, "%s", slot->why);
    else
        conf_process_describe(&slot->process, state, how, sizeof how);
    if (!slot->ready)
        isolate_not_ready(slot, how);
    else
        conf_slot_gone(slot, how);
    isolate_forget(slot);
    conf_units_clear(&slot->pending);
}

static void isolate_look(conf_slot *slot)
{
    conf_isolated *run = slot->run;
    int state = 0;
    double limit = run->isolation->timeout;
    conf_process_drain(&slot->process);
    bool open = conf_process_read(&slot->process, isolate_answer, slot);
    if (run->status) return;
    if (conf_process_ended(&slot->process, &state)) {
        conf_process_drain(&slot->process);
        isolate_end(slot, state);
    } else if (slot->stopped) {
        isolate_end(slot, 0);
    } else if ((slot->busy || !slot->ready) && conf_now() - slot->heard > limit) {
        slot->hung = true;
        isolate_end(slot, 0);
    } else if (!open) {
        nanosleep(&(struct timespec){0, 1000000}, NULL); /* about to end */
    }
}

static void isolate_wait(conf_isolated *run)
{
    struct pollfd fds[2 * MAX_JOBS];
    nfds_t n = 0;
    for (uint32_t i = 0; i < run->n_slots; i++) {
        if (!run->slots[i].started) continue;
        fds[n++] = (struct pollfd){.fd = run->slots[i].process.out, .events = POLLIN};
        fds[n++] = (struct pollfd){.fd = run->slots[i].process.error, .events = POLLIN};
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
    if (isolation->deadline > 0 && conf_now() >= isolation->deadline)
        isolate_fail(run, pco_fail(run->err, PCO_ERROR_CANCELLED, "its time is up"));
    for (uint32_t i = 0; i < run->n_slots && !run->status; i++) {
        conf_slot *slot = &run->slots[i];
        /* the others wait for the first: it fills the driver's caches, and finds out what can be asked */
        if (!slot->started && !slot->closed && run->queue.open > idle && (run->asked || i == 0)) isolate_start(slot);
        if (slot->started && slot->ready && !slot->busy && run->queue.open) isolate_give(slot);
        busy += slot->busy;
        idle += slot->started && !slot->busy;
        usable += !slot->closed;
    }
    if (run->status || (!busy && !run->queue.open)) return false;
    if (!usable) run->slots[0].closed = false;
    isolate_wait(run);
    for (uint32_t i = 0; i < run->n_slots && !run->status && !run->lost; i++)
        if (run->slots[i].started) isolate_look(&run->slots[i]);
    return !run->status && !run->lost;
}

/* Workers that have nothing to do close the device and go; that must work too. */
static void isolate_close(conf_isolated *run)
{
    for (uint32_t i = 0; i < run->n_slots; i++) {
        conf_slot *slot = &run->slots[i];
        bool killed, ended = !run->status && !run->lost;
        if (!slot->started) continue;
        if (!ended) conf_process_kill(&slot->process);
        int state = conf_process_finish(&slot->process, CLOSE_SECONDS, &killed);
        char how[200];
        conf_process_describe(&slot->process, state, how, sizeof how);
        if (ended && killed) snprintf(how, sizeof how, "it hung");
        if (ended && (killed || state != 0) && slot->ready) {
            run->lost = PCO_ERROR_INTERNAL;
            snprintf(run->message, sizeof run->message, "all cases were run, but when the device was closed, %s", how);
        }
        conf_units_clear(&slot->pending);
        isolate_forget(slot);
        slot->started = false;
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
    run.questions = CONF_QUESTIONS;
    double start = conf_now();
    memset(result, 0, sizeof *result);
    isolate_fail(&run, conf_list_make(&run.list, options, device->info, run.err));
    if (!run.status && isolation->log) isolate_resume(&run);
    if (!run.status) isolate_fail(&run, conf_queue_make(&run.queue, &run.list, run.err));
    run.n_slots = isolation->jobs < 1 ? 1 : isolation->jobs < MAX_JOBS ? isolation->jobs : MAX_JOBS;
    run.slots = calloc(run.n_slots, sizeof *run.slots);
    if (!run.slots) isolate_fail(&run, pco_fail(run.err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory"));
    for (uint32_t i = 0; run.slots && i < run.n_slots; i++) run.slots[i].run = &run;
    while (!run.status && isolate_step(&run)) continue;
    if (run.slots) isolate_close(&run);
    pco_error why;
    pco_status status = isolate_result(&run, result, &why);
    if (run.status) {
        result->status = run.status;
        snprintf(result->message, sizeof result->message, "%.255s", run.err->message);
    } else if (status) {
        *run.err = why;
    }
    result->seconds = conf_now() - start;
    conf_units_clear(&run.units);
    conf_units_clear(&run.crashes);
    conf_constants_clear(&run.constants);
    conf_queue_clear(&run.queue);
    conf_list_clear(&run.list);
    free(run.slots);
    return run.status ? run.status : status;
}
