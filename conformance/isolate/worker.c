/* The worker's side of an isolated run. It reads a command per line,
 *   {"op": "add", "cases": ["0123abcd", ...], "from": 0, "not": [{"variant": "v", "width": "0", "state":
 * "hung"}]} or {"questions": mask}, which comes first, and answers with lines of its own: "asks" before each
 * known question and "ready" after the first of them, "case" and "begin" before each case and variant, a
 * record after each variant, "done" after each case, and "asked" with what the device knows after the group. "constant"
 * tells of a value of a specialisation constant that is new to the worker, "pipeline" of a kernel that it had not
 * compiled before (where nothing is run), "alive" that replays go on.
 * `from` units of the first case are left out, and variants in "not" are not run but have the state that is
 * named there. A bisection asks {"problem": FILE} instead, one problem with its operands, in the variant that the
 * plugin chooses, and gets a record and "done"; with "folder", "written" tells whether a reproducer was. */
#include "isolate/problem_file.h"
#include "reproduce/reproduce.h"
#include "cases/cases.h"
#include "run/constants.h"
#include "run/pipelines.h"
#include "isolate/isolate.h"
#include "run/result.h"
#include "run/runner.h"
#include "isolate/wire.h"

#include "base/clock.h"
#include "base/error.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { MAX_GROUP = 4096 };

typedef struct conf_worker {
    const pco_conformance_device *device;
    pco_conformance_options options;
    pco_writer line;      /* the answer under way */
    const cJSON *refused; /* "not" */
    uint32_t questions;
    uint32_t ids[MAX_GROUP], n_ids, left;
    uint32_t unit, skip; /* the case under way: units begun, and how many of them are left out */
    double began;
    conf_constants_watch constants;
    conf_pipelines_watch pipelines;
    char variant[48]; /* of the case under way */
    pco_status status;
    pco_error err;
} conf_worker;

static pco_json_writer worker_begin(conf_worker *worker, const char *kind)
{
    pco_json_writer writer = {.out = &worker->line};
    pco_json_begin_object(&writer);
    pco_json_key(&writer, "kind");
    pco_json_write_string(&writer, kind);
    return writer;
}

static void worker_end(conf_worker *worker, pco_json_writer *writer)
{
    pco_json_end_object(writer);
    pco_write_char(&worker->line, '\n');
    const pco_status status = pco_writer_flush(&worker->line, PCO_CONFORMANCE_ANSWERS, "an answer", &worker->err);
    if (status) worker->status = status; /* nobody listens any more, or a record cannot be made */
}

static void worker_record(conf_worker *worker, const char *kind, const pco_conformance_case *one)
{
    pco_json_writer writer = worker_begin(worker, kind);
    conf_wire_write(&writer, one);
    worker_end(worker, &writer);
}

static void worker_text(conf_worker *worker, const char *kind, const char *key, const char *text)
{
    pco_json_writer writer = worker_begin(worker, kind);
    pco_json_key(&writer, key);
    pco_json_write_string(&writer, text);
    worker_end(worker, &writer);
}

static void worker_number(conf_worker *worker, const char *kind, uint32_t number)
{
    pco_json_writer writer = worker_begin(worker, kind);
    pco_json_key(&writer, "number");
    pco_json_write_int(&writer, number);
    worker_end(worker, &writer);
}

static void worker_alive(void *user)
{
    pco_json_writer writer = worker_begin(user, "alive");
    worker_end(user, &writer);
}

static void worker_constant(void *user, const pco_conformance_constant *seen)
{
    conf_worker *worker = user;
    pco_json_writer writer = worker_begin(worker, "constant");
    conf_wire_write_constant(&writer, seen);
    worker_end(worker, &writer);
}

static void worker_pipeline(void *user, const pco_conformance_pipeline *seen)
{
    conf_worker *worker = user;
    pco_json_writer writer = worker_begin(worker, "pipeline");
    conf_wire_write_pipeline(&writer, seen);
    worker_end(worker, &writer);
}

static void worker_asks(void *user, uint32_t question) { worker_number(user, "asks", question); }

/* What does the device know? `kind`: of the answer, "ready" or "asked". */
static pco_status worker_ask(conf_worker *worker, const char *kind)
{
    uint32_t mask;
    pco_status status = conf_known_ask(worker->device, worker->questions, worker_asks, worker, &mask, &worker->err);
    if (!status) worker_number(worker, kind, mask);
    return status;
}

/* ---- cases ---- */

/* Was this variant refused? Then its record is written. */
static bool worker_refuses(conf_worker *worker, const pco_conformance_case *next)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, worker->refused)
    {
        pco_conformance_case one = *next;
        const char *variant, *state;
        uint64_t width;
        pco_error err;
        if (pco_json_string(item, "a command", "variant", &variant, &err) || strcmp(variant, next->variant) != 0 ||
            conf_wire_uint(item, "width", &width, &err) || width != next->width ||
            pco_json_string(item, "a command", "state", &state, &err))
            continue;
        for (int i = 0; i < PCO_CASE_STATES; i++)
            if (strcmp(state, pco_conformance_state_name((pco_conformance_state)i)) == 0)
                one.state = (pco_conformance_state)i;
        snprintf(one.detail, sizeof one.detail, CONF_NOT_RUN, CONF_MAX_CRASHES);
        worker_record(worker, "record", &one);
        return true;
    }
    return false;
}

