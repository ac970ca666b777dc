/* The pieces of an isolated run that need no device and no process: records on the wire, the queue, waivers.
 */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "isolate/isolate.h"
#include "run/result.h"
#include "isolate/wire.h"

static pco_conformance_case record(pco_conformance_state state)
{
    pco_conformance_case one = {.op = PCO_OP_ADD,
                                .id = 0x0badcafe,
                                .op_name = "add",
                                .regime = "exact",
                                .dtype = "f32",
                                .label = "add f32[2,3] \"quoted\"\n",
                                .variant = "wide@32",
                                .width = 32,
                                .seconds = 0.1,
                                .seed = UINT64_MAX,
                                .state = state,
                                .ratio = 1.0 / 3.0,
                                .output = 1,
                                .element = -1,
                                .elements = INT64_MAX,
                                .wrong = INT64_C(9007199254740993), /* 2^53 + 1 */
                                .expected = 0x1.fffffffffffffp+1023,
                                .got = -0.0,
                                .bound = 0x1p-1074};
    snprintf(one.detail, sizeof one.detail, "a\tb\\c \xc3\xa9");
    snprintf(one.repeat, sizeof one.repeat, "portico conformance");
    return one;
}

/* Writes a record and reads it back; the document is kept for its strings. */
static pco_conformance_case over_the_wire(const pco_conformance_case *one, cJSON **document)
{
    pco_writer text = {0};
    pco_json_writer writer = {.out = &text};
    pco_error err;
    pco_json_begin_object(&writer);
    conf_wire_write(&writer, one);
    pco_json_end_object(&writer);
    assert_null(strchr(text.data, '\n')); /* a line is a record */
    assert_int_equal(pco_json_parse(text.data, text.size, "test", document, &err), PCO_OK);
    pco_conformance_case back = {0};
    if (conf_wire_read(*document, &back, &err)) fail_msg("%s", err.message);
    pco_writer_release(&text);
    return back;
}

static void same_bits(double a, double b) { assert_memory_equal(&a, &b, sizeof a); }

static void test_wire(void **state)
{
    (void)state;
    static const double values[] = {0.0,       -0.0,
                                    1.0 / 3.0, 0x1.fffffffffffffp+1023,
                                    0x1p-1074, -0x1.123456789abcdp-1022,
                                    123.0,     NAN,
                                    INFINITY,  -INFINITY,
                                    5e-324,    16777217.0};
    for (int i = 0; i < PCO_CASE_STATES; i++) {
        cJSON *document;
        pco_conformance_case one = record((pco_conformance_state)i), back;
        if (i == PCO_CASE_WAIVED) one.waiver = "because";
        back = over_the_wire(&one, &document);
        assert_int_equal(back.id, one.id);
        assert_int_equal(back.state, one.state);
        assert_int_equal(back.width, one.width);
        assert_true(back.seed == one.seed && back.output == one.output && back.element == one.element);
        assert_true(back.elements == one.elements && back.wrong == one.wrong);
        assert_string_equal(back.variant, one.variant);
        assert_string_equal(back.detail, one.detail);
        assert_string_equal(back.repeat, one.repeat);
        assert_int_equal(!back.waiver, !one.waiver);
        same_bits(back.seconds, one.seconds);
        same_bits(back.ratio, one.ratio);
        same_bits(back.expected, one.expected);
        same_bits(back.got, one.got);
        same_bits(back.bound, one.bound);
        cJSON_Delete(document);
    }
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        cJSON *document;
        pco_conformance_case one = record(PCO_CASE_PASS);
        one.ratio = one.got = values[i];
        pco_conformance_case back = over_the_wire(&one, &document);
        same_bits(back.ratio, values[i]);
        same_bits(back.got, values[i]);
        cJSON_Delete(document);
    }
}

/* What is not a record is refused, whatever is wrong. */
static void test_wire_refuses(void **state)
{
    (void)state;
    static const char *const members[] = {"case",     "variant", "state",  "width",    "seed",
                                          "seconds",  "ratio",   "output", "elements", "wrong",
                                          "expected", "got",     "bound",  "detail",   "repeat"};
    cJSON *document;
    pco_error err;
    pco_conformance_case one = record(PCO_CASE_PASS), back;
    over_the_wire(&one, &document);
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        cJSON *damaged = cJSON_Duplicate(document, 1);
        cJSON_ReplaceItemInObjectCaseSensitive(damaged, members[i], cJSON_CreateTrue());
        assert_int_equal(conf_wire_read(damaged, &back, &err), PCO_ERROR_FORMAT);
        cJSON_DeleteItemFromObjectCaseSensitive(damaged, members[i]);
        assert_int_equal(conf_wire_read(damaged, &back, &err), PCO_ERROR_FORMAT);
        cJSON_Delete(damaged);
    }
    cJSON_Delete(document);
}

