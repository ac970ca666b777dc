/* Nothing is left over: memory, descriptors and threads of this process after many runs, sessions and contexts.
 * test_leaks RUNS SESSIONS CONTEXTS DEVICE...: and a tenth as many trainings as sessions; devices that are not there
 * are left out. What is counted first is behind a few rounds, in which drivers set up what they keep.
 *
 * On the cpu plugin nothing may be left, to the byte. malloc counts the blocks that it keeps for each thread (up to 7
 * freed ones of each size up to 1,032 bytes) as given out; which ones these are depends on what was freed last, and
 * came to some 4 KiB more or less. So the test starts itself again without them. */
#define CHECK_SESSIONS
#include "check.h"

#include "portico/portico.h"
#include "portico/session.h"
#include "portico/train.h"

#include <dirent.h>
#include <malloc.h>
#include <time.h>
#include <unistd.h>

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

/* Once the threads stay the same: one that was joined leaves /proc a moment later. */
static int threads_held(void)
{
    int count = entries("/proc/self/task");
    for (int same = 0, tries = 0; same < 2 && tries < 250; tries++) {
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        const int now = entries("/proc/self/task");
        same = now == count ? same + 1 : 0;
        count = now;
    }
    return count;
}

static holdings held(void)
{
    const int threads = threads_held();
    const struct mallinfo2 info = mallinfo2();
    return (holdings){info.uordblks + info.hblkhd, entries("/proc/self/fd"), threads};
}

/* `kept`: bytes that a driver may have put aside since: pools and caches, which do not grow with the rounds. None is
 * Portico's. */
static void compare(const char *what, const char *device, holdings before, int rounds, long kept)
{
    const holdings now = held();
    const long more = (long)now.bytes - (long)before.bytes;
    print_message("%s: %d %s: %+ld bytes, %+d descriptors, %+d threads\n", device, rounds, what, more,
                  now.descriptors - before.descriptors, now.threads - before.threads);
    assert_true(now.descriptors <= before.descriptors); /* a driver may have put one away since */
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

static void trainings(pco_context *context, const char *device, int times)
{
    const pco_training_params params = {.size = sizeof params, .learning_rate = 0.1, .accumulation = 2};
    const pco_nn_transformer_params layer = {.size = sizeof layer, .width = 8, .heads = 2};
    static const float zeros[4 * 8] = {0};
    for (int i = 0; i < times; i++) {
        pco_session *session;
        pco_training *training;
        pco_executable *batch;
        pco_graph *graph = pco_graph_create();
        pco_nn *nn = pco_nn_create(graph, &(pco_nn_params){.size = sizeof(pco_nn_params), .dropout = 0.1});
        const uint32_t x = pco_graph_input(graph, "x", PCO_F32, 3, (int64_t[]){1, 4, 8});
        const uint32_t labels = pco_graph_input(graph, "labels", PCO_I32, 2, (int64_t[]){1, 4});
        const uint32_t y = pco_nn_encoder_layer(nn, x, "layer", &layer, NULL);
        check_ok(pco_session_open(context, device, &session, &err));
        check_ok(pco_training_create(session, &params, &training, &err));
        check_ok(pco_training_add(training, nn, pco_nn_cross_entropy(nn, y, labels, 0), &batch, &err));
        check_ok(pco_training_initialize(training, NULL, &err));
        check_ok(pco_executable_write(batch, pco_executable_tensor(batch, "x"), zeros, sizeof zeros, &err));
        check_ok(pco_executable_write(batch, pco_executable_tensor(batch, "labels"), zeros, 4 * sizeof(int32_t), &err));
        for (int k = 0; k < 2; k++) check_ok(pco_training_step(training, batch, NULL, &err));
        pco_nn_destroy(nn);
        pco_graph_destroy(graph);
        pco_training_destroy(training);
        pco_session_close(session);
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
    const int n_runs = atoi(arguments[1]), n_sessions = atoi(arguments[2]), n_trainings = n_sessions / 10 + 1;
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
        compare("runs", *device, before, n_runs, is_cpu ? 0 : 65536);
        pco_executable_destroy(executable);
        pco_session_close(session);
        sessions(context, *device, 5);
        before = held();
        sessions(context, *device, n_sessions);
        compare("sessions", *device, before, n_sessions, is_cpu ? 0 : 524288);
        trainings(context, *device, 3);
        before = held();
        trainings(context, *device, n_trainings);
        compare("trainings", *device, before, n_trainings, is_cpu ? 0 : 2097152);
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
    static const char without[] = "glibc.malloc.tcache_count=0";
    const char *tunables = getenv("GLIBC_TUNABLES");
    arguments = argv;
    if (argc < 5) return 2;
    if (!tunables || strcmp(tunables, without) != 0) {
        setenv("GLIBC_TUNABLES", without, 1);
        execv("/proc/self/exe", argv);
        return 2;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_runs_and_sessions), cmocka_unit_test(test_contexts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
