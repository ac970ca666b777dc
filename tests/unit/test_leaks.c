/* Nothing is left over: memory, descriptors and threads of this process after many runs, sessions and contexts.
 * test_leaks RUNS SESSIONS CONTEXTS DEVICE...: devices that are not there are left out. What is counted first is behind
 * a few rounds, in which drivers and the C library set up what they keep. */
#define CHECK_SESSIONS
#include "check.h"

#include "portico/portico.h"
#include "portico/session.h"

#include <dirent.h>
#include <malloc.h>

typedef struct holdings {
    size_t bytes; /* that malloc has given out */
    int descriptors, threads;
} holdings;

static int entries(const char *folder)
{
    int count = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    while (readdir(dir)) count++;
    closedir(dir);
    return count;
}

static holdings held(void)
{
    const struct mallinfo2 info = mallinfo2();
    return (holdings){info.uordblks + info.hblkhd, entries("/proc/self/fd"), entries("/proc/self/task")};
}

/* `kept`: bytes that a driver may have put aside since: pools and caches, which do not grow with the rounds. */
static void compare(const char *what, const char *device, holdings before, int rounds, long kept)
{
    const holdings now = held();
    const long more = (long)now.bytes - (long)before.bytes;
    print_message("%s: %d %s: %+ld bytes, %+d descriptors, %+d threads\n", device, rounds, what, more,
                  now.descriptors - before.descriptors, now.threads - before.threads);
    assert_int_equal(now.descriptors, before.descriptors);
    assert_true(now.threads <= before.threads);
    assert_true(more <= kept);
}

static pco_graph *graph_of(void)
{
    pco_graph *graph = pco_graph_create();
    const int64_t square[] = {16, 16};
    const uint32_t x = pco_graph_input(graph, "x", PCO_F32, 2, square),
                   s = pco_graph_state(graph, "s", PCO_F32, 2, square);
    pco_graph_output(graph, pco_softmax(graph, pco_add(graph, pco_matmul(graph, x, x, 0, 1), s), -1), "y");
    return graph;
}

static void run(pco_executable *executable, int times)
{
    float data[256] = {0};
    for (int i = 0; i < times; i++) {
        check_ok(pco_executable_write(executable, pco_executable_tensor(executable, "x"), data, sizeof data, &err));
        check_ok(pco_executable_run(executable, &err));
        check_ok(pco_executable_read(executable, pco_executable_tensor(executable, "y"), data, sizeof data, &err));
    }
}

static void sessions(pco_context *context, const char *device, int times)
{
    for (int i = 0; i < times; i++) {
        pco_session *session;
        pco_executable *executable;
        pco_graph *graph = graph_of();
        check_ok(pco_session_open(context, device, &session, &err));
        check_ok(pco_executable_create(session, graph, NULL, &executable, &err));
        run(executable, 1);
        pco_executable_destroy(executable);
        pco_session_close(session);
        pco_graph_destroy(graph);
    }
}

static void contexts(int times)
{
    for (int i = 0; i < times; i++) {
        pco_context *context;
        check_ok(pco_context_create(NULL, &context, &err));
        sessions(context, "cpu", 1);
        pco_context_destroy(context);
    }
}

static char **arguments;

static void test_runs_and_sessions(void **state)
{
    (void)state;
    const int n_runs = atoi(arguments[1]), n_sessions = atoi(arguments[2]);
    int tested = 0;
    pco_context *context;
    check_ok(pco_context_create(NULL, &context, &err));
    for (char **device = arguments + 4; *device; device++) {
        const int is_cpu = strncmp(*device, "cpu", 3) == 0;
        pco_session *session = open_if_there(context, *device);
        pco_executable *executable;
        if (!session) continue;
        tested++;
        pco_graph *graph = graph_of();
        check_ok(pco_executable_create(session, graph, NULL, &executable, &err));
        pco_graph_destroy(graph);
        run(executable, 20);
        holdings before = held();
        run(executable, n_runs);
        compare("runs", *device, before, n_runs, is_cpu ? 4096 : 65536);
        pco_executable_destroy(executable);
        pco_session_close(session);
        sessions(context, *device, 5);
        before = held();
        sessions(context, *device, n_sessions);
        compare("sessions", *device, before, n_sessions, is_cpu ? 4096 : 524288);
    }
    assert_true(tested);
    pco_context_destroy(context);
}

static void test_contexts(void **state)
{
    (void)state;
    const int times = atoi(arguments[3]);
    contexts(3);
    const holdings before = held();
    contexts(times);
    compare("contexts", "all plugins", before, times, 65536);
}

int main(int argc, char **argv)
{
    arguments = argv;
    if (argc < 5) return 2;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_runs_and_sessions), cmocka_unit_test(test_contexts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