/* Every case is handed out once; ops of other workers come last, what was begun first. */
static void test_queue(void **state)
{
    (void)state;
    conf_list list;
    conf_queue queue;
    conf_group group;
    pco_error err;
    const pco_conformance_options options = {.tier = PCO_CONFORMANCE_STANDARD, .ops = "add,sub,mul"};
    assert_int_equal(conf_list_make(&list, &options, NULL, &err), PCO_OK);
    assert_int_equal(list.count, pco_conformance_count(&options, NULL));
    for (uint32_t i = 0; i < list.count; i++) assert_int_equal(conf_list_find(&list, list.items[i].id), i);
    assert_int_equal(conf_list_find(&list, 1), PCO_NONE);
    list.items[0].done = list.items[5].done = true;
    assert_int_equal(conf_queue_make(&queue, &list, &err), PCO_OK);
    const uint32_t add = PCO_OP_ADD;
    assert_true(conf_queue_take(&queue, 0, &add, 1, &group));
    assert_int_not_equal(list.items[group.begin].op, PCO_OP_ADD);
    uint32_t *seen = calloc(list.count, sizeof *seen), last = list.items[group.begin].op;
    group.from = 2, group.begun = true;
    assert_int_equal(conf_queue_add(&queue, &group, &err), PCO_OK);
    assert_true(conf_queue_take(&queue, PCO_OP_ADD, NULL, 0, &group));
    assert_int_equal(group.from, 2);
    assert_int_equal(list.items[group.begin].op, last);
    do {
        for (uint32_t i = group.begin; i < group.end; i++) {
            seen[i]++;
            assert_int_equal(list.items[i].op, list.items[group.begin].op);
        }
    } while (conf_queue_take(&queue, list.items[group.begin].op, NULL, 0, &group));
    for (uint32_t i = 0; i < list.count; i++) assert_int_equal(seen[i] > 0 || list.items[i].done, 1);
    for (uint32_t i = 0; i < list.count; i++) assert_true(seen[i] <= 1);
    free(seen);
    conf_queue_clear(&queue);
    conf_list_clear(&list);
}

/* The third crash of a variant ends it, in the order of the cases and not in that in which they happened. */
static void test_bans(void **state)
{
    (void)state;
    static const uint32_t orders[] = {40, 10, 30, 20};
    conf_units units = {0};
    pco_error err;
    for (int i = 0; i < 4; i++) {
        pco_conformance_case one = record(i == 2 ? PCO_CASE_HUNG : PCO_CASE_CRASHED);
        assert_int_equal(conf_units_add(&units, orders[i], 0, &one, &err), PCO_OK);
    }
    assert_int_equal(conf_units_banned(&units, PCO_OP_ADD, "wide@32", 32, 30), PCO_CASE_PASS);
    assert_int_equal(conf_units_banned(&units, PCO_OP_ADD, "wide@32", 32, 31), PCO_CASE_HUNG);
    assert_int_equal(conf_units_banned(&units, PCO_OP_ADD, "wide@32", 32, 50), PCO_CASE_HUNG);
    assert_int_equal(conf_units_banned(&units, PCO_OP_ADD, "wide@32", 16, 50), PCO_CASE_PASS);
    assert_int_equal(conf_units_banned(&units, PCO_OP_ADD, "other", 32, 50), PCO_CASE_PASS);
    assert_int_equal(conf_units_banned(&units, PCO_OP_SUB, "wide@32", 32, 50), PCO_CASE_PASS);
    conf_units_sort(&units);
    for (uint32_t i = 1; i < units.count; i++) assert_true(units.items[i - 1].order < units.items[i].order);
    conf_units_clear(&units);
}

/* A group after which the device answers wrongly is tried case by case: `guilty` of them (PCO_NONE: none)
 * does it again, alone. */