static int worker_case_begins(void *user, const pco_conformance_case *next, int whole)
{
    conf_worker *worker = user;
    if (whole) {
        worker->unit = 0;
        if (!worker->skip && worker_refuses(worker, next)) return 0;
    } else if (worker->unit++ < worker->skip || worker_refuses(worker, next)) {
        return 0;
    }
    worker_record(worker, whole ? "case" : "begin", next);
    worker->pipelines.op = next->op_name, worker->pipelines.variant = worker->variant;
    snprintf(worker->variant, sizeof worker->variant, "%s", next->variant);
    worker->began = pco_seconds();
    return worker->status == PCO_OK;
}

static void worker_case_ends(void *user, pco_conformance_case *one)
{
    conf_worker *worker = user;
    one->seconds = pco_seconds() - worker->began;
    worker_record(worker, "record", one);
}

static bool worker_visit(void *user, const conf_case *one)
{
    conf_worker *worker = user;
    char id[12];
    uint32_t i = 0;
    while (i < worker->n_ids && worker->ids[i] != one->id) i++;
    if (i == worker->n_ids) return true;
    pco_status status = conf_run_case(worker->device, one, &worker->options, worker_case_ends, worker, &worker->err);
    worker->skip = 0;
    if (!worker->status) worker->status = status;
    if (!worker->status && worker->pipelines.status) {
        worker->status = worker->pipelines.status;
        worker->err = worker->pipelines.err;
    }
    if (worker->status) return false;
    snprintf(id, sizeof id, "%08" PRIx32, one->id);
    worker_text(worker, "done", "case", id);
    return !worker->status && --worker->left > 0;
}

/* ---- probes ---- */

static pco_status worker_probe(conf_worker *worker)
{
    pco_conformance_probe probe;
    pco_status status = pco_conformance_probe_device(worker->device, &probe, &worker->err);
    for (uint32_t i = 0; i < probe.n_lines; i++) {
        const pco_conformance_probe_line *line = &probe.lines[i];
        pco_json_writer writer = worker_begin(worker, "probe");
        pco_json_key(&writer, "probe");
        pco_json_write_string(&writer, line->name);
        pco_json_key(&writer, "value");
        pco_json_write_string(&writer, line->value);
        pco_json_key(&writer, "declared");
        pco_json_write_string(&writer, line->declared);
        pco_json_key(&writer, "verdict");
        pco_json_write_string(&writer, pco_conformance_probe_word(line->verdict));
        pco_json_key(&writer, "bits");
        pco_json_write_int(&writer, line->bits);
        worker_end(worker, &writer);
    }
    pco_conformance_probe_clear(&probe);
    if (status) return status;
    pco_json_writer writer = worker_begin(worker, "probed");
    worker_end(worker, &writer);
    return worker->status;
}

/* ---- a problem of a bisection ---- */

static pco_status worker_reproducer(const cJSON *command, conf_reproducer_text *text, conf_reproducer *writer,
                                    conf_observer *observer, pco_error *err)
{
    static const char LABEL[] = "a command";
    int prepare = 0;
    *writer = (conf_reproducer){.text = text, .always = true};
    *observer = (conf_observer){.observe = conf_reproducer_observe, .user = writer};
    pco_status status = pco_json_string(command, LABEL, "folder", &writer->target, err);
    if (!status) status = pco_json_string(command, LABEL, "title", &text->title, err);
    if (!status) status = pco_json_string(command, LABEL, "found", &text->found, err);
    if (!status) status = pco_json_string(command, LABEL, "again", &text->repeat, err);
    if (!status) status = pco_json_string(command, LABEL, "variant", &text->variant, err);
    if (!status) status = pco_json_bool_or(command, LABEL, "prepare", 0, &prepare, err);
    observer->prepare_only = prepare != 0;
    return status;
}

static pco_status worker_problem(conf_worker *worker, const cJSON *command)
{
    const char *path;
    pco_map map = {0};
    conf_case one;
    const void *data[PCO_MAX_INPUTS] = {NULL};
    conf_problem problem = {0};
    conf_reproducer_text text = {0};
    conf_reproducer writer = {0};
    conf_observer observer = {0};
    pco_conformance_options options = {.tier = PCO_CONFORMANCE_QUICK};
    pco_status status = pco_json_string(command, "a command", "problem", &path, &worker->err);
    if (!status && cJSON_HasObjectItem(command, "folder")) {
        status = worker_reproducer(command, &text, &writer, &observer, &worker->err);
        options.observer = &observer;
    }
    if (!status) status = conf_problem_load(path, &map, &one, data, &worker->err);
    if (!status) status = conf_problem_make_from(&problem, &one, data, &worker->device->info->contract, &worker->err);
    problem.own_choice = true;
    worker->began = pco_seconds();
    if (!status) status = conf_run_problem(worker->device, &problem, &options, worker_case_ends, worker, &worker->err);
    if (writer.status) status = pco_fail(&worker->err, writer.status, "%s", writer.err.message);
    if (writer.written) worker_number(worker, "written", writer.written);
    if (!status) worker_text(worker, "done", "case", "");
    conf_problem_clear(&problem);
    pco_map_close(&map);
    return status;
}

