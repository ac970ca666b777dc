/* Nodes of a bisection in a worker process, which a device can crash or hang. The problem goes through a file in
 * memory (the case as it is, then the operands), by its name in /proc; the worker answers with a record. */
#include "bisect/bisect_internal.h"
#include "isolate/isolate.h"
#include "isolate/problem_file.h"
#include "isolate/wire.h"
#include "run/result.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct bisect_apart {
    const pco_bisect_isolation *isolation;
    conf_process process;
    bool started;
    /* the answer under way */
    const bisect_problem *problem;
    int file;
    bool answered, done, stopped, hung;
    uint32_t written; /* a reproducer */
    pco_conformance_case result;
    char variant[64], why[256];
    pco_error err;
    pco_status status;
};

bisect_apart *bisect_apart_create(const pco_bisect_isolation *isolation)
{
    bisect_apart *apart = calloc(1, sizeof *apart);
    if (apart) apart->isolation = isolation, apart->file = -1;
    return apart;
}

static void bisect_apart_stop(bisect_apart *apart)
{
    bool killed;
    if (apart->started) conf_process_finish(&apart->process, 1, &killed);
    apart->started = false;
}

void bisect_apart_destroy(bisect_apart *apart)
{
    if (!apart) return;
    bisect_apart_stop(apart);
    if (apart->file >= 0) close(apart->file);
    free(apart);
}

/* ---- asking ---- */

static bool bisect_apart_answer(void *user, char *text)
{
    bisect_apart *apart = user;
    cJSON *line = NULL;
    const char *kind = "", *why = "";
    pco_status status = pco_json_parse(text, strlen(text), "a worker's answer", &line, &apart->err);
    if (!status) status = pco_json_string(line, "an answer", "kind", &kind, &apart->err);
    if (!status && strcmp(kind, "record") == 0) {
        pco_conformance_case one = {0};
        status = conf_wire_read(line, &one, &apart->err);
        if (!status) {
            snprintf(apart->variant, sizeof apart->variant, "%s", one.variant);
            one.op = apart->problem->one.op, one.op_name = conf_case_op(&apart->problem->one)->name;
            one.label = one.variant = one.waiver = NULL;
            apart->result = one;
            apart->answered = true;
        }
    } else if (!status && strcmp(kind, "written") == 0) {
        int64_t number = 0;
        status = pco_json_int(line, "an answer", "number", 0, UINT32_MAX, &number, &apart->err);
        apart->written = (uint32_t)number;
    } else if (!status && strcmp(kind, "done") == 0) {
        apart->done = true;
    } else if (!status && (strcmp(kind, "stops") == 0 || strcmp(kind, "broken") == 0)) {
        status = pco_json_string(line, "an answer", "why", &why, &apart->err);
        snprintf(apart->why, sizeof apart->why, "%s%.200s", *kind == 'b' ? "the device could not be opened: " : "",
                 why);
        apart->stopped = true;
    }
    cJSON_Delete(line);
    apart->status = status;
    return !status && !apart->done && !apart->stopped;
}

static void bisect_apart_member(pco_json_writer *writer, const char *key, const char *text)
{
    pco_json_key(writer, key);
    pco_json_write_string(writer, text);
}

static char *bisect_apart_command(const bisect_apart *apart, const conf_reproducer_text *text, const char *folder,
                                  bool prepare_only)
{
    char path[64], seed[24];
    pco_writer command = {0};
    snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)getpid(), apart->file);
    pco_json_writer writer = {.out = &command};
    pco_json_begin_object(&writer);
    bisect_apart_member(&writer, "problem", path);
    if (folder) {
        snprintf(seed, sizeof seed, "%" PRIu64, text->seed);
        bisect_apart_member(&writer, "folder", folder);
        bisect_apart_member(&writer, "title", text->title);
        bisect_apart_member(&writer, "found", text->found);
        bisect_apart_member(&writer, "again", text->repeat);
        bisect_apart_member(&writer, "variant", text->variant);
        pco_json_key(&writer, "prepare");
        pco_json_write_bool(&writer, prepare_only);
    }
    pco_json_end_object(&writer);
    pco_write_char(&command, '\n');
    if (command.status) pco_writer_release(&command);
    return command.data;
}