static void try_group(uint32_t guilty, pco_error *err)
{
    const pco_conformance_options options = {.tier = PCO_CONFORMANCE_QUICK, .ops = "mul"};
    const pco_conformance_device device = {.id = "toy:0"};
    pco_conformance_isolation isolation = {.jobs = 1};
    conf_isolated run = {.options = &options, .isolation = &isolation, .device = &device, .err = err};
    conf_job job = {.run = &run};
    assert_int_equal(conf_list_make(&run.list, &options, NULL, err), PCO_OK);
    assert_int_equal(conf_queue_make(&run.queue, &run.list, err), PCO_OK);
    assert_true(conf_queue_take(&run.queue, 0, NULL, 0, &job.group));
    uint32_t cases = job.group.end - job.group.begin, alone = 0;
    assert_true(cases > 3 && job.group.begin == 0);
    for (int attempt = 0; attempt == 0 || (job.group.family && alone < cases); attempt++) {
        for (uint32_t i = job.group.begin; i < job.group.end; i++) {
            pco_conformance_case one = record(i == 1 ? PCO_CASE_UNSUPPORTED : PCO_CASE_PASS);
            one.op = PCO_OP_MUL, one.id = run.list.items[i].id;
            assert_int_equal(conf_units_add(&job.pending, i, 0, &one, err), PCO_OK);
        }
        job.busy = true;
        alone += job.group.family != NULL;
        conf_job_asked(&job, job.group.family && job.group.begin != guilty);
        assert_int_equal(run.status, PCO_OK);
        assert_int_equal(job.pending.count, 0);
        if (alone < cases) assert_int_equal(run.units.count, 0); /* nothing is known before all have been tried */
        if (alone < cases) assert_true(conf_queue_take(&run.queue, 0, NULL, 0, &job.group));
    }
    assert_int_equal(run.units.count, cases);
    for (uint32_t i = 0; i < cases; i++) {
        const pco_conformance_case *one = &run.units.items[i].one;
        bool lost = i != 1 && (guilty == PCO_NONE || i == guilty);
        assert_int_equal(run.units.items[i].order, i);
        assert_int_equal(one->state, lost ? PCO_CASE_DEVICE_LOST : i == 1 ? PCO_CASE_UNSUPPORTED : PCO_CASE_PASS);
        assert_true(run.list.items[i].done);
    }
    assert_int_equal(run.done, cases);
    assert_int_equal(run.crashes.count, guilty == PCO_NONE ? cases - 1 : 1);
    conf_units_clear(&run.units);
    conf_units_clear(&run.crashes);
    conf_queue_clear(&run.queue);
    conf_list_clear(&run.list);
}

static void test_silent_reset(void **state)
{
    (void)state;
    pco_error err = {""};
    try_group(2, &err);
    try_group(0, &err);
    try_group(PCO_NONE, &err);
}

/* A worker that is gone: what it announced is to blame, and the rest is queued again. */
static void test_gone(void **state)
{
    (void)state;
    pco_error err = {""};
    const pco_conformance_options options = {.tier = PCO_CONFORMANCE_TINY, .ops = "mul"};
    const pco_conformance_device device = {.id = "toy:0"};
    pco_conformance_isolation isolation = {.jobs = 1};
    for (int whole = 0; whole < 2; whole++) {
        conf_isolated run = {.options = &options, .isolation = &isolation, .device = &device, .err = &err};
        conf_job job = {.run = &run, .busy = true, .begun = true, .order = 2, .unit = 1, .announced = true};
        conf_group rest;
        assert_int_equal(conf_list_make(&run.list, &options, NULL, &err), PCO_OK);
        assert_int_equal(conf_queue_make(&run.queue, &run.list, &err), PCO_OK);
        assert_true(conf_queue_take(&run.queue, 0, NULL, 0, &job.group));
        job.whole = whole;
        job.hung = whole;
        job.next = record(PCO_CASE_PASS);
        job.next.id = run.list.items[2].id;
        conf_job_gone(&job, "the process died");
        assert_int_equal(run.status, PCO_OK);
        assert_int_equal(run.units.count, 1);
        assert_int_equal(run.units.items[0].order, 2);
        assert_int_equal(run.units.items[0].unit, 1);
        assert_int_equal(run.units.items[0].one.state, whole ? PCO_CASE_HUNG : PCO_CASE_CRASHED);
        assert_string_equal(run.units.items[0].one.detail, "the process died");
        assert_int_equal(run.done, whole ? 3 : 2);
        assert_true(conf_queue_take(&run.queue, 0, NULL, 0, &rest));
        assert_int_equal(rest.begin, whole ? 3 : 2); /* its other variants, unless none had begun */
        assert_int_equal(rest.from, whole ? 0 : 2);
        conf_units_clear(&run.units);
        conf_units_clear(&run.crashes);
        conf_queue_clear(&run.queue);
        conf_list_clear(&run.list);
    }
}

/* Runs with a script as its worker, whose $1 says that a variant of the first case has begun. A run that would go on
 * for ever is cut, with another message. */