static pco_status worker_command(conf_worker *worker, const cJSON *command)
{
    static const char LABEL[] = "a command";
    const char *op;
    int64_t from;
    if (cJSON_HasObjectItem(command, "problem")) return worker_problem(worker, command);
    if (cJSON_HasObjectItem(command, "probe")) return worker_probe(worker);
    if (cJSON_HasObjectItem(command, "questions")) {
        pco_status wrong = pco_json_int(command, LABEL, "questions", 0, UINT32_MAX, &from, &worker->err);
        worker->questions = (uint32_t)from;
        return wrong ? wrong : worker_ask(worker, "ready");
    }
    const cJSON *item, *cases = cJSON_GetObjectItemCaseSensitive(command, "cases");
    pco_status status = pco_json_string(command, LABEL, "op", &op, &worker->err);
    if (!status) status = pco_json_int_or(command, LABEL, "from", 0, 1 << 20, 0, &from, &worker->err);
    if (status) return status;
    worker->n_ids = 0;
    cJSON_ArrayForEach(item, cases) if (cJSON_IsString(item) && worker->n_ids < MAX_GROUP)
        worker->ids[worker->n_ids++] = (uint32_t)strtoul(item->valuestring, NULL, 16);
    worker->left = worker->n_ids;
    worker->skip = (uint32_t)from;
    worker->refused = cJSON_GetObjectItemCaseSensitive(command, "not");
    worker->options.ops = op;
    conf_cases_visit_all(worker->device->info, &worker->options, worker_visit, worker);
    worker->options.ops = NULL;
    if (!worker->status && worker->left)
        return pco_fail(&worker->err, PCO_ERROR_NOT_FOUND, "a case that the worker does not have");
    return worker->status ? worker->status : worker_ask(worker, "asked");
}

/* ---- the process ---- */

static pco_status worker_loop(conf_worker *worker, FILE *commands)
{
    char *line = NULL;
    size_t size = 0;
    ssize_t length;
    pco_status status = PCO_OK;
    while (!status && (length = getline(&line, &size, commands)) > 0) {
        cJSON *command;
        status = pco_json_parse(line, (size_t)length, "a command", &command, &worker->err);
        if (status) break;
        status = worker_command(worker, command);
        cJSON_Delete(command);
        if (!status) status = worker->status;
    }
    free(line);
    return status;
}

/* Is it open? Then it is not for what drivers start. */
static bool worker_take(int fd) { return fcntl(fd, F_SETFD, FD_CLOEXEC) == 0; }

pco_status pco_conformance_serve(const pco_conformance_options *options, pco_conformance_open_fn open, void *user,
                                 pco_error *err)
{
    conf_worker *worker = calloc(1, sizeof *worker);
    if (!worker) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory");
    FILE *commands = worker_take(PCO_CONFORMANCE_COMMANDS) ? fdopen(PCO_CONFORMANCE_COMMANDS, "r") : NULL;
    pco_status status = PCO_OK;
    pco_conformance_device device;
    if (!commands || !worker_take(PCO_CONFORMANCE_ANSWERS)) {
        status = pco_fail(err, PCO_ERROR_INVALID, "a worker is started by `portico conformance` and by nobody else");
        goto done;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    worker->options = *options;
    worker->options.begin = worker_case_begins;
    worker->options.user = worker;
    worker->options.constants = &worker->constants;
    worker->constants.fresh = worker_constant, worker->constants.user = worker;
    if (options->compile_only) {
        worker->constants.launch = conf_pipelines_launch, worker->constants.launch_user = &worker->pipelines;
        worker->pipelines.fresh = worker_pipeline, worker->pipelines.user = worker;
        worker->pipelines.folder = options->code;
    }
    status = open(user, &device, err);
    if (status) {
        worker_text(worker, "broken", "why", err->message);
        goto done;
    }
    worker->device = &device;
    if (options->compile_only) conf_inspect(&device);
    if (options->replays)
        status = conf_companions_create(&worker->options.companions, worker_alive, worker, &worker->err);
    if (!status) status = worker_loop(worker, commands);
    conf_companions_destroy(worker->options.companions);
    if (status) {
        worker_text(worker, "stops", "why", worker->err.message);
        *err = worker->err;
    }
done:
    if (commands) fclose(commands);
    pco_writer_release(&worker->line);
    conf_constants_clear(&worker->constants.constants);
    conf_pipelines_clear(&worker->pipelines.pipelines);
    free(worker);
    return status;
}