pco_status bisect_apart_begin(bisect_apart *apart, const bisect_problem *problem, const conf_reproducer_text *text,
                              const char *folder, bool prepare_only, pco_error *err)
{
    pco_status status = conf_problem_store(&problem->one, problem->data, &apart->file, err);
    apart->problem = problem;
    apart->answered = apart->done = apart->stopped = apart->hung = false;
    apart->written = 0;
    apart->status = PCO_OK;
    apart->why[0] = 0;
    if (!status && !apart->started) status = conf_process_start(&apart->process, apart->isolation->command, err);
    if (status) return status;
    apart->started = true;
    char *command = bisect_apart_command(apart, text, folder, prepare_only);
    if (!command) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory");
    conf_process_send(&apart->process, command); /* if it is gone, the end tells */
    free(command);
    return PCO_OK;
}

/* Waits for the answer, or for the worker's end, which goes to `how` in words. Returns whether it ended. */
static bool bisect_apart_wait(bisect_apart *apart, char *how, size_t size)
{
    const double limit = apart->isolation->timeout, start = pco_seconds();
    int state = 0;
    bool killed, gone = false;
    while (!apart->done && !apart->stopped && !apart->status && !gone) {
        struct pollfd fds[] = {{.fd = apart->process.out, .events = POLLIN},
                               {.fd = apart->process.error, .events = POLLIN}};
        poll(fds, 2, 100);
        if (apart->isolation->beat) apart->isolation->beat(apart->isolation->user);
        conf_process_drain(&apart->process);
        conf_process_read(&apart->process, bisect_apart_answer, apart);
        if (apart->done || apart->stopped || apart->status) break;
        gone = conf_process_ended(&apart->process, &state);
        if (gone) conf_process_drain(&apart->process);
        if (gone) conf_process_read(&apart->process, bisect_apart_answer, apart); /* what it said before */
        apart->hung = !gone && pco_seconds() - start > limit;
        gone = gone || apart->hung;
    }
    if (!gone && !apart->stopped) return false;
    if (apart->hung) {
        conf_process_kill(&apart->process);
        snprintf(how, size, "no answer within %g s", limit);
    } else if (apart->stopped) {
        snprintf(how, size, "%s", apart->why);
    } else {
        conf_process_describe(&apart->process, state, how, size);
    }
    conf_process_finish(&apart->process, apart->stopped ? 5 : 0, &killed);
    apart->started = false;
    return true;
}

uint32_t bisect_apart_written(const bisect_apart *apart) { return apart->written; }

pco_status bisect_apart_end(bisect_apart *apart, pco_conformance_case *result, char *variant, pco_error *err)
{
    char how[400] = "";
    const bool ended = bisect_apart_wait(apart, how, sizeof how);
    if (apart->status) return pco_fail(err, apart->status, "%s", apart->err.message);
    *result = apart->result;
    if (!apart->answered) {
        *result = (pco_conformance_case){.op = apart->problem->one.op, .element = -1};
        result->op_name = conf_case_op(&apart->problem->one)->name;
        apart->variant[0] = 0;
    }
    if (ended && (!apart->answered || !apart->stopped)) {
        result->state = apart->hung ? PCO_CASE_HUNG : PCO_CASE_CRASHED;
        result->ratio = HUGE_VAL;
        snprintf(result->detail, sizeof result->detail, "%s%s", apart->answered ? "when it was done: " : "", how);
        if (apart->stopped) return pco_fail(err, PCO_ERROR_DEVICE_LOST, "%s", how); /* it did not come to a case */
    }
    result->label = result->variant = ""; /* not kept */
    snprintf(variant, 64, "%s", apart->variant);
    return PCO_OK;
}