static void check_ends(const char *script, const char *says, uint32_t crashed)
{
    const pco_conformance_options options = {.tier = PCO_CONFORMANCE_TINY, .ops = "mul"};
    const pco_device_info info = {.name = "Toy"};
    const pco_conformance_device device = {.id = "toy:0", .info = &info};
    pco_conformance_case one = record(PCO_CASE_PASS);
    pco_conformance_result result;
    pco_writer text = {0};
    pco_json_writer writer = {.out = &text};
    conf_list list;
    pco_error err = {""};
    assert_int_equal(conf_list_make(&list, &options, &info, &err), PCO_OK);
    one.id = list.items[0].id;
    conf_list_clear(&list);
    pco_json_begin_object(&writer);
    pco_json_key(&writer, "kind");
    pco_json_write_string(&writer, "begin");
    conf_wire_write(&writer, &one);
    pco_json_end_object(&writer);
    char *const command[] = {(char *)"/bin/sh", (char *)"-c", (char *)(uintptr_t)script,
                             (char *)"worker",  text.data,    NULL};
    pco_conformance_isolation isolation = {
        .command = command, .jobs = 1, .timeout = 20, .deadline = pco_seconds() + 20};
    assert_int_equal(pco_conformance_run_isolated(&options, &isolation, &device, &result, &err), PCO_ERROR_INTERNAL);
    if (!strstr(err.message, says)) fail_msg("'%s' has no '%s'", err.message, says);
    assert_int_equal(result.count[PCO_CASE_CRASHED], crashed);
    pco_conformance_clear(&result, 1);
    pco_writer_release(&text);
}

/* Nothing is done again for ever: not a case in which each worker ends, nor a group that no worker takes. */
static void test_endless(void **state)
{
    (void)state;
    static const char ready[] = "'{\"kind\": \"ready\", \"number\": 0}' >&4";
    char script[200], says[100];
    signal(SIGPIPE, SIG_IGN); /* as the program does */
    snprintf(script, sizeof script, "echo %s; read -r questions <&3; read -r group <&3; printf '%%s\\n' \"$1\" >&4",
             ready);
    snprintf(says, sizeof says, "was begun %d times without an end", CONF_MAX_BEGUN);
    check_ends(script, says, CONF_MAX_BEGUN);
    snprintf(script, sizeof script, "exec 3<&-; echo %s; exec sleep 30", ready);
    snprintf(says, sizeof says, "%d workers in a row ended when they were to begin", CONF_MAX_HANDED);
    check_ends(script, says, 0);
}

/* ---- waivers ---- */

static pco_status waivers_of(const char *text, pco_conformance_waivers **waivers, pco_error *err)
{
    char path[] = "waivers-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    pco_status status = pco_conformance_waivers_read(path, waivers, err);
    unlink(path);
    return status;
}

static void test_waivers(void **state)
{
    (void)state;
    static const char text[] =
        "# comment\n\n"
        "device: toy:?\ndriver: *1.?\nop: add\nlabel: *f32[2,3]*\nvariant: wide*\ncase: 0badcafe\n"
        "state: crashed\nreason: first\nreference: bug 1\n\n\n"
        "op: *\nstate: *\nreason: second\n  goes on\nreference: bug 2";
    const pco_device_info info = {.name = "Toy", .driver = "toy 1.2"};
    const pco_conformance_device device = {.id = "toy:0", .info = &info}, other = {.id = "toy:10", .info = &info};
    pco_conformance_waivers *waivers;
    const pco_conformance_waiver *rows;
    pco_error err;
    if (waivers_of(text, &waivers, &err)) fail_msg("%s", err.message);
    assert_int_equal(pco_conformance_waivers_list(waivers, &rows), 2);
    assert_int_equal(rows[0].line, 3);
    assert_string_equal(rows[1].reason, "second goes on");
    conf_result_builder builder;
    pco_conformance_result result;
    const pco_conformance_options options = {0};
    assert_int_equal(conf_result_start(&builder, &options, device.id, &result, &err), PCO_OK);
    for (int i = 0; i < PCO_CASE_STATES; i++) {
        pco_conformance_case one = record((pco_conformance_state)i);
        assert_int_equal(conf_result_add(&builder, &one, &err), PCO_OK);
    }
    assert_int_equal(pco_conformance_waive(waivers, &device, &result, &err), PCO_OK);
    for (int i = 0; i < PCO_CASE_STATES; i++) {
        const pco_conformance_case *one = &result.cases[i];
        int bad = pco_conformance_state_is_bad((pco_conformance_state)i);
        assert_int_equal(one->state, bad ? PCO_CASE_WAIVED : i);
        if (!bad) continue;
        assert_string_equal(one->waiver, i == PCO_CASE_CRASHED ? "first (bug 1)" : "second goes on (bug 2)");
        assert_non_null(strstr(one->detail, pco_conformance_state_name((pco_conformance_state)i)));
    }
    assert_int_equal(result.count[PCO_CASE_WAIVED], 7); /* six, and the one that was waived before */
    assert_int_equal(result.ops[0].count[PCO_CASE_WAIVED], 7);
    assert_int_equal(result.count[PCO_CASE_CRASHED], 0);
    assert_int_equal(rows[0].waived, 1);
    assert_int_equal(rows[0].passed, 1);
    assert_int_equal(rows[1].waived, 5);
    assert_int_equal(pco_conformance_judge(&result, 1), PCO_VERDICT_PASS);
    pco_conformance_case crashed = record(PCO_CASE_CRASHED);
    assert_true(conf_waivers_cover(waivers, &other, &crashed)); /* by the second */
    pco_conformance_clear(&result, 1);
    pco_conformance_waivers_destroy(waivers);
}

static void test_waivers_refuse(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"op: add\nreference: r\n", "line 1: this waiver has no reason"},
        {"\n\nop: add\nreason: r\n", "line 3: this waiver has no reference"},
        {"reason: r\nreference: r\n", "line 1: this waiver has no op, label or case"},
        {"op: add\nreason\n", "line 2: 'reason' is no 'key: value'"},
        {"op: add\nwhy: r\n", "line 2: 'why' is no key"},
        {"op: add\nop: sub\n", "line 2: 'op' stands here twice"},
        {"  op: add\n", "line 1: there is nothing"},
        {"op: add\nstate: pass\n", "line 2: state 'pass' is none"},
        {"op: add\nreason:\nreference: r\n", "line 1: this waiver has no reason"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        pco_conformance_waivers *waivers;
        pco_error err = {""};
        assert_int_equal(waivers_of(bad[i].text, &waivers, &err), PCO_ERROR_FORMAT);
        assert_null(waivers);
        if (!strstr(err.message, bad[i].says)) fail_msg("'%s' has no '%s'", err.message, bad[i].says);
    }
}

/* A soak: counts are of all rounds, records of the first and of what went wrong. */
static void test_rounds(void **state)
{
    (void)state;
    pco_conformance_result rounds[2];
    pco_error err;
    for (uint64_t r = 0; r < 2; r++) {
        conf_result_builder builder;
        const pco_conformance_options options = {.seed = r};
        assert_int_equal(conf_result_start(&builder, &options, "toy:0", &rounds[r], &err), PCO_OK);
        for (int i = 0; i < 5; i++) {
            pco_conformance_case one = record(i == 3 ? PCO_CASE_FLAKY : PCO_CASE_PASS);
            one.id = (uint32_t)i + 1, one.seed = r;
            assert_int_equal(conf_result_add(&builder, &one, &err), PCO_OK);
        }
        assert_int_equal(conf_result_finish(&builder, &err), PCO_OK);
    }
    rounds[1].status = PCO_ERROR_CANCELLED;
    snprintf(rounds[1].message, sizeof rounds[1].message, "its time is up");
    assert_int_equal(pco_conformance_start_rounds(&rounds[0], &err), PCO_OK);
    assert_int_equal(pco_conformance_add_round(&rounds[0], &rounds[1], &err), PCO_OK);
    assert_int_equal(rounds[0].rounds, 2);
    assert_int_equal(rounds[0].status, PCO_OK);
    for (uint32_t r = 0; r < 2; r++) {
        assert_true(rounds[0].each_round[r].seed == r);
        assert_int_equal(rounds[0].each_round[r].cases, 5);
        assert_int_equal(rounds[0].each_round[r].count[PCO_CASE_FLAKY], 1);
        assert_int_equal(rounds[0].each_round[r].cut, (int)r);
    }
    assert_string_equal(rounds[0].each_round[1].end, "its time is up");
    assert_int_equal(rounds[0].n_cases, 6);
    assert_int_equal(rounds[0].count[PCO_CASE_PASS], 8);
    assert_int_equal(rounds[0].count[PCO_CASE_FLAKY], 2);
    assert_int_equal(rounds[0].ops[0].count[PCO_CASE_PASS], 8);
    assert_true(rounds[0].cases[5].seed == 1);
    pco_conformance_clear(rounds, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wire),    cmocka_unit_test(test_wire_refuses), cmocka_unit_test(test_queue),
        cmocka_unit_test(test_bans),    cmocka_unit_test(test_waivers),      cmocka_unit_test(test_waivers_refuse),
        cmocka_unit_test(test_rounds),  cmocka_unit_test(test_silent_reset), cmocka_unit_test(test_gone),
        cmocka_unit_test(test_endless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
